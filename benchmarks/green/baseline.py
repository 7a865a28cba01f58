"""The rivals: everything at home at once; everything where it is cheapest at once."""

from collections.abc import Sequence

import numpy as np

from scheduling.domain.columns import Floats
from scheduling.domain.timeshift import Placed, Work, plan


def at_home(work: Sequence[Work], carbon: Floats, prices: Floats) -> Placed:
    """No shifting in time or space, and no limit of capacity."""
    now = [Work(one.arrival, one.hours, one.size, one.home, 0) for one in work]
    room = np.full(len(prices), np.inf)
    return plan(now, carbon, prices, room, carbon_weight=0, cost_weight=1, may_move=False)


def cheapest(work: Sequence[Work], carbon: Floats, prices: Floats, capacity: Floats, moving: Floats) -> Placed:
    """Cost only, as soon as possible, under the capacity."""
    return plan(work, carbon, prices, capacity, carbon_weight=0, cost_weight=1, wait_weight=1e-9, moving=moving)


def waiting_only(work: Sequence[Work], carbon: Floats, prices: Floats, capacity: Floats) -> Placed:
    """Shifting in time alone: every task stays at home."""
    return plan(work, carbon, prices, capacity, carbon_weight=1, cost_weight=0, may_move=False)
