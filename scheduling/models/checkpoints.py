"""What running attempts have stored of their state."""

from django.db import models
from django.db.models import Q

from portal import ids


def new_checkpoint_id() -> str:
    return ids.public_id("chk")


class Checkpoint(models.Model):
    """A tar of a task's checkpoint path as it stood at one moment. It counts once it is `complete` (all parts there,
    hash of the whole right); then the task's next attempt may begin with it.
    """

    public_id = models.CharField(max_length=32, unique=True, default=new_checkpoint_id, editable=False)
    task = models.ForeignKey("scheduling.Task", models.CASCADE, related_name="checkpoints")
    attempt = models.ForeignKey("scheduling.Attempt", models.CASCADE, related_name="checkpoints")
    fence = models.PositiveIntegerField()
    number = models.BigIntegerField()  # grows within an attempt; the agent's own count
    taken_at = models.DateTimeField()  # when the agent began to read, by our clock
    completed_at = models.DateTimeField(null=True)
    size_bytes = models.BigIntegerField(default=0)
    sha256 = models.CharField(max_length=64, blank=True)
    region = models.CharField(max_length=63, blank=True)
    parts = models.JSONField(default=list)  # as Artefact.parts
    object_name = models.CharField(max_length=300)
    complete = models.BooleanField(default=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["attempt", "number"], name="checkpoint_once"),
            models.CheckConstraint(
                condition=Q(complete=False) | Q(completed_at__isnull=False), name="checkpoint_complete_is_dated"
            ),
        ]
        indexes = [models.Index(fields=["task", "-fence", "-number"], name="checkpoint_newest")]  # accept, keep

    def __str__(self) -> str:
        return self.public_id
