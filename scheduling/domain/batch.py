"""Decisions of one snapshot: equal questions are answered once, for as long as the answer holds.

A cycle places hundreds of tasks that ask the same. The first is decided over the whole table; those after it go to the same place while it still fits:
capacity is no objective, so a place that was best stays best until it is full, and the tie-break (less left is better) prefers it more with every task.
A task that brings data makes its links busier: its answer holds until the way there has become a twentieth longer.
What another question takes meanwhile can only remove rows. So for every pick that looks at a score or one column the result is that of deciding each task
anew. The knee alone depends on the rest of its front: it is that of the moment when its place was chosen, a fraction of a second ago.
"""

from collections.abc import Hashable, Sequence

from scheduling.domain.columns import HEARD, KEPT, TAKES_WORK, Table
from scheduling.domain.filters import card_count
from scheduling.domain.placement import Decision, decide_in_order
from scheduling.domain.request import Paths, Policy, Request
from scheduling.domain.summaries import Summaries

READY = HEARD | TAKES_WORK
USABLE = READY | KEPT
BUSIER = 1.05


class Batch:
    """The decisions of one cycle over `table`, whose columns the caller keeps true with `Table.take`."""

    def __init__(self, table: Table, paths: Paths, tiers: Summaries, *, explain: bool) -> None:
        self.table, self.paths, self.tiers, self.explain = table, paths, tiers, explain
        self.decided = 0
        self._known: dict[Hashable, Decision] = {}

    def decide(self, key: Hashable, requests: Sequence[Request], policy: Policy) -> Decision:
        """The decision for a question; `key` is equal for questions with the same answer."""
        known = self._known.get(key)
        if known is not None and self.holds(known):
            return known
        self.decided += 1
        made = decide_in_order(requests, policy, self.table, self.paths, tiers=self.tiers, explain=self.explain)
        if made.row is not None:
            self._known[key] = made
        return made

    def holds(self, decision: Decision) -> bool:
        """Is there still room where this decision went?"""
        table, row, request = self.table, decision.place, decision.problem.request
        if request.data and self._is_busier(decision, row):
            return False
        return bool(
            int(table.flags[row]) & USABLE == READY
            and table.cores[row] >= request.cores_milli
            and table.memory[row] >= request.memory_mib
            and table.disk[row] >= request.disk_gib
            and table.cards[row] >= int(card_count(request, table, slice(row, row + 1))[0])
        )

    def _is_busier(self, decision: Decision, row: int) -> bool:
        """Has what this cycle sends over the links to that place made its way longer by more than a twentieth?"""
        problem = decision.problem
        region = int(self.table.region[row])
        then = float(problem.regions.staging[region])
        return self.paths.staging_s(problem.request.data, self.table.regions[region]) > then * BUSIER + 1e-9
