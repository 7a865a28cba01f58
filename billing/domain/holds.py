"""Money reserved before work begins, against the credit limit.

========  ==========  =========================
state     event       becomes
========  ==========  =========================
active    captured    captured (in part or whole)
active    released    released
active    lapsed      expired
========  ==========  =========================

Available = limit − what is owed − what is used and not yet invoiced − what active holds still reserve. A hold reserves what its own job has not yet
used, so a running job is counted once.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from portal.kit.machine import step
from portal.kit.money import Money


class HoldState(StrEnum):
    ACTIVE = "active"
    CAPTURED = "captured"
    RELEASED = "released"
    EXPIRED = "expired"


class HoldEvent(StrEnum):
    CAPTURED = "captured"
    RELEASED = "released"
    LAPSED = "lapsed"


class HoldEffect(StrEnum):
    """A postpaid hold moves no money, so it has no effects."""


TABLE: Mapping[tuple[HoldState, HoldEvent], tuple[HoldState, tuple[HoldEffect, ...]]] = {
    (HoldState.ACTIVE, HoldEvent.CAPTURED): (HoldState.CAPTURED, ()),
    (HoldState.ACTIVE, HoldEvent.RELEASED): (HoldState.RELEASED, ()),
    (HoldState.ACTIVE, HoldEvent.LAPSED): (HoldState.EXPIRED, ()),
}


class RefusedBy(StrEnum):
    """What stands against spending more."""

    NOTHING = ""
    CREDIT_LIMIT = "credit_limit"
    PAST_DUE = "past_due"
    SUSPENDED = "organisation_suspended"


@dataclass(frozen=True, slots=True)
class Exposure:
    """All that already stands against a tenant's limit, in minor units."""

    limit_minor: int
    owed_minor: int
    used_minor: Mapping[str, int]
    holds_minor: Mapping[str, int]
    past_due: bool = False
    suspended: bool = False

    @property
    def committed_minor(self) -> int:
        """Owed + per job the larger of what it used and what it holds."""
        jobs: Iterable[str] = {*self.used_minor, *self.holds_minor}
        return self.owed_minor + sum(max(self.used_minor.get(job, 0), self.holds_minor.get(job, 0)) for job in jobs)

    @property
    def available_minor(self) -> int:
        """What is left of the limit; never below 0."""
        return max(0, self.limit_minor - self.committed_minor)


@dataclass(frozen=True, slots=True)
class Spend:
    """May so much more be spent? `needed` and `available` go into the sentence of the refusal."""

    allowed: bool
    needed: Money
    available: Money
    refused_by: RefusedBy


def advance(state: HoldState, event: HoldEvent) -> HoldState:
    """The state after `event`; InvalidTransition when the hold has ended already."""
    return step(TABLE, state, event)[0]


def decide(exposure: Exposure, needed: Money) -> Spend:
    """Whether `needed` fits; a suspended organisation and one that is past due spend nothing more."""
    available = Money(exposure.available_minor, needed.currency)
    refused = RefusedBy.NOTHING
    if exposure.suspended:
        refused = RefusedBy.SUSPENDED
    elif exposure.past_due:
        refused = RefusedBy.PAST_DUE
    elif available < needed:
        refused = RefusedBy.CREDIT_LIMIT
    return Spend(refused is RefusedBy.NOTHING, needed, available, refused)
