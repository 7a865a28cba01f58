"""Jobs, tasks, attempts and leases as rows, for tests of what stands above them."""

from datetime import datetime, timedelta
from typing import Any

from marketplace.models import Node
from scheduling.models import Attempt, Job, Lease, Task
from tests.cast import THEN, Person

SPEC = {"run": "true", "resources": {"cpus": 1}}


def a_job(of: Person, *, name: str = "job", state: str = "queued", now: datetime = THEN, **fields: Any) -> Job:
    """A job with one task, `main`."""
    job = Job.objects.create(
        organisation=of.organisation,
        project=of.project,
        name=name,
        submitted_by=of.id,
        spec={"name": name, **SPEC},
        state=state,
        currency=of.organisation.currency,
        created_at=now,
        **fields,
    )
    Task.objects.create(job=job, spec=SPEC, queued_at=now)
    return job


def an_attempt(of: Job, on: Node, *, state: str = "running", now: datetime = THEN, **fields: Any) -> Attempt:
    """The next attempt of the job's task, under the next fence."""
    task = of.tasks.get()
    task.fence += 1
    task.state = "running" if state == "running" else "placed"
    task.save()
    return Attempt.objects.create(
        task=task,
        node=on,
        number=task.fence,
        fence=task.fence,
        state=state,
        isolation=on.isolation,
        assigned_at=now,
        accepted_at=now,
        started_at=now,
        **fields,
    )


def a_lease(
    of: Node,
    *,
    attempt: Attempt,
    cores: int = 1,
    cards: int = 0,
    state: str = "active",
    now: datetime = THEN,
    ttl: timedelta = timedelta(seconds=15),
    prices: dict[str, Any] | None = None,
) -> Lease:
    """A lease of `of` for an attempt. The database's guard books the capacity or refuses."""
    return Lease.objects.create(
        attempt=attempt,
        node=of,
        fence=attempt.fence,
        state=state,
        lease_class="standard",
        action="replace",
        cores_milli=cores * 1000,
        memory_mib=1024,
        disk_gib=1,
        cards=cards,
        devices=[],
        prices=prices or {"currency": "CNY", "rental": "fixed", "items": {}},
        created_at=now,
        accept_by=now + timedelta(seconds=3),
        expires_at=now + ttl,
    )
