"""What everybody who may read work sees: /regions, /zones, /offers, /offers/{id}, /nodes/{id}/fingerprints."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.response import Response
from rest_framework.views import APIView

from marketplace.api import serializers as shapes
from marketplace.api import shown
from marketplace.domain.scu import WEIGHTS
from marketplace.selectors import catalog, nodes, offers
from marketplace.services import offers as offer_services
from portal import clock
from portal.accounts.permissions import Needs
from portal.api.idempotency import idempotent
from portal.api.pagination import CursorPage, slice_of
from portal.api.schema import paged
from portal.api.serializers import Empty, parsed, queried
from portal.kit.errors import Finding, InvalidInput


class Regions(APIView):
    permission_classes = [Needs("work.read")]

    @extend_schema(responses=paged(shapes.RegionOut), operation_id="regions_list")
    def get(self, request: Any) -> Response:
        return slice_of(request, list(catalog.regions()), shown.region)


class Region(APIView):
    permission_classes = [Needs("work.read")]

    @extend_schema(responses=shapes.RegionOut, operation_id="regions_get")
    def get(self, request: Any, slug: str) -> Response:
        return Response(shown.region(catalog.region(slug)))


class Zones(APIView):
    permission_classes = [Needs("work.read")]

    @extend_schema(responses=paged(shapes.ZoneOut), operation_id="zones_list")
    def get(self, request: Any) -> Response:
        return slice_of(request, list(catalog.zones()), shown.zone)


class Offers(APIView):
    permission_classes = [Needs(get="work.read", post="offers.price")]

    @extend_schema(
        parameters=[shapes.OfferQuery],
        responses=paged(
            shapes.OfferOut,
            applied_defaults=serializers.ListField(child=serializers.CharField()),
            hidden=serializers.DictField(child=serializers.IntegerField()),
            relax=serializers.ListField(child=serializers.DictField()),
        ),
        operation_id="offers_search",
    )
    def get(self, request: Any) -> Response:
        """The filter language; `relax` tells, when nothing is found, what dropping each clause would give."""
        asked = queried(shapes.OfferQuery, request)
        task_type = asked["task_type"] or "custom"
        if task_type not in WEIGHTS:
            raise InvalidInput([Finding("task_type", "unknown", ", ".join(WEIGHTS))])
        text = asked["filter"] + (f" kind={asked['kind']}" if asked["kind"] else "")
        found = offers.search(
            filter_text=text.strip(),
            order=[word.strip() for word in asked["order"].split(",") if word.strip()],
            viewer=request.actor.home(),
            now=clock.now(),
            task_type=task_type,
            origin=asked["from"],
            cores_milli=int(asked["cores"] * 1000),
            cards=asked.get("cards"),
            no_default=asked["no_default"],
            mine=asked["mine"],
        )
        return slice_of(
            request,
            found.rows,
            shown.offer_fields,
            applied_defaults=list(found.applied_defaults),
            hidden=dict(found.hidden),
            relax=[{"clause": clause, "count": count} for clause, count in found.relax],
            shape={"cores": str(asked["cores"]), "cards": found.shape.cards},
            total=len(found.rows),
        )

    @extend_schema(request=shapes.PublishIn, responses={201: shapes.OfferOut}, operation_id="offers_publish")
    @idempotent
    def post(self, request: Any) -> Response:
        actor, now = request.actor, clock.now()
        terms = parsed(shapes.PublishIn, request)
        node = nodes.of_provider(actor.home(), terms.pop("node"))
        made = offer_services.publish(node=node, terms=terms, by=actor.id, now=now)
        return Response(detail(made.public_id, request, now), status=201)


class OneOffer(APIView):
    permission_classes = [Needs("work.read")]

    @extend_schema(responses=shapes.OfferOut, operation_id="offers_get")
    def get(self, request: Any, public_id: str) -> Response:
        return Response(detail(public_id, request, clock.now()))


class Reprice(APIView):
    permission_classes = [Needs("offers.price")]

    @extend_schema(request=shapes.RepriceIn, responses=shapes.OfferOut, operation_id="offers_reprice")
    @idempotent
    def post(self, request: Any, public_id: str) -> Response:
        actor, now = request.actor, clock.now()
        offer = offers.of_provider(actor.home(), public_id)
        terms = parsed(shapes.RepriceIn, request)
        start = terms.pop("from", None)
        offer_services.reprice(offer=offer, terms=terms, start=start, by=actor.id, now=now)
        return Response(detail(public_id, request, now))


class OfferDeed(APIView):
    permission_classes = [Needs("offers.price")]

    @extend_schema(request=None, responses=shapes.OfferOut, operation_id="offers_deed")
    @idempotent
    def post(self, request: Any, public_id: str, deed: str) -> Response:
        actor, now = request.actor, clock.now()
        offer = offers.of_provider(actor.home(), public_id)
        parsed(Empty, request)
        services = {"pause": offer_services.pause, "resume": offer_services.resume, "withdraw": offer_services.withdraw}
        services[deed](offer=offer, by=actor.id, now=now)
        return Response(detail(public_id, request, now))


class Fingerprints(APIView):
    permission_classes = [Needs("work.read")]

    @extend_schema(responses=paged(shapes.FingerprintOut), operation_id="fingerprints_list")
    def get(self, request: Any, public_id: str) -> Response:
        now = clock.now()
        node = nodes.by_public_id(public_id)
        rows = nodes.fingerprints(node).select_related("node")
        return CursorPage.answer(request, rows, lambda row: shown.fingerprint(row, now))


def detail(public_id: str, request: Any, now: Any) -> dict[str, Any]:
    """An offer with its price versions."""
    viewer = request.actor.home()
    row = offers.visible(public_id, viewer, now)
    model = offers.model_of(row)
    fields = offers.fields_of(row, now)
    return shown.offer_detail(row, fields, model, list(offers.price_history(model)[:100]))
