"""Answers already given, so that a repeated request is not a second deed.

Keyed by the plain organisation id: this floor knows no organisations.
"""

from enum import StrEnum

from django.db import models
from django.db.models import Q


class IdempotencyState(StrEnum):
    BUSY = "busy"
    DONE = "done"


class IdempotencyKey(models.Model):
    """One key of one organisation: what was asked (a digest) and what was answered. Kept 30 days."""

    organisation_id = models.BigIntegerField()
    key = models.CharField(max_length=200)
    digest = models.CharField(max_length=64)  # of method, path and body
    state = models.CharField(max_length=4, default=IdempotencyState.BUSY)
    status = models.PositiveSmallIntegerField(null=True)
    body = models.JSONField(null=True)
    location = models.CharField(max_length=200, blank=True)
    started_at = models.DateTimeField(db_index=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["organisation_id", "key"], name="idempotency_key_once"),
            models.CheckConstraint(
                condition=Q(state=IdempotencyState.BUSY) | Q(state=IdempotencyState.DONE, status__isnull=False),
                name="idempotency_done_has_answer",
            ),
        ]

    def __str__(self) -> str:
        return self.key
