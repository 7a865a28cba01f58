"""The operator's desk for tenants' money: all invoices, credit notes, voids and write-offs, and the terms of an organisation."""

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from billing.domain.invoicing import InvoiceState
from billing.selectors import invoices as selectors
from billing.services import credit_notes, reminders, wallets
from billing.services import invoices as services
from frontend.doors import PageRequest, operator, show
from frontend.forms.money import CreditForm, TermsForm
from frontend.paging import page_of
from frontend.presenters import money_lines, words
from portal import clock, ids
from portal.accounts.selectors import organisations
from portal.kit.errors import Conflict, InvalidInput
from portal.kit.money import Money

PPM_PER_CENT = 10_000


@operator
def index(request: PageRequest) -> HttpResponse:
    do = request.POST.get("do", "")
    credit = CreditForm(request.POST if do in {"credit", "void", "write_off"} else None)
    terms = TermsForm(request.POST if do == "terms" else None)
    if request.method == "POST":
        done = _set_terms(request, terms) if do == "terms" else _correct(request, credit, do)
        if done:
            return redirect("console:desk")
    state = request.GET.get("state", "")
    rows, older = page_of(request, selectors.everyone(state=state if state in set(InvoiceState) else ""))
    context = {
        "credit": credit,
        "terms": terms,
        "invoices": [_row(row) for row in rows],
        "older": older,
        "states": [(name, word.text) for name, word in words.INVOICE.items() if name != "draft"],
        "state": state,
    }
    return show(request, "bank/desk", context, status=422 if credit.errors or terms.errors else 200)


def _row(row: Any) -> dict[str, Any]:
    """One invoice of the operator's list."""
    left = row.payable_minor - row.paid_minor - row.credited_minor
    return {
        "number": row.number,
        "organisation": row.organisation.name,
        "month": money_lines.month_text(row.period.month),
        "state": row.state,
        "total": Money(row.total_minor, row.currency),
        "open": Money(max(0, left), row.currency) if row.state not in {"void", "uncollectible"} else None,
        "due_at": row.due_at,
        "demo": row.demo,
    }


def _correct(request: PageRequest, form: forms.Form, do: str) -> bool:
    """Credit, void or write off one invoice; what is wrong is said at its field."""
    if not form.is_valid():
        return False
    asked, by, now = form.cleaned_data, request.actor.id, clock.now()
    invoice = selectors.everyone().filter(number=asked["invoice"].strip()).first()
    if invoice is None:
        form.add_error("invoice", _("There is no such invoice."))
        return False
    try:
        if do == "void":
            services.void(invoice=invoice, by=by, reason=asked["reason"], now=now)
        elif do == "write_off":
            reminders.give_up(invoice=invoice, by=by, reason=asked["reason"], now=now)
        else:
            total = Money.parse(asked["total"], invoice.currency)
            credit_notes.issue(
                invoice=invoice, total=total, reason=asked["reason"], reference=f"desk:{ids.token(12)}", by=by, now=now
            )
    except ValueError as fault:
        form.add_error("total", str(fault))
        return False
    except Conflict as refused:
        form.add_error(None, refused.detail)
        return False
    messages.success(request, _("Invoice %(number)s is corrected.") % {"number": invoice.number})
    return True


def _set_terms(request: PageRequest, form: forms.Form) -> bool:
    if not form.is_valid():
        return False
    asked = form.cleaned_data
    owner = organisations.by_name(asked["organisation"].strip())
    if owner is None:
        form.add_error("organisation", _("There is no such organisation."))
        return False
    try:
        wallets.set_terms(
            organisation_id=owner.id, mode=asked["mode"], payment_days=asked["payment_days"],
            discount_ppm=int(asked["discount"] * PPM_PER_CENT), by=request.actor.id, now=clock.now(),
        )  # fmt: skip
    except InvalidInput as refused:
        form.add_error(None, refused.detail)
        return False
    messages.success(request, _("The terms of %(name)s are set.") % {"name": owner.name})
    return True
