"""/earnings: what a provider's nodes have earned."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.response import Response
from rest_framework.views import APIView

from billing.api import serializers as shapes
from billing.selectors import earnings
from portal.accounts.permissions import Needs


class Earnings(APIView):
    """By month and sku, from issued invoices; and what is accrued and not paid out."""

    permission_classes = [Needs("money.read")]

    @extend_schema(responses=shapes.EarningsOut, operation_id="earnings")
    def get(self, request: Any) -> Response:
        return Response(earnings.overview(provider_ref=request.actor.home().public_id))
