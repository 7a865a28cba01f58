"""Money reserved before work begins: against the credit limit, or out of the wallet.

========  ==========  =========================
state     event       becomes
========  ==========  =========================
active    captured    captured (in part or whole)
active    released    released
active    lapsed      expired
========  ==========  =========================

Available = credit limit + own money − what is owed − what is used and not yet invoiced − what active holds still reserve. A hold reserves what its own
job has not yet used, so a running job is counted once. A prepaid tenant has no credit limit: its own money (wallet and hold account) is all there is, and
a hold moves it from the wallet into the hold account.

While a prepaid job runs its hold is renewed, so that it always covers what was used and a window ahead. When not even the next `MARGIN` can be covered,
the job is stopped: what it can still use until its last report is in is paid for.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from fractions import Fraction

from portal.kit.machine import step
from portal.kit.money import MICRO, PPM, Money, currency

WINDOW = timedelta(hours=1)
"""How far ahead a prepaid hold reaches."""
MARGIN = timedelta(minutes=2)
"""Less than this ahead is too little to go on: one report (60 s), one lease (15 s), 30 s to stop, and the watch itself."""


class PayMode(StrEnum):
    """When a tenant pays."""

    PREPAID = "prepaid"
    POSTPAID = "postpaid"


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
    """A hold has no effects outside: what it moves is in the ledger, in the same transaction."""


TABLE: Mapping[tuple[HoldState, HoldEvent], tuple[HoldState, tuple[HoldEffect, ...]]] = {
    (HoldState.ACTIVE, HoldEvent.CAPTURED): (HoldState.CAPTURED, ()),
    (HoldState.ACTIVE, HoldEvent.RELEASED): (HoldState.RELEASED, ()),
    (HoldState.ACTIVE, HoldEvent.LAPSED): (HoldState.EXPIRED, ()),
}


class RefusedBy(StrEnum):
    """What stands against spending more."""

    NOTHING = ""
    CREDIT_LIMIT = "credit_limit"
    BALANCE = "balance"
    BUDGET = "budget"
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
    funds_minor: int = 0  # wallet and hold account
    prepaid: bool = False

    @property
    def committed_minor(self) -> int:
        """Owed + per job the larger of what it used and what it holds."""
        jobs: Iterable[str] = {*self.used_minor, *self.holds_minor}
        return self.owed_minor + sum(max(self.used_minor.get(job, 0), self.holds_minor.get(job, 0)) for job in jobs)

    @property
    def available_minor(self) -> int:
        """What is left of the limit and of one's own money; never below 0."""
        return max(0, self.limit_minor + self.funds_minor - self.committed_minor)


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
        refused = RefusedBy.BALANCE if exposure.prepaid else RefusedBy.CREDIT_LIMIT
    return Spend(refused is RefusedBy.NOTHING, needed, available, refused)


def taxed(net: Money, tax_ppm: int) -> Money:
    """A net amount with its tax, rounded up: what is kept for a bill is never less than the bill."""
    return Money(-(-net.minor * (PPM + tax_ppm) // PPM), net.currency)


def windowed(whole: Money, length: timedelta, window: timedelta = WINDOW) -> Money:
    """The part of a job's highest cost that its first `window` can use, rounded up; all of it if the job is no longer than that."""
    if length <= window:
        return whole
    return Money(-(-whole.minor * window // length), whole.currency)


def ahead(hour_micro: int, length: timedelta, code: str, tax_ppm: int) -> Money:
    """What `length` costs at `hour_micro` (micro-currency an hour, net), tax included, rounded up to whole minor units."""
    hours = Fraction(length // timedelta(microseconds=1), 3_600_000_000)
    minor = Fraction(hour_micro * (PPM + tax_ppm), PPM) * hours * 10 ** currency(code).exponent / MICRO
    return Money(-(-minor.numerator // minor.denominator), code)


@dataclass(frozen=True, slots=True)
class Renewal:
    """What becomes of a running job's hold: its new amount, or the end of the job."""

    amount: Money
    stop: bool


def renew(*, used: Money, held: Money, free: Money, hour_micro: int, left: timedelta, tax_ppm: int) -> Renewal:
    """How much a running prepaid job holds from now on.

    `used`: what it used and no invoice has; `held`: what it holds now; `free`: what the tenant could still commit; `left`: of its longest time. It asks for
    a whole window, takes what there is, and is stopped when that does not even cover `MARGIN`.
    """
    code = used.currency
    wanted = used + ahead(hour_micro, min(WINDOW, max(left, timedelta())), code, tax_ppm)
    if wanted <= held:
        return Renewal(held, False)
    reach = Money(max(held.minor, used.minor) + free.minor, code)
    amount = wanted if wanted <= reach else reach
    least = used + ahead(hour_micro, min(MARGIN, max(left, timedelta())), code, tax_ppm)
    return Renewal(Money(max(amount.minor, held.minor), code), amount < least)
