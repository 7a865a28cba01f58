"""Events that the rail told us, each once; and what the daily comparison of its balance with our ledger found."""

from enum import StrEnum

from django.db import models
from django.db.models import F, Q


class InboxState(StrEnum):
    RECEIVED = "received"
    DONE = "done"
    DEAD = "dead"


class WebhookInbox(models.Model):
    """A signed event. Row and effects commit together: a redelivery finds both or neither."""

    source = models.CharField(max_length=20, default="stripe")
    event_id = models.CharField(max_length=80)
    type = models.CharField(max_length=80)
    account = models.CharField(max_length=80, blank=True)
    about = models.CharField(max_length=80, blank=True)
    state = models.CharField(max_length=10, default=InboxState.RECEIVED)
    problem = models.TextField(blank=True)
    received_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["source", "event_id"], name="webhook_once"),
            models.CheckConstraint(condition=Q(state__in=[s.value for s in InboxState]), name="webhook_state_known"),
        ]
        indexes = [models.Index(fields=["state", "-id"], name="webhook_by_state")]  # operator's page

    def __str__(self) -> str:
        return f"{self.type} {self.event_id}"


class Reconciliation(models.Model):
    """One comparison in one currency; append-only. `drift` = what the rail has more than the ledger says."""

    at = models.DateTimeField()
    currency = models.CharField(max_length=3)
    rail_minor = models.BigIntegerField()
    ledger_minor = models.BigIntegerField()
    drift_minor = models.BigIntegerField()
    unknown = models.JSONField(default=list)  # movements of the rail that no posting of ours names

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["at", "currency"], name="reconciliation_once"),
            models.CheckConstraint(
                condition=Q(drift_minor=F("rail_minor") - F("ledger_minor")), name="reconciliation_adds_up"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d} {self.currency}: {self.drift_minor}"
