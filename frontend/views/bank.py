"""The operator's page of bank transfers: import a statement, see what waits, say whose it is."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from billing.selectors import bank as selectors
from billing.selectors import invoices
from billing.services import bank_transfers
from frontend.doors import PageRequest, operator, show
from frontend.forms.money import AssignForm, StatementForm
from frontend.paging import page_of
from frontend.presenters import wallet as present
from portal import clock
from portal.accounts.selectors import organisations
from portal.kit.errors import Conflict, InvalidInput


@operator
def index(request: PageRequest) -> HttpResponse:
    form = (
        StatementForm(request.POST or None, request.FILES or None)
        if request.POST.get("do") == "import"
        else StatementForm()
    )
    if request.method == "POST":
        done = _import(request, form) if request.POST.get("do") == "import" else _settle(request)
        if done:
            return redirect("console:bank")
    settled, older = page_of(request, selectors.everyone().exclude(state="unmatched"))
    context = {
        "form": form,
        "assign": AssignForm(),
        "waiting": [present.transfer(row) for row in selectors.unmatched()[:200]],
        "settled": [present.transfer(row) for row in settled],
        "older": older,
    }
    return show(request, "bank/index", context, status=422 if form.errors else 200)


def _import(request: PageRequest, form: StatementForm) -> bool:
    if not form.is_valid():
        return False
    file = form.cleaned_data["file"]
    try:
        done = bank_transfers.import_statement(name=file.name, data=file.read(), by=request.actor.id, now=clock.now())
    except InvalidInput as refused:
        for finding in refused.errors[:20]:
            form.add_error("file", f"{finding.path}: {finding.message}")
        return False
    text = ngettext("%(n)s new transfer, %(matched)s settled.", "%(n)s new transfers, %(matched)s settled.", done.new)
    messages.success(request, text % {"n": done.new, "matched": done.matched})
    return True


def _settle(request: PageRequest) -> bool:
    """Assign a transfer, or note that it went back; what is wrong is said in a message."""
    row = selectors.one(request.POST.get("transfer", ""))
    by, now = request.actor.id, clock.now()
    try:
        if request.POST.get("do") == "return":
            bank_transfers.send_back(transfer=row, reference=request.POST.get("reference", ""), by=by, now=now)
        else:
            number = request.POST.get("invoice", "").strip()
            invoice = invoices.everyone().filter(number=number).first() if number else None
            owner = (
                invoice.organisation if invoice else organisations.by_name(request.POST.get("organisation", "").strip())
            )
            if owner is None or (number and invoice is None):
                messages.error(request, _("There is no such organisation or invoice."))
                return True
            bank_transfers.assign(transfer=row, organisation=owner, invoice=invoice, by=by, now=now)
        messages.success(request, _("The transfer is settled."))
    except Conflict as refused:
        messages.error(request, refused.detail)
    return True
