"""How much of each region's work goes where: a split that settles, from marginal costs, and moves in bounded steps.

An *element* is what can be crowded: a link, or a region's machines. A *strategy* of a source is one way to serve its
work: a list of elements. With u = load ÷ capacity an element of base delay a has

    delay     l(u) = a / (1 − u)                below U = 0.9, above it the tangent goes on
    marginal  m(u) = d(u·l)/du = a / (1 − u)²   what one more unit costs *everybody*

Choosing by delay makes a herd: all go where it was empty a moment ago. Choosing by marginal cost has one balance, the
least total delay, and everyone who sees the same link database computes the same one, so nobody needs to agree.
:func:`split` finds it by entropic mirror descent: shares are multiplied by exp(−η · excess of the strategy's marginal
cost), which never leaves the simplex and forgets nothing. It starts from the last committed split, so a calm network
costs a few steps and moves nothing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np

from scheduling.domain.columns import Bools, Floats, Ints

KNEE = 0.9
"""Load from which the delay goes on along its tangent: finite, steep, and still convex."""
FLOOR = 1e-7
ITERATIONS = 80
FIRST_STEP, MOST_STEP, LEAST_STEP = 0.5, 2.0, 1e-6
MOST_EXCESS = 8.0
NEAR, WAYS = 16, 2
"""A source is split over so many near regions, each by so many paths."""
COMMIT_ABOVE = 0.02
SHARE_PER_PERIOD = 0.2
OF_SPARE = 0.3
MOVE_PAYS = 3.0
"""A running attempt moves only if it saves so many times what the move takes."""


def delay(base: Floats, load: Floats) -> Floats:
    """Delay of elements at a load (used ÷ capacity)."""
    low = base / (1 - np.minimum(load, KNEE))
    over = np.maximum(load - KNEE, 0.0)
    tangent: Floats = low + base * over / (1 - KNEE) ** 2
    return tangent


def marginal(base: Floats, load: Floats) -> Floats:
    """What one more unit costs everybody: the derivative of load × delay."""
    under = base / (1 - np.minimum(load, KNEE)) ** 2
    above = base / (1 - KNEE) + base * (2 * load - KNEE) / (1 - KNEE) ** 2
    return np.where(load > KNEE, above, under)


@dataclass(frozen=True)
class Elements:
    """What can be crowded: base delay (any unit) and capacity (units of demand per period), one entry each."""

    base: Floats
    capacity: Floats

    def __len__(self) -> int:
        return len(self.base)


@dataclass(frozen=True)
class Strategies:
    """`source` (ascending) of each strategy, and the elements it crosses, padded with len(elements) on the right.

    `extra`: a constant cost of the strategy in the unit of delay (a price, weighted), that no crowd changes.
    """

    source: Ints
    crosses: Ints  # [strategy, most elements]
    sources: int
    extra: Floats = field(default_factory=lambda: np.zeros(0))

    @property
    def starts(self) -> Ints:
        """Where each source's strategies begin."""
        return np.searchsorted(self.source, np.arange(self.sources)).astype(np.int64)

    def even(self) -> Floats:
        """Equal shares: the start when nothing was committed yet."""
        counts = np.bincount(self.source, minlength=self.sources)
        return (1.0 / counts)[self.source]


@dataclass(frozen=True)
class Split:
    """The outcome: each strategy's share of its source (Σ = 1 per source), the total cost, and the optimality gap.

    `gap` bounds how far the cost is above the least possible: cost − gap ≤ optimum (the cost is convex).
    """

    share: Floats
    cost: float
    gap: float
    steps: int


def loads(elements: Elements, strategies: Strategies, flow: Floats) -> Floats:
    """Load of every element under a flow per strategy."""
    size = len(elements) + 1
    weights = np.repeat(flow, strategies.crosses.shape[1])
    used = np.bincount(strategies.crosses.ravel(), weights=weights, minlength=size)[:-1]
    part: Floats = used / elements.capacity
    return part


def cost(elements: Elements, strategies: Strategies, flow: Floats) -> float:
    """Σ units × delay, and the constant costs."""
    load = loads(elements, strategies, flow)
    total = float((load * elements.capacity * delay(elements.base, load)).sum())
    return total + (float((flow * strategies.extra).sum()) if len(strategies.extra) else 0.0)


def marginals(elements: Elements, strategies: Strategies, flow: Floats) -> Floats:
    """Marginal cost of every strategy."""
    each = np.append(marginal(elements.base, loads(elements, strategies, flow)), 0.0)
    total: Floats = each[strategies.crosses].sum(axis=1)
    return total + strategies.extra if len(strategies.extra) else total


def split(
    elements: Elements, strategies: Strategies, demand: Floats, *, start: Floats | None = None, steps: int = ITERATIONS
) -> Split:
    """Shares that make the total delay small, after at most `steps` steps from `start` (default: equal shares).

    Pure and deterministic: the same input gives the same bytes. Raises ValueError where a source has demand but no
    strategy.
    """
    _check(strategies, demand)
    share = strategies.even() if start is None else _floored(start, strategies)
    of_source = demand[strategies.source]
    value = cost(elements, strategies, share * of_source)
    pace, done = FIRST_STEP, 0
    for _ in range(steps):
        done += 1
        slopes = marginals(elements, strategies, share * of_source)
        least = np.minimum.reduceat(slopes, strategies.starts)[strategies.source]
        excess = np.minimum((slopes - least) / np.maximum(least, 1e-300), MOST_EXCESS)
        tried = _floored(share * np.exp(-pace * excess), strategies)
        new = cost(elements, strategies, tried * of_source)
        if new > value:
            pace /= 2
            if pace < LEAST_STEP:
                break
            continue
        pace = min(pace * 1.3, MOST_STEP)
        share, value = tried, new
    return Split(share, value, gap(elements, strategies, demand, share), done)


