"""/quotes, /schema/job-spec.json."""

from typing import Any

from drf_spectacular.utils import OpenApiTypes, extend_schema
from rest_framework.response import Response
from rest_framework.views import APIView

from portal import clock
from portal.accounts.permissions import Needs
from portal.api.serializers import parsed
from scheduling.api import serializers as shapes
from scheduling.api import shown
from scheduling.api.parsers import ExactJSONParser
from scheduling.domain import spec_fields
from scheduling.domain.quote import QuoteState
from scheduling.models import Quote
from scheduling.selectors import jobs as selectors
from scheduling.services import quotes


class Quotes(APIView):
    permission_classes = [Needs("jobs.run")]
    parser_classes = [ExactJSONParser]
    rate = "quote"

    @extend_schema(request=shapes.QuoteIn, responses={201: shapes.QuoteOut}, operation_id="quotes_make")
    def post(self, request: Any) -> Response:
        """What a spec would cost now: the points of the front, for ten minutes. A quote reserves nothing, so it needs no Idempotency-Key."""
        actor = request.actor
        spec = parsed(shapes.QuoteIn, request)["spec"]
        made = quotes.make(actor_org=actor.home(), project=actor.project, spec=spec, by=actor.id, now=clock.now())
        return Response(shown.quote(made), status=201, headers={"Location": f"/api/v1/quotes/{made.public_id}"})


class OneQuote(APIView):
    permission_classes = [Needs("work.read")]

    @extend_schema(responses=shapes.QuoteOut, operation_id="quotes_get")
    def get(self, request: Any, public_id: str) -> Response:
        found = selectors.quote(request.actor.home(), public_id)
        return Response(shown.quote(found, state=_state(found)))


def _state(quote: Quote) -> str:
    """An open quote is over at its time, also before the clean-up has passed."""
    over = quote.state == QuoteState.OPEN and quote.expires_at <= clock.now()
    return QuoteState.EXPIRED.value if over else str(quote.state)


class JobSpecSchema(APIView):
    """The job spec, machine-readable."""

    permission_classes: list[Any] = []
    authentication_classes: list[Any] = []

    @extend_schema(responses=OpenApiTypes.OBJECT, operation_id="schema_job_spec")
    def get(self, request: Any) -> Response:
        return Response(spec_fields.schema())
