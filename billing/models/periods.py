"""Billing months of a tenant, as they were when they opened."""

from django.db import models
from django.db.models import F, Q

from billing.domain.periods import PeriodState


class BillingPeriod(models.Model):
    """``[starts_at, ends_at)`` under the name of a month. Bounds and zone never change; a closed period changes in nothing."""

    organisation = models.ForeignKey("accounts.Organisation", models.PROTECT, related_name="periods")
    month = models.CharField(max_length=7)
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    timezone = models.CharField(max_length=40)
    state = models.CharField(max_length=10, default=PeriodState.OPEN)
    closed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["organisation", "month"], name="period_month_once"),
            models.UniqueConstraint(fields=["organisation", "starts_at"], name="period_start_once"),
            models.UniqueConstraint(fields=["organisation", "ends_at"], name="period_end_once"),
            models.CheckConstraint(condition=Q(ends_at__gt=F("starts_at")), name="period_has_length"),
            models.CheckConstraint(condition=Q(state__in=[s.value for s in PeriodState]), name="period_state_known"),
        ]
        indexes = [
            models.Index(
                fields=["ends_at"], condition=~Q(state=PeriodState.CLOSED), name="period_to_close"
            ),  # close_due
        ]

    def __str__(self) -> str:
        return f"{self.organisation_id} {self.month}"
