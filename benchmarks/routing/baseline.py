"""The rivals: shortest path with hysteresis, a split by measured delay; another truth than the planner's; a lower bound."""

from collections.abc import Callable

import numpy as np

from scheduling.domain import routing
from scheduling.domain.columns import Floats, Ints

HYSTERESIS = 0.10
UP, DOWN = 1.0, 0.2
"""The moving average of measured delay: worse at once, better slowly."""
SHARPNESS = 4.0


def shortest(path_delay: Floats, held: Ints, strategies: routing.Strategies) -> Ints:
    """Each source takes the strategy of least measured delay; it changes only for one that is 10 % better."""
    best = routing.leading(-path_delay, strategies)
    return np.where(path_delay[best] < (1 - HYSTERESIS) * path_delay[held], best, held)


def only(chosen: Ints, strategies: routing.Strategies) -> Floats:
    """All of each source on its chosen strategy."""
    share = np.zeros(len(strategies.source))
    share[chosen] = 1.0
    return share


def averaged(held: Floats, seen: Floats) -> Floats:
    """An average per element, up at once and down by a fifth."""
    return np.where(seen > held, held + UP * (seen - held), held + DOWN * (seen - held))


def by_delay(path_delay: Floats, strategies: routing.Strategies) -> Floats:
    """Shares that fall with the fourth power of the (averaged) delay: the classical adaptive split."""
    weight = path_delay**-SHARPNESS
    return weight / np.add.reduceat(weight, strategies.starts)[strategies.source]


def bpr_delay(base: Floats, load: Floats) -> Floats:
    """Another truth: the delay grows with the fourth power of the load and never diverges."""
    grown: Floats = base * (1 + 4.0 * load**4)
    return grown


def bpr_marginal(base: Floats, load: Floats) -> Floats:
    grown: Floats = base * (1 + 20.0 * load**4)
    return grown


Curve = Callable[[Floats, Floats], Floats]


def total(elements: routing.Elements, strategies: routing.Strategies, flow: Floats, delay: Curve) -> float:
    """Σ units × delay under any curve."""
    load = routing.loads(elements, strategies, flow)
    return float((load * elements.capacity * delay(elements.base, load)).sum())


def least(
    elements: routing.Elements, strategies: routing.Strategies, demand: Floats, delay: Curve, marginal: Curve
) -> float:
    """A lower bound of the total under any convex curve: the best of value − Frank–Wolfe gap along a long descent.

    Written apart from our solver, so it also checks that one: no split of anybody can cost less than this.
    """
    of_source = demand[strategies.source]
    share, bound, pace = strategies.even(), 0.0, 1.0
    value = total(elements, strategies, share * of_source, delay)
    for _ in range(1_200):
        each = np.append(marginal(elements.base, routing.loads(elements, strategies, share * of_source)), 0.0)
        slopes = each[strategies.crosses].sum(axis=1)
        lowest = np.minimum.reduceat(slopes, strategies.starts)[strategies.source]
        bound = max(bound, value - float((share * of_source * (slopes - lowest)).sum()))
        tried = share * np.exp(-pace * np.minimum(slopes / lowest - 1, 8.0))
        tried /= np.add.reduceat(tried, strategies.starts)[strategies.source]
        found = total(elements, strategies, tried * of_source, delay)
        if found > value:
            pace /= 2
            continue
        share, value, pace = tried, found, min(pace * 1.2, 3.0)
    return bound
