"""Billing months: they tile time, in the tenant's own zone, and are stored, never computed again.

A period starts where the one before ended and ends at the first instant of the next local month, in the time zone in force when it opens. A change of
zone therefore takes effect with the next period; no hour is billed twice, none is lost.

==========  ================  =====================================
state       event             becomes
==========  ================  =====================================
open        ended             grace (72 h for facts that are late)
grace       closing_began     closing
closing     closed            closed
==========  ================  =====================================

All three steps may be taken in the one transaction of a close; ``closed`` is the end.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

from portal.kit.intervals import Interval
from portal.kit.machine import step

GRACE = timedelta(hours=72)


class PeriodState(StrEnum):
    OPEN = "open"
    GRACE = "grace"
    CLOSING = "closing"
    CLOSED = "closed"


class PeriodEvent(StrEnum):
    ENDED = "ended"
    CLOSING_BEGAN = "closing_began"
    CLOSED = "closed"


class PeriodEffect(StrEnum):
    """A period has no effects of its own: its invoice has."""


TABLE: Mapping[tuple[PeriodState, PeriodEvent], tuple[PeriodState, tuple[PeriodEffect, ...]]] = {
    (PeriodState.OPEN, PeriodEvent.ENDED): (PeriodState.GRACE, ()),
    (PeriodState.GRACE, PeriodEvent.CLOSING_BEGAN): (PeriodState.CLOSING, ()),
    (PeriodState.CLOSING, PeriodEvent.CLOSED): (PeriodState.CLOSED, ()),
}


@dataclass(frozen=True, slots=True)
class Month:
    """A named month and its bounds in time."""

    name: str
    interval: Interval
    timezone: str


def advance(state: PeriodState, event: PeriodEvent) -> PeriodState:
    """The state after `event`; InvalidTransition when the table has no such pair."""
    return step(TABLE, state, event)[0]


def containing(moment: datetime, timezone: str) -> Month:
    """The whole local month in which `moment` lies: a tenant's first period."""
    local = moment.astimezone(ZoneInfo(timezone))
    name = f"{local.year:04d}-{local.month:02d}"
    return Month(name, Interval(first_instant(name, timezone), first_instant(after(name), timezone)), timezone)


def following(last: Month, timezone: str) -> Month:
    """The period after `last`, in the zone that is in force now: it starts where `last` ended, whatever the new zone calls that hour."""
    name = after(last.name)
    return Month(name, Interval(last.interval.end, first_instant(after(name), timezone)), timezone)


def preceding(first: Month, timezone: str) -> Month:
    """The period before a tenant's first one, for history that is entered later: it ends where `first` starts."""
    name = before(first.name)
    return Month(name, Interval(first_instant(name, timezone), first.interval.start), timezone)


def first_instant(month: str, timezone: str) -> datetime:
    """The first instant of that local month, in UTC. Local midnight that happens twice counts the first time; one that never happens is the jump itself."""
    year, number = split_name(month)
    return datetime(year, number, 1, tzinfo=ZoneInfo(timezone), fold=0).astimezone(UTC)


def after(month: str) -> str:
    """The name of the month after."""
    year, number = split_name(month)
    return f"{year + number // 12:04d}-{number % 12 + 1:02d}"


def before(month: str) -> str:
    """The name of the month before."""
    year, number = split_name(month)
    return f"{year - (number == 1):04d}-{(number - 2) % 12 + 1:02d}"


def split_name(month: str) -> tuple[int, int]:
    """``2026-10`` → (2026, 10); ValueError for anything else."""
    year, dash, number = month.partition("-")
    if not (dash and len(year) == 4 and len(number) == 2 and (year + number).isascii() and (year + number).isdigit()):
        raise ValueError(f"{month!r} is not a month such as 2026-10")
    if not (1 <= int(number) <= 12 and 1 <= int(year) < 9999):
        raise ValueError(f"{month!r} is not a month such as 2026-10")
    return int(year), int(number)


def may_close(interval: Interval, now: datetime) -> bool:
    """Whether the grace of 72 h after the end is over: no month closes early."""
    return now >= interval.end + GRACE
