"""Packing: which free cards a placement makes useless (after Weng et al., ATC '23), and a key that avoids it.

F(node) = Σ over shapes p · (free card-milli of the node that the shape cannot use): all of it where the shape does not fit or needs
no card, else what is free on cards too small for it. The shapes and their shares p are those that were asked for lately (all of 30
days: cutting off the rare ones costs two points).

**key = ΔF + 40 · (cores left / 128 + cards left / 8)**, least first: fragments first, and among equals the fuller node. With a
weight of 300 it is a best fit that hardly looks at fragments.

:class:`Packing` keeps what it computed per (shape, node) and looks again only at nodes that changed since that shape came last. The
product allots whole cards; parts of cards are for the published traces.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduling.domain.columns import Bools, Floats, Ints

LEFT_WEIGHT: Final = 40.0
CORES_UNIT, CARDS_UNIT = 128.0, 8.0
WHOLE: Final = 1000
"""A whole card in thousandths."""
MOST_ROWS: Final = 4096
"""States that are looked at in one step: more would only use memory."""


@dataclass(frozen=True)
class Shape:
    """What one kind of task asks for. `share_milli`: of each card; `models`: allowed ones, () = any."""

    cores_milli: int
    memory_mib: int = 0
    cards: int = 0
    share_milli: int = WHOLE
    models: tuple[str, ...] = ()


@dataclass
class Nodes:
    """Free capacity, one entry (and one row of cards) per node; a node's missing cards are -1."""

    cores: Ints
    memory: Ints
    cards: NDArray[np.int64]  # [node, slot] free thousandths
    model: tuple[str, ...]


def nodes(rows: Sequence[tuple[int, int, int, str]]) -> Nodes:
    """Empty nodes from (cores_milli, memory_mib, cards, model)."""
    slots = max((row[2] for row in rows), default=0) or 1
    cards = np.full((len(rows), slots), -1, dtype=np.int64)
    for i, row in enumerate(rows):
        cards[i, : row[2]] = WHOLE
    cores = np.array([row[0] for row in rows], dtype=np.int64)
    memory = np.array([row[1] for row in rows], dtype=np.int64)
    return Nodes(cores, memory, cards, tuple(row[3] for row in rows))


class Demand:
    """The shapes that are asked for, with their shares; prepared for :meth:`fragments`."""

    def __init__(self, shapes: Sequence[Shape], shares: Sequence[float], models: Sequence[str]) -> None:
        total = float(sum(shares)) or 1.0
        pairs = [(shape, share / total) for shape, share in zip(shapes, shares, strict=True) if shape.cards]
        pairs.sort(key=lambda pair: (pair[0].share_milli, pair[0].cards))
        self.models = {name: i for i, name in enumerate(dict.fromkeys(models))}
        self.p = np.array([share for _, share in pairs], dtype=np.float32)
        self.cores = np.array([shape.cores_milli for shape, _ in pairs], dtype=np.int32)
        self.memory = np.array([shape.memory_mib for shape, _ in pairs], dtype=np.int32)
        allowed = [[not s.models or name in s.models for s, _ in pairs] for name in self.models]
        self.allowed: Bools = np.array(allowed, dtype=np.bool_).reshape(len(self.models), len(pairs))
        groups = [(shape.share_milli, shape.cards) for shape, _ in pairs]
        self.starts = np.array([i for i, g in enumerate(groups) if i == 0 or g != groups[i - 1]], dtype=np.int64)
        self.share = np.array([groups[i][0] for i in self.starts], dtype=np.int64)
        self.count = np.array([groups[i][1] for i in self.starts], dtype=np.int64)

    def fragments(self, cores: Ints, memory: Ints, cards: NDArray[np.int64], model: Ints) -> Floats:
        """F of each state (row): expected card-milli that the next task cannot use."""
        free = np.maximum(cards, 0)
        total: Floats = free.sum(axis=1).astype(np.float64)
        if not len(self.p):
            return total
        fits = (cores[:, None] >= self.cores) & (memory[:, None] >= self.memory) & self.allowed[model]
        weight = np.add.reduceat(np.where(fits, self.p, np.float32(0)), self.starts, axis=1)
        large = cards[:, :, None] >= self.share
        enough = large.sum(axis=1) >= self.count
        usable = (free[:, :, None] * large).sum(axis=1)
        return np.asarray(total - (weight * enough * usable).sum(axis=1), dtype=np.float64)


