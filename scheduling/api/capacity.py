"""/capacity: the live map of what regions, zones and nodes have free."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.accounts.permissions import Needs
from portal.api.serializers import Empty, queried
from scheduling.api import serializers as shapes
from scheduling.selectors import capacity


class Capacity(APIView):
    permission_classes = [Needs("work.read")]

    @extend_schema(responses=shapes.CapacityOut, operation_id="capacity_read")
    def get(self, request: Any) -> Response:
        """Regions with their zones: what is there, what is free, prices from, green share. Null = not known now."""
        queried(Empty, request)
        return Response(capacity.everything())


class CapacityOfZone(APIView):
    permission_classes = [Needs("work.read")]

    @extend_schema(responses=shapes.CapacityNodesOut, operation_id="capacity_zone_read")
    def get(self, request: Any, region: str, zone: str) -> Response:
        """The nodes of one zone with what is free on each."""
        queried(Empty, request)
        return Response({"items": capacity.nodes(region, zone)})
