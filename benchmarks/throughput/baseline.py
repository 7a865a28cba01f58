"""The plain way: one job, one transaction. Prints JSON.

    python -m benchmarks.throughput.baseline 300

For each queued task: the cheapest node that has room, by SQL and under its lock, then attempt, lease, event, job state and wake-up, committed. No
columns, no front, no stored decision, no fairness: less work than the product does for a placement, done one at a time.
"""

import json
import os
import sys
import time
from datetime import timedelta
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
django.setup()

from django.db import connection, transaction  # noqa: E402 models come after the set-up
from django.db.models import F  # noqa: E402

from benchmarks.throughput import market  # noqa: E402
from portal import celery, clock  # noqa: E402, F401 the app whose broker the outbox nudges
from portal.outbox.services import put  # noqa: E402
from scheduling.models import Attempt, EngineLeader, Job, Lease, NodeState, Task  # noqa: E402
from scheduling.services import events, leader  # noqa: E402

STEP_ASIDE_S = 3.0
CHEAPEST = """
SELECT state.node_id FROM scheduling_nodestate state
  JOIN marketplace_offer offer ON offer.node_id = state.node_id AND offer.state = 'published'
  JOIN marketplace_priceversion price ON price.offer_id = offer.id AND price.sku = 'core:-:fixed' AND price.valid_until IS NULL
 WHERE state.open AND state.free_cores_milli >= %s AND state.free_memory_mib >= %s AND state.free_disk_gib >= %s
 ORDER BY price.unit_price_micro, state.node_id LIMIT 1 FOR UPDATE OF state
"""


def placed(count: int) -> dict[str, Any]:
    """Submit `count` jobs and place them, oldest first; the engine sees that another leads and stands aside."""
    EngineLeader.objects.filter(id=1).update(holder="baseline", until=clock.now() + timedelta(minutes=10))
    time.sleep(STEP_ASIDE_S)
    market.submit(count, 0)
    try:
        return _all(count)
    finally:
        leader.resign(holder="baseline")


def _all(count: int) -> dict[str, Any]:
    tasks = list(Task.objects.filter(state="queued").order_by("id").values_list("id", flat=True)[:count])
    began = time.monotonic()
    done = sum(_one(task) for task in tasks)
    seconds = time.monotonic() - began
    return {"placed": done, "seconds": round(seconds, 3), "per_s": round(done / seconds, 1) if seconds else 0.0}


def _one(task_id: int) -> bool:
    now = clock.now()
    with transaction.atomic():
        task = Task.objects.select_for_update().filter(id=task_id, state="queued").first()
        if task is None:
            return False
        needs = task.spec["resources"]
        with connection.cursor() as cursor:
            cursor.execute(CHEAPEST, [needs["cores_milli"], needs["memory_mib"], needs["disk_gib"]])
            found = cursor.fetchone()
        if found is None:
            return False
        node = found[0]
        NodeState.objects.filter(node_id=node).update(
            free_cores_milli=F("free_cores_milli") - needs["cores_milli"],
            free_memory_mib=F("free_memory_mib") - needs["memory_mib"],
            free_disk_gib=F("free_disk_gib") - needs["disk_gib"],
        )
        Task.objects.filter(id=task.id).update(state="placed", fence=F("fence") + 1)
        attempt = Attempt.objects.create(task=task, node_id=node, number=1, fence=1, assigned_at=now)
        Lease.objects.create(
            attempt=attempt, node_id=node, fence=1, lease_class="standard", action="replace", cores_milli=needs["cores_milli"],
            memory_mib=needs["memory_mib"], disk_gib=needs["disk_gib"], prices={}, created_at=now, accept_by=now, expires_at=now,
        )  # fmt: skip
        events.write(job_id=task.job_id, type="attempt.assigned", attempt=attempt.public_id, now=now)
        Job.objects.filter(id=task.job_id).update(state="running")
        events.write(job_id=task.job_id, type="job.running", now=now)
        put(topic="baseline.wake", key=attempt.public_id, payload={"node": node}, now=now)
    return True


if __name__ == "__main__":
    print(json.dumps(placed(int(sys.argv[1]))))
