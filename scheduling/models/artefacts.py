"""Stored outputs."""

from django.db import models
from django.db.models import Q

from portal import ids


def new_artefact_id() -> str:
    return ids.public_id("art")


class Artefact(models.Model):
    """An output of an attempt. It belongs to the task only once `published`, in the transaction that accepts the
    result.
    """

    public_id = models.CharField(max_length=32, unique=True, default=new_artefact_id, editable=False)
    organisation = models.ForeignKey("accounts.Organisation", models.PROTECT)
    job = models.ForeignKey("scheduling.Job", models.PROTECT, related_name="artefacts")
    task = models.ForeignKey("scheduling.Task", models.PROTECT, related_name="artefacts")
    attempt = models.ForeignKey("scheduling.Attempt", models.PROTECT, related_name="artefacts")
    name = models.CharField(max_length=120)
    path = models.CharField(max_length=500)  # where it stood under /job
    size_bytes = models.BigIntegerField(default=0)
    sha256 = models.CharField(max_length=64, blank=True)
    region = models.CharField(max_length=63, blank=True)
    kind = models.CharField(max_length=9, default="FILE")  # FILE, DIRECTORY: a tar archive
    parts = models.JSONField(default=list)  # [[offset, length, sha256], …]: contiguous objects `object_name`.<offset>
    object_name = models.CharField(max_length=300)
    complete = models.BooleanField(default=False)
    published = models.BooleanField(default=False)
    state = models.CharField(max_length=8, default="stored")  # stored | deleted expired
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["attempt", "name"], name="artefact_once_per_attempt"),
            models.UniqueConstraint(
                fields=["task", "name"], condition=Q(published=True, state="stored"), name="artefact_one_published"
            ),
            models.CheckConstraint(
                condition=Q(state__in=["stored", "deleted", "expired"]), name="artefact_state_known"
            ),
        ]

    def __str__(self) -> str:
        return self.name
