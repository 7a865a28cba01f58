"""The Celery app, its queues and the timetable: the only place that says "every N seconds".

A task is three lines in a business's `tasks.py`: decorator, def, one service call with ``now=clock.now()``. Losing a message costs one period, as beat asks
again; running twice is harmless, as every write is guarded. Each entry expires after its period, so a stopped worker finds no heap of old questions.

| queue | worker | why apart |
|---|---|---|
| cycle | worker-cycle | placement |
| recovery | recovery | nothing else may delay a failover |
| relay, billing | worker-relay | mail, wake-ups; a month's close may take a minute |
| webhooks | worker-webhooks | a receiver may take ten seconds to answer |
"""

import os
import warnings
from importlib import import_module
from typing import Any

from celery import Celery
from celery.signals import worker_process_init
from django.conf import settings

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

# Containers and the embedded profile run workers as root; Celery's own warning about it helps nobody there.
warnings.filterwarnings("ignore", message="You're running the worker with superuser privileges")

app = Celery("idlewild")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.update(settings.REDBEAT)
app.autodiscover_tasks(["portal.outbox", "portal.accounts", "marketplace", "scheduling", "billing"])


@worker_process_init.connect
def start_engine(**_: Any) -> None:
    """Each worker process loads the engine's compiled loops before its first message; the import waits for the apps."""
    import_module("scheduling.services.backend").start()


SECOND, MINUTE, HOUR, DAY = 1.0, 60.0, 3_600.0, 86_400.0

# task → (queue, period in seconds)
TIMETABLE: dict[str, tuple[str, float]] = {
    "scheduling.cycle": ("cycle", 1 * SECOND),
    "scheduling.sweep": ("recovery", settings.IDLEWILD_SWEEP_EVERY_S),
    "scheduling.links": ("cycle", 5 * SECOND),
    "scheduling.refresh": ("cycle", 5 * SECOND),
    "scheduling.reconcile": ("cycle", 30 * SECOND),
    "scheduling.presence": ("cycle", 15 * SECOND),
    "scheduling.learn": ("relay", 30 * SECOND),
    "scheduling.expire": ("relay", 1 * MINUTE),
    "scheduling.funds": ("relay", 15 * SECOND),
    "marketplace.expire": ("relay", 1 * MINUTE),
    "portal.relay": ("relay", 1 * SECOND),
    "portal.expire": ("relay", 1 * HOUR),
    "portal.webhooks": ("webhooks", 1 * SECOND),
    "billing.holds": ("billing", 1 * MINUTE),
    "billing.close": ("billing", 1 * HOUR),
    "billing.past_due": ("billing", 1 * HOUR),
    "billing.budgets": ("billing", 1 * MINUTE),
    "billing.reminders": ("billing", 1 * HOUR),
    "billing.payments": ("billing", 5 * MINUTE),
    "billing.payouts": ("billing", 1 * HOUR),
    "billing.reconcile": ("billing", 1 * DAY),
    "billing.prove": ("billing", 1 * DAY),
}


def entry(task: str, queue: str, every: float) -> dict[str, Any]:
    return {
        "task": task,
        "schedule": every,
        "options": {"queue": queue, "expires": max(every, 1.0), "ignore_result": True},
    }


app.conf.beat_schedule = {task: entry(task, queue, every) for task, (queue, every) in TIMETABLE.items()}
app.conf.task_routes = {task: {"queue": queue} for task, (queue, _) in TIMETABLE.items()}
