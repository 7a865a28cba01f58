"""What happened to a job, in order: one row per event, numbered without gaps per job."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db.models import F

from portal import ids
from scheduling.models import Job, JobEvent


def write(
    *,
    job_id: int,
    type: str,
    now: datetime,
    task: str = "",
    attempt: str = "",
    data: Mapping[str, Any] | None = None,
) -> JobEvent:
    """Append an event to a job, in the running transaction.

    It locks the job's row, which comes last in the order of locks (Task, Attempt, Lease, NodeState, Job).
    """
    Job.objects.filter(id=job_id).update(event_sequence=F("event_sequence") + 1)
    sequence = Job.objects.values_list("event_sequence", flat=True).get(id=job_id)
    return JobEvent.objects.create(
        public_id=ids.public_id("evt", at=now),
        job_id=job_id,
        sequence=sequence,
        type=type,
        task=task,
        attempt=attempt,
        data=dict(data or {}),
        created_at=now,
    )
