"""The exact front by tiers: what a point already found dominates is not opened.

1. A few points to begin with: the rows of the cells whose bounds are nearest to the ideal.
2. Tier by tier: groups whose bound is dominated go, the others are replaced by their inner groups.
3. The cells that are left are opened in the order of their bounds, in growing runs; after each the points become the front
   of all that was seen, and the remaining bounds are compared with it anew.

One row stands for all rows with the same vector: the one that the tie-break prefers. Dominance is compared exactly, so a
group that is only *equal* to a point in its best corner is opened: its row may win the tie.
"""

import numpy as np

from scheduling.domain import choice
from scheduling.domain.columns import Bools, Floats, Ints, spans
from scheduling.domain.search import Found, Looked, Problem
from scheduling.domain.summaries import Level

FLAT = 2_048
"""Up to this many rows one pass over all of them is quicker than opening groups."""
SEEDS = 16
FIRST_ROWS, MOST_ROWS = 4_096, 262_144


def front(problem: Problem) -> Found:
    """The exact front, one row per identical vector."""
    return front_flat(problem) if len(problem.table) <= FLAT else front_by_groups(problem)


def front_flat(problem: Problem) -> Found:
    """The front by one look at every row."""
    rows = problem.feasible(slice(0, len(problem.table)))
    vectors = problem.vectors(rows)
    mask = problem.kernels.front(vectors)
    seen = _Seen(problem)
    seen.opened, seen.looked_at = len(problem.tiers[-1]), len(problem.table)
    return seen.found(rows[mask], vectors[mask])


