"""Where a job runs, and that it really runs."""

from collections.abc import Mapping
from typing import Any

from django.apps import AppConfig
from django.db import transaction


class SchedulingConfig(AppConfig):
    name = "scheduling"
    label = "scheduling"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from celery import current_app

        from portal import clock
        from portal.outbox.registry import handler
        from scheduling.services import live, nodes_sync

        @handler("cycle.wanted")
        def cycle_wanted(key: str, payload: Mapping[str, Any]) -> None:
            """Placement is asked for at once; beat asks anyway."""
            transaction.on_commit(
                lambda: current_app.send_task("scheduling.cycle", queue="cycle", ignore_result=True, expires=30),
                robust=True,
            )

        @handler("agent.wake")
        def agent_wake(key: str, payload: Mapping[str, Any]) -> None:
            """End the held sync of a node: there is an assignment for it."""
            live.wake(str(payload["node"]))

        @handler("node.state")
        def node_state(key: str, payload: Mapping[str, Any]) -> None:
            """A node was listed, drained or retired."""
            nodes_sync.state_changed(node=str(payload["node"]), now=clock.now())
