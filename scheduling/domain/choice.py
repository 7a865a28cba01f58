"""Which point of the front is taken, in a total order: the same inputs give the same node, in whatever order the rows came.

**Key** of a candidate = (what its pick looks at, to nine digits; the vector in column order; packing; rank of the node's id).

| pick | looks at |
|---|---|
| weights | score Σ wₖ ln(vₖ + fₖ). A product needs no normalisation: a loser that comes or goes cannot change the winner |
| cheapest, fastest, greenest | its own column (which stands first in the vector) |
| knee, ask | the greatest distance from the plane through the column minima of the front, in logs (`pareto.bends`) |

The vector in the key keeps every pick Pareto-optimal, even with zero weights. Floors f stand only where 0 can occur and are set by the task and the
market's prices, never by other candidates; they are stored with the decision.
"""

from collections.abc import Mapping

import numpy as np

from scheduling.domain.columns import Floats, Ints, Table
from scheduling.domain.demand import Objective, Pick
from scheduling.domain.objectives import LATENCY, RISK
from scheduling.domain.request import Paths, Policy, Request
from scheduling.domain.summaries import Level

DIGITS = 9
BROWN_FLOOR = 0.01
TRANSFER_FLOOR_SHARE = 0.01
RISK_FLOOR = 1e-9
LATENCY_FLOOR_US = 1_000.0


def floors(request: Request, outermost: Level, paths: Paths) -> dict[str, float]:
    """What is added to each column before its logarithm. `outermost`: the level that tells whether anything is free of charge."""
    free = bool((outermost.core_price[request.rental] == 0).any())
    if request.cards:
        free = free and bool((outermost.card_price[request.rental] == 0).any())
    dearest = sum(size for _, size in request.data) * paths.worst.price_micro_per_gb / 1e9
    return {
        Objective.COST.value: 1.0 if free else 0.0,
        Objective.TIME.value: 0.0,
        Objective.GREEN.value: BROWN_FLOOR,
        Objective.TRANSFER.value: TRANSFER_FLOOR_SHARE * dearest or 1.0,
        RISK: RISK_FLOOR,
        LATENCY: LATENCY_FLOOR_US,
    }


def floor_row(floors_by_name: Mapping[str, float], columns: tuple[str, ...]) -> Floats:
    """The floors in column order. A column of zeros without a floor gets a tiny one, which changes nothing but makes its logarithm finite."""
    return np.array([floors_by_name[name] for name in columns], dtype=np.float64) + 1e-12


def weight_row(policy: Policy, columns: tuple[str, ...]) -> Floats | None:
    """The weights in column order; None for the simple picks, which look at their first column alone."""
    if policy.pick != Pick.WEIGHTS:
        return None
    return np.array([policy.weights.get(name, 0.0) for name in columns], dtype=np.float64)


def score(vectors: Floats, weights: Floats | None, floor: Floats) -> Floats:
    """Σ wₖ ln(vₖ + fₖ); without weights the first column."""
    if weights is None:
        first: Floats = vectors[:, 0].copy()
        return first
    total = np.zeros(len(vectors))
    for number, weight in enumerate(weights):
        if weight:
            total += weight * np.log(vectors[:, number] + floor[number])
    return total


def packing(request: Request, table: Table, rows: Ints) -> Ints:
    """What would be left free: less is better, so that large holes stay large. Cards first, then cores."""
    cards = min((card.count for card in request.cards), default=0)
    free_cards, free_cores = table.cards[rows].astype(np.int64), table.cores[rows].astype(np.int64)
    left: Ints = (free_cards - cards) * 10**9 + (free_cores - request.cores_milli)
    return left


def order(values: Floats, vectors: Floats, packed: Ints, ranks: Ints) -> Ints:
    """Positions in the order of the candidate key."""
    keys = (ranks, packed, *vectors.T[::-1], np.round(values, DIGITS))
    positions: Ints = np.lexsort(keys).astype(np.int64)
    return positions


def unique(vectors: Floats, packed: Ints, ranks: Ints) -> Ints:
    """Positions of one row per identical vector: the one that the tie-break prefers."""
    positions = np.lexsort((ranks, packed, *vectors.T[::-1]))
    if not len(positions):
        return positions.astype(np.int64)
    sorted_vectors = vectors[positions]
    first = np.concatenate(([True], (sorted_vectors[1:] != sorted_vectors[:-1]).any(axis=1)))
    kept: Ints = np.sort(positions[first]).astype(np.int64)
    return kept
