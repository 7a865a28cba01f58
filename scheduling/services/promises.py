"""The outbox topics that scheduling keeps: a cycle is wanted, an agent is to be woken, a node's enrolment has moved."""

from collections.abc import Mapping, Sequence
from typing import Any

from celery import current_app
from django.db import transaction

from portal import clock, softstate
from portal.outbox.registry import handler, together
from scheduling.services import cycle, gangs, leases, live, nodes_sync

CYCLE_EXPIRES_S = 30
Messages = Sequence[tuple[str, Mapping[str, Any]]]


@together("cycle.wanted")
def cycle_wanted(messages: Messages) -> None:
    """Placement is asked for at once, however many ask; beat asks anyway."""
    transaction.on_commit(_ask_for_a_cycle, robust=True)


@together("agent.wake")
def agent_wake(messages: Messages) -> None:
    """End the held syncs of nodes: there are assignments for them."""
    live.wake(*(str(payload["node"]) for _, payload in messages))


@handler("gang.broken")
def gang_broken(key: str, payload: Mapping[str, Any]) -> None:
    """A member of a gang has ended badly: the others are stopped, and the gang is replaced whole."""
    for other in gangs.others(str(payload["attempt"])):
        leases.ask_stop(attempt_id=other, reason=gangs.BROKEN, actor=gangs.ACTOR, now=clock.now())


@handler("node.state")
def node_state(key: str, payload: Mapping[str, Any]) -> None:
    """A node was listed, drained or retired."""
    nodes_sync.state_changed(node=str(payload["node"]), now=clock.now())


def _ask_for_a_cycle() -> None:
    """Once until a cycle has begun: what is asked meanwhile is seen by that one."""
    if not softstate.first(cycle.WANTED, ttl_ms=cycle.WANTED_TTL_MS):
        return
    current_app.send_task("scheduling.cycle", queue="cycle", ignore_result=True, retry=False, expires=CYCLE_EXPIRES_S)
