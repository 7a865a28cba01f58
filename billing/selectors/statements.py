"""Monthly statements (月度账单): the issued invoices of a month as rows, by item or by instance, per month, day or hour.

Amounts of a row are parts of its line by quantity (largest remainder), tax, credit and payments are laid over the rows of an invoice by differences of rounded
cumulative amounts; so every column adds up to the invoice. Energy and carbon come from the usage records themselves.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.utils.translation import gettext as _

from billing.domain import allocation, energy, statement
from billing.domain.invoicing import InvoiceState
from billing.domain.metering import Resource, cut, hour_marks
from billing.models import Invoice, InvoiceLine, LineRecord
from portal.accounts.models import Organisation
from portal.kit.errors import NotFound
from portal.kit.intervals import Interval
from portal.kit.money import Money, split

BY = ("item", "instance")
PER = ("month", "day", "hour")


@dataclass(slots=True)
class Row:
    """One row of a statement. Amounts in minor units; energy in µWh, carbon in µg; green: (weight, known quantity)."""

    invoice: Invoice
    line: InvoiceLine
    when: str
    node: str
    qty: int = 0
    list_minor: int = 0
    amount_minor: int = 0
    tax_minor: int = 0
    credit_minor: int = 0
    paid_minor: int = 0
    energy_uwh: int = 0
    carbon_ug: int = 0
    known: bool = False
    bases: set[str] = field(default_factory=set)

    @property
    def open_minor(self) -> int:
        """What is not settled yet."""
        return self.amount_minor + self.tax_minor - self.credit_minor - self.paid_minor

    def wire(self) -> dict[str, Any]:
        """The JSON form."""
        line, code = self.line, self.invoice.currency

        def text(minor: int) -> str:
            return Money(minor, code).text()

        return {
            "month": self.invoice.period.month,
            "when": self.when,
            "invoice": self.invoice.number,
            "tenant": self.invoice.organisation.name,
            "department": line.department,
            "project": line.project_name,
            "region": line.region,
            "node": self.node,
            "provider": line.provider_name,
            "resource": line.resource,
            "sku": line.sku,
            "quantity": statement.quantity_text(line.resource, self.qty, statement.PLACES),
            "unit": statement.UNITS[Resource(line.resource)],
            "list_amount": text(self.list_minor),
            "discount": text(self.list_minor - self.amount_minor),
            "amount": text(self.amount_minor),
            "tax": text(self.tax_minor),
            "credit": text(self.credit_minor),
            "paid": text(self.paid_minor),
            "open": text(self.open_minor),
            "currency": code,
            "green_ratio": None if line.green_ratio_ppm is None else statement.ppm_text(line.green_ratio_ppm),
            "energy_kwh": energy.kwh_text(self.energy_uwh) if self.known else None,
            "carbon_kg": energy.kg_text(self.carbon_ug) if self.known else None,
            "basis": ", ".join(sorted(self.bases)) or None,
            "unbilled_reason": line.unbilled_reason or None,
        }


def monthly(tenant: Organisation, month: str, *, by: str = "item", per: str = "month", zero: bool = True) -> list[Row]:
    """The rows of a month, over all its invoices; NotFound if none was issued. `zero`: with the rows whose amount is 0."""
    gone = (InvoiceState.DRAFT, InvoiceState.VOID)
    issued = Invoice.objects.filter(organisation=tenant, period__month=month).exclude(state__in=gone)
    found = list(issued.select_related("period", "organisation").order_by("number"))
    if not found:
        raise NotFound(_("No invoice of %(month)s was issued yet.") % {"month": month})
    rows = [row for invoice in found for row in _of_invoice(invoice, by, per)]
    return rows if zero else [row for row in rows if row.amount_minor]


def _of_invoice(invoice: Invoice, by: str, per: str) -> list[Row]:
    rows = []
    proofs: dict[int, list[LineRecord]] = {}
    for proof in (
        LineRecord.objects.filter(line__invoice=invoice).select_related("record").order_by("id").iterator(5000)
    ):
        proofs.setdefault(proof.line_id, []).append(proof)
    for line in InvoiceLine.objects.filter(invoice=invoice).order_by("position"):
        rows += _of_line(invoice, line, proofs.get(line.id, []), by, per)
    gross = [row.amount_minor for row in rows]
    for name, total in (
        ("tax_minor", invoice.tax_minor),
        ("credit_minor", invoice.credit_used_minor - invoice.to_credit_minor),
    ):
        for row, part in zip(rows, allocation.telescope(total, gross), strict=True):
            setattr(row, name, part)
    due = [row.amount_minor + row.tax_minor - row.credit_minor for row in rows]
    for row, part in zip(rows, allocation.telescope(invoice.paid_minor, due), strict=True):
        row.paid_minor = part
    return rows


def _of_line(invoice: Invoice, line: InvoiceLine, proofs: Sequence[LineRecord], by: str, per: str) -> list[Row]:
    """The rows of a line: its quantity by instance and time, its amounts by quantity."""
    found: dict[tuple[str, str], Row] = {}
    for proof in proofs:
        record = proof.record
        node = record.node_ref if by == "instance" else ""
        for when, quantity in _times(invoice, proof, per):
            row = found.setdefault((when, node), Row(invoice, line, when, node))
            row.qty += quantity
            if record.energy_uwh is not None and record.qty_us:
                row.known = True
                row.energy_uwh += record.energy_uwh * quantity // record.qty_us
                row.carbon_ug += (record.carbon_ug or 0) * quantity // record.qty_us
                row.bases.add(energy.basis_text(record.power_basis, pue_known=record.pue_milli is not None))
    rows = [found[key] for key in sorted(found)]
    weights = [row.qty for row in rows]
    if sum(weights):
        for row, listed, amount in zip(
            rows, split(line.list_minor, weights), split(line.amount_minor, weights), strict=True
        ):
            row.list_minor, row.amount_minor = listed, amount
    sign = -1 if line.qty_us < 0 else 1
    for row in rows:
        row.qty *= sign
    return rows


def _times(invoice: Invoice, proof: LineRecord, per: str) -> Iterator[tuple[str, int]]:
    """(name of the month, day or hour, quantity) of a proof, in the zone of the period."""
    if per == "month":
        yield invoice.period.month, proof.qty_us
        return
    zone = ZoneInfo(invoice.period.timezone)
    whole = Interval(proof.started_at, proof.ended_at)
    marks = hour_marks(whole) if per == "hour" else list(_midnights(whole, zone))
    for part, quantity in cut(proof.qty_us, whole, marks):
        local = part.start.astimezone(zone)
        yield (f"{local:%Y-%m-%d %H:00}" if per == "hour" else f"{local:%Y-%m-%d}"), quantity


def _midnights(whole: Interval, zone: ZoneInfo) -> Iterator[datetime]:
    """The local midnights inside an interval."""
    day = whole.start.astimezone(zone).date() + timedelta(days=1)
    while (moment := datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC)) < whole.end:
        yield moment
        day += timedelta(days=1)
