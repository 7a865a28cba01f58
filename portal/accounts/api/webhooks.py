"""/webhooks: where an organisation is told what happens, and how that went."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.response import Response
from rest_framework.views import APIView

from portal import clock
from portal.accounts.models import WebhookDelivery
from portal.accounts.permissions import Needs
from portal.accounts.selectors import webhooks as selectors
from portal.accounts.services import webhooks
from portal.api.pagination import CursorPage
from portal.api.schema import paged
from portal.api.serializers import Empty, Strict, parsed, queried
from portal.kit.webhooks import TYPES

STATES = ("due", "delivered", "failed")


class WebhookOut(serializers.Serializer):
    id = serializers.CharField(source="public_id")
    url = serializers.CharField()
    description = serializers.CharField()
    types = serializers.ListField(child=serializers.CharField(), help_text="Empty: all.")
    enabled = serializers.BooleanField()
    failing_since = serializers.DateTimeField(allow_null=True)
    created = serializers.DateTimeField(source="created_at")


class MadeWebhookOut(WebhookOut):
    secret = serializers.CharField(help_text="Shown once. It signs Idlewild-Signature.")


class WebhookIn(Strict):
    url = serializers.CharField(max_length=500, help_text="https, to a public address.")
    types = serializers.ListField(child=serializers.CharField(max_length=40), default=list, max_length=len(TYPES))
    description = serializers.CharField(max_length=120, default="", allow_blank=True)


class WebhookChange(Strict):
    url = serializers.CharField(max_length=500, required=False)
    types = serializers.ListField(child=serializers.CharField(max_length=40), required=False, max_length=len(TYPES))
    description = serializers.CharField(max_length=120, required=False, allow_blank=True)
    enabled = serializers.BooleanField(required=False)


class TryOut(serializers.Serializer):
    at = serializers.DateTimeField()
    status = serializers.IntegerField(help_text="0: no answer.")
    error = serializers.CharField(allow_blank=True)
    ms = serializers.IntegerField()


class DeliveryOut(serializers.Serializer):
    id = serializers.CharField()
    event = serializers.CharField(help_text="The event's stable id: the same at every try and re-sending.")
    type = serializers.CharField()
    subject = serializers.CharField()
    sequence = serializers.IntegerField()
    state = serializers.ChoiceField(STATES)
    tries = TryOut(many=True)
    next_try = serializers.DateTimeField(allow_null=True)
    created_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)


class DeliveryFilter(Strict):
    state = serializers.ChoiceField(["", *STATES], required=False, default="")


def delivery_shown(row: WebhookDelivery) -> dict[str, Any]:
    """One delivery as it is sent."""
    return {
        "id": row.public_id,
        "event": row.event.public_id,
        "type": row.event.type,
        "subject": row.event.subject,
        "sequence": row.event.sequence,
        "state": row.state,
        "tries": row.log,
        "next_try": row.due_at if row.state == "due" else None,
        "created_at": row.created_at,
        "ended_at": row.ended_at,
    }


class Webhooks(APIView):
    permission_classes = [Needs("members.manage")]

    @extend_schema(responses=paged(WebhookOut), operation_id="webhooks_list")
    def get(self, request: Any) -> Response:
        rows = selectors.endpoints(request.actor.home())
        return CursorPage.answer(request, rows, lambda row: WebhookOut(row).data)

    @extend_schema(request=WebhookIn, responses={201: MadeWebhookOut}, operation_id="webhooks_create")
    def post(self, request: Any) -> Response:
        """Not idempotent on purpose: a stored answer would keep the secret. The same address twice is refused."""
        actor, values = request.actor, parsed(WebhookIn, request)
        made = webhooks.create(organisation=actor.home(), by=actor.id, now=clock.now(), **values)
        return Response({**WebhookOut(made.endpoint).data, "secret": made.secret}, status=201)


class OneWebhook(APIView):
    permission_classes = [Needs("members.manage")]

    @extend_schema(responses=WebhookOut, operation_id="webhooks_get")
    def get(self, request: Any, public_id: str) -> Response:
        return Response(WebhookOut(selectors.endpoint(request.actor.home(), public_id)).data)

    @extend_schema(request=WebhookChange, responses=WebhookOut, operation_id="webhooks_change")
    def put(self, request: Any, public_id: str) -> Response:
        found = selectors.endpoint(request.actor.home(), public_id)
        changed = webhooks.change(
            endpoint=found, by=request.actor.id, now=clock.now(), **parsed(WebhookChange, request)
        )
        return Response(WebhookOut(changed).data)

    @extend_schema(responses={204: None}, operation_id="webhooks_delete")
    def delete(self, request: Any, public_id: str) -> Response:
        found = selectors.endpoint(request.actor.home(), public_id)
        webhooks.delete(endpoint=found, by=request.actor.id, now=clock.now())
        return Response(status=204)


class RotateWebhook(APIView):
    permission_classes = [Needs("members.manage")]

    @extend_schema(request=Empty, responses=MadeWebhookOut, operation_id="webhooks_rotate")
    def post(self, request: Any, public_id: str) -> Response:
        """A new secret, shown once; the old one signs too for 24 hours."""
        parsed(Empty, request)
        found = selectors.endpoint(request.actor.home(), public_id)
        made = webhooks.rotate(endpoint=found, by=request.actor.id, now=clock.now())
        return Response({**WebhookOut(made.endpoint).data, "secret": made.secret})


class TestWebhook(APIView):
    permission_classes = [Needs("members.manage")]

    @extend_schema(request=Empty, responses={202: DeliveryOut}, operation_id="webhooks_test")
    def post(self, request: Any, public_id: str) -> Response:
        """Send endpoint.test now."""
        parsed(Empty, request)
        found = selectors.endpoint(request.actor.home(), public_id)
        sent = webhooks.test(endpoint=found, by=request.actor.id, now=clock.now())
        return Response(delivery_shown(sent), status=202)


class Deliveries(APIView):
    permission_classes = [Needs("members.manage")]

    @extend_schema(parameters=[DeliveryFilter], responses=paged(DeliveryOut), operation_id="webhooks_deliveries")
    def get(self, request: Any, public_id: str) -> Response:
        wanted = queried(DeliveryFilter, request)
        found = selectors.endpoint(request.actor.home(), public_id)
        return CursorPage.answer(request, selectors.deliveries(found, state=wanted["state"]), delivery_shown)


class ResendDelivery(APIView):
    permission_classes = [Needs("members.manage")]

    @extend_schema(request=Empty, responses={202: DeliveryOut}, operation_id="webhooks_resend")
    def post(self, request: Any, public_id: str) -> Response:
        parsed(Empty, request)
        found = selectors.delivery(request.actor.home(), public_id)
        again = webhooks.resend(delivery=found, by=request.actor.id, now=clock.now())
        return Response(delivery_shown(again), status=202)
