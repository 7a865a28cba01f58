"""What a place costs a task, as numbers to make small: a row's vector.

| objective | of a row |
|---|---|
| cost | micro-currency: price per hour × how long the job takes there + transfer |
| time | seconds from now to the end: start, waiting, staging, the job |
| green | brown share, 1 − renewable; an unknown share counts as all brown |
| transfer | micro-currency: bytes × price per GB of each link |
| risk | expected failures of the node while the job runs |
| latency | round trip in µs from the region the job names; unknown counts as the worst |

Risk and latency are not columns that a job spec can name: outwardly they are limits.

Amounts that are shown or stored come from :func:`amounts`, in whole numbers; these floats only rank.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from portal.kit.money import half_up
from scheduling.domain import filters
from scheduling.domain.columns import ABSENT, GREEN_WHOLE, PPM_PER_GREEN, Column, Floats, Ints, Part, Table
from scheduling.domain.demand import Objective, Pick
from scheduling.domain.filters import Regions
from scheduling.domain.request import Policy, Request

PRIMARY = {Pick.CHEAPEST: Objective.COST, Pick.FASTEST: Objective.TIME, Pick.GREENEST: Objective.GREEN}
"""The column that a simple pick puts first."""


RISK, LATENCY = "risk", "latency"
COLUMNS = (*(str(objective.value) for objective in Objective), RISK, LATENCY)
RISK_HOURS = 100_000
"""The column counts failures in so many hours."""
FAR_US = 10**9


def columns_of(policy: Policy) -> tuple[str, ...]:
    """The columns of the front, in order: the pick's own first, then `optimize`, then weighted ones not named there."""
    first = [PRIMARY[Pick(policy.pick)]] if policy.pick in PRIMARY else []
    weighted = sorted(name for name, weight in policy.weights.items() if weight > 0)
    named = tuple(dict.fromkeys(str(name) for name in [*first, *policy.optimize, *weighted]))
    unknown = [name for name in named if name not in COLUMNS]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is not an objective: use some of {', '.join(COLUMNS)}")
    return named


def vectors(request: Request, table: Table, regions: Regions, rows: Part, columns: tuple[str, ...]) -> Floats:
    """One row per entry of `rows`, one column per objective."""
    near = bool(table.regions) and not regions.moves and LATENCY not in columns  # no column depends on the region
    region = np.zeros(1, dtype=np.int64) if near else filters.region_of(table, rows)
    work = filters.duration(request, filters.scu(request, table, rows))
    parts = Parts(
        hour_nano=filters.hour_nano(request, table, rows),
        work_s=work,
        queue_s=table.queue[rows],
        green=np.maximum(filters.known_green(table, rows), 0),
        risk=table.risk[rows],
        transfer=regions.transfer[region],
        staging=regions.staging[region],
        latency=regions.latency[region],
    )
    return measured(request, parts, columns)


@dataclass(frozen=True)
class Parts:
    """What a vector is made from, of rows or (the best of each) of groups."""

    hour_nano: Ints
    work_s: Floats
    queue_s: Column
    green: Ints
    risk: Column
    transfer: Floats
    staging: Floats
    latency: Ints


def measured(request: Request, parts: Parts, columns: tuple[str, ...]) -> Floats:
    """The columns, in the same operations for rows and for bounds, so that what is better in all parts is never worse here."""
    made = np.empty((len(parts.work_s), len(columns)), dtype=np.float64)
    for number, name in enumerate(columns):
        made[:, number] = _MEASURED[name](request, parts)
    return made


def _cost(request: Request, parts: Parts) -> Floats:
    cost: Floats = parts.hour_nano * np.minimum(parts.work_s, request.max_duration_s) / 3.6e6 + parts.transfer
    return cost


def _time(request: Request, parts: Parts) -> Floats:
    time: Floats = filters.START_S + parts.queue_s + parts.staging + parts.work_s
    return time


def _brown(request: Request, parts: Parts) -> Floats:
    brown: Floats = (GREEN_WHOLE - parts.green) / GREEN_WHOLE
    return brown


def _transfer(request: Request, parts: Parts) -> Floats:
    return parts.transfer


def _risk(request: Request, parts: Parts) -> Floats:
    failures: Floats = parts.risk * np.minimum(parts.work_s, request.max_duration_s) / (3_600.0 * RISK_HOURS)
    return failures


def _latency(request: Request, parts: Parts) -> Floats:
    return np.where(parts.latency == ABSENT, FAR_US, parts.latency).astype(np.float64)


_MEASURED: Mapping[str, Callable[[Request, Parts], Floats]] = {
    Objective.COST.value: _cost,
    Objective.TIME.value: _time,
    Objective.GREEN.value: _brown,
    Objective.TRANSFER.value: _transfer,
    RISK: _risk,
    LATENCY: _latency,
}


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
    part = np.array([row], dtype=np.int64)
    nano = int(filters.hour_nano(request, table, part)[0])
    power = filters.scu(request, table, part)
    whole_s = int(np.ceil(filters.duration(request, power)[0]))
    work_s = min(whole_s, request.max_duration_s)
    region = int(filters.region_of(table, part)[0])
    transfer = regions.transfer_exact(region)
    known = request.work_micro is not None and bool(power[0] > 0)
    low_s = work_s * 4 // 5 if known or request.expected_s is not None else 0
    green = int(filters.known_green(table, part)[0])
    waiting = filters.START_S + float(table.queue[row]) + float(regions.staging[region])
    return Amounts(
        hour_nano=nano,
        transfer_micro=half_up(transfer),
        low_micro=_total(nano, low_s, transfer),
        expected_micro=_total(nano, work_s, transfer),
        high_micro=_total(nano, request.max_duration_s, transfer),
        expected_s=work_s,
        time_s=int(np.ceil(waiting)) + whole_s,
        green_ppm=None if green == ABSENT else green * PPM_PER_GREEN,
        scu=float(power[0]),
        cards=int(filters.card_count(request, table, part)[0]),
    )


def _total(nano: int, seconds: int, transfer: Fraction) -> int:
    return half_up(Fraction(nano * seconds, 3_600_000) + transfer)
