"""Who is served first: between organisations the smallest weighted dominant share, inside one priority, then age, then id.

Weighted dominant resource fairness, as progressive filling: the next turn belongs to the organisation whose dominant share divided by its weight is
smallest; what it is given counts at once. A turn that finds no place gives nothing and takes nothing: the organisation keeps its share, and among equals
those go first that were refused less often, so an impossible task (or 500 of them) costs its turns and blocks nobody.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import heapify, heappop, heappush

from scheduling.domain.fairness import Held, dominant_share

WHOLE = 1_000
"""A weight of 1, in thousandths."""


@dataclass(frozen=True)
class Waiting:
    """A queued task, as far as the order needs it."""

    task: int
    organisation: int
    priority: int
    queued_at: datetime
    needs: Held


class Turns:
    """The queue of one cycle: take turns by iterating, and say of each whether it was `served`.

    `holding`: what each organisation's live leases hold; `weights`: thousandths by organisation (1,000 where none is set).
    """

    def __init__(
        self,
        queue: Iterable[Waiting],
        holding: Mapping[int, Held],
        capacity: Held,
        weights: Mapping[int, int] | None = None,
    ) -> None:
        self._lines: dict[int, list[Waiting]] = {}
        for item in queue:
            self._lines.setdefault(item.organisation, []).append(item)
        for line in self._lines.values():
            line.sort(key=lambda item: (-item.priority, item.queued_at, item.task), reverse=True)
        self._held = {organisation: holding.get(organisation, Held()) for organisation in self._lines}
        self._refused = dict.fromkeys(self._lines, 0)
        self._weights, self._capacity = weights or {}, capacity
        self._heap = [self._entry(organisation) for organisation in self._lines]
        heapify(self._heap)

    def _entry(self, organisation: int) -> tuple[float, int, int]:
        weight = self._weights.get(organisation, WHOLE)
        share = dominant_share(self._held[organisation], self._capacity) * WHOLE / weight
        return share, self._refused[organisation], organisation

    def __iter__(self) -> Iterator[Waiting]:
        """Next turns until nobody waits. What is yielded counts as refused unless :meth:`served` is called before the next."""
        while self._heap:
            _, _, organisation = heappop(self._heap)
            line = self._lines[organisation]
            self._refused[organisation] += 1
            yield line.pop()
            if line:
                heappush(self._heap, self._entry(organisation))

    def drop(self, tasks: Collection[int]) -> None:
        """These were served elsewhere and take no turn."""
        for organisation, line in self._lines.items():
            self._lines[organisation] = [item for item in line if item.task not in tasks]
        self._heap = [self._entry(organisation) for organisation, line in self._lines.items() if line]
        heapify(self._heap)

    def likely(self) -> list[Waiting]:
        """All that wait, in an order near to that of the turns: round by round, one of each organisation."""
        lines = [list(reversed(line)) for line in self._lines.values()]
        longest = max((len(line) for line in lines), default=0)
        return [line[place] for place in range(longest) for line in lines if place < len(line)]

    def refused(self, item: Waiting) -> None:
        """It was not placed after all: what it needs is given back to its organisation's share."""
        self._refused[item.organisation] += 1
        self._held[item.organisation] = self._held[item.organisation] - item.needs

    def served(self, item: Waiting) -> None:
        """It was placed: what it needs counts as held."""
        self._refused[item.organisation] -= 1
        self._held[item.organisation] = self._held[item.organisation] + item.needs


def order(
    queue: Iterable[Waiting],
    holding: Mapping[int, Held],
    capacity: Held,
    weights: Mapping[int, int] | None = None,
) -> list[Waiting]:
    """The order of turns if every task finds a place."""
    turns = Turns(queue, holding, capacity, weights)
    served = []
    for item in turns:
        turns.served(item)
        served.append(item)
    return served


def position(served: Sequence[Waiting], task: int) -> int | None:
    """1 for the next in turn; None if the task does not wait."""
    return next((place for place, item in enumerate(served, start=1) if item.task == task), None)
