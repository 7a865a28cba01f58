"""A promise of placements and prices that lasts ten minutes."""

from django.db import models
from django.db.models import Q

from portal import ids


def new_quote_id() -> str:
    return ids.public_id("quo")


class Quote(models.Model):
    """Points of the Pareto front for a spec, with their costs; used at most once."""

    public_id = models.CharField(max_length=32, unique=True, default=new_quote_id, editable=False)
    organisation = models.ForeignKey("accounts.Organisation", models.PROTECT)
    project = models.ForeignKey("accounts.Project", models.PROTECT)
    made_by = models.CharField(max_length=80)
    state = models.CharField(max_length=7, default="open")  # open | used expired
    spec = models.JSONField()
    spec_digest = models.CharField(max_length=64)
    rental = models.CharField(max_length=5)
    currency = models.CharField(max_length=3)
    points = (
        models.JSONField()
    )  # [{index, offer, node, region, zone, values, cost {low, expected, high}, prices, transfer, roles}]
    pick = models.PositiveSmallIntegerField(null=True)  # the policy's choice, an index into points
    reason = models.JSONField(default=dict)  # why that one
    seen = models.JSONField(default=dict)  # looked at, kept, per tier
    refused = models.JSONField(default=list)  # per tier and reason: count, asked, best, unit
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(state__in=["open", "used", "expired"]), name="quote_state_known")
        ]
        indexes = [models.Index(fields=["expires_at"], condition=Q(state="open"), name="quote_open")]  # expiry

    def __str__(self) -> str:
        return self.public_id
