"""Bank statements as they were imported, and the money that came in on them."""

from django.db import models
from django.db.models import Q

from billing.domain.bank import TransferState
from portal import ids


def new_transfer_id() -> str:
    return ids.public_id("btr")


class BankStatement(models.Model):
    """One imported file. The same bytes again are the same statement."""

    sha256 = models.CharField(max_length=64, unique=True)
    name = models.CharField(max_length=120)
    format = models.CharField(max_length=8)
    lines = models.PositiveIntegerField()
    imported_by = models.CharField(max_length=80)
    imported_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.name


class BankTransfer(models.Model):
    """A credit on our account: what came, from whom, and what it paid."""

    public_id = models.CharField(max_length=32, unique=True, default=new_transfer_id, editable=False)
    statement = models.ForeignKey(BankStatement, models.PROTECT, related_name="transfers")
    bank_reference = models.CharField(max_length=80, unique=True)  # the bank's own id: a line is taken once for ever
    booked_on = models.DateField()
    currency = models.CharField(max_length=3)
    amount_minor = models.BigIntegerField()
    payer_name = models.CharField(max_length=140, blank=True)
    payer_account = models.CharField(max_length=64, blank=True)
    text = models.CharField(max_length=500, blank=True)  # what the payer wrote
    state = models.CharField(max_length=10)
    why = models.CharField(max_length=40, blank=True)  # why it was not matched
    organisation = models.ForeignKey("accounts.Organisation", models.PROTECT, null=True, related_name="bank_transfers")
    invoice = models.ForeignKey("billing.Invoice", models.PROTECT, null=True, related_name="bank_transfers")
    to_invoice_minor = models.BigIntegerField(default=0)
    to_wallet_minor = models.BigIntegerField(default=0)
    settled_by = models.CharField(max_length=80, blank=True)
    settled_at = models.DateTimeField(null=True)
    received_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(amount_minor__gt=0), name="bank_transfer_positive"),
            models.CheckConstraint(
                condition=Q(state__in=[s.value for s in TransferState]), name="bank_transfer_state_known"
            ),
            models.CheckConstraint(
                condition=~Q(state__in=[TransferState.MATCHED, TransferState.ASSIGNED])
                | Q(
                    organisation__isnull=False, amount_minor=models.F("to_invoice_minor") + models.F("to_wallet_minor")
                ),
                name="bank_transfer_settled_whole",
            ),
        ]
        indexes = [
            models.Index(fields=["-id"], condition=Q(state=TransferState.UNMATCHED), name="bank_transfer_unmatched"),
            models.Index(fields=["organisation", "-id"], name="bank_transfer_of_organisation"),
        ]

    def __str__(self) -> str:
        return f"{self.bank_reference}: {self.amount_minor} {self.currency}"
