"""The operator's page of the payment rail: is what it holds what our ledger says, and what waits for a person."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from billing.selectors import invoices, payments, rail
from billing.services import reconcile, refunds
from frontend.doors import PageRequest, operator, show
from frontend.paging import page_of
from frontend.presenters import payments as present
from portal import clock
from portal.kit.errors import IdlewildError, NotFound
from portal.kit.money import Money


@operator
def index(request: PageRequest) -> HttpResponse:
    if request.method == "POST":
        try:
            reconcile.run(now=clock.now())
            messages.success(request, _("Compared just now."))
        except IdlewildError as refused:
            messages.error(request, refused.detail)
        return redirect("console:rail")
    rows, older = page_of(request, payments.everyone())
    context = {
        "rail": payments.configured(),
        "stand_in": payments.stand_in(),
        "latest": [_compared(row) for row in rail.latest()],
        "history": [_compared(row) for row in rail.history()[:30]],
        "dead": rail.dead_events(),
        "unmatched": rail.unmatched(),
        "disputes": [
            {
                **present.dispute(row, row.payment.currency),
                "organisation": row.payment.organisation.name,
                "reason": row.reason,
            }
            for row in rail.open_disputes()
        ],
        "payments": [present.row(row) for row in rows],
        "older": older,
    }
    return show(request, "operator/rail", context)


@operator
def give_back(request: PageRequest) -> HttpResponse:
    """Give a part of an invoice back to the cards that paid it; a credit note comes first."""
    try:
        invoice = invoices.everyone().filter(number=request.POST.get("number", "").strip()).first()
        if invoice is None:
            raise NotFound(_("There is no such invoice."))
        amount = Money.parse(request.POST.get("amount", ""), invoice.currency)
        reference = request.POST.get("reference", "").strip() or f"by-hand-{invoice.number}"
        refunds.send(invoice=invoice, amount=amount, reference=reference, by=request.actor.id, now=clock.now())
        messages.success(request, _("The refund is on its way."))
    except ValueError:
        messages.error(request, _("Type in an amount such as 100.00."))
    except IdlewildError as refused:
        messages.error(request, refused.detail)
    return redirect("console:rail")


def _compared(row: object) -> dict[str, object]:
    found: dict[str, object] = {"at": row.at, "unknown": row.unknown}  # type: ignore[attr-defined]
    for name in ("rail", "ledger", "drift"):
        found[name] = Money(getattr(row, f"{name}_minor"), row.currency)  # type: ignore[attr-defined]
    return found
