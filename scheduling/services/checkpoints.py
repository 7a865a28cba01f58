"""Checkpoints: stored while a task runs, under its fence; handed to its next attempt, wherever that runs.

An upload belongs to an attempt that lives under the fence it names, so an old attempt can add nothing once a newer one
exists. What is whole is kept (the newest ``checkpoint.keep``) until a day after the job has ended.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.db import transaction
from django.utils.translation import gettext as _

from portal.kit.errors import Conflict, NotFound, TooLarge
from scheduling.domain import checkpoint as rules
from scheduling.domain.attempt import ENDED
from scheduling.domain.demand import TaskSpec
from scheduling.domain.job import JOB_OPEN
from scheduling.gateways import objects
from scheduling.models import Attempt, Checkpoint, Task
from scheduling.services import live, pieces
from scheduling.services.pieces import Part, Stored

GIB, SLACK = 1024**3, 1024**2
OFFERED = 3
"""So many an attempt is told of: if the newest cannot be read, it begins with an older one."""
EXPIRE_BATCH = 200


def upload(*, attempt: Attempt, number: int, part: Part, age: timedelta, now: datetime) -> Stored:
    """Store one part of checkpoint `number` of a live attempt; `age`: how long ago its agent began to read it."""
    wanted = TaskSpec.from_form(attempt.task.spec).checkpoint
    if wanted is None:
        raise NotFound(_("This job stores no checkpoints."), code="checkpoint_unknown")
    if part.total > attempt.lease.disk_gib * GIB + SLACK:
        raise TooLarge(_("A checkpoint is at most as large as the disk of its job."))
    pieces.check(part)
    with transaction.atomic():
        row = _row(attempt, number, now - age)
        taken = pieces.take(row, part)
        completed = row.complete and row.completed_at is None
        if completed:
            row.completed_at = now
        row.save(update_fields=["parts", "size_bytes", "complete", "sha256", "completed_at"])
        if completed:
            live.changed(f"job.{attempt.task.job.public_id}")
    if completed:
        _tidy(attempt.task, wanted.keep)
    return taken


def offered(*, task: Task) -> list[Checkpoint]:
    """What an attempt may begin with, newest first."""
    return list(Checkpoint.objects.filter(task=task, complete=True).order_by("-fence", "-number")[:OFFERED])


def hand_over(*, attempt: Attempt, checkpoint: str) -> Checkpoint:
    """The checkpoint that a live attempt asks for, noted on it; NotFound unless it is its own task's."""
    row = Checkpoint.objects.filter(task=attempt.task, public_id=checkpoint, complete=True).first()
    if row is None:
        raise NotFound(_("There is no such checkpoint of this task."), code="checkpoint_gone")
    if attempt.resumed_from != row.public_id:
        updated = Attempt.objects.filter(id=attempt.id, fence=attempt.fence).update(resumed_from=row.public_id)
        if updated != 1:
            raise Conflict(_("The attempt has changed meanwhile."), code="attempt_moved")
    return row


def content(*, checkpoint: Checkpoint, start: int = 0) -> Iterator[bytes]:
    """Its bytes (a tar) from `start` on."""
    found: Iterator[bytes] = pieces.read(checkpoint, start)
    return found


def expire(*, now: datetime) -> int:
    """Delete the checkpoints of jobs that ended a day ago, a batch per call; returns how many."""
    old = list(
        Checkpoint.objects.filter(task__job__ended_at__lt=now - rules.KEPT_FOR)
        .exclude(task__job__state__in=[state.value for state in JOB_OPEN])
        .order_by("id")[:EXPIRE_BATCH]
    )
    return _delete(old)


def _row(attempt: Attempt, number: int, taken_at: datetime) -> Checkpoint:
    row, _made = Checkpoint.objects.get_or_create(
        attempt=attempt,
        number=number,
        defaults={
            "task": attempt.task,
            "fence": attempt.fence,
            "taken_at": taken_at,
            "region": attempt.node.zone.region.slug,
            "object_name": objects.checkpoint_name(attempt.public_id, number),
        },
    )
    locked: Checkpoint = Checkpoint.objects.select_for_update(no_key=True).get(id=row.id)
    return locked


def _tidy(task: Task, keep: int) -> None:
    rows = {row.id: row for row in Checkpoint.objects.filter(task=task).select_related("attempt")}
    stored = [
        rules.Stored(row.id, row.fence, row.number, row.complete, row.attempt.state in ENDED) for row in rows.values()
    ]
    _delete([rows[one] for one in sorted(rules.to_drop(stored, keep=keep))])


def _delete(rows: list[Checkpoint]) -> int:
    """The rows first: bytes without a row are waste, a row without bytes would be a promise."""
    gone = 0
    for row in rows:
        gone += Checkpoint.objects.filter(id=row.id).delete()[0]
        pieces.drop(row)
    return gone
