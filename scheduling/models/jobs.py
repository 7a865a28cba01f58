"""What tenants ask for: a job, its tasks, and what happened to it."""

from django.db import models
from django.db.models import Q

from portal import ids
from portal.kit.money import MAX_UNIT_PRICE_MICRO


def new_job_id() -> str:
    return ids.public_id("job")


def new_task_id() -> str:
    return ids.public_id("tsk")


class Job(models.Model):
    """A spec under a policy. `state` is derived from the tasks (``domain.job``) and stored so that lists can filter."""

    public_id = models.CharField(max_length=32, unique=True, default=new_job_id, editable=False)
    organisation = models.ForeignKey("accounts.Organisation", models.PROTECT, related_name="jobs")
    project = models.ForeignKey("accounts.Project", models.PROTECT, related_name="jobs")
    name = models.CharField(max_length=63)
    submitted_by = models.CharField(max_length=80)  # usr_… or key_…
    spec = models.JSONField()  # normalised, defaults shown
    state = models.CharField(max_length=10, default="queued")  # queued running | done failed cancelled
    priority = models.PositiveSmallIntegerField(default=5)
    labels = models.JSONField(default=dict)
    currency = models.CharField(max_length=3)
    rental = models.CharField(max_length=5, default="fixed")
    max_price_micro = models.BigIntegerField(null=True)  # per hour and node
    budget_minor = models.BigIntegerField(null=True)
    budget_on_exceed = models.CharField(max_length=4, default="stop")
    quote = models.OneToOneField("scheduling.Quote", models.PROTECT, null=True, related_name="job")
    point = models.PositiveSmallIntegerField(null=True)  # index into the quote's points
    reason = models.CharField(max_length=30, blank=True)
    cancel_requested_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    event_sequence = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=["queued", "running", "done", "failed", "cancelled"]), name="job_state_known"
            ),
            models.CheckConstraint(condition=Q(priority__lte=9), name="job_priority_0_9"),
            models.CheckConstraint(
                condition=Q(max_price_micro=None)
                | Q(max_price_micro__gte=0, max_price_micro__lte=MAX_UNIT_PRICE_MICRO),
                name="job_cap_within_bounds",
            ),
            models.CheckConstraint(condition=Q(budget_minor=None) | Q(budget_minor__gt=0), name="job_budget_positive"),
        ]
        indexes = [
            models.Index(fields=["organisation", "-id"], name="job_of_organisation"),  # job list
            models.Index(
                fields=["state"], condition=Q(state__in=["queued", "running"]), name="job_open"
            ),  # operator's queue
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.public_id}"


class Task(models.Model):
    """One step of a job. The fence grows by one with each attempt, in the transaction that makes it."""

    public_id = models.CharField(max_length=32, unique=True, default=new_task_id, editable=False)
    job = models.ForeignKey(Job, models.CASCADE, related_name="tasks")
    name = models.CharField(max_length=63, default="main")
    index = models.PositiveIntegerField(default=0)
    spec = models.JSONField()  # the task's part of the normalised spec
    state = models.CharField(max_length=10, default="queued")  # waiting queued placed running | done failed cancelled
    fence = models.PositiveIntegerField(default=0)
    queued_at = models.DateTimeField()
    not_before = models.DateTimeField(null=True)  # a failover retry is a row, not a delay in a queue
    excluded_nodes = models.JSONField(default=list)  # node public ids that failed it
    failures = models.JSONField(default=dict)  # reason → count, for retry budgets
    first_failed_at = models.DateTimeField(null=True)
    retries_asked = models.PositiveIntegerField(default=0)  # by `retry`
    reason = models.CharField(max_length=30, blank=True)  # why it ended
    waiting = models.JSONField(null=True)  # why it waits: as contracts §6, written only when it changes
    waiting_since = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job", "name", "index"], name="task_once_per_job"),
            models.CheckConstraint(
                condition=Q(state__in=["waiting", "queued", "placed", "running", "done", "failed", "cancelled"]),
                name="task_state_known",
            ),
        ]
        indexes = [models.Index(fields=["id"], condition=Q(state="queued"), name="task_queue")]  # the cycle

    def __str__(self) -> str:
        return f"{self.name} {self.public_id}"


class JobEvent(models.Model):
    """What happened, in order; `sequence` grows per job. A change of the waiting reason is an event too."""

    public_id = models.CharField(max_length=32, unique=True)
    job = models.ForeignKey(Job, models.CASCADE, related_name="events")
    sequence = models.PositiveIntegerField()
    type = models.CharField(max_length=40)  # job.queued …, attempt.started …, task.waiting
    task = models.CharField(max_length=32, blank=True)  # public ids, as text
    attempt = models.CharField(max_length=32, blank=True)
    data = models.JSONField(default=dict)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job", "sequence"], name="event_sequence_once"),
            models.UniqueConstraint(
                fields=["job"],
                condition=Q(type__in=["job.done", "job.failed", "job.cancelled"], data__final=True),
                name="event_one_terminal",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.type} {self.sequence}"
