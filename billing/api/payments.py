"""/payments, /payouts: money that comes over the rail, and money that goes to providers."""

from typing import Any

from django.utils.translation import get_language
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.response import Response
from rest_framework.views import APIView

from billing.api.serializers import MoneyOut
from billing.selectors import invoices as invoice_selectors
from billing.selectors import payments as selectors
from billing.selectors import payouts as payout_selectors
from billing.services import payments, provider_accounts
from portal import clock
from portal.accounts.permissions import Needs
from portal.api.idempotency import idempotent
from portal.api.pagination import CursorPage
from portal.api.schema import paged
from portal.api.serializers import Empty, Strict, parsed, queried
from portal.kit.errors import Finding, InvalidInput
from portal.kit.money import Money


class PaymentOut(serializers.Serializer[Any]):
    id = serializers.CharField()
    state = serializers.CharField()
    purpose = serializers.CharField()
    invoice = serializers.CharField(allow_null=True)
    amount = MoneyOut()
    given_back = MoneyOut()
    automatic = serializers.BooleanField()
    failure = serializers.CharField(allow_null=True)
    url = serializers.CharField(allow_null=True)
    created_at = serializers.CharField()
    ended_at = serializers.CharField(allow_null=True)


class PayoutOut(serializers.Serializer[Any]):
    id = serializers.CharField()
    state = serializers.CharField()
    reason = serializers.CharField(allow_null=True)
    amount = MoneyOut()
    taken_back = MoneyOut()
    transfer = serializers.CharField(allow_null=True)
    failure = serializers.CharField(allow_null=True)
    created_at = serializers.CharField()
    sent_at = serializers.CharField(allow_null=True)


class PayoutPartOut(serializers.Serializer[Any]):
    kind = serializers.CharField()
    month = serializers.CharField(allow_null=True)
    amount = MoneyOut()
    at = serializers.CharField()


class PayoutWithPartsOut(PayoutOut):
    parts = PayoutPartOut(many=True)


class HostedPageOut(serializers.Serializer[Any]):
    id = serializers.CharField()
    kind = serializers.CharField()
    state = serializers.CharField()
    url = serializers.CharField(allow_null=True)
    message = serializers.CharField(allow_null=True)


class PayoutAccountOut(serializers.Serializer[Any]):
    state = serializers.CharField()
    payouts_enabled = serializers.BooleanField()
    due = serializers.ListField(child=serializers.CharField())
    disabled_reason = serializers.CharField(allow_null=True)


class PaymentsQuery(Strict):
    state = serializers.CharField(default="", max_length=20, allow_blank=True)


class PayIn(Strict):
    invoice = serializers.CharField(max_length=40)
    keep_card = serializers.BooleanField(default=False)


class SetupIn(Strict):
    amount = serializers.CharField(max_length=30, required=False)


def _language() -> str:
    return get_language() or "en"


def _page(hosted: Any) -> dict[str, Any]:
    ready = hosted.state == "ready"
    return {
        "id": hosted.public_id,
        "kind": hosted.kind,
        "state": hosted.state,
        "url": hosted.url if ready else None,
        "message": hosted.message or None,
    }


class Payments(APIView):
    """Payments, newest first. POST begins one for an invoice: `url` is null until its page is there; read it again a second later."""

    permission_classes = [Needs(get="money.read", post="money.move")]

    @extend_schema(parameters=[PaymentsQuery], responses=paged(PaymentOut), operation_id="payments_list")
    def get(self, request: Any) -> Response:
        asked = queried(PaymentsQuery, request)
        rows = selectors.for_organisation(organisation_id=request.actor.home().id, state=asked["state"])
        return CursorPage.answer(request, rows, selectors.wire)

    @extend_schema(request=PayIn, responses={201: PaymentOut}, operation_id="payments_create")
    @idempotent
    def post(self, request: Any) -> Response:
        asked = parsed(PayIn, request)
        invoice = invoice_selectors.one(organisation_id=request.actor.home().id, public_id=asked["invoice"])
        hosted = payments.start(
            invoice=invoice,
            by=request.actor.id,
            now=clock.now(),
            language=_language(),
            keep_card=asked["keep_card"],
        )
        found = selectors.for_organisation(organisation_id=request.actor.home().id).get(page=hosted)
        return Response(selectors.wire(found, hosted), status=201)


