"""/api-keys, /secrets, /audit-events."""

from typing import Any

from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema
from rest_framework.response import Response
from rest_framework.views import APIView

from portal import clock
from portal.accounts.api import serializers as shapes
from portal.accounts.permissions import Needs
from portal.accounts.selectors import keys as selectors
from portal.accounts.selectors import organisations
from portal.accounts.services import keys, secrets
from portal.api.pagination import CursorPage
from portal.api.schema import paged
from portal.api.serializers import parsed
from portal.audit import selectors as audit
from portal.kit.errors import Forbidden


class ApiKeys(APIView):
    """Everybody makes keys of their own."""

    permission_classes = [Needs()]

    @extend_schema(responses=paged(shapes.KeyOut), operation_id="keys_list")
    def get(self, request: Any) -> Response:
        return CursorPage.answer(request, selectors.visible_to(request.actor), lambda row: shapes.KeyOut(row).data)

    @extend_schema(request=shapes.KeyIn, responses={201: shapes.MadeKeyOut}, operation_id="keys_create")
    def post(self, request: Any) -> Response:
        """Not idempotent on purpose: a stored answer would keep the key's text."""
        actor = request.actor
        values = parsed(shapes.KeyIn, request)
        slug = values.get("project")
        made = keys.create(
            member=organisations.member(actor.home(), actor.user.public_id),
            name=values["name"],
            scopes=values.get("scopes"),
            project=organisations.project(actor.home(), slug) if slug else None,
            expires_at=values["expires"],
            within=actor.deeds if actor.key else None,
            maker=actor.key,
            by=actor.id,
            now=clock.now(),
        )
        return Response({**shapes.KeyOut(made.key).data, "key": made.text}, status=201)


class OneKey(APIView):
    permission_classes = [Needs()]

    @extend_schema(responses=shapes.KeyOut, operation_id="keys_get")
    def get(self, request: Any, public_id: str) -> Response:
        return Response(shapes.KeyOut(selectors.one(request.actor, public_id)).data)

    @extend_schema(responses=shapes.KeyOut, operation_id="keys_revoke")
    def delete(self, request: Any, public_id: str) -> Response:
        """A key revokes itself and what is no stronger: a lost one must not lock out the others."""
        key, actor = selectors.one(request.actor, public_id), request.actor
        if actor.key and actor.key != key and not set(key.scopes) <= actor.deeds:
            raise Forbidden(_("This API key has not all the scopes of the one that it should revoke."))
        return Response(shapes.KeyOut(keys.revoke(key=key, by=request.actor.id, now=clock.now())).data)


class Secrets(APIView):
    permission_classes = [Needs("secrets.set")]

    @extend_schema(responses=paged(shapes.SecretOut), operation_id="secrets_list")
    def get(self, request: Any) -> Response:
        return CursorPage.answer(
            request, selectors.secrets(request.actor.home()), lambda row: shapes.SecretOut(row).data
        )

    @extend_schema(request=shapes.SecretIn, responses={201: shapes.SecretOut}, operation_id="secrets_set")
    def post(self, request: Any) -> Response:
        """Writing the same name again replaces it, so no Idempotency-Key is needed."""
        actor = request.actor
        values = parsed(shapes.SecretIn, request)
        slug = values.pop("project")
        project = organisations.project(actor.home(), slug) if slug else None
        made = secrets.put(organisation=actor.home(), project=project, by=actor.id, now=clock.now(), **values)
        return Response(shapes.SecretOut(made).data, status=201)


class OneSecret(APIView):
    permission_classes = [Needs("secrets.set")]

    @extend_schema(responses={204: None}, operation_id="secrets_delete")
    def delete(self, request: Any, public_id: str) -> Response:
        secret = selectors.secret(request.actor.home(), public_id)
        secrets.delete(secret=secret, by=request.actor.id, now=clock.now())
        return Response(status=204)


class AuditEvents(APIView):
    permission_classes = [Needs("audit.read")]

    @extend_schema(responses=paged(shapes.AuditOut), operation_id="audit_events_list")
    def get(self, request: Any) -> Response:
        return CursorPage.answer(
            request, audit.for_organisation(request.actor.home().id), lambda row: shapes.AuditOut(row).data
        )
