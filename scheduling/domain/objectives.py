"""What a place costs a task, as numbers to make small: a row's vector.

| objective | of a row |
|---|---|
| cost | micro-currency: price per hour × how long the job takes there + transfer |
| time | seconds from now to the end: start, waiting, staging, the job |
| green | brown share, 1 − renewable; an unknown share counts as all brown |
| transfer | micro-currency: bytes × price per GB of each link |

Amounts that are shown or stored come from :func:`amounts`, in whole numbers; these floats only rank.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from portal.kit.money import half_up
from scheduling.domain import filters
from scheduling.domain.columns import ABSENT, Floats, Ints, Table
from scheduling.domain.demand import Objective, Pick
from scheduling.domain.filters import MICRO, Regions
from scheduling.domain.request import Policy, Request

PRIMARY = {Pick.CHEAPEST: Objective.COST, Pick.FASTEST: Objective.TIME, Pick.GREENEST: Objective.GREEN}
"""The column that a simple pick puts first."""


def columns_of(policy: Policy) -> tuple[str, ...]:
    """The columns of the front, in order: the pick's own first, then `optimize`, then weighted ones not named there."""
    first = [PRIMARY[Pick(policy.pick)]] if policy.pick in PRIMARY else []
    weighted = sorted(name for name, weight in policy.weights.items() if weight > 0)
    return tuple(dict.fromkeys(str(Objective(name).value) for name in [*first, *policy.optimize, *weighted]))


def vectors(request: Request, table: Table, regions: Regions, rows: Ints, columns: tuple[str, ...]) -> Floats:
    """One row per entry of `rows` (ascending), one column per objective."""
    if not len(rows):
        return np.zeros((0, len(columns)), dtype=np.float64)
    part = slice(int(rows[0]), int(rows[-1]) + 1)
    inside = rows - part.start
    region = table.region[rows]
    work = filters.duration(request, filters.scu(request, table, part)[inside])
    nano = filters.hour_nano(request, table, part)[inside]
    transfer = regions.transfer[region]
    made: dict[str, Floats] = {
        Objective.COST: _cost(nano.astype(np.float64), np.minimum(work, request.max_duration_s)) + transfer,
        Objective.TIME: _waiting(table.queue[rows], regions.staging[region]) + work,
        Objective.GREEN: _brown(table.green[rows]),
        Objective.TRANSFER: transfer,
    }
    return np.column_stack([made[name] for name in columns])


def _cost(nano_per_hour: Floats, work_s: Floats) -> Floats:
    return nano_per_hour * work_s / 3.6e6


def _waiting(queue: Ints, staging: Floats) -> Floats:
    waiting: Floats = filters.START_S + queue + staging
    return waiting


def _brown(green: Ints) -> Floats:
    brown: Floats = (MICRO - np.maximum(green, 0)) / MICRO
    return brown


@dataclass(frozen=True)
class Amounts:
    """Exact figures of one place, in whole numbers: micro-currency and seconds."""

    hour_nano: int
    transfer_micro: int
    low_micro: int
    expected_micro: int
    high_micro: int
    expected_s: int
    time_s: int
    green_ppm: int | None
    scu: float
    cards: int

    @property
    def hour_micro(self) -> int:
        """Price per hour in micro-currency, rounded up so that it is a sufficient cap."""
        return -(-self.hour_nano // 1_000)


def amounts(request: Request, table: Table, regions: Regions, row: int) -> Amounts:
    """Low, expected and high cost of one row: high = price × max_duration + transfer, from whole numbers, each
    rounded once.
    """
    part = slice(row, row + 1)
    nano = int(filters.hour_nano(request, table, part)[0])
    power = filters.scu(request, table, part)
    whole_s = int(np.ceil(filters.duration(request, power)[0]))
    work_s = min(whole_s, request.max_duration_s)
    region = int(table.region[row])
    transfer = regions.transfer_exact[region]
    known = request.work_micro is not None and bool(power[0] > 0)
    low_s = work_s * 4 // 5 if known or request.expected_s is not None else 0
    green = int(table.green[row])
    waiting = filters.START_S + float(table.queue[row]) + float(regions.staging[region])
    return Amounts(
        hour_nano=nano,
        transfer_micro=half_up(transfer),
        low_micro=_total(nano, low_s, transfer),
        expected_micro=_total(nano, work_s, transfer),
        high_micro=_total(nano, request.max_duration_s, transfer),
        expected_s=work_s,
        time_s=int(np.ceil(waiting)) + whole_s,
        green_ppm=None if green == ABSENT else green,
        scu=float(power[0]),
        cards=int(filters.card_count(request, table, part)[0]),
    )


def _total(nano: int, seconds: int, transfer: Fraction) -> int:
    return half_up(Fraction(nano * seconds, 3_600_000) + transfer)
