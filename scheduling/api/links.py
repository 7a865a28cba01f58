"""/links: what is known of the paths between regions."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.response import Response
from rest_framework.views import APIView

from portal import clock
from portal.accounts.permissions import Needs
from portal.api.pagination import CursorPage
from portal.api.schema import paged
from portal.api.serializers import queried
from scheduling.api import serializers as shapes
from scheduling.selectors import beliefs, links


class Links(APIView):
    permission_classes = [Needs("work.read")]

    @extend_schema(parameters=[shapes.LinkFilter], responses=paged(shapes.LinkOut), operation_id="links_list")
    def get(self, request: Any) -> Response:
        now = clock.now()
        rows = links.everything(**queried(shapes.LinkFilter, request))
        known = beliefs.everything()
        return CursorPage.answer(
            request, rows, lambda row: links.shown(row, now=now, belief=known.get((row.source, row.target)))
        )
