"""A large task is not overtaken for ever: it gets a planned start, and others use its node until then only if they end before.

The start is the earliest moment at which enough of a node must be free, from the latest ends of what runs there (each attempt ends at the latest
`max_duration` after its start). Promises are made anew in each cycle, so one is kept only as long as it is the best known.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scheduling.domain.fairness import Held
from scheduling.domain.preemption import enough

MOST = 16
"""So many tasks at once have a planned start, at most one in a region."""


@dataclass(frozen=True)
class Running:
    """What runs on a node: what it holds, and its latest end in Unix seconds."""

    node: str
    held: Held
    ends: int


@dataclass(frozen=True)
class Promise:
    """`task` starts on `node` at `start` (Unix seconds) at the latest."""

    task: int
    node: str
    start: int

    def admits(self, task: int, ends: int) -> bool:
        """May a task that ends at the latest at `ends` use the node?"""
        return task == self.task or ends <= self.start


def earliest(free: Held, needs: Held, running: Iterable[Running], now: int) -> int | None:
    """When `needs` fit for certain: now, or after enough of what runs has ended; None if they never do."""
    if enough(free, needs):
        return now
    for one in sorted(running, key=lambda run: run.ends):
        free = free + one.held
        if enough(free, needs):
            return max(now, one.ends)
    return None


def promise(
    task: int, places: Sequence[tuple[str, Held, Held]], running: Iterable[Running], taken: Iterable[str], now: int
) -> Promise | None:
    """The earliest planned start among `places` (node, free, needs) whose node is not promised to another (`taken`)."""
    by_node: dict[str, list[Running]] = {}
    for one in running:
        by_node.setdefault(one.node, []).append(one)
    gone, best = set(taken), None
    for node, free, needs in places:
        start = None if node in gone else earliest(free, needs, by_node.get(node, ()), now)
        if start is not None and (best is None or (start, node) < (best.start, best.node)):
            best = Promise(task, node, start)
    return best
