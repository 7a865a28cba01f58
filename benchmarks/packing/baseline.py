"""The rivals on the same engine: any node at random, best fit, and the published FGD score (a rounded sigmoid, ties by best fit)."""

import numpy as np

from scheduling.domain.fragmentation import Demand, Nodes, Packing, Shape


class AtRandom(Packing):
    """Any node with room; on it any card that suits."""

    def __init__(self, free: Nodes, shapes: list[Shape], demand: Demand, seed: int) -> None:
        super().__init__(free, shapes, demand, fragments=0.0, left=1.0)
        self.random = np.random.default_rng(seed)

    def choose(self, shape: int) -> int | None:
        self._look_again(shape)
        rows = np.flatnonzero(np.isfinite(self.key[shape]))
        if not len(rows):
            return None
        node = int(self.random.choice(rows))
        if self.shapes[shape].cards == 1:
            suits = np.flatnonzero(self.free.cards[node] >= self.shapes[shape].share_milli)
            self.slot[shape, node] = self.random.choice(suits)
        return node


def best_fit(free: Nodes, shapes: list[Shape], demand: Demand) -> Packing:
    """The node with the least left."""
    return Packing(free, shapes, demand, fragments=0.0, left=1.0)


class Sigmoid(Packing):
    """score = ⌊100 / (1 + e^(ΔF/1000))⌋, greatest first; among equals the node with the least left."""

    def _keys(self, shape: int, rows: np.ndarray) -> None:
        super()._keys(shape, rows)
        one, free = self.shapes[shape], self.free
        cards = self._taken(one, free.cards[rows], self.slot[shape, rows].astype(np.int64))
        cores = free.cores[rows] - one.cores_milli
        memory = free.memory[rows] - one.memory_mib
        change = self.demand.fragments(cores, memory, cards, self.model[rows]) - self.now[rows]
        score = np.floor(100.0 / (1.0 + np.exp(change / 1000.0)))
        left = cores / 128_000.0 + np.maximum(cards, 0).sum(axis=1) / 8_000.0
        self.key[shape, rows] = -score + left / 100.0


def fgd(free: Nodes, shapes: list[Shape], demand: Demand) -> Packing:
    return Sigmoid(free, shapes, demand, fragments=1.0, left=1e-6)
