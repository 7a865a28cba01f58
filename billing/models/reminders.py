"""What a tenant was told about an unpaid invoice: each step once."""

from django.db import models


class Reminder(models.Model):
    """One step of the ladder (``domain.dunning``) that was taken; append-only."""

    invoice = models.ForeignKey("billing.Invoice", models.PROTECT, related_name="reminders")
    step = models.CharField(max_length=16)
    open_minor = models.BigIntegerField()
    sent_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["invoice", "step"], name="reminder_once")]

    def __str__(self) -> str:
        return f"{self.invoice_id} {self.step}"
