"""Credit notes: how an issued invoice is corrected. Written and numbered in one transaction, frozen from then on."""

from django.db import models
from django.db.models import F, Q

from portal import ids


def new_note_id() -> str:
    return ids.public_id("cnt")


class CreditNote(models.Model):
    """Money taken back from an invoice: first from what is still open on it, the rest to the tenant's credit balance."""

    public_id = models.CharField(max_length=32, unique=True, default=new_note_id, editable=False)
    number = models.CharField(max_length=40, unique=True)
    invoice = models.ForeignKey("billing.Invoice", models.PROTECT, related_name="credit_notes")
    organisation = models.ForeignKey("accounts.Organisation", models.PROTECT, related_name="credit_notes")
    currency = models.CharField(max_length=3)
    net_minor = models.BigIntegerField()
    tax_minor = models.BigIntegerField()
    total_minor = models.BigIntegerField()
    off_open_minor = models.BigIntegerField()  # what the invoice no longer asks for
    to_credit_minor = models.BigIntegerField()  # what was paid and is owed back
    reference = models.CharField(max_length=120, unique=True)
    reason = models.CharField(max_length=200)
    written_by = models.CharField(max_length=80)
    issued_at = models.DateTimeField()
    issue_date = models.DateField()
    content = models.BinaryField()  # the frozen JSON document
    sha256 = models.CharField(max_length=64)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(net_minor__gte=0, tax_minor__gte=0, total_minor__gt=0, off_open_minor__gte=0)
                & Q(to_credit_minor__gte=0, total_minor=F("net_minor") + F("tax_minor")),
                name="credit_note_adds_up",
            ),
            models.CheckConstraint(
                condition=Q(total_minor=F("off_open_minor") + F("to_credit_minor")), name="credit_note_goes_somewhere"
            ),
        ]
        indexes = [models.Index(fields=["organisation", "-id"], name="credit_note_of_organisation")]

    def __str__(self) -> str:
        return self.number


class CreditNoteLine(models.Model):
    """What is taken back of one line of the invoice, with its fee and its seller's share."""

    note = models.ForeignKey(CreditNote, models.PROTECT, related_name="lines")
    position = models.PositiveIntegerField()
    line = models.ForeignKey("billing.InvoiceLine", models.PROTECT, related_name="credited")
    amount_minor = models.BigIntegerField()
    fee_minor = models.BigIntegerField()
    seller_minor = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["note", "position"], name="credit_note_line_position_once"),
            models.UniqueConstraint(fields=["note", "line"], name="credit_note_line_once"),
            models.CheckConstraint(
                condition=Q(amount_minor__gt=0, amount_minor=F("fee_minor") + F("seller_minor")),
                name="credit_note_line_shares",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.note_id}/{self.position}"
