"""/usage/insight, /usage/elsewhere, /usage/idle, /usage.csv: a month of usage explained."""

from typing import Any

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.response import Response
from rest_framework.views import APIView

from billing.selectors import insight, usage
from billing.services import statements
from portal import clock
from portal.accounts.permissions import Needs
from portal.api.serializers import Strict, queried
from scheduling.selectors import insights

COLUMNS = (
    "key",
    "name",
    "resource",
    "quantity",
    "unit",
    "qty_us",
    "billed_us",
    "amount",
    "currency",
    "energy_kwh",
    "carbon_kg",
)


class MonthQuery(Strict):
    month = serializers.RegexField(r"^\d{4}-(0[1-9]|1[0-2])$")


class GroupedQuery(MonthQuery):
    group_by = serializers.CharField(default="project", max_length=20)


class Insight(APIView):
    """Days, anomalies with the jobs behind them, the dearest jobs, savings, energy and carbon with their bases."""

    permission_classes = [Needs("money.read")]

    @extend_schema(parameters=[MonthQuery], responses=OpenApiTypes.OBJECT, operation_id="usage_insight")
    def get(self, request: Any) -> Response:
        month = queried(MonthQuery, request)["month"]
        return Response(insight.of_month(request.actor.home(), month).wire())


class Elsewhere(APIView):
    """What the card-hours of a month would have cost at other markets' published prices. For show: nothing is quoted or billed by it."""

    permission_classes = [Needs("money.read")]

    @extend_schema(parameters=[MonthQuery], responses=OpenApiTypes.OBJECT, operation_id="usage_elsewhere")
    def get(self, request: Any) -> Response:
        month = queried(MonthQuery, request)["month"]
        found = insights.elsewhere(request.actor.home(), month, today=clock.now().date())
        return Response({"items": [row.wire() for row in found]})


class IdleJobs(APIView):
    """Attempts that held cores for long and hardly used them."""

    permission_classes = [Needs("money.read")]

    @extend_schema(parameters=[MonthQuery], responses=OpenApiTypes.OBJECT, operation_id="usage_idle")
    def get(self, request: Any) -> Response:
        month = queried(MonthQuery, request)["month"]
        return Response({"items": [row.wire() for row in insights.idle(request.actor.home(), month)]})


class UsageFile(APIView):
    """A month by group as CSV."""

    permission_classes = [Needs("money.read")]

    @extend_schema(
        parameters=[GroupedQuery],
        responses={(200, "text/csv"): OpenApiResponse(OpenApiTypes.BINARY)},
        operation_id="usage_csv",
    )
    def get(self, request: Any) -> HttpResponse:
        asked = queried(GroupedQuery, request)
        home = request.actor.home()
        rows = []
        for group in usage.summary(home.id, asked["month"], asked["group_by"]):
            said = group.wire() | {"amount": group.amount.text(), "currency": group.amount.currency}
            rows.append([said[name] for name in COLUMNS])
        name = f'attachment; filename="{home.slug}-usage-{asked["month"]}-{asked["group_by"]}.csv"'
        data = statements.as_csv(COLUMNS, rows)
        return HttpResponse(data, content_type="text/csv; charset=utf-8", headers={"Content-Disposition": name})
