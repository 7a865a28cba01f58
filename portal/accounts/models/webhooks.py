"""Where an organisation wants to be told what happens, what was to be told, and how that went."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from portal import ids
from portal.accounts.models.organisations import Organisation


def new_endpoint_id() -> str:
    return ids.public_id("whk")


def new_delivery_id() -> str:
    return ids.public_id("whd")


class WebhookEndpoint(models.Model):
    """An address with a secret. `types` empty = all."""

    public_id = models.CharField(max_length=32, unique=True, default=new_endpoint_id, editable=False)
    organisation = models.ForeignKey(Organisation, models.CASCADE, related_name="webhooks")
    url = models.CharField(max_length=500)
    description = models.CharField(max_length=120, blank=True)
    types = ArrayField(models.CharField(max_length=40), default=list)
    sealed = models.TextField()  # of portal.vault
    sealed_before = models.TextField(blank=True)  # the one before, which signs too until `before_until`
    before_until = models.DateTimeField(null=True)
    enabled = models.BooleanField(default=True)
    failing_since = models.DateTimeField(null=True)  # the first failure since the last success
    created_by = models.CharField(max_length=80)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["organisation", "url"], name="webhook_url_once")]

    def __str__(self) -> str:
        return self.url


class WebhookEvent(models.Model):
    """Something that happened to an object of an organisation; `public_id` is its stable id for receivers."""

    public_id = models.CharField(max_length=32, unique=True)
    organisation = models.ForeignKey(Organisation, models.CASCADE)
    type = models.CharField(max_length=40)
    subject = models.CharField(max_length=40)  # public id of the job, node, …
    sequence = models.BigIntegerField()  # grows per subject
    data = models.JSONField(default=dict)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["subject", "type", "sequence"], name="webhook_event_once"),
        ]

    def __str__(self) -> str:
        return f"{self.type} {self.subject}"


class WebhookDelivery(models.Model):
    """One event for one endpoint: due | delivered failed. `log`: each try as {at, status, error, ms}."""

    public_id = models.CharField(max_length=32, unique=True, default=new_delivery_id, editable=False)
    endpoint = models.ForeignKey(WebhookEndpoint, models.CASCADE, related_name="deliveries")
    event = models.ForeignKey(WebhookEvent, models.CASCADE, related_name="deliveries")
    state = models.CharField(max_length=9, default="due")
    tries = models.PositiveSmallIntegerField(default=0)  # of this round; a re-sending begins a new one
    due_at = models.DateTimeField()
    log = models.JSONField(default=list)
    created_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["endpoint", "event"], name="webhook_delivery_once"),
            models.CheckConstraint(
                condition=Q(state__in=["due", "delivered", "failed"]), name="webhook_delivery_state"
            ),
        ]
        indexes = [
            models.Index(fields=["due_at"], condition=Q(state="due"), name="webhook_due"),  # the sender
            models.Index(fields=["endpoint", "-id"], name="webhook_of_endpoint"),  # the list
        ]

    def __str__(self) -> str:
        return f"{self.event} → {self.endpoint}"