class Packing:
    """A cluster under a packing policy: who may take a task, at which key, on which card."""

    def __init__(
        self, free: Nodes, shapes: Sequence[Shape], demand: Demand, *, fragments: float = 1.0, left: float = LEFT_WEIGHT
    ) -> None:
        """`fragments` and `left` weigh the two parts of the key: (1, 40) is ours, (0, 1) is best fit."""
        self.free, self.shapes, self.demand = free, list(shapes), demand
        self.weights = fragments, left
        self.model = np.array([demand.models[name] for name in free.model], dtype=np.int64)
        size = len(self.shapes), len(free.cores)
        self.key: Floats = np.full(size, np.inf)
        self.slot = np.zeros(size, dtype=np.int8)
        self.stale: Bools = np.ones(size, dtype=np.bool_)
        self.now = demand.fragments(free.cores, free.memory, free.cards, self.model)
        named = [[not s.models or name in s.models for name in free.model] for s in self.shapes]
        self.suits: Bools = np.array(named, dtype=np.bool_).reshape(size)

    def fits(self, shape: int, rows: Ints) -> Bools:
        """Which of the nodes `rows` have room for a shape."""
        one, free = self.shapes[shape], self.free
        room = (free.cores[rows] >= one.cores_milli) & (free.memory[rows] >= one.memory_mib) & self.suits[shape, rows]
        if one.cards:
            room &= (free.cards[rows] >= one.share_milli).sum(axis=1) >= one.cards
        return np.asarray(room, dtype=np.bool_)

    def choose(self, shape: int) -> int | None:
        """The node with the least key (then the first); None if none has room."""
        self._look_again(shape)
        best = int(np.argmin(self.key[shape]))
        return best if np.isfinite(self.key[shape, best]) else None

    def place(self, shape: int, node: int) -> None:
        """Take the room on `node`, on the card with the least key."""
        if self.stale[shape, node]:
            self._look_again(shape)
        if not np.isfinite(self.key[shape, node]):
            raise ValueError("the shape has no room there")
        one, free = self.shapes[shape], self.free
        free.cores[node] -= one.cores_milli
        free.memory[node] -= one.memory_mib
        free.cards[node] = self._taken(one, free.cards[node : node + 1], np.array([self.slot[shape, node]]))[0]
        rows = np.array([node])
        self.now[node] = self.demand.fragments(free.cores[rows], free.memory[rows], free.cards[rows], self.model[rows])[
            0
        ]
        self.stale[:, node] = True

    def _look_again(self, shape: int) -> None:
        """Bring the keys of one shape up to date."""
        rows = np.flatnonzero(self.stale[shape])
        if not len(rows):
            return
        self.stale[shape, rows] = False
        self.key[shape, rows] = np.inf
        rows = rows[self.fits(shape, rows)]
        for at in range(0, len(rows), MOST_ROWS // 8):
            self._keys(shape, rows[at : at + MOST_ROWS // 8])

    def _keys(self, shape: int, rows: Ints) -> None:
        one, free = self.shapes[shape], self.free
        owner, slot = self._options(one, free.cards[rows])
        at = rows[owner]
        cores, memory = free.cores[at] - one.cores_milli, free.memory[at] - one.memory_mib
        cards = self._taken(one, free.cards[at], slot)
        left = cores / (1000.0 * CORES_UNIT) + np.maximum(cards, 0).sum(axis=1) / (WHOLE * CARDS_UNIT)
        key = self.weights[1] * left
        if self.weights[0]:
            key = key + self.weights[0] * (self.demand.fragments(cores, memory, cards, self.model[at]) - self.now[at])
        order = np.lexsort((slot, key, owner))
        first = order[np.concatenate(([True], owner[order][1:] != owner[order][:-1]))]
        self.key[shape, at[first]], self.slot[shape, at[first]] = key[first], slot[first]

    def _options(self, one: Shape, cards: NDArray[np.int64]) -> tuple[Ints, Ints]:
        """(row, slot) to try: each different free card for one card or a part of it, else one way."""
        if one.cards != 1:
            return np.arange(len(cards)), np.zeros(len(cards), dtype=np.int64)
        ordered = np.argsort(cards, axis=1, kind="stable")
        values = np.take_along_axis(cards, ordered, axis=1)
        fresh = np.concatenate((np.ones((len(cards), 1), dtype=np.bool_), values[:, 1:] != values[:, :-1]), axis=1)
        owner, place = np.nonzero(fresh & (values >= one.share_milli))
        return owner, ordered[owner, place]

    @staticmethod
    def _taken(one: Shape, cards: NDArray[np.int64], slot: Ints) -> NDArray[np.int64]:
        """The cards after a placement."""
        after = cards.copy()
        if one.cards == 1:
            after[np.arange(len(after)), slot] -= one.share_milli
        elif one.cards > 1:
            room = after >= one.share_milli
            after -= one.share_milli * (room & (np.cumsum(room, axis=1) <= one.cards))
        return after
