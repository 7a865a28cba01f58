"""Invoices: drafted and issued in one transaction, frozen from then on (guards in ``0002_guards``)."""

from enum import StrEnum

from django.db import models
from django.db.models import Q

from billing.domain.invoicing import InvoiceState
from portal import ids


class DocumentFormat(StrEnum):
    JSON = "json"
    CSV = "csv"
    PDF = "pdf"
    XLSX = "xlsx"
    FOCUS = "focus"  # FOCUS 1.2, CSV
    XML = "xml"  # EN 16931, invoices in EUR


NO_LANGUAGE = frozenset({DocumentFormat.JSON, DocumentFormat.FOCUS, DocumentFormat.XML})
"""Formats for machines: the same in every language."""


def new_invoice_id() -> str:
    return ids.public_id("inv")


class Invoice(models.Model):
    """What a tenant owes for one period in one currency."""

    public_id = models.CharField(max_length=32, unique=True, default=new_invoice_id, editable=False)
    organisation = models.ForeignKey("accounts.Organisation", models.PROTECT, related_name="invoices")
    period = models.ForeignKey("billing.BillingPeriod", models.PROTECT, related_name="invoices")
    kind = models.CharField(max_length=20, default="usage")
    currency = models.CharField(max_length=3)
    state = models.CharField(max_length=20, default=InvoiceState.DRAFT)
    demo = models.BooleanField(default=False)
    number = models.CharField(max_length=40, null=True, unique=True)
    issued_at = models.DateTimeField(null=True)
    issue_date = models.DateField(null=True)
    due_at = models.DateTimeField(null=True)
    settled_at = models.DateTimeField(null=True)
    fee_ppm = models.IntegerField()
    subtotal_minor = models.BigIntegerField()
    tax_minor = models.BigIntegerField()
    total_minor = models.BigIntegerField()
    credit_used_minor = models.BigIntegerField(default=0)
    payable_minor = models.BigIntegerField()
    to_credit_minor = models.BigIntegerField(default=0)
    paid_minor = models.BigIntegerField(default=0)
    tax_category = models.CharField(max_length=2, default="S")  # EN 16931; AE = reverse charge
    credited_minor = models.BigIntegerField(default=0, db_default=0)  # taken off what is open, by credit notes
    sha256 = models.CharField(max_length=64, blank=True)  # of the JSON document
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["organisation", "period", "kind", "currency"], name="invoice_once_per_period"
            ),
            models.CheckConstraint(condition=Q(state__in=[s.value for s in InvoiceState]), name="invoice_state_known"),
            models.CheckConstraint(
                condition=Q(total_minor__gte=0, payable_minor__gte=0, credit_used_minor__gte=0, to_credit_minor__gte=0),
                name="invoice_never_negative",
            ),
            models.CheckConstraint(
                condition=Q(state=InvoiceState.DRAFT) | Q(number__isnull=False, issued_at__isnull=False),
                name="invoice_issued_has_number",
            ),
            models.CheckConstraint(
                condition=Q(paid_minor__gte=0, credited_minor__gte=0)
                & Q(paid_minor__lte=models.F("payable_minor") - models.F("credited_minor")),
                name="invoice_paid_within_payable",
            ),
        ]
        indexes = [
            models.Index(fields=["organisation", "-id"], name="invoice_of_organisation"),  # invoice list
            models.Index(
                fields=["due_at"], condition=Q(state__in=["open", "partially_paid"]), name="invoice_becomes_due"
            ),
        ]

    def __str__(self) -> str:
        return self.number or self.public_id


