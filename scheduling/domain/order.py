"""Who is served first: between organisations the smallest dominant share, inside one priority, then age, then id.

An impossible task takes nothing from anyone: it is refused in its turn and the next is looked at, in the same cycle.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import heapify, heappop, heappush

from scheduling.domain.fairness import Held, dominant_share


@dataclass(frozen=True)
class Waiting:
    """A queued task, as far as the order needs it."""

    task: int
    organisation: int
    priority: int
    queued_at: datetime
    needs: Held


def order(queue: Iterable[Waiting], holding: Mapping[int, Held], capacity: Held) -> list[Waiting]:
    """The order in which tasks are looked at. A task that is looked at counts as held for what follows, so turns alternate."""
    lines: dict[int, list[Waiting]] = {}
    for item in queue:
        lines.setdefault(item.organisation, []).append(item)
    for line in lines.values():
        line.sort(key=lambda item: (-item.priority, item.queued_at, item.task), reverse=True)
    held = {organisation: holding.get(organisation, Held()) for organisation in lines}
    heap = [(dominant_share(held[organisation], capacity), organisation) for organisation in lines]
    heapify(heap)
    served = []
    while heap:
        _, organisation = heappop(heap)
        item = lines[organisation].pop()
        served.append(item)
        held[organisation] = held[organisation] + item.needs
        if lines[organisation]:
            heappush(heap, (dominant_share(held[organisation], capacity), organisation))
    return served


def position(served: Sequence[Waiting], task: int) -> int | None:
    """1 for the next in turn; None if the task does not wait."""
    return next((place for place, item in enumerate(served, start=1) if item.task == task), None)