class _Seen:
    """The points so far, and what was looked at for them."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.rows = np.zeros(0, dtype=np.int64)
        self.vectors = np.zeros((0, len(problem.columns)), dtype=np.float64)
        self.opened = self.looked_at = 0
        self.tiers: list[Looked] = []

    def open(self, cells: Ints) -> None:
        """Look at all rows of some cells and keep the front of what has been seen."""
        inner, kernels = self.problem.tiers[-1], self.problem.kernels
        rows = spans(inner.starts[cells], inner.stops[cells])
        self.opened, self.looked_at = self.opened + len(cells), self.looked_at + len(rows)
        rows = self.problem.feasible(rows)
        if not len(rows):
            return
        vectors = self.problem.vectors(rows)
        good = ~kernels.worse_than(vectors, self.vectors)
        rows, vectors = self._distinct(rows[good], vectors[good])
        mask = kernels.front(vectors)
        rows, vectors = rows[mask], vectors[mask]
        stay = ~kernels.worse_than(self.vectors, vectors)
        self.rows, self.vectors = self._distinct(
            np.concatenate((self.rows[stay], rows)), np.concatenate((self.vectors[stay], vectors))
        )
        by_strength = np.argsort(self._sums(self.vectors), kind="stable")
        self.rows, self.vectors = self.rows[by_strength], self.vectors[by_strength]

    def _distinct(self, rows: Ints, vectors: Floats) -> tuple[Ints, Floats]:
        """One row per vector, the one that the tie-break prefers: equal offers must not make the points many."""
        if len(rows) < 2:
            return rows, vectors
        marks = _marks(vectors)
        if len(np.unique(marks)) == len(marks):
            return rows, vectors
        kept = choice.unique(vectors, self.problem.packing(rows), self.problem.table.rank_of(rows))
        return rows[kept], vectors[kept]

    def _sums(self, vectors: Floats) -> Floats:
        """Smaller = dominates more, roughly."""
        scale = np.maximum(self.vectors.max(axis=0), 1e-12) if len(self.vectors) else 1.0
        sums: Floats = (vectors / scale).sum(axis=1)
        return sums

    def cut(self, lows: Floats) -> Bools:
        """Groups that need not be looked at."""
        dominated: Bools = self.problem.kernels.worse_than(lows, self.vectors)
        return dominated

    def found(self, rows: Ints, vectors: Floats) -> Found:
        """One row per vector, in the order of the vectors."""
        problem = self.problem
        kept = choice.unique(vectors, problem.packing(rows), problem.table.rank_of(rows))
        rows, vectors = rows[kept], vectors[kept]
        by_key = np.lexsort((problem.table.rank_of(rows), *vectors.T[::-1]))
        return Found(rows[by_key], vectors[by_key], self.opened, self.looked_at, tuple(self.tiers))


def _marks(vectors: Floats) -> "np.ndarray[tuple[int, ...], np.dtype[np.uint64]]":
    """A number per vector, the same for equal vectors (and hardly ever for others)."""
    bits = (np.ascontiguousarray(vectors) + 0.0).view(np.uint64)  # -0.0 and 0.0 are equal
    marks = np.zeros(len(vectors), dtype=np.uint64)
    for column in range(vectors.shape[1]):
        marks = (marks ^ (marks >> np.uint64(29)) ^ bits[:, column]) * np.uint64(0x9E3779B97F4A7C15)
    return marks


def front_by_groups(problem: Problem) -> Found:
    """The front without looking at groups whose bound is dominated by a point already found."""
    seen = _Seen(problem)
    if not len(problem.table):
        return seen.found(seen.rows, seen.vectors)
    groups, begun = np.arange(len(problem.tiers[0]), dtype=np.int64), np.zeros(0, dtype=np.int64)
    lows = np.zeros((0, len(problem.columns)))
    for outer, tier in zip([None, *problem.tiers], problem.tiers, strict=False):
        if outer is not None:
            groups = spans(outer.inner[groups], outer.inner_stops[groups])
        groups = groups[problem.possible(tier, groups)]
        lows = problem.lower(tier, groups)
        if not len(begun) and len(groups):
            begun = _nearest_cells(problem, tier, groups, lows)
            seen.open(begun)
        cut = seen.cut(lows)
        seen.tiers.append(Looked(tier.name, len(groups), int(np.count_nonzero(cut))))
        groups, lows = groups[~cut], lows[~cut]
    fresh = ~np.isin(groups, begun)
    _open_in_order(seen, groups[fresh], lows[fresh])
    return seen.found(seen.rows, seen.vectors)


def _nearest_cells(problem: Problem, tier: Level, groups: Ints, lows: Floats) -> Ints:
    """Cells below the groups whose bounds are nearest to the ideal."""
    for inner in [*problem.tiers[_depth(problem, tier) + 1 :], None]:
        few = groups[np.argsort(_nearness(lows), kind="stable")[:SEEDS]]
        if inner is None:
            return few
        groups = spans(tier.inner[few], tier.inner_stops[few])
        groups = groups[problem.possible(inner, groups)]
        lows, tier = problem.lower(inner, groups), inner
    return groups


def _depth(problem: Problem, tier: Level) -> int:
    return next(number for number, one in enumerate(problem.tiers) if one is tier)


def _nearness(lows: Floats) -> Floats:
    if not len(lows):
        return np.zeros(0)
    low, high = lows.min(axis=0), lows.max(axis=0)
    sums: Floats = ((lows - low) / np.where(high > low, high - low, 1.0)).sum(axis=1)
    return sums


def _open_in_order(seen: _Seen, cells: Ints, lows: Floats) -> None:
    inner, at_once = seen.problem.tiers[-1], FIRST_ROWS
    order = np.argsort(_nearness(lows), kind="stable")
    cells, lows = cells[order], lows[order]
    while len(cells):
        sizes = np.cumsum(inner.stops[cells] - inner.starts[cells])
        stop = max(1, int(np.searchsorted(sizes, at_once, side="right")))
        seen.open(cells[:stop])
        cells, lows = cells[stop:], lows[stop:]
        left = ~seen.cut(lows)
        cells, lows = cells[left], lows[left]
        at_once = min(2 * at_once, MOST_ROWS)
