"""Money that goes to providers: their account at the rail, payouts and what they are made of, and what was taken back."""

from django.db import models
from django.db.models import F, Q

from billing.domain.payout import OPEN, PayoutState
from portal import ids


def new_payout_id() -> str:
    return ids.public_id("pyo")


class ProviderAccount(models.Model):
    """A provider as the rail knows it: what it still has to tell, and whether it can be paid."""

    organisation = models.OneToOneField("accounts.Organisation", models.PROTECT, related_name="payout_account")
    rail_id = models.CharField(max_length=80, unique=True)
    details_submitted = models.BooleanField(default=False)
    payouts_enabled = models.BooleanField(default=False)
    due = models.JSONField(default=list)
    disabled_reason = models.CharField(max_length=80, blank=True)
    created_at = models.DateTimeField()
    looked_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.rail_id


class Payout(models.Model):
    """What is collected for a provider in one currency, until it is sent; then what was sent. One collects at a time."""

    public_id = models.CharField(max_length=32, unique=True, default=new_payout_id, editable=False)
    organisation = models.ForeignKey("accounts.Organisation", models.PROTECT, related_name="payouts")
    currency = models.CharField(max_length=3)
    amount_minor = models.BigIntegerField(default=0)
    state = models.CharField(max_length=10, default=PayoutState.ACCRUED)
    reason = models.CharField(max_length=30, blank=True)  # why it is not sent yet
    not_before = models.DateTimeField(null=True)  # after one that came back
    transfer = models.CharField(max_length=80, blank=True)
    source = models.CharField(max_length=80, blank=True)  # the one charge it comes from
    reversed_minor = models.BigIntegerField(default=0)
    failure = models.CharField(max_length=80, blank=True)
    failure_message = models.TextField(blank=True)
    created_at = models.DateTimeField()
    sent_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["organisation", "currency"],
                condition=Q(state__in=sorted(state.value for state in OPEN)),
                name="payout_open_once",
            ),
            models.UniqueConstraint(fields=["transfer"], condition=~Q(transfer=""), name="payout_transfer_once"),
            models.CheckConstraint(
                condition=Q(reversed_minor__gte=0, reversed_minor__lte=F("amount_minor")), name="payout_reversed_within"
            ),
            models.CheckConstraint(condition=Q(state__in=[s.value for s in PayoutState]), name="payout_state_known"),
        ]
        indexes = [models.Index(fields=["organisation", "-id"], name="payout_of_organisation")]  # payouts list

    def __str__(self) -> str:
        return self.public_id


class PayoutPart(models.Model):
    """Why a payout has its amount: its parts add up to it.

    | kind | what |
    |---|---|
    | share | what one paid invoice brings; below zero: what a credit note took back |
    | set_off | the provider owed this much |
    | credited | a credit note took it after it was collected |
    | returned | an earlier payout came back |
    | carried | below a step of the rail: from the last payout, or to the next |
    """

    payout = models.ForeignKey(Payout, models.PROTECT, related_name="parts")
    kind = models.CharField(max_length=10, default="share")
    invoice = models.ForeignKey("billing.Invoice", models.PROTECT, null=True, related_name="+")
    amount_minor = models.BigIntegerField()
    at = models.DateTimeField()

    class Meta:
        constraints = [models.CheckConstraint(condition=~Q(amount_minor=0), name="payout_part_not_zero")]

    def __str__(self) -> str:
        return f"{self.payout_id}: {self.kind} {self.amount_minor}"


class Reversal(models.Model):
    """A part of a sent payout that is taken back from the provider's balance at the rail."""

    payout = models.ForeignKey(Payout, models.PROTECT, related_name="reversals")
    reference = models.CharField(max_length=80)
    amount_minor = models.BigIntegerField()
    done = models.BooleanField(null=True)  # null: asked
    rail_id = models.CharField(max_length=80, blank=True)
    failure = models.CharField(max_length=80, blank=True)
    by = models.CharField(max_length=80)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["payout", "reference"], name="reversal_once"),
            models.CheckConstraint(condition=Q(amount_minor__gt=0), name="reversal_positive"),
        ]

    def __str__(self) -> str:
        return f"{self.payout_id}: −{self.amount_minor}"
