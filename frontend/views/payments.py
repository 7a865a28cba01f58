"""Paying by card: the way to the hosted page, what became of a payment, the list, the saved card.

Nobody is sent to the payment service by the answer to a form (its policy of forms forbids other hosts): a page of ours opens first and goes on by itself as
soon as the address is there.
"""

from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from billing.selectors import invoices as invoice_selectors
from billing.selectors import payments as selectors
from billing.services import payments as services
from frontend.doors import PageRequest, page, show
from frontend.paging import page_of
from frontend.presenters import payments as present
from portal import clock
from portal.accounts.permissions import Deed, may
from portal.kit.errors import Conflict, NotFound, Unavailable
from portal.kit.money import Money

ENDED = frozenset({"succeeded", "failed", "cancelled", "refunded", "disputed"})


def _language() -> str:
    return get_language() or "en"


def _opening(hosted: Any) -> HttpResponse:
    return redirect("console:hosted_page", hosted.public_id)


@page("money.move")
def pay(request: PageRequest, public_id: str) -> HttpResponse:
    """The button on an invoice."""
    invoice = invoice_selectors.one(organisation_id=request.actor.home().id, public_id=public_id)
    try:
        hosted = services.start(
            invoice=invoice,
            by=request.actor.id,
            now=clock.now(),
            language=_language(),
            keep_card=request.POST.get("keep_card") == "on",
        )
    except (Conflict, Unavailable) as refused:
        messages.error(request, refused.detail)
        return redirect("console:invoice", public_id)
    return _opening(hosted)


@page("money.move")
def top_up(request: PageRequest) -> HttpResponse:
    """The form that fills the wallet by card."""
    home = request.actor.home()
    try:
        amount = Money.parse(request.POST.get("amount", ""), home.currency)
        hosted = services.start_top_up(
            organisation=home, amount=amount, by=request.actor.id, now=clock.now(), language=_language()
        )
    except ValueError:
        messages.error(request, _("Type in an amount such as 100.00."))
        return redirect("console:payments")
    except (Conflict, Unavailable) as refused:
        messages.error(request, refused.detail)
        return redirect("console:payments")
    return _opening(hosted)


@page("money.move")
def cards(request: PageRequest) -> HttpResponse:
    """To the page on which one minds one's cards; or no longer pay by itself."""
    home = request.actor.home()
    if request.POST.get("do") == "forget":
        services.forget_card(organisation=home, by=request.actor.id, now=clock.now())
        messages.success(request, _("Invoices are no longer paid by themselves."))
        return redirect("console:payments")
    try:
        hosted = services.start_cards(organisation=home, by=request.actor.id, now=clock.now(), language=_language())
    except (Conflict, Unavailable) as refused:
        messages.error(request, refused.detail)
        return redirect("console:payments")
    return _opening(hosted)


@page("money.read")
def hosted_page(request: PageRequest, public_id: str) -> HttpResponse:
    """Opens in a moment: waits for the address, then goes there by itself."""
    hosted = selectors.page(organisation_id=request.actor.home().id, public_id=public_id)
    state = hosted.state
    if state == "ready" and hosted.expires_at is not None and hosted.expires_at <= clock.now():
        state = "over"
    back = reverse("console:payouts") if hosted.kind == "onboarding" else reverse("console:payments")
    if hosted.payment is not None and hosted.payment.invoice is not None:
        back = reverse("console:invoice", args=[hosted.payment.invoice.public_id])
    context = {
        "hosted": hosted,
        "hosted_state": state,
        "back": back,
        "stand_in": selectors.stand_in(),
        "amount": Money(hosted.payment.amount_minor, hosted.payment.currency) if hosted.payment is not None else None,
    }
    answer = show(request, "payments/opening", context)
    if state == "waiting":
        answer.headers["Refresh"] = "1"
    elif state == "ready":
        answer.headers["Refresh"] = f"1; url={hosted.url}"
    return answer


@page("money.read")
def payment(request: PageRequest, public_id: str) -> HttpResponse:
    """What became of a payment. Who comes back from the payment service waits here until we know."""
    found = selectors.one(organisation_id=request.actor.home().id, public_id=public_id)
    came_back = request.GET.get("back") == "paid" and found.state not in ENDED
    if came_back:
        services.look(payment=found, now=clock.now())
    context = {
        "payment": present.row(found),
        "refunds": [present.refund(row, found.currency) for row in found.refunds.order_by("-id")],
        "disputes": [present.dispute(row, found.currency) for row in found.disputes.order_by("-id")],
        "came_back": came_back,
        "page": None if found.state in ENDED else _page_of(request, public_id),
        "stand_in": selectors.stand_in(),
    }
    answer = show(request, "payments/detail", context)
    if came_back:
        answer.headers["Refresh"] = "2"
    return answer


def _page_of(request: PageRequest, public_id: str) -> Any | None:
    try:
        return selectors.page(organisation_id=request.actor.home().id, public_id=public_id)
    except NotFound:
        return None  # a saved card pays it


@page("money.read")
def payment_list(request: PageRequest) -> HttpResponse:
    home = request.actor.home()
    rows, older = page_of(request, selectors.for_organisation(organisation_id=home.id))
    context = {
        "payments": [present.row(row) for row in rows],
        "older": older,
        "rail": selectors.configured(),
        "stand_in": selectors.stand_in(),
        "card": selectors.card_words(organisation_id=home.id),
        "currency": home.currency,
        "may_move": may(request.actor, Deed.MONEY_MOVE),
    }
    return show(request, "payments/list", context)
