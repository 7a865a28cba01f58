"""What was given, and in which order it is spent: low priority first, then what expires earliest, then the oldest; never what has expired.

Credits are money and pay invoices. Granted hours are not money: they cover resource-hours on the nodes of whoever gave them, before any price is asked.
A covered quantity is priced 0 and takes no place in any tier.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

NEVER = datetime.max.replace(tzinfo=UTC)
OWED_BACK = ""
"""The part of a credit balance that no grant explains: money owed back to the tenant. It never expires and is spent last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credit:
    """An open credit grant."""

    ref: str
    left_minor: int
    priority: int
    expires_at: datetime | None
    given_at: datetime


def in_order(credits: Iterable[Credit], *, now: datetime) -> list[Credit]:
    """The credits that may be spent now, in the order in which they are."""
    alive = [
        credit for credit in credits if credit.left_minor > 0 and (credit.expires_at is None or now < credit.expires_at)
    ]
    return sorted(alive, key=lambda credit: (credit.priority, credit.expires_at or NEVER, credit.given_at, credit.ref))


def use(credits: Iterable[Credit], amount_minor: int, *, now: datetime) -> list[tuple[str, int]]:
    """`amount_minor` laid over the credits in their order: (ref, part). What they do not cover is `OWED_BACK`."""
    parts, left = [], amount_minor
    for credit in in_order(credits, now=now):
        if left <= 0:
            break
        part = min(credit.left_minor, left)
        parts.append((credit.ref, part))
        left -= part
    return parts + ([(OWED_BACK, left)] if left > 0 else [])


@dataclass(frozen=True, slots=True, kw_only=True)
class Hours:
    """An open grant of resource-hours: `left_us` of a resource on the nodes of `giver_ref`, for what ends in ``[starts_at, expires_at)``."""

    ref: str
    giver_ref: str
    resource: str
    left_us: int
    priority: int
    starts_at: datetime
    expires_at: datetime | None
    given_at: datetime

    def covers(self, *, provider_ref: str, resource: str, at: datetime) -> bool:
        """Whether it is good for usage of that resource on that provider's nodes that ended at `at`."""
        in_time = self.starts_at <= at and (self.expires_at is None or at < self.expires_at)
        return in_time and (self.giver_ref, self.resource) == (provider_ref, resource)


class Allowance:
    """Granted hours while a month is rated: each cover takes from what is left."""

    def __init__(self, grants: Iterable[Hours] = ()) -> None:
        self._grants = sorted(grants, key=lambda g: (g.priority, g.expires_at or NEVER, g.given_at, g.ref))
        self._left = {grant.ref: max(0, grant.left_us) for grant in self._grants}

    def __bool__(self) -> bool:
        return any(self._left.values())

    def cover(
        self, *, provider_ref: str, resource: str, at: datetime, qty_us: int
    ) -> tuple[list[tuple[str, int]], int]:
        """([(grant, quantity)], what is left to be paid for with money)."""
        covered = []
        for grant in self._grants:
            part = min(self._left[grant.ref], qty_us)
            if part > 0 and grant.covers(provider_ref=provider_ref, resource=resource, at=at):
                self._left[grant.ref] -= part
                covered.append((grant.ref, part))
                qty_us -= part
        return covered, qty_us

    def open(self) -> list[Hours]:
        """The grants as they are now, with what is left of each."""
        return [replace(grant, left_us=self._left[grant.ref]) for grant in self._grants if self._left[grant.ref]]


def enough(
    grants: Sequence[Hours], kept: Iterable[dict[str, int]], needed: dict[str, int], *, now: datetime, until: datetime
) -> list[str]:
    """The givers on whose nodes `needed` (resource → microseconds) is covered whole until `until`, beside what other jobs keep already."""
    keeps: dict[str, int] = {}
    for hours in kept:
        for resource, quantity in hours.items():
            keeps[resource] = keeps.get(resource, 0) + quantity
    givers = []
    for giver in sorted({grant.giver_ref for grant in grants}):
        there = {
            resource: sum(
                grant.left_us
                for grant in grants
                if grant.covers(provider_ref=giver, resource=resource, at=now)
                and (grant.expires_at is None or until <= grant.expires_at)
            )
            for resource in needed
        }
        if needed and all(
            there[resource] - keeps.get(resource, 0) >= quantity for resource, quantity in needed.items()
        ):
            givers.append(giver)
    return givers
