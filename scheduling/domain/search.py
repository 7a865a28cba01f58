"""Branch and bound over the tiers: the exact pick and the exact front without looking at every row.

A :class:`Problem` is one request over one table. Groups are opened in the order of their bounds; a group whose bound is worse than what is already
kept is never opened. Bounds are ≤ every row below (``bounds``), equals are opened (`>` and not `>=`), so the result is that of looking at all rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from scheduling.domain import bounds, choice, filters, objectives, pareto
from scheduling.domain.columns import Floats, Ints, Table
from scheduling.domain.request import Paths, Policy, Request
from scheduling.domain.summaries import Level, levels

EPSILON = 1e-9


class Problem:
    """A request over a table, with everything that does not depend on a row worked out once."""

    def __init__(
        self,
        request: Request,
        policy: Policy,
        table: Table,
        paths: Paths,
        *,
        tiers: tuple[Level, ...] | None = None,
        floors: Mapping[str, float] | None = None,
    ) -> None:
        self.request, self.policy, self.table, self.paths = request, policy, table, paths
        self.tiers = levels(table) if tiers is None else tiers
        self.regions = filters.Regions(request, table, paths)
        self.zones = filters.Zones(request, table)
        self.columns = objectives.columns_of(policy)
        self.floors = choice.floors(request, table, paths) if floors is None else dict(floors)
        self.floor = choice.floor_row(self.floors, self.columns)

    def feasible(self, part: slice) -> Ints:
        """Rows of `part` that fit."""
        return filters.kept(self.request, self.table, self.regions, self.zones, part)

    def vectors(self, rows: Ints) -> Floats:
        """Their objective vectors."""
        return objectives.vectors(self.request, self.table, self.regions, rows, self.columns)

    def score(self, vectors: Floats) -> Floats:
        """The number that the pick makes small."""
        return choice.score(vectors, self.policy, self.columns, self.floor)

    def packing(self, rows: Ints) -> Ints:
        """The tie-break."""
        return choice.packing(self.request, self.table, rows)

    def lower(self, tier: Level) -> Floats:
        """Bounds of the groups of a tier; infinite where nothing can fit."""
        low = bounds.lower(self.request, tier, self.regions, self.columns)
        low[~bounds.possible(self.request, tier, self.regions)] = np.inf
        return low


@dataclass(frozen=True)
class Found:
    """Rows and their vectors, in the order of the key; how many groups and rows were opened."""

    rows: Ints
    vectors: Floats
    opened: int
    looked_at: int


def pick(problem: Problem, *, k: int = 8) -> Found:
    """The `k` best rows by the candidate key of a pick that looks at a score or at one column (not knee)."""
    rows = np.zeros(0, dtype=np.int64)
    vectors = np.zeros((0, len(problem.columns)), dtype=np.float64)
    opened = looked_at = 0
    for start, stop, low in _groups(problem):
        if len(rows) >= k:
            worst = float(np.partition(problem.score(vectors), k - 1)[k - 1])
            if low > worst + EPSILON * max(1.0, abs(worst)):
                break
        opened += 1
        looked_at += stop - start
        more = problem.feasible(slice(start, stop))
        if not len(more):
            continue
        rows, vectors = np.concatenate((rows, more)), np.concatenate((vectors, problem.vectors(more)))
        rows, vectors = _best(problem, rows, vectors, k)
    return Found(rows, vectors, opened, looked_at)


def _best(problem: Problem, rows: Ints, vectors: Floats, k: int) -> tuple[Ints, Floats]:
    positions = choice.order(problem.score(vectors), vectors, problem.packing(rows), problem.table.order[rows])[:k]
    return rows[positions], vectors[positions]


def _groups(problem: Problem) -> list[tuple[int, int, float]]:
    """Innermost groups as (start, stop, bound of the score), best first; whole outer groups without a fitting row are dropped at once."""
    inner = problem.tiers[-1]
    alive = np.ones(len(inner), dtype=np.bool_)
    for outer in problem.tiers[:-1]:
        dead = ~bounds.possible(problem.request, outer, problem.regions)
        owner = np.searchsorted(outer.starts, inner.starts, side="right") - 1
        alive &= ~dead[owner]
    low = problem.lower(inner)
    alive &= np.isfinite(low).all(axis=1)
    values = np.full(len(inner), np.inf)
    if alive.any():
        values[alive] = problem.score(low[alive])
    order = np.lexsort((np.arange(len(inner)), values))
    return [(int(inner.starts[g]), int(inner.stops[g]), float(values[g])) for g in order if alive[g]]


FLAT = 65_536
"""Up to this many rows one pass over all of them is quicker than opening groups."""


def front(problem: Problem) -> Found:
    """The exact front, one row per identical vector."""
    return front_flat(problem) if len(problem.table) <= FLAT else front_by_groups(problem)


def front_flat(problem: Problem) -> Found:
    """The front by one look at every row."""
    rows = problem.feasible(slice(0, len(problem.table)))
    vectors = problem.vectors(rows)
    mask = pareto.front(vectors)
    return _distinct(problem, rows[mask], vectors[mask], len(problem.tiers[-1]), len(problem.table))


def front_by_groups(problem: Problem) -> Found:
    """The front without looking at groups whose bound is dominated by a point already found."""
    rows = np.zeros(0, dtype=np.int64)
    vectors = np.zeros((0, len(problem.columns)), dtype=np.float64)
    opened = looked_at = 0
    inner = problem.tiers[-1]
    low = problem.lower(inner)
    alive = np.flatnonzero(np.isfinite(low).all(axis=1))
    scale = np.maximum(low[alive].max(axis=0), 1e-12) if len(alive) else np.ones(len(problem.columns))
    for group in alive[np.argsort((low[alive] / scale).sum(axis=1), kind="stable")]:
        if len(rows) and pareto.worse_than(low[group : group + 1], vectors)[0]:
            continue
        opened += 1
        start, stop = int(inner.starts[group]), int(inner.stops[group])
        looked_at += stop - start
        more = problem.feasible(slice(start, stop))
        if not len(more):
            continue
        rows, vectors = np.concatenate((rows, more)), np.concatenate((vectors, problem.vectors(more)))
        mask = pareto.front(vectors)
        rows, vectors = rows[mask], vectors[mask]
    return _distinct(problem, rows, vectors, opened, looked_at)


def _distinct(problem: Problem, rows: Ints, vectors: Floats, opened: int, looked_at: int) -> Found:
    """One row per vector, in the order of the vectors."""
    kept = choice.unique(vectors, problem.packing(rows), problem.table.order[rows])
    rows, vectors = rows[kept], vectors[kept]
    by_key = np.lexsort((problem.table.order[rows], *vectors.T[::-1]))
    return Found(rows[by_key], vectors[by_key], opened, looked_at)
