"""Branch and bound over the tiers: the exact pick and the exact front without looking at every row.

A :class:`Problem` is one request over one table. Both searches go from the outermost tier inwards, however many there
are: the groups that survive a tier are replaced by their inner groups, at last by rows. A group is dropped when its bound
says that no row of it can matter; bounds are ≤ every row below (``bounds``) and equals are kept, so the result is that of
looking at all rows.

* *pick*: first straight down to the most promising cells, for a score to beat; then tier by tier everything that might
  beat it.
* *front* (``frontier``): groups that a point already found dominates are dropped.

:class:`Found` says how much was looked at in each tier and how much a bound cut.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from scheduling.domain import bounds, choice, filters, objectives
from scheduling.domain.columns import Bools, Floats, Ints, Part, Table, spans
from scheduling.domain.kernels import Kernels
from scheduling.domain.request import Paths, Policy, Request
from scheduling.domain.summaries import Level, Summaries, levels

EPSILON = 1e-9
ROWS_AT_ONCE = 2_048
"""A pick opens cells in runs of about so many rows, and looks again at the score to beat after each."""
NARROW = 4
"""The first way down follows so many of the best groups of each tier."""


class Problem:
    """A request over a table, with everything that does not depend on a row worked out once."""

    def __init__(
        self,
        request: Request,
        policy: Policy,
        table: Table,
        paths: Paths,
        *,
        tiers: Summaries | None = None,
        floors: Mapping[str, float] | None = None,
    ) -> None:
        self.request, self.policy, self.table, self.paths = request, policy, table, paths
        self.tiers = levels(table) if tiers is None else tiers
        self.regions = filters.Regions(request, table, paths)
        self.zones = filters.Zones(request, table)
        self.columns = objectives.columns_of(policy)
        self.floors = choice.floors(request, self.tiers[0], paths) if floors is None else dict(floors)
        self.floor = choice.floor_row(self.floors, self.columns)

    @property
    def kernels(self) -> Kernels:
        """The loops of the backend."""
        return self.tiers.kernels

    def feasible(self, part: Part) -> Ints:
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

    def possible(self, tier: Level, part: Part = slice(None)) -> Bools:
        """Groups of a tier that may hold a row that fits."""
        return bounds.possible(self.request, tier, self.regions, self.table.models, part)

    def lower(self, tier: Level, part: Part = slice(None)) -> Floats:
        """Bounds of groups of a tier."""
        return bounds.lower(self.request, tier, self.regions, self.columns, part)


@dataclass(frozen=True)
class Looked:
    """One tier of a search: groups that could hold a fitting row, and how many of them a bound cut."""

    tier: str
    groups: int
    cut: int


@dataclass(frozen=True)
class Found:
    """Rows and their vectors, in the order of the key; how many groups and rows were opened."""

    rows: Ints
    vectors: Floats
    opened: int
    looked_at: int
    tiers: tuple[Looked, ...] = ()


class _Best:
    """The best rows so far by the candidate key, and the score to beat."""

    def __init__(self, problem: Problem, k: int) -> None:
        self.problem, self.k = problem, k
        self.rows = np.zeros(0, dtype=np.int64)
        self.vectors = np.zeros((0, len(problem.columns)), dtype=np.float64)
        self.limit = np.inf
        self.seen: set[int] = set()
        self.opened = self.looked_at = 0

    def open(self, cells: Ints) -> None:
        """Look at all rows of some cells, once."""
        inner = self.problem.tiers[-1]
        if self.seen:
            cells = np.array([cell for cell in cells.tolist() if cell not in self.seen], dtype=np.int64)
        self.seen.update(cells.tolist())
        rows = spans(inner.starts[cells], inner.stops[cells])
        self.opened, self.looked_at = self.opened + len(cells), self.looked_at + len(rows)
        rows = self.problem.feasible(rows)
        if not len(rows):
            return
        vectors = self.problem.vectors(rows)
        scores = self.problem.score(vectors)
        good = np.flatnonzero(scores <= self.limit)
        if not len(good):
            return
        if len(good) > 4 * self.k:
            nearest = scores[good[np.argpartition(scores[good], self.k - 1)[: self.k]]].max()
            good = good[scores[good] <= _loose(float(nearest))]
        rows, vectors = np.concatenate((self.rows, rows[good])), np.concatenate((self.vectors, vectors[good]))
        scores = self.problem.score(vectors)
        positions = choice.order(scores, vectors, self.problem.packing(rows), self.problem.table.rank_of(rows))[
            : self.k
        ]
        self.rows, self.vectors = rows[positions], vectors[positions]
        if len(positions) == self.k:
            self.limit = _loose(float(scores[positions].max()))


def _loose(score: float) -> float:
    """Equals, up to the digits that the key compares, must still be looked at."""
    return score + EPSILON * max(1.0, abs(score))


def pick(problem: Problem, *, k: int = 8) -> Found:
    """The `k` best rows by the candidate key of a pick that looks at a score or at one column (not knee)."""
    best = _Best(problem, k)
    if not len(problem.table):
        return Found(best.rows, best.vectors, 0, 0)
    looked: list[Looked] = []
    groups, scores = _top(problem)
    for outer, tier in zip(problem.tiers, [*problem.tiers[1:], None], strict=True):
        if best.limit == np.inf and len(groups):
            best.open(_down(problem, outer, groups, scores))
        able = len(groups)
        groups, scores = groups[scores <= best.limit], scores[scores <= best.limit]
        looked.append(Looked(outer.name, able, able - len(groups)))
        if tier is not None:
            groups, scores = _inside(problem, tier, spans(outer.inner[groups], outer.inner_stops[groups]))
    order = np.argsort(scores, kind="stable")
    _open_in_order(problem, best, groups[order], scores[order])
    return Found(best.rows, best.vectors, best.opened, best.looked_at, tuple(looked))


def _top(problem: Problem) -> tuple[Ints, Floats]:
    return _inside(problem, problem.tiers[0], None)


def _inside(problem: Problem, tier: Level, groups: Ints | None) -> tuple[Ints, Floats]:
    """Those of `groups` (None = all of the tier) that may hold a row that fits, and the scores of their bounds."""
    part: Part = slice(None) if groups is None or len(groups) == len(tier) else groups
    able = np.flatnonzero(problem.possible(tier, part)).astype(np.int64)
    if len(able) == len(tier):
        return able, problem.score(problem.lower(tier))
    kept: Ints = able if isinstance(part, slice) else part[able]
    return kept, problem.score(problem.lower(tier, kept))


def _down(problem: Problem, tier: Level, groups: Ints, scores: Floats) -> Ints:
    """The cells that lie below the best groups, by the best bounds of every tier on the way."""
    for inner in problem.tiers[_depth(problem, tier) + 1 :]:
        few = groups[np.argsort(scores, kind="stable")[:NARROW]]
        groups, scores = _inside(problem, inner, spans(tier.inner[few], tier.inner_stops[few]))
        tier = inner
    return groups[np.argsort(scores, kind="stable")[:NARROW]]


def _depth(problem: Problem, tier: Level) -> int:
    return next(number for number, one in enumerate(problem.tiers) if one is tier)


def _open_in_order(problem: Problem, best: _Best, cells: Ints, scores: Floats) -> None:
    """Open cells, the best bound first, until the bounds are worse than what is kept."""
    inner, done = problem.tiers[-1], 0
    sizes = np.cumsum(inner.stops[cells] - inner.starts[cells])
    while done < len(cells) and scores[done] <= best.limit:
        seen = int(sizes[done - 1]) if done else 0
        stop = max(done + 1, int(np.searchsorted(sizes, seen + ROWS_AT_ONCE, side="right")))
        some = cells[done:stop][scores[done:stop] <= best.limit]
        done = stop
        best.open(some)
