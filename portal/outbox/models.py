"""Effects promised inside a transaction and performed after it: mail, webhooks, wake-ups, calls to the payment rail.

A row is written by the transaction that decides, and sent at least once by the relay; the receiver is keyed, so a
repetition does nothing.
"""

from django.db import models


class OutboxMessage(models.Model):
    """One promised effect. `key` is unique per topic: promising the same thing twice is one promise."""

    topic = models.CharField(max_length=60)
    key = models.CharField(max_length=200)
    payload = models.JSONField(default=dict)
    created_at = models.DateTimeField()
    due_at = models.DateTimeField()
    sent_at = models.DateTimeField(null=True)
    tries = models.PositiveIntegerField(default=0)
    last_error = models.TextField(blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["topic", "key"], name="outbox_topic_key_once")]
        indexes = [models.Index(fields=["due_at"], condition=models.Q(sent_at=None), name="outbox_due")]  # the relay

    def __str__(self) -> str:
        return f"{self.topic} {self.key}"
