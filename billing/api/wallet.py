"""/wallet, /budgets, /credit-notes, /hour-grants, /exchange-rates: what a tenant has, limits and was given."""

from typing import Any

from django.http import HttpResponse
from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.response import Response
from rest_framework.views import APIView

from billing.api import wallet_shapes as shapes
from billing.selectors import budgets as standings
from billing.selectors import credit_notes, grants, rates, wallets
from billing.services import budgets
from billing.services import grants as giving
from portal import clock
from portal.accounts.permissions import Needs
from portal.accounts.selectors import organisations
from portal.api.idempotency import idempotent
from portal.api.pagination import CursorPage
from portal.api.schema import paged
from portal.api.serializers import parsed
from portal.kit.errors import Finding, InvalidInput
from portal.kit.money import Money
from portal.kit.quantities import US_PER_HOUR


def amount_of(text: str, currency: str, field: str = "amount") -> Money:
    """Decimal text as Money; InvalidInput names the field."""
    try:
        return Money.parse(text, currency)
    except ValueError as fault:
        raise InvalidInput([Finding(field, "bad_amount", str(fault))]) from None


class Wallet(APIView):
    """Money and granted hours: what is there, what is kept for jobs, how to top up by bank transfer."""

    permission_classes = [Needs("money.read")]

    @extend_schema(responses=shapes.WalletOut, operation_id="wallet")
    def get(self, request: Any) -> Response:
        return Response(wallets.overview(request.actor.home(), now=clock.now()))


class WalletEntries(APIView):
    """Every movement of the wallet, newest first."""

    permission_classes = [Needs("money.read")]

    @extend_schema(responses=paged(shapes.WalletEntryOut), operation_id="wallet_entries")
    def get(self, request: Any) -> Response:
        return CursorPage.answer(request, wallets.entries(request.actor.home()), wallets.entry_wire)


class Budgets(APIView):
    permission_classes = [Needs(get="money.read", post="budgets.set")]

    @extend_schema(responses=shapes.BudgetsOut, operation_id="budgets_list")
    def get(self, request: Any) -> Response:
        found = standings.overviews(request.actor.home(), now=clock.now())
        return Response({"items": [one.wire() for one in found]})

    @extend_schema(request=shapes.BudgetIn, responses={201: shapes.BudgetOut}, operation_id="budgets_set")
    @idempotent
    def post(self, request: Any) -> Response:
        """Set the budget of a scope; one that is there is replaced, at once, downwards too."""
        home, values, now = request.actor.home(), parsed(shapes.BudgetIn, request), clock.now()
        row = budgets.set_budget(
            organisation_id=home.id, scope=values["scope"], key=values["key"], amount=amount_of(values["amount"], home.currency),
            at_limit=values["at_limit"], thresholds=values["thresholds"], by=request.actor.id, now=now,
        )  # fmt: skip
        return Response(_budget(home, row.public_id, now), status=201)


class OneBudget(APIView):
    permission_classes = [Needs(get="money.read", delete="budgets.set")]

    @extend_schema(responses=shapes.BudgetOut, operation_id="budgets_get")
    def get(self, request: Any, public_id: str) -> Response:
        home = request.actor.home()
        standings.one(organisation_id=home.id, public_id=public_id)
        return Response(_budget(home, public_id, clock.now()))

    @extend_schema(responses={204: None}, operation_id="budgets_remove")
    def delete(self, request: Any, public_id: str) -> Response:
        row = standings.one(organisation_id=request.actor.home().id, public_id=public_id)
        budgets.remove(budget=row, by=request.actor.id, now=clock.now())
        return Response(status=204)


def _budget(home: Any, public_id: str, now: Any) -> dict[str, Any]:
    found = standings.overviews(home, now=now)
    return next(one.wire() for one in found if one.budget.public_id == public_id)


class CreditNotes(APIView):
    permission_classes = [Needs("money.read")]

    @extend_schema(responses=paged(shapes.CreditNoteOut), operation_id="credit_notes_list")
    def get(self, request: Any) -> Response:
        rows = credit_notes.for_organisation(request.actor.home().id)
        return CursorPage.answer(request, rows, credit_notes.wire)


class OneCreditNote(APIView):
    permission_classes = [Needs("money.read")]

    @extend_schema(responses=shapes.CreditNoteOut, operation_id="credit_notes_get")
    def get(self, request: Any, public_id: str) -> Response:
        return Response(
            credit_notes.wire(credit_notes.one(organisation_id=request.actor.home().id, public_id=public_id))
        )


class CreditNoteDocument(APIView):
    """The frozen JSON of a credit note, as it was issued."""

    permission_classes = [Needs("money.read")]

    @extend_schema(
        responses={(200, "application/octet-stream"): OpenApiResponse(OpenApiTypes.BINARY)},
        operation_id="credit_notes_document",
    )
    def get(self, request: Any, public_id: str) -> HttpResponse:
        row = credit_notes.one(organisation_id=request.actor.home().id, public_id=public_id)
        headers = {
            "Content-Disposition": f'attachment; filename="{row.number}.json"', "X-Content-SHA256": row.sha256,
        }  # fmt: skip
        return HttpResponse(bytes(row.content), content_type="application/json", headers=headers)


class HourGrants(APIView):
    """Resource-hours that a provider gives, on its own nodes; `GET` lists what was given to this organisation."""

    permission_classes = [Needs(get="money.read", post="offers.price")]

    @extend_schema(responses=shapes.HourGrantOut(many=True), operation_id="hour_grants_list")
    def get(self, request: Any) -> Response:
        return Response(grants.hours_wire(request.actor.home(), now=clock.now()))

    @extend_schema(request=shapes.HoursIn, responses={201: shapes.HourGrantOut}, operation_id="hour_grants_give")
    @idempotent
    def post(self, request: Any) -> Response:
        values, now = parsed(shapes.HoursIn, request), clock.now()
        tenant = organisations.by_name(values["organisation"])
        if tenant is None:
            raise InvalidInput([Finding("organisation", "unknown_organisation", _("there is no such organisation"))])
        row = giving.give_hours(
            organisation_id=tenant.id, giver_id=request.actor.home().id, resource=values["resource"],
            qty_us=values["hours"] * US_PER_HOUR, priority=values["priority"], starts_at=values.get("starts_at"),
            expires_at=values.get("expires_at"), reason=values["reason"], by=request.actor.id, now=now,
        )  # fmt: skip
        made = next(one for one in grants.hours_wire(tenant, now=now) if one["id"] == row.public_id)
        return Response(made, status=201)


class ExchangeRates(APIView):
    """Rates that compare and display amounts of different currencies; nothing is paid by them."""

    permission_classes = [Needs("money.read")]

    @extend_schema(responses=paged(shapes.RateOut), operation_id="exchange_rates_list")
    def get(self, request: Any) -> Response:
        return CursorPage.answer(request, rates.everyone().order_by("-id"), rates.wire)
