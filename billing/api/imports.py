"""/usage/imports: usage that an organisation metered elsewhere, for its own projects."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.response import Response
from rest_framework.views import APIView

from billing.api import serializers as shapes
from billing.selectors import imports as stored
from billing.services import imports
from portal import clock
from portal.accounts.permissions import Needs
from portal.api.idempotency import idempotent
from portal.api.pagination import CursorPage
from portal.api.schema import paged
from portal.api.serializers import parsed


class Imports(APIView):
    """Rows of usage (at most 500 a request), a CSV or a FOCUS 1.2 file as text. All of it or nothing; what was sent before changes nothing."""

    permission_classes = [Needs(get="money.read", post="money.move")]

    @extend_schema(responses=paged(shapes.ImportOut), operation_id="usage_imports_list")
    def get(self, request: Any) -> Response:
        rows = stored.for_organisation(organisation_id=request.actor.home().id)
        return CursorPage.answer(request, rows, lambda row: shapes.ImportOut(row).data)

    @extend_schema(request=shapes.ImportIn, responses={201: shapes.ImportOut}, operation_id="usage_imports_create")
    @idempotent
    def post(self, request: Any) -> Response:
        asked = parsed(shapes.ImportIn, request)
        home, by, now = request.actor.home(), request.actor.id, clock.now()
        if "csv" in asked:
            made = imports.take_csv(
                organisation=home, source=asked["source"], data=asked["csv"].encode(), by=by, now=now
            )
        else:
            made = imports.take(organisation=home, source=asked["source"], rows=asked["records"], by=by, now=now)
        return Response(shapes.ImportOut(made).data, status=201)
