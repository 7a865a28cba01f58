"""/decisions/{id}:replay, for operators."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.accounts.permissions import OperatorOnly
from portal.api.serializers import Empty, parsed
from scheduling.api import serializers as shapes
from scheduling.selectors import decisions


class Replay(APIView):
    permission_classes = [OperatorOnly]

    @extend_schema(request=Empty, responses=shapes.ReplayOut, operation_id="decisions_replay")
    def post(self, request: Any, public_id: str) -> Response:
        """Decide again on what the decision stored. Changes nothing."""
        parsed(Empty, request)
        return Response(decisions.replay(decisions.any_one(public_id)).wire())
