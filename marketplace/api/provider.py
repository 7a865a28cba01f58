"""What providers do: /nodes, /nodes:invite, /nodes/{id} and its deeds."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.response import Response
from rest_framework.views import APIView

from marketplace.api import serializers as shapes
from marketplace.api import shown
from marketplace.selectors import nodes as selectors
from marketplace.services import nodes
from portal import clock
from portal.accounts.permissions import Deed, Needs, demand
from portal.api.idempotency import idempotent
from portal.api.pagination import CursorPage
from portal.api.schema import paged
from portal.api.serializers import Empty, parsed

PLACE = ("region", "zone", "name")


class Nodes(APIView):
    permission_classes = [Needs("work.read")]

    @extend_schema(responses=paged(shapes.NodeOut), operation_id="nodes_list")
    def get(self, request: Any) -> Response:
        return CursorPage.answer(request, selectors.for_organisation(request.actor.home()), shown.node)


class Invite(APIView):
    permission_classes = [Needs("nodes.run")]
    answers_with_secret = True

    @extend_schema(request=shapes.InviteIn, responses={201: shapes.InvitedOut}, operation_id="nodes_invite")
    @idempotent
    def post(self, request: Any) -> Response:
        """A one-time token. One that carries prices publishes an offer, so it needs the deed offers.price too."""
        actor = request.actor
        values = parsed(shapes.InviteIn, request)
        terms = {name: value for name, value in values.items() if name not in PLACE}
        refuse = terms.pop("refuse_past_due", None)
        if terms:
            demand(actor, Deed.OFFERS_PRICE)
        made = nodes.invite(
            organisation=actor.home(),
            zone=nodes.zone_of(region=values["region"], zone=values["zone"]),
            name=values["name"],
            terms=terms or None,
            refuse_past_due=refuse,
            by=actor.id,
            now=clock.now(),
        )
        return Response(shown.invited(made), status=201)


class OneNode(APIView):
    permission_classes = [Needs("work.read")]

    @extend_schema(responses=shapes.NodeOut, operation_id="nodes_get")
    def get(self, request: Any, public_id: str) -> Response:
        return Response(shown.node(selectors.of_provider(request.actor.home(), public_id)))


class Drain(APIView):
    permission_classes = [Needs("nodes.run")]

    @extend_schema(request=shapes.DrainIn, responses=shapes.NodeOut, operation_id="nodes_drain")
    def post(self, request: Any, public_id: str) -> Response:
        actor = request.actor
        node = selectors.of_provider(actor.home(), public_id)
        deadline = parsed(shapes.DrainIn, request)["deadline"]
        return Response(shown.node(nodes.drain(node=node, by=actor.id, deadline=deadline, now=clock.now())))


class NodeDeed(APIView):
    """undrain, retire, self-test, fingerprint."""

    permission_classes = [Needs("nodes.run")]

    @extend_schema(request=None, responses=shapes.NodeOut, operation_id="nodes_deed")
    def post(self, request: Any, public_id: str, deed: str) -> Response:
        actor, now = request.actor, clock.now()
        node = selectors.of_provider(actor.home(), public_id)
        parsed(Empty, request)
        if deed == "undrain":
            node = nodes.undrain(node=node, by=actor.id, now=now)
        elif deed == "retire":
            node = nodes.retire(node=node, by=actor.id, now=now)
        else:
            node = nodes.want(node=node, order=deed.replace("-", "_"), by=actor.id, now=now)
        return Response(shown.node(node))
