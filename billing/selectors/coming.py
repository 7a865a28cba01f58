"""What the next invoice will hold: a month's own usage, and the corrections of closed months that wait for it."""

from collections.abc import Sequence

from django.db.models import Q, Sum

from billing.domain import rating
from billing.domain.invoicing import InvoiceState
from billing.domain.periods import PeriodState
from billing.domain.rating import Line, Part
from billing.models import BillingPeriod, InvoiceLine, LateChange, LineRecord
from billing.selectors import grants
from billing.selectors import parts as records


def waiting(organisation_id: int) -> list[LateChange]:
    """Notes on closed months that no close has settled."""
    found = LateChange.objects.filter(
        organisation_id=organisation_id, settled_at=None, period__state=PeriodState.CLOSED
    )
    return list(found.select_related("period", "record", "line_record__line").order_by("id"))


def waiting_endings(organisation_id: int) -> list[LateChange]:
    """Attempts that ended unbilled while a month closed."""
    return list(LateChange.objects.filter(organisation_id=organisation_id, settled_at=None, period=None).order_by("id"))


def parts(period: BillingPeriod) -> list[Part]:
    """All that the invoice of a month that is not closed will rate; corrections go to the first month that closes."""
    own = records.of_period(period)
    if period.state == PeriodState.CLOSED:
        return own
    unclosed = BillingPeriod.objects.filter(organisation_id=period.organisation_id).exclude(state=PeriodState.CLOSED)
    first = unclosed.order_by("starts_at").values_list("id", flat=True).first()
    return own + (corrections(waiting(period.organisation_id)) if first == period.id else [])


def corrections(late: Sequence[LateChange]) -> list[Part]:
    """Parts of closed months: usage that came late, and billed time that is taken back (with its line of 0)."""
    found: list[Part] = []
    for change in late:
        period, record, proof = change.period, change.record, change.line_record
        if period is None or record is None:
            continue
        if proof is None:
            if not _in_a_line(record.id, period):
                found += records.of_records([record.id], period, correction_of=period.month)
            continue
        part = records.one(record.id, proof.started_at, proof.ended_at)
        if part is not None:
            line = proof.line
            back = part.changed(qty_us=proof.qty_us, correction_of=period.month)
            price = {"fixed_tier": line.tier, "unit_price_micro": line.price_micro, "grant_ref": line.grant_ref}
            found += [back.changed(sign=-1, unbilled_reason="", **price), back]
    return found


def _in_a_line(record_id: int, period: BillingPeriod) -> bool:
    """Whether a line has the record's share of that month after all: its close had seen it, or an earlier correction."""
    own = Q(line__invoice__period=period, line__correction_of="")
    corrected = Q(line__invoice__organisation_id=period.organisation_id, line__correction_of=period.month)
    return LineRecord.objects.filter(own | corrected, record_id=record_id).exists()


def rate(found: Sequence[Part], *, organisation_id: int) -> list[Line]:
    """The lines: a month's own usage, then each corrected month at its own prices, behind what it had used of its tiers. Granted hours go first."""
    given = grants.allowance(organisation_id)
    lines = rating.lines((part for part in found if not part.correction_of), allowance=given)
    for month in sorted({part.correction_of for part in found if part.correction_of}):
        corrected = [part for part in found if part.correction_of == month]
        lines += rating.lines(corrected, positions=_positions(organisation_id, month), allowance=given)
    return lines


def _positions(organisation_id: int, month: str) -> dict[str, int]:
    """What each tiered sku had used of that month on the invoices so far."""
    lines = InvoiceLine.objects.filter(
        invoice__organisation_id=organisation_id, tier__gt=0, unbilled_reason=""
    ).exclude(invoice__state=InvoiceState.VOID)
    own = lines.filter(invoice__period__month=month, correction_of="")
    corrected = lines.filter(correction_of=month)
    found: dict[str, int] = {}
    for rows in (own, corrected):
        for row in rows.values("sku").annotate(total=Sum("qty_us")):
            found[row["sku"]] = found.get(row["sku"], 0) + int(row["total"])
    return found
