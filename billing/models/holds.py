"""Money that a job has reserved."""

from django.db import models
from django.db.models import Q

from billing.domain.holds import HoldState
from portal import ids


def new_hold_id() -> str:
    return ids.public_id("hld")


class Hold(models.Model):
    """A part of a tenant's limit that is kept for one reference (a job's public id)."""

    public_id = models.CharField(max_length=32, unique=True, default=new_hold_id, editable=False)
    organisation = models.ForeignKey("accounts.Organisation", models.PROTECT, related_name="holds")
    reference = models.CharField(max_length=80)
    currency = models.CharField(max_length=3)
    amount_minor = models.BigIntegerField()
    captured_minor = models.BigIntegerField(default=0)
    funded_minor = models.BigIntegerField(default=0)  # wallet money of this hold that lies in the ledger's hold account
    moves = models.PositiveIntegerField(default=0)  # numbers the postings of this hold
    project_ref = models.CharField(max_length=80, blank=True)  # so that budgets count it
    department = models.CharField(max_length=120, blank=True)
    hours = models.JSONField(default=dict)  # resource → granted resource-microseconds it keeps instead of money
    givers = models.JSONField(default=list)  # organisations whose nodes those hours are good for
    state = models.CharField(max_length=10, default=HoldState.ACTIVE)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["reference"], condition=Q(state=HoldState.ACTIVE), name="hold_active_once"),
            models.CheckConstraint(condition=Q(amount_minor__gte=0, captured_minor__gte=0), name="hold_not_negative"),
            models.CheckConstraint(condition=Q(funded_minor__gte=0), name="hold_funds_not_negative"),
            models.CheckConstraint(condition=Q(state__in=[s.value for s in HoldState]), name="hold_state_known"),
        ]
        indexes = [
            models.Index(
                fields=["organisation"], condition=Q(state=HoldState.ACTIVE), name="hold_against_limit"
            ),  # may_spend
            models.Index(
                fields=["organisation"], condition=Q(funded_minor__gt=0), name="hold_with_funds"
            ),  # month close
            models.Index(fields=["reference"], condition=~Q(givers=[]), name="hold_of_hours"),  # cycle
        ]

    def __str__(self) -> str:
        return f"{self.reference}: {self.amount_minor}"