class InvoiceLine(models.Model):
    """A rounded amount, with everything that is needed to compute it again."""

    invoice = models.ForeignKey(Invoice, models.PROTECT, related_name="lines")
    position = models.PositiveIntegerField()
    correction_of = models.CharField(max_length=7, blank=True)  # the month that is corrected
    project_ref = models.CharField(max_length=80, blank=True)
    project_name = models.CharField(max_length=120, blank=True)
    department = models.CharField(max_length=120, blank=True)
    provider_ref = models.CharField(max_length=80, blank=True)
    provider_name = models.CharField(max_length=120, blank=True)
    resource = models.CharField(max_length=20)
    sku = models.CharField(max_length=120)
    hardware_model = models.CharField(max_length=200, blank=True)
    region = models.CharField(max_length=80, blank=True)
    zone = models.CharField(max_length=80, blank=True)
    virtual = models.BooleanField(default=False)
    demo = models.BooleanField(default=False)
    price_version_ref = models.CharField(max_length=160)  # transfer: "link:<region>→<region>"
    price_micro = models.BigIntegerField()
    tier = models.PositiveIntegerField(default=0)
    discount_ppm = models.IntegerField(default=0)
    qty_us = models.DecimalField(
        max_digits=30, decimal_places=0
    )  # resource-microseconds, bytes for network_byte; below 0 = taken back
    amount_micro = models.DecimalField(max_digits=30, decimal_places=0)  # for display only
    list_minor = models.BigIntegerField()
    amount_minor = models.BigIntegerField()
    tax_rate_ppm = models.IntegerField(default=0)
    fee_minor = models.BigIntegerField()
    seller_minor = models.BigIntegerField()
    unbilled_reason = models.CharField(max_length=40, blank=True)  # set: a line of 0
    grant_ref = models.CharField(
        max_length=32, blank=True, default="", db_default=""
    )  # set: covered by granted hours, a line of 0
    node_ref = models.CharField(max_length=80, blank=True)
    attempt_ref = models.CharField(max_length=80, blank=True)
    green_ratio_ppm = models.IntegerField(null=True)  # of the share for which it is known
    green_known_ppm = models.IntegerField(default=0)
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["invoice", "position"], name="invoice_line_position_once"),
            models.CheckConstraint(
                condition=Q(amount_minor=models.F("fee_minor") + models.F("seller_minor")), name="invoice_line_shares"
            ),
            models.CheckConstraint(
                condition=Q(unbilled_reason="") | Q(amount_minor=0), name="invoice_line_unbilled_is_zero"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.invoice_id}/{self.position}"


class LineRecord(models.Model):
    """How much of which usage record is in a line: the proof behind the amount."""

    line = models.ForeignKey(InvoiceLine, models.PROTECT, related_name="records")
    record = models.ForeignKey("billing.UsageRecord", models.PROTECT, related_name="+")
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField()
    qty_us = models.BigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["record", "line"], name="line_record_once")]

    def __str__(self) -> str:
        return f"{self.line_id}: {self.qty_us} of record {self.record_id}"


class TaxLine(models.Model):
    """The tax of one rate on an invoice, snapshotted."""

    invoice = models.ForeignKey(Invoice, models.PROTECT, related_name="taxes")
    rate_ppm = models.IntegerField()
    taxable_minor = models.BigIntegerField()
    tax_minor = models.BigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["invoice", "rate_ppm"], name="tax_line_rate_once")]

    def __str__(self) -> str:
        return f"{self.invoice_id}: {self.rate_ppm} ppm"


class InvoiceDocument(models.Model):
    """A document as it was sent: bytes and their SHA-256; append-only. JSON has no language."""

    invoice = models.ForeignKey(Invoice, models.PROTECT, related_name="documents")
    format = models.CharField(max_length=12)
    language = models.CharField(max_length=10, blank=True)
    content = models.BinaryField()
    sha256 = models.CharField(max_length=64)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["invoice", "format", "language"], name="invoice_document_once")]

    def __str__(self) -> str:
        return f"{self.invoice_id}.{self.format}"


class DocumentCounter(models.Model):
    """The last number of a series. Counted in the issuing transaction, so a roll-back leaves no gap; dates never fall."""

    series = models.CharField(max_length=30, primary_key=True)
    last = models.BigIntegerField(default=0)
    last_date = models.DateField()

    def __str__(self) -> str:
        return f"{self.series}: {self.last}"
