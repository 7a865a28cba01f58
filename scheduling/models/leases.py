"""Capacity of a node promised to one attempt until it expires."""

from django.db import models
from django.db.models import Q

from portal import ids


def new_lease_id() -> str:
    return ids.public_id("lse")


class Lease(models.Model):
    """A trigger on insert locks the node's capacity row and refuses what exceeds it (23514), also by raw SQL."""

    public_id = models.CharField(max_length=32, unique=True, default=new_lease_id, editable=False)
    attempt = models.OneToOneField("scheduling.Attempt", models.CASCADE, related_name="lease")
    node = models.ForeignKey("marketplace.Node", models.PROTECT, related_name="leases")
    fence = models.PositiveIntegerField()
    state = models.CharField(max_length=8, default="pending")  # pending active | released expired revoked
    lease_class = models.CharField(max_length=8)  # fast standard tolerant
    action = models.CharField(max_length=7)  # replace wait stop
    grace_ms = models.BigIntegerField(default=0)  # G of `wait`
    cores_milli = models.PositiveIntegerField()
    memory_mib = models.PositiveIntegerField()
    disk_gib = models.PositiveIntegerField()
    cards = models.PositiveSmallIntegerField(default=0)
    card_model = models.CharField(max_length=80, blank=True)
    devices = models.JSONField(default=list)  # local ids of the cards
    prices = models.JSONField()  # snapshot: see scheduling.services.cycle
    secret_hash = models.CharField(max_length=64, blank=True)
    created_at = models.DateTimeField()
    accept_by = models.DateTimeField()
    expires_at = models.DateTimeField()  # renewals in Redis extend beyond; only PostgreSQL ends a lease
    ended_at = models.DateTimeField(null=True)
    capacity_freed = models.BooleanField(default=False)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=["pending", "active", "released", "expired", "revoked"]), name="lease_state_known"
            )
        ]
        indexes = [
            models.Index(
                fields=["expires_at"], condition=Q(state__in=["pending", "active"]), name="lease_live"
            ),  # the sweep
            models.Index(fields=["node"], condition=Q(capacity_freed=False), name="lease_holding"),  # reconcile
        ]

    def __str__(self) -> str:
        return self.public_id
