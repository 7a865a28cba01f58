"""The loops that cost time, as plain functions over arrays, and how they are handed to the rules.

Each kernel has two bodies that give the same answer: one in NumPy (:data:`PLAIN`), which always works, and one as a loop
over numbers, which a backend may compile (``scheduling.gateways.backends``). Rules only know a :class:`Kernels`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Column = Any


@dataclass(frozen=True)
class Kernels:
    """What a backend offers.

    * ``freshen(group, start, stop, cores, memory, disk, cards, queue, *the same five entries)``: entries of one group
      from members `start` … `stop`
    * ``front(vectors)`` → which rows no other dominates; identical ones all stay
    * ``worse_than(vectors, points)`` → which of `vectors` some of `points` dominates
    """

    name: str
    freshen: Callable[..., None]
    front: Callable[[Any], Any]
    worse_than: Callable[[Any, Any], Any]


def freshen(
    group: int,
    start: int,
    stop: int,
    cores: Column,
    memory: Column,
    disk: Column,
    cards: Column,
    queue: Column,
    most_cores: Column,
    most_memory: Column,
    most_disk: Column,
    most_cards: Column,
    least_queue: Column,
) -> None:
    """Free capacity and waiting time of one group, from its members."""
    most_cores[group] = np.maximum.reduce(cores[start:stop])
    most_memory[group] = np.maximum.reduce(memory[start:stop])
    most_disk[group] = np.maximum.reduce(disk[start:stop])
    most_cards[group] = np.maximum.reduce(cards[start:stop])
    least_queue[group] = np.minimum.reduce(queue[start:stop])


PAIRS = 1 << 19
"""So many pairs of vectors are compared at once."""
PIVOTS = 32
BLOCK = 512


def worse_than(vectors: Column, points: Column) -> Column:
    """Which of `vectors` some of `points` dominates. Points that dominate much should come first: what they dominate is
    not compared again.
    """
    worse = np.zeros(len(vectors), dtype=np.bool_)
    if not len(vectors) or not len(points):
        return worse
    left, columns, done = np.arange(len(vectors)), np.ascontiguousarray(vectors.T), 0
    while done < len(points) and len(left):
        some = points[done : done + max(1, PAIRS // len(left))]
        hit = _dominated(columns, some)
        done += len(some)
        if hit.any():
            worse[left[hit]] = True
            left, columns = left[~hit], np.ascontiguousarray(columns[:, ~hit])
    return worse


def _dominated(columns: Column, points: Column) -> Column:
    """For each vector (given as columns): is some point nowhere worse and somewhere better?"""
    no_worse = points[:, 0, None] <= columns[0]
    better = points[:, 0, None] < columns[0]
    for number in range(1, len(columns)):
        no_worse &= points[:, number, None] <= columns[number]
        better |= points[:, number, None] < columns[number]
    hit: Column = (no_worse & better).any(axis=0)
    return hit


def front(vectors: Column) -> Column:
    """Which rows no other row dominates. Identical vectors all stay: the caller keeps one of them by its tie-break.

    The rows with the smallest sums dominate most others: they go first, then blocks in the order of their sums. Sums are
    rounded, so a later point may still dominate an earlier one: the points are compared among themselves at last.
    """
    on_front = np.zeros(len(vectors), dtype=np.bool_)
    if not len(vectors):
        return on_front
    left = _promising(vectors, worse_than)
    some = vectors[left]
    found = np.empty_like(some)
    rows, size = np.empty(len(left), dtype=np.int64), 0
    for begin in range(0, len(left), BLOCK):
        numbers, block = left[begin : begin + BLOCK], some[begin : begin + BLOCK]
        good = ~worse_than(block, found[:size])
        numbers, block = numbers[good], block[good]
        good = ~worse_than(block, block)
        stop = size + int(np.count_nonzero(good))
        found[size:stop], rows[size:stop] = block[good], numbers[good]
        size = stop
    on_front[rows[:size][~worse_than(found[:size], found[:size])]] = True
    return on_front


def _promising(vectors: Column, worse: Callable[[Any, Any], Any]) -> Column:
    """Numbers of the vectors that those with the smallest sums do not dominate, in the order of their sums."""
    sums = vectors.sum(axis=1)
    few = np.argpartition(sums, PIVOTS)[:PIVOTS] if len(sums) > PIVOTS else np.arange(len(sums))
    left = np.flatnonzero(~worse(vectors, vectors[few[np.argsort(sums[few], kind="stable")]]))
    return left[np.argsort(sums[left], kind="stable")]


PLAIN = Kernels("numpy", freshen, front, worse_than)


def of_loops(name: str, *, freshen: Any, worse_than: Any, filtered: Any) -> Kernels:
    """Kernels from the bodies of ``domain.loops``, compiled or not."""

    def marked(vectors: Column, points: Column) -> Column:
        worse = np.zeros(len(vectors), dtype=np.bool_)
        if len(vectors) and len(points):
            order = np.arange(len(points), dtype=np.int64)
            worse_than(np.ascontiguousarray(vectors), np.ascontiguousarray(points), order, worse)
        return worse

    def front_of(vectors: Column) -> Column:
        on_front = np.zeros(len(vectors), dtype=np.bool_)
        if len(vectors):
            vectors = np.ascontiguousarray(vectors)
            found = np.empty(len(vectors), dtype=np.int64)
            rows = found[: filtered(vectors, _promising(vectors, marked), found)]
            points = vectors[rows]
            on_front[rows[~marked(points, points)]] = True
        return on_front

    return Kernels(name, freshen, front_of, marked)
