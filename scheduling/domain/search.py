"""Branch and bound over the tiers: the exact pick and the exact front without looking at every row.

A :class:`Problem` is one request over one table. Both searches go from the outermost tier inwards, however many there
are: the groups that survive a tier are replaced by their inner groups, at last by rows. A group is dropped when its bound
says that no row of it can matter; bounds are ≤ every row below (``bounds``) and equals are kept, so the result is that of
looking at all rows.

* *pick*: the outer tiers are replaced at once while that makes few groups; from there on groups are followed inwards in
  the order of their bounds, in growing batches, so that the score to beat is found early and most groups never are.
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
AT_ONCE = 32_768
"""While a tier has no more inner groups than this, all of them are looked at together."""
FIRST_GROUPS = 4
"""A score to beat comes from so many of the best cells."""
MORE_GROUPS, MORE_ROWS, GROWTH = 64, 4_000, 4
"""Then so many groups, or rows, are looked at together, and more with each batch."""


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
        self.pending = paths.pending  # as it was: a cycle goes on adding to it
        self.tiers = levels(table) if tiers is None else tiers
        self.regions = filters.Regions(request, table, paths)
        self.zones = filters.Zones(request, table)
        self.columns = objectives.columns_of(policy)
        self.floors = choice.floors(request, self.tiers[0], paths) if floors is None else dict(floors)
        self.floor = choice.floor_row(self.floors, self.columns)
        self.weights = choice.weight_row(policy, self.columns)

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
        return choice.score(vectors, self.weights, self.floor)

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
        self.able, self.followed = [0] * len(problem.tiers), [0] * len(problem.tiers)
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
    cells = _cells_of_kinds(problem)
    if cells is not None:
        _follow(best, len(problem.tiers) - 1, cells)
    elif len(problem.table):
        depth = max([number for number, tier in enumerate(problem.tiers) if len(tier) <= AT_ONCE], default=0)
        _follow(best, depth, None)
    looked = tuple(
        Looked(tier.name, able, able - followed)
        for tier, able, followed in zip(problem.tiers, best.able, best.followed, strict=True)
    )
    return Found(best.rows, best.vectors, best.opened, best.looked_at, looked)


def _cells_of_kinds(problem: Problem) -> Ints | None:
    """All cells of the kinds of cards that are asked for by name, if they are not too many to look at together.

    A cell holds one kind, the groups around it all kinds: their bounds would mix the speed of one with the price of another.
    """
    names = {card.model for card in problem.request.cards}
    if not names or "" in names or any(card.virtual for card in problem.request.cards):
        return None
    kinds = [problem.table.models.index(name) for name in names if name in problem.table.models]
    found = [problem.tiers.cells_of_kind[kind] for kind in kinds]
    if sum(len(cells) for cells in found) > AT_ONCE:
        return None
    return np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *found]))


def _follow(best: _Best, depth: int, groups: Ints | None) -> None:
    """Follow groups of a tier (None = all) inwards, best bounds first, as long as they may hold something better."""
    tier = best.problem.tiers[depth]
    groups, scores = _scored(best.problem, tier, groups)
    best.able[depth] += len(groups)
    if best.limit == np.inf and len(groups):
        _dive(best, depth, groups, scores)
    last, at_once = tier is best.problem.tiers[-1], MORE_ROWS if depth == len(best.able) - 1 else MORE_GROUPS
    left = np.flatnonzero(scores <= best.limit)
    left = left[np.argsort(scores[left], kind="stable")]
    while len(left):
        batch = groups[left]
        if last:
            batch = batch[: max(1, int(np.searchsorted(np.cumsum(tier.stops[batch] - tier.starts[batch]), at_once)))]
            best.open(batch)
        else:
            batch = batch[:at_once]
            _follow(best, depth + 1, spans(tier.inner[batch], tier.inner_stops[batch]))
        best.followed[depth] += len(batch)
        left = left[len(batch) :]
        left = left[scores[left] <= best.limit]
        at_once *= GROWTH


def _scored(problem: Problem, tier: Level, groups: Ints | None) -> tuple[Ints, Floats]:
    """Those groups that may hold a row that fits, and the scores of their bounds."""
    able = np.flatnonzero(problem.possible(tier, slice(None) if groups is None else groups)).astype(np.int64)
    if len(able) == len(tier):
        return able, problem.score(problem.lower(tier))
    kept: Ints = able if groups is None else groups[able]
    return kept, problem.score(problem.lower(tier, kept))


def _dive(best: _Best, depth: int, groups: Ints, scores: Floats) -> None:
    """Straight down from the best few groups to the best few cells, for a score to beat."""
    tiers = best.problem.tiers
    few = _nearest(groups, scores)
    for tier, inner in zip(tiers[depth:], tiers[depth + 1 :], strict=False):
        few = _nearest(*_scored(best.problem, inner, spans(tier.inner[few], tier.inner_stops[few])))
    if len(few):
        best.open(few)


def _nearest(groups: Ints, scores: Floats) -> Ints:
    first = min(len(groups), FIRST_GROUPS)
    return groups[np.argpartition(scores, first - 1)[:first]] if first else groups
