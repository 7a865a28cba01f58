"""A gang: k nodes of one zone, or none. It takes as long as its slowest node and costs as much as all of them together.

Exact for (time, cost): in each zone the rows are swept by time; at each of them the k cheapest seen so far are the best set that is no slower, held in a
heap. Sets of all zones that no other beats in both stand for the choice; the policy's own wish decides, ties end with the zone's name and the rows.

| pick | takes the set with |
|---|---|
| cheapest · fastest | least cost · least time |
| weights | least Σ w ln(v) over time and cost |
| knee, ask, greenest | the greatest distance from the line through both minima, in logs |
"""

from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heappush, heapreplace

import numpy as np

from scheduling.domain import pareto
from scheduling.domain.columns import Floats, Ints, Table
from scheduling.domain.demand import Objective, Pick
from scheduling.domain.request import Paths, Policy, Request
from scheduling.domain.search import Problem
from scheduling.domain.summaries import Summaries

TINY = 1e-12


@dataclass(frozen=True)
class Set:
    """k rows of one zone, by rank: the slowest's time in seconds, sum of costs."""

    time: float
    cost: float
    zone: tuple[str, str]
    rows: tuple[int, ...]


def choose(
    request: Request, policy: Policy, table: Table, paths: Paths, *, size: int, tiers: Summaries | None = None
) -> Set | None:
    """The nodes of a gang of `size`, by rank; None if no zone has so many that fit."""
    problem = Problem(request, _both(policy), table, paths, tiers=tiers)
    rows = problem.feasible(slice(0, len(table)))
    if len(rows) < size:
        return None
    columns = list(problem.columns)
    vectors = problem.vectors(rows)
    times, costs = vectors[:, columns.index(Objective.TIME)], vectors[:, columns.index(Objective.COST)]
    zones = table.zone_of(rows)
    found: list[Set] = []
    for zone in np.unique(zones):
        mine = np.flatnonzero(zones == zone)
        found += _sweep(table, rows[mine], times[mine], costs[mine], table.zones[int(zone)], size)
    return _pick(found, policy) if found else None


def _both(policy: Policy) -> Policy:
    wanted = dict.fromkeys((*policy.optimize, Objective.TIME.value, Objective.COST.value))
    return Policy(tuple(wanted), Pick.KNEE, {}, "", policy.version)


def _sweep(table: Table, rows: Ints, times: Floats, costs: Floats, zone: tuple[str, str], size: int) -> list[Set]:
    """The best sets of one zone: for each time, the cheapest that is no slower; each node once, by its cheapest row."""
    kept: list[tuple[float, int]] = []  # (-cost, -row): the dearest of the kept stands first
    seen: set[str] = set()
    sets: list[Set] = []
    for place in np.lexsort((rows, costs, times)):
        node, cost, row = table.rows[int(rows[place])].node, float(costs[place]), int(rows[place])
        if node in seen:
            continue
        seen.add(node)
        if len(kept) < size:
            heappush(kept, (-cost, -row))
        elif cost < -kept[0][0]:
            heapreplace(kept, (-cost, -row))
        else:
            continue
        if len(kept) == size:
            total = -sum(cost_ for cost_, _ in kept)
            if not sets or total < sets[-1].cost:
                sets.append(Set(float(times[place]), total, zone, tuple(sorted(-row_ for _, row_ in kept))))
    return sets


def _pick(found: list[Set], policy: Policy) -> Set:
    ordered = sorted(found, key=lambda one: (one.time, one.cost, one.zone, one.rows))
    if policy.pick == Pick.FASTEST:
        return ordered[0]
    if policy.pick == Pick.CHEAPEST:
        return min(ordered, key=lambda one: (one.cost, one.time))
    vectors = np.array([[one.time, one.cost] for one in ordered], dtype=np.float64)
    mask = pareto.front(vectors)
    front = [one for one, on_it in zip(ordered, mask, strict=True) if on_it]
    if policy.pick == Pick.WEIGHTS:
        return min(front, key=lambda one: (_score(one, policy.weights), one.time))
    sums = np.round(pareto.bends(vectors[mask], np.array([TINY, TINY])), 9)
    return front[int(np.argmin(sums))]


def _score(one: Set, weights: Mapping[str, float]) -> float:
    values = {Objective.TIME.value: one.time, Objective.COST.value: one.cost}
    return float(sum(weights.get(name, 0.0) * np.log(value + TINY) for name, value in values.items()))


def zone_short(request: Request, table: Table, paths: Paths, policy: Policy, *, size: int) -> tuple[int, int]:
    """Why not: how many zones have a node that fits, and the most nodes that fit in one of them."""
    problem = Problem(request, policy, table, paths)
    rows = problem.feasible(slice(0, len(table)))
    zones = table.zone_of(rows)
    counts = [len({table.rows[int(row)].node for row in rows[zones == zone]}) for zone in np.unique(zones)]
    return len(counts), max(counts, default=0)
