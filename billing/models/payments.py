"""Money that comes over the rail: its payer there, payments, the calls that were made, the pages people are sent to, refunds, disputes."""

from enum import StrEnum

from django.db import models
from django.db.models import F, Q

from billing.domain.rail import LIVE, PaymentState, Purpose
from portal import ids


def new_payment_id() -> str:
    return ids.public_id("pay")


def new_page_id() -> str:
    return ids.public_id("hpg")


def new_refund_id() -> str:
    return ids.public_id("rfd")


class CallState(StrEnum):
    DUE = "due"
    UNSURE = "unsure"
    DONE = "done"
    REFUSED = "refused"
    REPLACED = "replaced"


class PageKind(StrEnum):
    CHECKOUT = "checkout"
    CARDS = "cards"
    ONBOARDING = "onboarding"


class PageState(StrEnum):
    WAITING = "waiting"
    READY = "ready"
    FAILED = "failed"


class RefundState(StrEnum):
    CREATED = "created"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class DisputeState(StrEnum):
    OPEN = "open"
    WON = "won"
    LOST = "lost"


class RailCustomer(models.Model):
    """A tenant as the rail knows it, and the card that pays its invoices by itself."""

    organisation = models.OneToOneField("accounts.Organisation", models.PROTECT, related_name="rail_customer")
    rail_id = models.CharField(max_length=80, unique=True)
    method = models.CharField(max_length=80, blank=True)
    method_words = models.CharField(max_length=80, blank=True)
    created_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.rail_id


class Payment(models.Model):
    """One try to get one amount: for an invoice, or into a wallet. A further try is a further payment."""

    public_id = models.CharField(max_length=32, unique=True, default=new_payment_id, editable=False)
    organisation = models.ForeignKey("accounts.Organisation", models.PROTECT, related_name="payments")
    invoice = models.ForeignKey("billing.Invoice", models.PROTECT, null=True, related_name="payments")
    purpose = models.CharField(max_length=10)
    automatic = models.BooleanField(default=False)  # a saved card, without a page
    keep_card = models.BooleanField(default=False)  # it pays the next invoices by itself
    currency = models.CharField(max_length=3)
    amount_minor = models.BigIntegerField()
    state = models.CharField(max_length=20, default=PaymentState.CREATED)
    session = models.CharField(max_length=120, blank=True)
    intent = models.CharField(max_length=80, blank=True)
    charge = models.CharField(max_length=80, blank=True)
    fee_minor = models.BigIntegerField(null=True)
    refunded_minor = models.BigIntegerField(default=0)  # asked back, sent or on its way
    failure = models.CharField(max_length=80, blank=True)
    failure_message = models.TextField(blank=True)
    by = models.CharField(max_length=80)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)
    looked_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["invoice"],
                condition=Q(state__in=sorted(state.value for state in LIVE), invoice__isnull=False),
                name="payment_live_once",
            ),
            models.UniqueConstraint(fields=["intent"], condition=~Q(intent=""), name="payment_intent_once"),
            models.CheckConstraint(condition=Q(amount_minor__gt=0), name="payment_positive"),
            models.CheckConstraint(
                condition=Q(refunded_minor__gte=0, refunded_minor__lte=F("amount_minor")), name="payment_refund_within"
            ),
            models.CheckConstraint(condition=Q(state__in=[s.value for s in PaymentState]), name="payment_state_known"),
            models.CheckConstraint(condition=Q(purpose__in=[p.value for p in Purpose]), name="payment_purpose_known"),
            models.CheckConstraint(
                condition=Q(purpose=Purpose.INVOICE.value, invoice__isnull=False)
                | (Q(invoice=None) & ~Q(purpose=Purpose.INVOICE.value)),
                name="payment_has_its_invoice",
            ),
        ]
        indexes = [
            models.Index(fields=["organisation", "-id"], name="payment_of_organisation"),  # payments list
            models.Index(
                fields=["created_at"],
                condition=Q(state__in=sorted(state.value for state in LIVE)),
                name="payment_to_look_after",
            ),  # refresh
        ]

    def __str__(self) -> str:
        return self.public_id


class RailCall(models.Model):
    """A call to the rail that was promised, and what came of it. `key` is the idempotency key: ``<kind>:<reference>:<number>``."""

    kind = models.CharField(max_length=20)
    reference = models.CharField(max_length=80)
    number = models.PositiveIntegerField(default=1)
    key = models.CharField(max_length=120, unique=True)
    state = models.CharField(max_length=10, default=CallState.DUE)
    rail_id = models.CharField(max_length=120, blank=True)
    failure = models.CharField(max_length=80, blank=True)
    message = models.TextField(blank=True)
    created_at = models.DateTimeField()
    answered_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["kind", "reference", "number"], name="rail_call_once"),
            models.CheckConstraint(condition=Q(state__in=[s.value for s in CallState]), name="rail_call_state_known"),
        ]

    def __str__(self) -> str:
        return self.key


class HostedPage(models.Model):
    """A page of the rail that a person was promised: its address comes a moment later, by the outbox."""

    public_id = models.CharField(max_length=32, unique=True, default=new_page_id, editable=False)
    organisation = models.ForeignKey("accounts.Organisation", models.PROTECT, related_name="+")
    kind = models.CharField(max_length=12)
    payment = models.OneToOneField(Payment, models.PROTECT, null=True, related_name="page")
    state = models.CharField(max_length=10, default=PageState.WAITING)
    url = models.TextField(blank=True)
    message = models.TextField(blank=True)
    language = models.CharField(max_length=10, default="en")
    by = models.CharField(max_length=80)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(kind__in=[k.value for k in PageKind]), name="hosted_page_kind_known"),
            models.CheckConstraint(condition=Q(state__in=[s.value for s in PageState]), name="hosted_page_state_known"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.public_id}"


class Refund(models.Model):
    """A part of a payment that goes back. `reference` says why, once: a credit note, or an operator's words."""

    public_id = models.CharField(max_length=32, unique=True, default=new_refund_id, editable=False)
    payment = models.ForeignKey(Payment, models.PROTECT, related_name="refunds")
    reference = models.CharField(max_length=80)
    amount_minor = models.BigIntegerField()
    state = models.CharField(max_length=10, default=RefundState.CREATED)
    rail_id = models.CharField(max_length=80, blank=True)
    failure = models.CharField(max_length=80, blank=True)
    by = models.CharField(max_length=80)
    created_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["payment", "reference"], name="refund_once"),
            models.CheckConstraint(condition=Q(amount_minor__gt=0), name="refund_positive"),
            models.CheckConstraint(condition=Q(state__in=[s.value for s in RefundState]), name="refund_state_known"),
        ]

    def __str__(self) -> str:
        return self.public_id


class Dispute(models.Model):
    """A payment whose payer went to the bank."""

    payment = models.ForeignKey(Payment, models.PROTECT, related_name="disputes")
    rail_id = models.CharField(max_length=80, unique=True)
    amount_minor = models.BigIntegerField()
    reason = models.CharField(max_length=60, blank=True)
    state = models.CharField(max_length=10, default=DisputeState.OPEN)
    due_by = models.DateTimeField(null=True)
    opened_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(state__in=[s.value for s in DisputeState]), name="dispute_state_known")
        ]

    def __str__(self) -> str:
        return self.rail_id
