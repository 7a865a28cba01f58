"""Budgets: how much of each is used, where the month will end, and setting them."""

from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from billing.selectors import budgets as selectors
from billing.services import budgets
from frontend.doors import PageRequest, page, show
from frontend.forms.money import BudgetForm
from frontend.presenters import money_lines
from frontend.presenters import wallet as present
from frontend.views.accounts import explain, grant
from portal import clock
from portal.accounts.permissions import Deed, demand, may
from portal.kit.errors import InvalidInput
from portal.kit.money import Money


@page("money.read")
def index(request: PageRequest) -> HttpResponse:
    home = request.actor.home()
    form = BudgetForm(request.POST if request.POST.get("do") == "set" else None)
    if request.method == "POST":
        demand(request.actor, Deed.BUDGETS_SET)
        if request.POST.get("do") == "delete":
            row = selectors.one(organisation_id=home.id, public_id=request.POST.get("budget", ""))
            budgets.remove(budget=row, by=request.actor.id, now=clock.now())
            return redirect("console:budgets")
        if form.is_valid() and _set(request, home, form):
            messages.success(request, _("The budget is set. It holds at once."))
            return redirect("console:budgets")
    found = selectors.overviews(home, now=clock.now())
    month = selectors.month_of(home, clock.now())
    context = {
        "form": form,
        "budgets": [present.budget(view) for view in found],
        "month": money_lines.month_text(month.name),
        "may_set": may(request.actor, Deed.BUDGETS_SET),
        "currency": home.currency,
    }
    return show(
        request, "budgets/index", context | grant(request, Deed.BUDGETS_SET), status=422 if form.errors else 200
    )


def _set(request: PageRequest, home: Any, form: BudgetForm) -> bool:
    asked = form.cleaned_data
    try:
        amount = Money.parse(asked["amount"], home.currency)
    except ValueError as fault:
        form.add_error("amount", str(fault))
        return False
    try:
        budgets.set_budget(
            organisation_id=home.id, scope=asked["scope"], key=asked["key"], amount=amount, at_limit=asked["at_limit"],
            by=request.actor.id, now=clock.now(),
        )  # fmt: skip
    except InvalidInput as refused:
        explain(form, refused)
        return False
    return True
