"""What a provider earned and what was sent to it: months, payouts, what each is made of, and the account the money goes to."""

from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils.translation import get_language

from billing.selectors import earnings as earned
from billing.selectors import payments as rail
from billing.selectors import payouts as selectors
from billing.services import payouts as rules
from billing.services import provider_accounts as accounts
from frontend.doors import PageRequest, page, show
from frontend.paging import page_of
from frontend.presenters import money_lines
from frontend.presenters import payouts as present
from portal import clock
from portal.accounts.permissions import Deed, may
from portal.kit.errors import Conflict, Unavailable


@page("money.read")
def index(request: PageRequest) -> HttpResponse:
    home = request.actor.home()
    months = [
        {
            "month": money_lines.month_text(row.month),
            "sku": row.sku,
            "quantity": row.quantity,
            "unit": money_lines.unit(row.resource),
            "billed": row.billed,
            "fee": row.fee,
            "share": row.share,
            "demo": row.demo,
        }
        for row in earned.months(provider_ref=home.public_id)
    ]
    codes = sorted({home.currency, *earned.standing(provider_ref=home.public_id)})
    context = {
        "months": months,
        "standings": [selectors.standing(home, code) for code in codes],
        "hold_days": present.hold_days(),
    }
    return show(request, "earnings/index", context)


@page("money.read")
def payouts(request: PageRequest) -> HttpResponse:
    home = request.actor.home()
    if request.GET.get("back"):
        accounts.look(organisation=home, now=clock.now())
    account = selectors.account(organisation_id=home.id)
    rows, older = page_of(request, selectors.for_organisation(organisation_id=home.id))
    context: dict[str, Any] = {
        "account": account,
        "kyc": selectors.kyc(account).value,
        "due": present.due(account),
        "payouts": [present.row(row) for row in rows],
        "older": older,
        "minimum": rules.minimum(home.currency),
        "hold_days": present.hold_days(),
        "rail": rail.configured(),
        "stand_in": rail.stand_in(),
        "may_move": may(request.actor, Deed.MONEY_MOVE),
        "asking": bool(request.GET.get("back")),
    }
    answer = show(request, "earnings/payouts", context)
    if request.GET.get("back"):
        answer.headers["Refresh"] = "3; url=/provide/payouts"
    return answer


@page("money.move")
def onboard(request: PageRequest) -> HttpResponse:
    """To the form of the payment service that asks who gets the money."""
    try:
        hosted = accounts.start(
            organisation=request.actor.home(), by=request.actor.id, now=clock.now(), language=get_language() or "en"
        )
    except (Conflict, Unavailable) as refused:
        messages.error(request, refused.detail)
        return redirect("console:payouts")
    return redirect("console:hosted_page", hosted.public_id)


@page("money.read")
def payout(request: PageRequest, public_id: str) -> HttpResponse:
    found = selectors.one(organisation_id=request.actor.home().id, public_id=public_id)
    parts = [present.part(row, found.currency) for row in selectors.parts(found)]
    return show(request, "earnings/payout", {"payout": present.row(found), "parts": parts})
