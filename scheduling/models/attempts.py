"""One try of a task on one node."""

from django.db import models
from django.db.models import Q

from portal import ids

LIVE = ("assigned", "leased", "running", "unreachable", "cancelling")
ENDED = ("succeeded", "failed", "oom", "timeout", "cancelled", "assignment_expired", "lost")


def new_attempt_id() -> str:
    return ids.public_id("att")


class Attempt(models.Model):
    """States as house §7. Every change is a conditional UPDATE on (state, fence), its row count checked."""

    public_id = models.CharField(max_length=32, unique=True, default=new_attempt_id, editable=False)
    task = models.ForeignKey("scheduling.Task", models.CASCADE, related_name="attempts")
    node = models.ForeignKey("marketplace.Node", models.PROTECT, related_name="attempts")
    number = models.PositiveIntegerField()
    fence = models.PositiveIntegerField()
    rank = models.PositiveSmallIntegerField(default=0)  # gang member
    state = models.CharField(max_length=20, default="assigned")
    address = models.CharField(
        max_length=64, blank=True
    )  # whence its agent accepted: what the others of a gang are told
    state_before = models.CharField(max_length=20, blank=True)  # where a renewal leads back to from unreachable
    phase = models.CharField(max_length=12, blank=True)  # pulling staging restoring setup run uploading
    frozen = models.BooleanField(default=False)
    isolation = models.CharField(max_length=5, blank=True)
    reason = models.CharField(max_length=30, blank=True)
    fault = models.CharField(max_length=10, blank=True)  # tenant provider platform none
    actor = models.CharField(max_length=80, blank=True)
    message = models.TextField(blank=True)
    exit_code = models.IntegerField(null=True)
    replaced_by = models.ForeignKey("self", models.SET_NULL, null=True, related_name="+")
    displaced_by = models.CharField(max_length=32, blank=True)
    result_accepted = models.BooleanField(default=False)
    assigned_at = models.DateTimeField()
    accepted_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)  # first process start: metering begins
    proven_until = models.DateTimeField(null=True)  # end of the last stored usage interval
    ended_at = models.DateTimeField(null=True)
    stop_requested_at = models.DateTimeField(null=True)
    stop_reason = models.CharField(max_length=30, blank=True)
    resumed_from = models.CharField(max_length=32, blank=True)  # the checkpoint that it was given
    stats = models.JSONField(default=dict)  # cpu_us, mem_peak_bytes: shown only

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["task", "rank"], condition=Q(state__in=LIVE), name="attempt_one_live_per_task"
            ),
            models.UniqueConstraint(fields=["task", "fence", "rank"], name="attempt_once_per_fence"),
            models.UniqueConstraint(
                fields=["task", "rank"], condition=Q(result_accepted=True), name="attempt_one_accepted_result"
            ),
            models.CheckConstraint(condition=Q(state__in=LIVE + ENDED), name="attempt_state_known"),
        ]
        indexes = [
            models.Index(fields=["node"], condition=Q(state__in=LIVE), name="attempt_live_of_node")
        ]  # sync, reconcile

    def __str__(self) -> str:
        return self.public_id


class AttemptReport(models.Model):
    """What an agent said once, and what it was answered: the same report again gets the same answer."""

    attempt = models.ForeignKey(Attempt, models.CASCADE, related_name="reports")
    seq = models.PositiveBigIntegerField()
    kind = models.CharField(max_length=20)  # phase, finish, usage:<resource>
    body_hash = models.CharField(max_length=64)
    answer = models.JSONField()
    received_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["attempt", "kind", "seq"], name="report_once")]

    def __str__(self) -> str:
        return f"{self.kind} {self.seq} of {self.attempt}"
