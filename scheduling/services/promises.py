"""The outbox topics that scheduling keeps: a cycle is wanted, an agent is to be woken, a node's enrolment has moved."""

from collections.abc import Mapping
from typing import Any

from celery import current_app
from django.db import transaction

from portal import clock
from portal.outbox.registry import handler
from scheduling.services import live, nodes_sync

CYCLE_EXPIRES_S = 30


@handler("cycle.wanted")
def cycle_wanted(key: str, payload: Mapping[str, Any]) -> None:
    """Placement is asked for at once; beat asks anyway."""
    transaction.on_commit(_ask_for_a_cycle, robust=True)


@handler("agent.wake")
def agent_wake(key: str, payload: Mapping[str, Any]) -> None:
    """End the held sync of a node: there is an assignment for it."""
    live.wake(str(payload["node"]))


@handler("node.state")
def node_state(key: str, payload: Mapping[str, Any]) -> None:
    """A node was listed, drained or retired."""
    nodes_sync.state_changed(node=str(payload["node"]), now=clock.now())


def _ask_for_a_cycle() -> None:
    current_app.send_task("scheduling.cycle", queue="cycle", ignore_result=True, retry=False, expires=CYCLE_EXPIRES_S)
