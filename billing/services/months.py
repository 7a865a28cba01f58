"""Billing months open: a tenant's periods tile time without a gap, each in the zone that was in force when it opened."""

from collections.abc import Mapping
from datetime import datetime

from billing.domain import periods as rules
from billing.domain.periods import Month
from billing.models import BillingPeriod
from portal.accounts.models import Organisation
from portal.kit.intervals import Interval


def ensure(wanted: Mapping[int, tuple[datetime, datetime]]) -> dict[int, list[BillingPeriod]]:
    """The periods of each tenant (by id) that cover its (first, last) moments, opened where they are missing. Runs in the caller's transaction."""
    return {
        organisation_id: _cover(organisation_id, first, last)
        for organisation_id, (first, last) in sorted(wanted.items())
    }


def _cover(organisation_id: int, first: datetime, last: datetime) -> list[BillingPeriod]:
    found = _between(organisation_id, first, last)
    if found and found[0].starts_at <= first and last < found[-1].ends_at:
        return found
    # Whoever opens months does it alone; the lock does not stand in the way of foreign keys to the organisation.
    zone = Organisation.objects.select_for_update(no_key=True).get(id=organisation_id).period_timezone
    chain = BillingPeriod.objects.filter(organisation_id=organisation_id).order_by("starts_at")
    head, tail = chain.first(), chain.last()
    if head is None or tail is None:
        head = tail = _open(organisation_id, rules.containing(first, zone))
    while first < head.starts_at:
        head = _open(organisation_id, rules.preceding(_month(head), zone))
    while last >= tail.ends_at:
        tail = _open(organisation_id, rules.following(_month(tail), zone))
    return _between(organisation_id, first, last)


def _between(organisation_id: int, first: datetime, last: datetime) -> list[BillingPeriod]:
    near = BillingPeriod.objects.filter(organisation_id=organisation_id, ends_at__gt=first, starts_at__lte=last)
    return list(near.order_by("starts_at"))


def _month(period: BillingPeriod) -> Month:
    return Month(period.month, Interval(period.starts_at, period.ends_at), period.timezone)


def _open(organisation_id: int, month: Month) -> BillingPeriod:
    return BillingPeriod.objects.create(
        organisation_id=organisation_id,
        month=month.name,
        starts_at=month.interval.start,
        ends_at=month.interval.end,
        timezone=month.timezone,
    )
