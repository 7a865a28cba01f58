"""Make room: stop interruptible attempts for a task at the fixed price, and keep what they free for it.

1. the node is marked first (`kept_for`, `kept_until`), so that what becomes free goes to nobody else;
2. then its victims are asked to stop (reason `preempted`, with the job that took the place); they are billed to the stop and queued again, at nobody's fault;
3. the task waits (`preempting`) until it is placed there, or 60 s have passed and the node is everybody's again.

Each step is safe to lose: a mark without a stop runs out, a stop without a mark is freed capacity.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from scheduling.domain import preemption
from scheduling.domain.columns import Table
from scheduling.domain.fairness import Held
from scheduling.domain.filters import card_count
from scheduling.domain.placement import feasible
from scheduling.domain.preemption import Room, Victim
from scheduling.domain.reasons import EndReason
from scheduling.domain.request import Request
from scheduling.models import NodeState, Task
from scheduling.selectors.asking import Question
from scheduling.selectors.snapshot import Market
from scheduling.services import leases

KEPT_FOR = timedelta(seconds=60)
ACTOR = "policy:preemption@1"


def find(*, question: Question, market: Market, victims: Sequence[Victim]) -> Room | None:
    """Where room can be made for a question, and at whose cost; an organisation's own nodes are looked at first."""
    old = [victim for victim in victims if victim.age_s >= preemption.GRACE_S]
    if not old:
        return None
    table = _without(market.table, old)
    for request in question.requests:
        rows = feasible(request, question.policy, table, market.paths)
        room = preemption.choose(_places(request, market.table, rows), old)
        if room is not None:
            return room
    return None


def _without(table: Table, victims: Iterable[Victim]) -> Table:
    """The market as if they had stopped."""
    relaxed = table.copied()
    for victim in victims:
        for row in relaxed.of_node(victim.node):
            mine = relaxed.rows[row].card_model == victim.card_model
            relaxed.cards[row] += victim.held.cards if mine else 0
            relaxed.cores[row] += victim.held.cores_milli
            relaxed.memory[row] += victim.held.memory_mib
            relaxed.disk[row] += victim.held.disk_gib
    return relaxed


def _places(request: Request, table: Table, rows: Iterable[int]) -> list[tuple[str, Held, Held, str]]:
    found = []
    for number in (int(row) for row in rows):
        cards = int(card_count(request, table, slice(number, number + 1))[0])
        needs = Held(request.cores_milli, request.memory_mib, request.disk_gib, cards)
        found.append((table.rows[number].node, free(table, number), needs, table.rows[number].card_model))
    return found


def free(table: Table, row: int) -> Held:
    """What of a row is free."""
    return Held(int(table.cores[row]), int(table.memory[row]), int(table.disk[row]), int(table.cards[row]))


def make(*, task: Task, room: Room, market: Market, now: datetime) -> bool:
    """Keep the node for the task and ask its victims to stop; False if another got the node first."""
    node_id = market.live[room.node].node_id
    updated = NodeState.objects.filter(node_id=node_id, kept_for="", open=True).update(
        kept_for=task.public_id, kept_until=now + KEPT_FOR
    )
    if updated != 1:  # another keeps it
        return False
    for victim in room.victims:
        leases.ask_stop(
            attempt_id=victim.attempt,
            reason=EndReason.PREEMPTED,
            actor=ACTOR,
            displaced_by=task.job.public_id,
            now=now,
        )
    return True


def give_up(*, now: datetime) -> int:
    """Nodes that were kept long enough are everybody's again; how many."""
    return NodeState.objects.filter(kept_until__lte=now).exclude(kept_for="").update(kept_for="", kept_until=None)


def at(request: Request, node: str) -> Request:
    """The request for one node alone."""
    return replace(request, node=node)