class Payment(APIView):
    permission_classes = [Needs("money.read")]

    @extend_schema(responses=PaymentOut, operation_id="payments_get")
    def get(self, request: Any, public_id: str) -> Response:
        found = selectors.one(organisation_id=request.actor.home().id, public_id=public_id)
        return Response(selectors.wire(found, getattr(found, "page", None)))


class Setup(APIView):
    """Without an amount: the page on which one minds one's cards. With one: the page on which the wallet is filled with it."""

    permission_classes = [Needs("money.move")]

    @extend_schema(request=SetupIn, responses={201: HostedPageOut}, operation_id="payments_setup")
    @idempotent
    def post(self, request: Any) -> Response:
        asked, home, now = parsed(SetupIn, request), request.actor.home(), clock.now()
        if "amount" not in asked:
            hosted = payments.start_cards(organisation=home, by=request.actor.id, now=now, language=_language())
            return Response(_page(hosted), status=201)
        try:
            amount = Money.parse(asked["amount"], home.currency)
        except ValueError as wrong:
            raise InvalidInput([Finding("amount", "bad_amount", str(wrong))]) from None
        hosted = payments.start_top_up(
            organisation=home, amount=amount, by=request.actor.id, now=now, language=_language()
        )
        return Response(_page(hosted), status=201)


class HostedPage(APIView):
    """A page that was asked for: its address comes a moment later."""

    permission_classes = [Needs("money.read")]

    @extend_schema(responses=HostedPageOut, operation_id="payments_page")
    def get(self, request: Any, public_id: str) -> Response:
        return Response(_page(selectors.page(organisation_id=request.actor.home().id, public_id=public_id)))


class Payouts(APIView):
    """What was sent to the provider, newest first; the first may still be collecting."""

    permission_classes = [Needs("money.read")]

    @extend_schema(responses=paged(PayoutOut), operation_id="payouts_list")
    def get(self, request: Any) -> Response:
        rows = payout_selectors.for_organisation(organisation_id=request.actor.home().id)
        return CursorPage.answer(request, rows, payout_selectors.wire)


class Payout(APIView):
    """One payout with what it is made of: the parts add up to its amount."""

    permission_classes = [Needs("money.read")]

    @extend_schema(responses=PayoutWithPartsOut, operation_id="payouts_get")
    def get(self, request: Any, public_id: str) -> Response:
        found = payout_selectors.one(organisation_id=request.actor.home().id, public_id=public_id)
        return Response(payout_selectors.wire(found, payout_selectors.parts(found)))


class PayoutAccount(APIView):
    """How far the provider is with saying who gets its money. POST asks for the form of the payment service."""

    permission_classes = [Needs(get="money.read", post="money.move")]

    @extend_schema(responses=PayoutAccountOut, operation_id="payout_account_get")
    def get(self, request: Any) -> Response:
        found = payout_selectors.account(organisation_id=request.actor.home().id)
        body = {
            "state": payout_selectors.kyc(found).value,
            "payouts_enabled": found is not None and found.payouts_enabled,
            "due": list(found.due) if found is not None else [],
            "disabled_reason": (found.disabled_reason or None) if found is not None else None,
        }
        return Response(body)

    @extend_schema(request=Empty, responses={201: HostedPageOut}, operation_id="payout_account_onboard")
    @idempotent
    def post(self, request: Any) -> Response:
        parsed(Empty, request)
        hosted = provider_accounts.start(
            organisation=request.actor.home(), by=request.actor.id, now=clock.now(), language=_language()
        )
        return Response(_page(hosted), status=201)
