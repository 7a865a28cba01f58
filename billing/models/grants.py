"""What was given: credits in money, and resource-hours that are spent before money on the nodes of who gave them."""

from django.db import models
from django.db.models import F, Q

from portal import ids

RESOURCES = ["card", "core"]


def new_credit_id() -> str:
    return ids.public_id("crg")


def new_hours_id() -> str:
    return ids.public_id("hrg")


class CreditGrant(models.Model):
    """Credit of a tenant from the platform. `left_minor` is what no invoice has used; the ledger's ``credit`` holds it."""

    public_id = models.CharField(max_length=32, unique=True, default=new_credit_id, editable=False)
    organisation = models.ForeignKey("accounts.Organisation", models.PROTECT, related_name="credit_grants")
    currency = models.CharField(max_length=3)
    amount_minor = models.BigIntegerField()
    left_minor = models.BigIntegerField()
    priority = models.PositiveSmallIntegerField(default=50)  # low first
    expires_at = models.DateTimeField(null=True)
    reason = models.CharField(max_length=200)
    reference = models.CharField(max_length=120, unique=True)
    given_by = models.CharField(max_length=80)
    created_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)  # used up or expired

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(amount_minor__gt=0, left_minor__gte=0, left_minor__lte=F("amount_minor")),
                name="credit_grant_left_within_amount",
            )
        ]
        indexes = [
            models.Index(fields=["organisation", "currency"], condition=Q(left_minor__gt=0), name="credit_grant_open"),
            models.Index(fields=["expires_at"], condition=Q(left_minor__gt=0), name="credit_grant_expires"),
        ]

    def __str__(self) -> str:
        return self.public_id


class CreditUse(models.Model):
    """How much of a grant an invoice used; append-only."""

    grant = models.ForeignKey(CreditGrant, models.PROTECT, related_name="uses")
    invoice = models.ForeignKey("billing.Invoice", models.PROTECT, related_name="credit_uses")
    amount_minor = models.BigIntegerField()
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["grant", "invoice"], name="credit_use_once"),
            models.CheckConstraint(condition=Q(amount_minor__gt=0), name="credit_use_positive"),
        ]

    def __str__(self) -> str:
        return f"{self.grant_id}: {self.amount_minor}"


class HourGrant(models.Model):
    """Resource-hours given by an organisation that provides nodes: a wallet of the kind ``core_hours``, not money.

    What invoices have used of it is the sum of their lines that name it, so there is no second count to keep.
    """

    public_id = models.CharField(max_length=32, unique=True, default=new_hours_id, editable=False)
    organisation = models.ForeignKey("accounts.Organisation", models.PROTECT, related_name="hour_grants")
    giver = models.ForeignKey("accounts.Organisation", models.PROTECT, related_name="hours_given")
    resource = models.CharField(max_length=20)
    qty_us = models.DecimalField(max_digits=30, decimal_places=0)
    priority = models.PositiveSmallIntegerField(default=50)  # low first
    starts_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)
    reason = models.CharField(max_length=200)
    given_by = models.CharField(max_length=80)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(qty_us__gt=0), name="hour_grant_positive"),
            models.CheckConstraint(condition=Q(resource__in=RESOURCES), name="hour_grant_resource_known"),
            models.CheckConstraint(
                condition=Q(expires_at=None) | Q(expires_at__gt=F("starts_at")), name="hour_grant_has_length"
            ),
        ]
        indexes = [models.Index(fields=["organisation"], name="hour_grant_of_organisation")]

    def __str__(self) -> str:
        return self.public_id
