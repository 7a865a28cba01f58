"""Months close once.

A close is one transaction under the tenant's own lock: roll-up proved, lines rated, invoice numbered, posted and frozen, outbox promised, period
closed. Killed before its commit it leaves nothing; called again, by one or by eight, it changes nothing.
"""

import logging
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from billing.domain import periods as rules
from billing.domain.periods import PeriodEvent, PeriodState
from billing.models import BillingPeriod, Invoice
from billing.selectors import periods as stored
from billing.services import invoices, locks, months, rollup
from portal.kit.errors import Conflict, Finding, InvalidInput
from portal.kit.intervals import Interval

log = logging.getLogger("idlewild.billing")


@dataclass(frozen=True, slots=True)
class Closed:
    """A closed month and its invoices: one per currency, none if nothing was used."""

    period: BillingPeriod
    invoices: tuple[Invoice, ...]

    @property
    def invoice(self) -> Invoice | None:
        """The only (or first) invoice."""
        return self.invoices[0] if self.invoices else None


def close(*, organisation_id: int, month: str, now: datetime) -> Closed:
    """Close a month and issue its invoice. A month that is closed already is answered as it is; none closes before its grace is over.

    Demo history and imports pass their own `now` (at least 72 h after the month's end).
    """
    try:
        rules.split_name(month)
    except ValueError as problem:
        raise InvalidInput([Finding("month", "bad_month", str(problem))]) from None
    period = stored.of_month(organisation_id=organisation_id, month=month)
    if period.state != PeriodState.CLOSED:
        _check_time(period, now)
        rollup.repair(
            period=period
        )  # 1. roll-up = raw, in a transaction of its own: pages read it, the invoice reads records
        with transaction.atomic():
            locks.own_books(
                organisation_id
            )  # 2. alone with the tenant's books; rows that point to the period do not wait
            period = BillingPeriod.objects.select_for_update(no_key=True).get(id=period.id)
            if period.state != PeriodState.CLOSED:
                _close(period, now)
    return Closed(period, tuple(Invoice.objects.filter(period=period).order_by("id")))


def close_due(*, now: datetime) -> list[Closed]:
    """Open the months that have begun, close those whose grace is over, oldest first. One tenant's error never stops the others."""
    _open_begun(now)
    due = BillingPeriod.objects.exclude(state=PeriodState.CLOSED).filter(ends_at__lte=now - rules.GRACE)
    closed: list[Closed] = []
    failed: set[int] = set()
    for organisation_id, month in list(due.order_by("starts_at", "id").values_list("organisation_id", "month")):
        if organisation_id in failed:
            continue
        try:
            closed.append(close(organisation_id=organisation_id, month=month, now=now))
        except Exception:  # whatever it is: it is logged, and the other tenants get their invoices
            log.exception("month %s of organisation %s did not close", month, organisation_id)
            failed.add(organisation_id)
    _begin_grace(now)
    return closed


def _close(period: BillingPeriod, now: datetime) -> None:
    state = PeriodState(period.state)
    if state is PeriodState.OPEN:
        state = rules.advance(state, PeriodEvent.ENDED)
    state = rules.advance(state, PeriodEvent.CLOSING_BEGAN)  # 3. open or grace → closing
    BillingPeriod.objects.filter(id=period.id).update(state=state)
    for draft in invoices.draft(period=period, now=now):  # 4. lines, tax, postings, number, document: this transaction
        invoices.issue(invoice=draft, now=now)  # 5. promises PDF, mail and collection
    months.ensure({period.organisation_id: (period.ends_at, period.ends_at)})  # the next one follows without a gap
    period.state, period.closed_at = rules.advance(state, PeriodEvent.CLOSED), now
    period.save(update_fields=["state", "closed_at"])  # 6. closed


def _check_time(period: BillingPeriod, now: datetime) -> None:
    if now < period.ends_at:
        raise Conflict(
            f"{period.month} ends at {period.ends_at:%Y-%m-%d %H:%M} UTC: no month closes early", code="period_open"
        )
    if not rules.may_close(Interval(period.starts_at, period.ends_at), now):
        raise Conflict(
            f"{period.month} waits {rules.GRACE.days} days for usage that comes late", code="period_in_grace"
        )
    earlier = BillingPeriod.objects.filter(organisation_id=period.organisation_id, starts_at__lt=period.starts_at)
    first = earlier.exclude(state=PeriodState.CLOSED).order_by("starts_at").first()
    if first is not None:
        raise Conflict(f"close {first.month} first: months close in order", code="earlier_period_open")


def _open_begun(now: datetime) -> None:
    """Every tenant's current month is opened in the zone that is in force at its start (within the period of this task)."""
    behind = BillingPeriod.objects.values_list("organisation_id", flat=True).distinct()
    for organisation_id in sorted(set(behind) - set(_covering(now))):
        with transaction.atomic():
            months.ensure({organisation_id: (now, now)})


def _covering(now: datetime) -> list[int]:
    return list(
        BillingPeriod.objects.filter(starts_at__lte=now, ends_at__gt=now).values_list("organisation_id", flat=True)
    )


def _begin_grace(now: datetime) -> None:
    """Ended months show that they wait for late usage."""
    BillingPeriod.objects.filter(state=PeriodState.OPEN, ends_at__lte=now).update(
        state=rules.advance(PeriodState.OPEN, PeriodEvent.ENDED)
    )
