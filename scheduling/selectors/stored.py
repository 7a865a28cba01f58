"""Logs and outputs, as somebody sees them."""

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from portal.accounts.models import Organisation
from portal.kit.errors import NotFound
from scheduling.domain.metrics import Point, Sample, points
from scheduling.models import Artefact, Attempt, Checkpoint, Job


def attempt_of(job: Job, *, task: str = "", attempt: str = "") -> Attempt | None:
    """The attempt whose log is meant: by id or number, else the newest one (of a task, by id or name). None = there
    is none yet.
    """
    rows = Attempt.objects.filter(task__job=job).select_related("task__job", "node").order_by("-id")
    if task:
        rows = rows.filter(task__public_id=task) if task.startswith("tsk_") else rows.filter(task__name=task)
        if (
            not rows.exists()
            and not job.tasks.filter(public_id=task).exists()
            and not job.tasks.filter(name=task).exists()
        ):
            raise NotFound(_("This job has no such task."), code="task_not_found")
    if not attempt:
        return rows.first()
    found = rows.filter(number=int(attempt)) if attempt.isdigit() else rows.filter(public_id=attempt)
    row = found.first()
    if row is None:
        raise NotFound(_("This job has no such attempt."), code="attempt_not_found")
    return row


def metrics_of(attempt: Attempt) -> list[Point]:
    """What an attempt used, as points of a chart."""
    rows = list(attempt.metrics.order_by("at", "id").values_list("at", "cpu_us", "memory_bytes", "network_bytes"))
    samples = [Sample((at - rows[0][0]).total_seconds(), cpu, memory, carried) for at, cpu, memory, carried in rows]
    return points(samples)


def artefacts_of(job: Job) -> "QuerySet[Artefact]":
    """The published outputs of a job, newest first."""
    return Artefact.objects.filter(job=job, published=True).select_related("job", "task", "attempt").order_by("-id")


def checkpoints_of(job: Job) -> "QuerySet[Checkpoint]":
    """The whole checkpoints of a job's tasks, newest first."""
    return Checkpoint.objects.filter(task__job=job, complete=True).select_related("task", "attempt").order_by("-id")


def artefacts(organisation: Organisation) -> "QuerySet[Artefact]":
    """All that an organisation has stored, newest first."""
    return (
        Artefact.objects.filter(organisation=organisation, published=True, state="stored")
        .select_related("job", "task", "attempt")
        .order_by("-id")
    )


def artefact(organisation: Organisation, public_id: str) -> Artefact:
    """One stored output; NotFound for a stranger's."""
    row = (
        Artefact.objects.filter(organisation=organisation, public_id=public_id)
        .exclude(published=False, state="stored")
        .select_related("job", "task", "attempt", "organisation")
        .first()
    )
    if row is None:
        raise NotFound(_("There is no such output that you can see."), code="artefact_not_found")
    return row
