"""The wallet: what is in it, what is kept for jobs, what was given, how to fill it."""

from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from billing.selectors import wallets as selectors
from billing.services import wallets
from frontend.doors import PageRequest, page, show
from frontend.forms.money import LowForm
from frontend.paging import page_of
from frontend.presenters import wallet as present
from portal import clock
from portal.accounts.permissions import Deed, demand, may
from portal.kit.money import Money


@page("money.read")
def index(request: PageRequest) -> HttpResponse:
    home = request.actor.home()
    found = selectors.overview(home, now=clock.now())
    form = LowForm(request.POST or None, initial={"low": (found["low_at"] or {}).get("amount", "")})
    if request.method == "POST":
        demand(request.actor, Deed.BUDGETS_SET)
        if form.is_valid() and _set_low(request, home, form):
            messages.success(request, _("Saved."))
            return redirect("console:wallet")
    rows, older = page_of(request, selectors.entries(home))
    context = {
        "wallet": present.figures(found),
        "prepaid": found["mode"] == "prepaid",
        "transfer": found["bank_transfer"],
        "credits": [present.credit(row) for row in found["credits"]],
        "hours": [present.hours(row) for row in found["hours"]],
        "entries": [present.entry(row) for row in rows],
        "older": older,
        "form": form,
        "may_set": may(request.actor, Deed.BUDGETS_SET),
        "may_move": may(request.actor, Deed.MONEY_MOVE),
    }
    return show(request, "wallet/index", context, status=422 if form.errors else 200)


def _set_low(request: PageRequest, home: Any, form: LowForm) -> bool:
    text = form.cleaned_data["low"].strip()
    try:
        low = Money.parse(text, home.currency) if text else None
        if low is not None and low.minor < 0:
            raise ValueError(_("not below 0"))
    except ValueError as fault:
        form.add_error("low", str(fault))
        return False
    wallets.set_terms(
        organisation_id=home.id, low_minor=None if low is None else low.minor, by=request.actor.id, now=clock.now()
    )
    return True
