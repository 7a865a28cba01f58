"""What happened to a job, in order: one row per event, numbered without gaps per job.

Everything that is told about jobs goes through :func:`write_all`, one event or the hundreds of a commit.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import QuerySet

from portal import ids
from portal.accounts.services import webhooks
from portal.kit.webhooks import TYPES
from scheduling.models import Job, JobEvent

TOLD = frozenset(TYPES)
"""Types that webhooks tell; the others are for the job's own page."""


@dataclass(frozen=True)
class Happened:
    """An event to write: its type, the public ids of task and attempt, its data."""

    type: str
    task: str = ""
    attempt: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)


def lock_jobs(jobs: Collection[int]) -> QuerySet[Job]:
    """Lock these jobs in the order of their ids; they come last in the order of locks (Task, Attempt, Lease, NodeState, Job)."""
    list(Job.objects.select_for_update(no_key=True).filter(id__in=list(jobs)).order_by("id").values_list("id"))
    return Job.objects.filter(id__in=list(jobs))


def write_all(*, happened: Mapping[int, Sequence[Happened]], now: datetime) -> list[JobEvent]:
    """Append events to jobs (by id), in the running transaction; they are numbered under the locks of the jobs' rows."""
    counts = {job: len(told) for job, told in sorted(happened.items()) if told}
    if not counts:
        return []
    lock_jobs(counts)
    with connection.cursor() as cursor:
        cursor.execute(_NUMBER, [list(counts), list(counts.values())])
        last = dict(cursor.fetchall())
    written = JobEvent.objects.bulk_create(
        JobEvent(
            public_id=ids.public_id("evt", at=now),
            job_id=job,
            sequence=last[job] - counts[job] + place,
            type=told.type,
            task=told.task,
            attempt=told.attempt,
            data=dict(told.data),
            created_at=now,
        )
        for job in counts
        for place, told in enumerate(happened[job], start=1)
    )
    _tell([row for row in written if row.type in TOLD], now)
    return written


def _tell(rows: Sequence[JobEvent], now: datetime) -> None:
    """The tenants' webhooks, in the same transaction; nothing is asked where nobody listens."""
    told = webhooks.listening() if rows else frozenset()
    if not told:
        return
    jobs = Job.objects.only("organisation_id", "public_id", "name", "labels").in_bulk({row.job_id for row in rows})
    for row in rows:
        job = jobs[row.job_id]
        if job.organisation_id not in told:
            continue
        named = {name: value for name, value in (("task", row.task), ("attempt", row.attempt)) if value}
        webhooks.emit(
            organisation_id=job.organisation_id,
            type=row.type,
            subject=job.public_id,
            sequence=row.sequence,
            data={"job": {"id": job.public_id, "name": job.name, "labels": job.labels}, **row.data, **named},
            now=now,
        )


_NUMBER = """
UPDATE scheduling_job AS job SET event_sequence = job.event_sequence + x.count
  FROM unnest(%s::bigint[], %s::bigint[]) AS x(id, count) WHERE job.id = x.id RETURNING job.id, job.event_sequence
"""


def write(
    *,
    job_id: int,
    type: str,
    now: datetime,
    task: str = "",
    attempt: str = "",
    data: Mapping[str, Any] | None = None,
) -> JobEvent:
    """Append one event to a job, in the running transaction."""
    return write_all(happened={job_id: [Happened(type, task, attempt, data or {})]}, now=now)[0]