def gap(elements: Elements, strategies: Strategies, demand: Floats, share: Floats) -> float:
    """An upper bound of cost − optimum: Σ flow × (its marginal − its source's least)."""
    flow = share * demand[strategies.source]
    slopes = marginals(elements, strategies, flow)
    least = np.minimum.reduceat(slopes, strategies.starts)[strategies.source]
    return float((flow * (slopes - least)).sum())


def _check(strategies: Strategies, demand: Floats) -> None:
    counts = np.bincount(strategies.source, minlength=strategies.sources)
    if len(counts) != len(demand) or (counts == 0).any():
        raise ValueError("every source needs at least one strategy")


def _floored(share: Floats, strategies: Strategies) -> Floats:
    kept = np.maximum(share, FLOOR)
    totals = np.add.reduceat(kept, strategies.starts)
    normal: Floats = kept / totals[strategies.source]
    return normal


def committed(held: Floats, wanted: Floats, strategies: Strategies, *, above: float = COMMIT_ABOVE) -> Floats:
    """Take over the wanted shares of those sources of which more than `above` would change; leave the others alone."""
    changed = np.add.reduceat(np.abs(wanted - held), strategies.starts) / 2
    return np.where((changed > above)[strategies.source], wanted, held)


def stepped(held: Floats, wanted: Floats, *, share: float = SHARE_PER_PERIOD) -> Floats:
    """One bounded step: a fifth of the way, so 90 % are there after eleven periods and no moment carries it all."""
    near: Floats = held + share * (wanted - held)
    return near


def movable(bytes_wanted: Floats, *, spare_bytes: Floats) -> Floats:
    """Bytes that may move now: at most 0.3 of what a link has to spare in this period."""
    return np.minimum(bytes_wanted, np.maximum(spare_bytes, 0.0) * OF_SPARE)


def pays(*, saved_s: float, move_s: float) -> bool:
    """Is a running attempt's move worth it: more than three times the time that the move takes?"""
    return saved_s > MOVE_PAYS * max(move_s, 1.0)


def leading(share: Floats, strategies: Strategies) -> Ints:
    """Each source's largest strategy (its first, of equals): what people call its path."""
    ends = [*strategies.starts[1:].tolist(), len(share)]
    pairs = zip(strategies.starts.tolist(), ends, strict=True)
    return np.array([a + int(np.argmax(share[a:b])) for a, b in pairs], dtype=np.int64)


# -- ways through a network -----------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Graph:
    """Regions joined by links (both directions): `ends` [link, 2], `base` delay of each link."""

    regions: int
    ends: Ints
    base: Floats

    def beside(self) -> list[list[tuple[int, int]]]:
        """Region → (neighbour, link)."""
        made: list[list[tuple[int, int]]] = [[] for _ in range(self.regions)]
        for link, (a, b) in enumerate(self.ends.tolist()):
            made[a].append((b, link))
            made[b].append((a, link))
        return made


def strategies_of(graph: Graph, *, near: int = NEAR, ways: int = WAYS) -> Strategies:
    """Each region's ways to be served: by itself, or by one of its nearest regions over up to `ways` paths.

    Elements are the links, then one per region (its machines). The second path avoids the first one's links where it can.
    """
    beside = graph.beside()
    rows: list[tuple[int, list[int]]] = []
    links = len(graph.base)
    for source in range(graph.regions):
        far, _ = _shortest(beside, graph.base, source)
        order = sorted(range(graph.regions), key=lambda r: (far[r], r))[:near]
        for target in order:
            for path in _ways(beside, graph.base, source, target, ways):
                rows.append((source, [*path, links + target]))
    widest = max(len(path) for _, path in rows)
    none = links + graph.regions
    crosses = np.array([path + [none] * (widest - len(path)) for _, path in rows], dtype=np.int64)
    return Strategies(np.array([source for source, _ in rows], dtype=np.int64), crosses, graph.regions)


def _ways(beside: Sequence[Sequence[tuple[int, int]]], base: Floats, a: int, b: int, ways: int) -> list[list[int]]:
    if a == b:
        return [[]]
    found: list[list[int]] = []
    costs = base.copy()
    for _ in range(ways):
        _, back = _shortest(beside, costs, a)
        path = _walk(back, a, b)
        if path is None or path in found:
            break
        found.append(path)
        costs = costs.copy()
        costs[path] *= 4.0
    return found


def _walk(back: dict[int, tuple[int, int]], a: int, b: int) -> list[int] | None:
    path: list[int] = []
    while b != a:
        if b not in back:
            return None
        b, link = back[b]
        path.append(link)
    return path[::-1]


def _shortest(
    beside: Sequence[Sequence[tuple[int, int]]], base: Floats, source: int
) -> tuple[list[float], dict[int, tuple[int, int]]]:
    far = [math.inf] * len(beside)
    far[source] = 0.0
    back: dict[int, tuple[int, int]] = {}
    heap = [(0.0, source)]
    while heap:
        so_far, here = heappop(heap)
        if so_far > far[here]:
            continue
        for there, link in beside[here]:
            new = so_far + float(base[link])
            if new < far[there] - 1e-15:
                far[there] = new
                back[there] = (here, link)
                heappush(heap, (new, there))
    return far, back


def crowded(elements: Elements, strategies: Strategies, flow: Floats) -> Bools:
    """Elements whose load is past the knee."""
    over: Bools = loads(elements, strategies, flow) > KNEE
    return over
