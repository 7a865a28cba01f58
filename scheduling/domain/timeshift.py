"""When to start: work that may wait goes to the green, or the cheap, hours.

A *series* has one value per UTC hour (grams of CO₂ per kWh, or a price). A task of J hours may start up to S hours late:

* **contiguous**: the start in 0…S (both included) with the least sum over its J hours;
* **interruptible** (indices of an array, tasks with a checkpoint): the J cheapest hours of the next J + S.

Both are exact. Starts within an hour are looked at too (:func:`best_start`): the sum over a part of an hour counts by its
length, so the least of it lies where the task begins or ends with an hour, or at an end of the window.
Where a series ends, its last week repeats (:func:`repeated`): the same hour of the same weekday is the plainest forecast.

:func:`plan` places many tasks in space and time at once, in order of arrival, under a capacity per zone and hour.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduling.domain.columns import Floats, Ints

HOUR_S = 3_600
WEEK_H = 168


def contiguous(series: Floats, hours: int, slack: int) -> tuple[Floats, Ints]:
    """For every start hour: the least sum over `hours` consecutive hours within `slack` of it, and the delay that
    has it (the earliest of equals). The result is as long as there are whole runs in the series.
    """
    sums = _runs(series, hours)
    best, delay = sums.copy(), np.zeros(len(sums), dtype=np.int64)
    for later in range(1, min(slack, len(sums) - 1) + 1):
        better = np.flatnonzero(sums[later:] < best[: len(sums) - later])
        best[better] = sums[better + later]
        delay[better] = later
    return best, delay


def interruptible(series: Floats, hours: int, slack: int) -> Floats:
    """For every start hour: the sum of the `hours` cheapest of the next `hours` + `slack` hours."""
    _check(series, hours)
    count = len(series) - hours + 1
    window = hours + slack
    padded = np.concatenate((series, np.full(slack, np.inf)))
    seen = np.lib.stride_tricks.sliding_window_view(padded, window)[:count]
    kept: Floats = np.partition(seen, hours - 1, axis=1)[:, :hours].sum(axis=1)
    return kept


def cheapest_hours(series: Floats, hours: int, slack: int) -> Ints:
    """The positions of the `hours` cheapest of the first `hours` + `slack` hours, ascending (the earliest of equals)."""
    _check(series, hours)
    window = series[: hours + slack]
    order = np.argsort(window, kind="stable")[:hours]
    return np.sort(order).astype(np.int64)


def _runs(series: Floats, hours: int) -> Floats:
    _check(series, hours)
    total = np.concatenate(([0.0], np.cumsum(series)))
    runs: Floats = total[hours:] - total[:-hours]
    return runs


def _check(series: Floats, hours: int) -> None:
    if not 1 <= hours <= len(series):
        raise ValueError(f"a task of {hours} hours does not fit into a series of {len(series)}")


def repeated(series: Floats, hours: int) -> Floats:
    """At least `hours` values: beyond its end the last week of the series (all of it, if shorter) comes again."""
    if not len(series):
        raise ValueError("an empty series has no hour to repeat")
    week = series[-WEEK_H:]
    missing = max(0, hours - len(series))
    return np.concatenate((series, np.resize(week, missing)))[: max(hours, len(series))]


@dataclass(frozen=True)
class Start:
    """When to begin: seconds from now, and the mean of the series over the task then and if it began at once."""

    delay_s: int
    mean: float
    mean_now: float

    @property
    def saved(self) -> float:
        """Share of the mean that waiting saves."""
        return 1 - self.mean / self.mean_now if self.mean_now > 0 else 0.0


def best_start(series: Floats, *, into_hour_s: int, duration_s: int, slack_s: int) -> Start:
    """The start within `slack_s` with the least mean. `series[0]` is the hour that runs now, `into_hour_s` of it are over.

    The earliest of equals. The last week repeats where the series ends.
    """
    if not 0 <= into_hour_s < HOUR_S:
        raise ValueError("into_hour_s lies within an hour")
    duration_s, slack_s = max(1, duration_s), max(0, slack_s)
    known = repeated(series, (into_hour_s + slack_s + duration_s) // HOUR_S + 1)
    starts = np.array(breaks(into_hour_s, duration_s, slack_s), dtype=np.int64)
    means = mean_over(known, starts + into_hour_s, duration_s)
    best = int(np.argmin(np.round(means, 9)))
    return Start(int(starts[best]), float(means[best]), float(means[0]))


def cheapest_start(delays: Ints, *, means: Floats | None, factors: Floats | None) -> int:
    """The position of the delay with the least mean × factor (of those that are given); the earliest of equals."""
    value = np.ones(len(delays))
    for part in (means, factors):
        if part is not None:
            value = value * part
    return int(np.argmin(np.round(value / max(float(value[0]), 1e-300), 9)))


def breaks(into: int, duration: int, slack: int) -> list[int]:
    """Delays at which the least can lie: now, the end of the slack, and where a start or an end falls on an hour."""
    on_start = range(-into % HOUR_S, slack + 1, HOUR_S)
    on_end = range(-(into + duration) % HOUR_S, slack + 1, HOUR_S)
    return sorted({0, slack, *on_start, *on_end})


def mean_over(series: Floats, starts_s: Ints, duration_s: int) -> Floats:
    """Mean of the series over `duration_s` from each start (seconds since the first hour began)."""
    total = np.concatenate(([0.0], np.cumsum(series)))
    means: Floats = (
        (_until(series, total, starts_s + duration_s) - _until(series, total, starts_s)) * HOUR_S / duration_s
    )
    return means


def _until(series: Floats, total: Floats, moment_s: Ints) -> Floats:
    hour = moment_s // HOUR_S
    part = (moment_s % HOUR_S) / HOUR_S
    sums: Floats = total[hour] + part * series[np.minimum(hour, len(series) - 1)]
    return sums


# -- many tasks, in space and time ----------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Work:
    """One task of a plan: hour of arrival, whole hours of work, cores (or any unit of capacity), its home zone."""

    arrival: int
    hours: int
    size: float
    home: int
    slack: int


@dataclass(frozen=True)
class Placed:
    """Where and when each task runs (−1 = nowhere), and what that comes to: Σ size × hours × value."""

    zone: Ints
    start: Ints
    carbon: float
    cost: float
    delay_h: float  # mean


def plan(
    work: Sequence[Work],
    carbon: Floats,
    prices: Floats,
    capacity: Floats,
    *,
    carbon_weight: float,
    cost_weight: float,
    wait_weight: float = 0.0,
    may_move: bool = True,
    moving: Floats | None = None,
) -> Placed:
    """Place tasks in order of arrival, each at the free (zone, start within its slack) of least weighted value.

    `carbon` [zone, hour] in g/kWh, `prices` [zone] per unit-hour, `capacity` [zone] units at once, `moving` [home, zone]
    what bringing the data of one unit-hour costs. The value of a place is
    size × (carbon_weight × Σ carbon + cost_weight × hours × (price + moving) + wait_weight × hours × delay). A task for
    which its deadline leaves no free place starts at home as soon as there is room after it.
    """
    zones, end = carbon.shape
    brought = np.zeros((zones, zones)) if moving is None else moving
    total = np.concatenate((np.zeros((zones, 1)), np.cumsum(carbon, axis=1)), axis=1)
    used = np.zeros((zones, end))
    where, when = np.full(len(work), -1, dtype=np.int64), np.full(len(work), -1, dtype=np.int64)
    sums = [0.0, 0.0, 0.0]
    for at in sorted(range(len(work)), key=lambda i: (work[i].arrival, i)):
        one = work[at]
        allowed = range(zones) if may_move else range(one.home, one.home + 1)
        found = _place(
            one,
            list(allowed),
            total,
            prices + brought[one.home],
            used,
            capacity,
            (carbon_weight, cost_weight, wait_weight),
        )
        if found is None:
            found = _late(one, used, capacity)
        if found is None:
            continue
        zone, start = found
        used[zone, start : start + one.hours] += one.size
        where[at], when[at] = zone, start
        sums[0] += one.size * float(total[zone, start + one.hours] - total[zone, start])
        sums[1] += one.size * one.hours * float(prices[zone] + brought[one.home, zone])
        sums[2] += start - one.arrival
    return Placed(where, when, sums[0], sums[1], sums[2] / max(1, int((where >= 0).sum())))


def _place(
    one: Work,
    zones: list[int],
    total: Floats,
    prices: Floats,
    used: Floats,
    capacity: Floats,
    weights: tuple[float, float, float],
) -> tuple[int, int] | None:
    last = min(one.arrival + one.slack, total.shape[1] - 1 - one.hours)
    if last < one.arrival:
        return None
    starts = np.arange(one.arrival, last + 1)
    carbon = total[zones][:, starts + one.hours] - total[zones][:, starts]
    value = weights[0] * carbon + weights[1] * one.hours * prices[zones][:, None]
    value = value + weights[2] * one.hours * (starts - one.arrival)
    over = used[zones, one.arrival : last + one.hours] + one.size > capacity[zones][:, None] + 1e-9
    full = np.lib.stride_tricks.sliding_window_view(over, one.hours, axis=1).any(axis=2)
    value = np.where(full, np.inf, value)
    best = int(np.argmin(value))
    if not np.isfinite(value.flat[best]):
        return None
    row, column = divmod(best, len(starts))
    return zones[row], int(starts[column])


def _late(one: Work, used: Floats, capacity: Floats) -> tuple[int, int] | None:
    free = used[one.home] + one.size <= capacity[one.home] + 1e-9
    for start in range(one.arrival, len(free) - one.hours):
        if free[start : start + one.hours].all():
            return one.home, start
    return None
