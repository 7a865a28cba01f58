"""Credit notes as their tenant may see them, and what an invoice has left to credit."""

from typing import Any

from django.db.models import QuerySet, Sum
from django.utils.translation import gettext as _

from billing.domain.credit import NotedLine, Standing
from billing.domain.statement import iso
from billing.models import CreditNote, CreditNoteLine, Invoice
from portal.kit.errors import NotFound
from portal.kit.money import Money


def for_organisation(organisation_id: int) -> QuerySet[CreditNote]:
    """The tenant's credit notes, newest first."""
    return CreditNote.objects.filter(organisation_id=organisation_id).select_related("invoice").order_by("-id")


def of_invoice(invoice: Invoice) -> QuerySet[CreditNote]:
    """The notes on one invoice, oldest first."""
    return CreditNote.objects.filter(invoice=invoice).select_related("invoice").order_by("id")


def one(*, organisation_id: int, public_id: str) -> CreditNote:
    """That note of that tenant, by id or number; NotFound for a foreign one."""
    mine = for_organisation(organisation_id)
    found = mine.filter(public_id=public_id).first() or mine.filter(number=public_id).first()
    if found is None:
        raise NotFound(_("There is no such credit note that you can see."))
    return found


def standing(invoice: Invoice) -> Standing:
    """The invoice's totals, its payments and what notes took of it."""
    noted = CreditNote.objects.filter(invoice=invoice).aggregate(net=Sum("net_minor"), tax=Sum("tax_minor"))
    return Standing(
        subtotal_minor=invoice.subtotal_minor, tax_minor=invoice.tax_minor, payable_minor=invoice.payable_minor,
        paid_minor=invoice.paid_minor, credited_minor=invoice.credited_minor, noted_net_minor=noted["net"] or 0,
        noted_tax_minor=noted["tax"] or 0,
    )  # fmt: skip


def noted_lines(invoice: Invoice) -> list[NotedLine]:
    """The invoice's lines with what notes took of each."""
    sums = (
        CreditNoteLine.objects.filter(note__invoice=invoice)
        .values("line_id")
        .annotate(net=Sum("amount_minor"), fee=Sum("fee_minor"))
    )
    taken = {row["line_id"]: (row["net"], row["fee"]) for row in sums}
    return [
        NotedLine(
            line.position,
            line.provider_ref,
            line.amount_minor,
            line.fee_minor,
            line.tax_rate_ppm,
            *taken.get(line.id, (0, 0)),
        )
        for line in invoice.lines.order_by("position")
    ]


def wire(note: CreditNote) -> dict[str, Any]:
    """The JSON form."""

    def money(minor: int) -> dict[str, str]:
        return Money(minor, note.currency).wire()

    return {
        "id": note.public_id,
        "number": note.number,
        "invoice": note.invoice.public_id,
        "invoice_number": note.invoice.number,
        "net": money(note.net_minor),
        "tax": money(note.tax_minor),
        "total": money(note.total_minor),
        "off_open": money(note.off_open_minor),
        "to_credit": money(note.to_credit_minor),
        "reason": note.reason,
        "issued_at": iso(note.issued_at),
        "sha256": note.sha256,
    }
