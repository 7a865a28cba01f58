"""The exact Pareto front of a set of vectors (all columns to be made small), its knee, and at most twelve points that
stand for it.

The front itself is a kernel (`kernels.front`): it has a compiled twin. What is rounded to thin a front, to find its
knee or to choose points to show is here.
"""

import numpy as np

from scheduling.domain.columns import Bools, Floats, Ints
from scheduling.domain.kernels import front, worse_than

__all__ = ["bends", "front", "representatives", "thinned", "worse_than"]

MOST_SHOWN = 12
MOST_TRIED = 256
"""Candidates that the choice of representatives looks at, the best by knee first."""


def bends(vectors: Floats, floors: Floats) -> Floats:
    """For each point of a front how far it lies towards the ideal: Σ of its columns in logs, each scaled to 0…1 over
    the front.

    Small = near. The plane through the column minima has Σ = 1, so the least sum is the greatest distance from it:
    the knee. Columns that are the same
    everywhere say nothing.
    """
    logs = np.log(vectors + floors)
    low, high = logs.min(axis=0), logs.max(axis=0)
    spread = high - low
    told = spread > 0
    scaled = (logs[:, told] - low[told]) / spread[told]
    sums: Floats = scaled.sum(axis=1)
    return sums


def thinned(vectors: Floats, epsilon: float) -> Ints:
    """Positions of an ε-front: every point of the front is within (1 + ε) of one that stays, in every column.

    The nearest to the ideal are kept first, what they cover goes.
    """
    left = np.lexsort((*vectors.T[::-1], vectors.sum(axis=1))).astype(np.int64)
    kept: list[int] = []
    while len(left):
        kept.append(int(left[0]))
        covered = (vectors[left[0]] <= (1.0 + epsilon) * vectors[left]).all(axis=1)
        left = left[~covered]
    return np.array(sorted(kept), dtype=np.int64)


def representatives(vectors: Floats, floors: Floats, must: Ints) -> Ints:
    """At most twelve of the front's points: `must` (the choice and so on), the best of each column, the knee, then
    those that add most volume.
    """
    if not len(vectors):
        return np.zeros(0, dtype=np.int64)
    sums = bends(vectors, floors)
    chosen: list[int] = []
    firsts = [int(np.lexsort((np.arange(len(vectors)), vectors[:, c]))[0]) for c in range(vectors.shape[1])]
    for index in [*map(int, must), *firsts, int(np.argmin(sums))]:
        if index not in chosen:
            chosen.append(index)
    logs = np.log(vectors + floors)
    low, high = logs.min(axis=0), logs.max(axis=0)
    unit = np.where(high > low, (logs - low) / np.where(high > low, high - low, 1.0), 0.0)
    covers = _covers(unit)
    covered: Bools = np.asarray(covers[chosen].any(axis=0), dtype=np.bool_)
    tried = [int(i) for i in np.lexsort((np.arange(len(sums)), sums))[:MOST_TRIED] if int(i) not in chosen]
    while tried and len(chosen) < MOST_SHOWN:
        gains = np.count_nonzero(covers[tried] & ~covered, axis=1)
        best = tried.pop(int(np.argmax(gains)))
        chosen.append(best)
        covered = np.asarray(np.logical_or(covered, covers[best]), dtype=np.bool_)
    return np.array(sorted(chosen[:MOST_SHOWN]), dtype=np.int64)


SAMPLES = 1_024


def _covers(unit: Floats) -> Bools:
    """Which of a fixed cloud of points (Halton's sequence, up to 1.1 in each column) each row dominates: volume by counting."""
    cloud = np.column_stack([_halton(base) for base in (2, 3, 5, 7, 11, 13)[: unit.shape[1]]]) * 1.1
    covers: Bools = np.all(unit[:, None, :] <= cloud[None, :, :], axis=2)
    return covers


def _halton(base: int) -> Floats:
    index = np.arange(1, SAMPLES + 1)
    result, part = np.zeros(SAMPLES), 1.0 / base
    while index.any():
        result += part * (index % base)
        index //= base
        part /= base
    return result
