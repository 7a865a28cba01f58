"""The shapes of billing's REST, in and out. Answers are made by the selectors' ``wire()``; these describe them, and a test compares the two."""

from typing import Any

from rest_framework import serializers

from portal.api.serializers import Strict
from portal.kit.money import Money

MOST_RECORDS = 500


class MoneyOut(serializers.Serializer[Any]):
    amount = serializers.CharField()
    currency = serializers.CharField()


class UsageQuery(Strict):
    month = serializers.RegexField(r"^\d{4}-(0[1-9]|1[0-2])$", default="")
    group_by = serializers.CharField(default="project", max_length=20, allow_blank=True)

    def to_internal_value(self, data: Any) -> Any:
        """An empty value is one that was not given."""
        return super().to_internal_value({name: value for name, value in data.items() if value != ""})


class RecordsQuery(Strict):
    month = serializers.RegexField(r"^\d{4}-(0[1-9]|1[0-2])$", default="")
    job = serializers.CharField(default="", max_length=80)
    attempt = serializers.CharField(default="", max_length=80)
    project = serializers.CharField(default="", max_length=80)
    state = serializers.ChoiceField(choices=["ok", "quarantined", "rejected_stale"], default="")


class ImportIn(Strict):
    source = serializers.RegexField(r"^[a-z0-9][a-z0-9_-]{0,15}$")  # type: ignore[assignment]
    records = serializers.JSONField(required=False)
    csv = serializers.CharField(required=False, max_length=2_000_000)

    def validate_records(self, value: Any) -> Any:
        if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
            raise serializers.ValidationError("a list of rows, each an object")
        if len(value) > MOST_RECORDS:
            raise serializers.ValidationError(f"at most {MOST_RECORDS} rows in one request")
        return value

    def validate(self, attrs: Any) -> Any:
        if ("records" in attrs) == ("csv" in attrs):
            raise serializers.ValidationError("send either records or csv")
        return attrs


class ImportOut(serializers.Serializer[Any]):
    id = serializers.CharField(source="public_id")
    source = serializers.CharField()  # type: ignore[assignment]
    format = serializers.CharField()
    sha256 = serializers.CharField()
    rows = serializers.IntegerField()
    stored = serializers.IntegerField()
    duplicates = serializers.IntegerField()
    conflicts = serializers.IntegerField()
    quarantined = serializers.IntegerField()
    skipped = serializers.IntegerField()
    created_by = serializers.CharField()
    created_at = serializers.DateTimeField()


class InvoicesQuery(Strict):
    state = serializers.ChoiceField(
        choices=["open", "partially_paid", "past_due", "paid", "void", "uncollectible"], default=""
    )


class DocumentQuery(Strict):
    lang = serializers.ChoiceField(choices=["en", "zh", "zh-hans"], default="")


class GroupOut(serializers.Serializer[Any]):
    key = serializers.CharField()
    name = serializers.CharField()
    resource = serializers.CharField()
    unit = serializers.CharField()
    quantity = serializers.CharField()
    qty_us = serializers.IntegerField()
    billed_us = serializers.IntegerField()
    amount = MoneyOut()
    energy_kwh = serializers.CharField(allow_null=True)
    carbon_kg = serializers.CharField(allow_null=True)
    green_ratio = serializers.CharField(allow_null=True)


class PartyOut(serializers.Serializer[Any]):
    id = serializers.CharField()
    name = serializers.CharField()


class ProjectPartOut(PartyOut):
    department = serializers.CharField()


class LineOut(serializers.Serializer[Any]):
    n = serializers.IntegerField()
    description = serializers.CharField()
    correction_of = serializers.CharField(allow_null=True)
    label = serializers.CharField(allow_null=True)  # type: ignore[assignment]  # a field, not the label of one
    project = ProjectPartOut()
    provider = PartyOut()
    resource = serializers.CharField()
    sku = serializers.CharField()
    hardware_model = serializers.CharField(allow_null=True)
    region = serializers.CharField()
    zone = serializers.CharField()
    virtual = serializers.BooleanField()
    demo = serializers.BooleanField()
    price_version = serializers.CharField()
    unit = serializers.CharField()
    unit_price = serializers.CharField()
    tier = serializers.IntegerField(allow_null=True)
    discount = serializers.CharField()
    quantity = serializers.CharField()
    qty_us = serializers.IntegerField()
    list_amount = serializers.CharField()
    amount = serializers.CharField()
    tax_rate = serializers.CharField()
    unbilled_reason = serializers.CharField(allow_null=True)
    node = serializers.CharField(allow_null=True)
    attempt = serializers.CharField(allow_null=True)
    grant = serializers.CharField(allow_null=True)
    green_ratio = serializers.CharField(allow_null=True)
    green_known = serializers.CharField()
    first_at = serializers.DateTimeField()
    last_at = serializers.DateTimeField()


class UsageOut(serializers.Serializer[Any]):
    month = serializers.CharField()
    start = serializers.DateTimeField()
    end = serializers.DateTimeField()
    timezone = serializers.CharField()
    hours = serializers.CharField()
    state = serializers.CharField()
    final = serializers.BooleanField()
    group_by = serializers.CharField()
    groups = GroupOut(many=True)
    lines = LineOut(many=True)
    total = MoneyOut()


class RecordOut(serializers.Serializer[Any]):
    attempt = serializers.CharField(source="attempt_ref")
    job = serializers.CharField(source="job_ref")
    job_name = serializers.CharField()
    task = serializers.CharField(source="task_name")
    project = serializers.CharField(source="project_ref")
    provider = serializers.CharField(source="provider_name")
    node = serializers.CharField(source="node_ref")
    region = serializers.CharField()
    zone = serializers.CharField()
    resource = serializers.CharField()
    seq = serializers.IntegerField()
    fence = serializers.IntegerField()
    started_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField()
    count_milli = serializers.IntegerField()
    qty_us = serializers.IntegerField()
    sku = serializers.CharField()
    price_version = serializers.CharField(source="price_version_ref")
    green_ratio_ppm = serializers.IntegerField(allow_null=True)
    power_basis = serializers.CharField()
    energy_uwh = serializers.IntegerField(allow_null=True)
    carbon_ug = serializers.IntegerField(allow_null=True)
    carbon_market_ug = serializers.IntegerField(allow_null=True)
    labels = serializers.DictField(child=serializers.CharField())
    virtual = serializers.BooleanField()
    demo = serializers.BooleanField()
    received_at = serializers.DateTimeField()
    state = serializers.CharField()
    reason = serializers.CharField(source="oddity")


class PeriodOut(serializers.Serializer[Any]):
    month = serializers.CharField()
    start = serializers.DateTimeField(source="starts_at")
    end = serializers.DateTimeField(source="ends_at")
    timezone = serializers.CharField()


class InvoiceOut(serializers.Serializer[Any]):
    id = serializers.CharField(source="public_id")
    number = serializers.CharField()
    state = serializers.CharField()
    demo = serializers.BooleanField()
    month = serializers.CharField(source="period.month")
    period = PeriodOut()
    currency = serializers.CharField()
    subtotal = serializers.SerializerMethodField()
    tax = serializers.SerializerMethodField()
    total = serializers.SerializerMethodField()
    payable = serializers.SerializerMethodField()
    paid = serializers.SerializerMethodField()
    issued_at = serializers.DateTimeField()
    due_at = serializers.DateTimeField()
    sha256 = serializers.CharField()

    def get_subtotal(self, invoice: Any) -> dict[str, str]:
        return _money(invoice.subtotal_minor, invoice)

    def get_tax(self, invoice: Any) -> dict[str, str]:
        return _money(invoice.tax_minor, invoice)

    def get_total(self, invoice: Any) -> dict[str, str]:
        return _money(invoice.total_minor, invoice)

    def get_payable(self, invoice: Any) -> dict[str, str]:
        return _money(invoice.payable_minor, invoice)

    def get_paid(self, invoice: Any) -> dict[str, str]:
        return _money(invoice.paid_minor, invoice)


class InvoiceWithLinesOut(InvoiceOut):
    lines = LineOut(many=True)


class RecordIntervalOut(serializers.Serializer[Any]):
    started_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField()
    qty_us = serializers.IntegerField()


class LineRecordOut(serializers.Serializer[Any]):
    attempt = serializers.CharField()
    job = serializers.CharField()
    job_name = serializers.CharField()
    task = serializers.CharField()
    node = serializers.CharField()
    resource = serializers.CharField()
    seq = serializers.IntegerField()
    started_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField()
    count_milli = serializers.IntegerField()
    qty_us = serializers.IntegerField()
    quantity = serializers.CharField()
    record = RecordIntervalOut()


class LineCheckOut(serializers.Serializer[Any]):
    n = serializers.IntegerField()
    ok = serializers.BooleanField()
    amount = serializers.CharField()
    recomputed = serializers.CharField()
    records = serializers.IntegerField()
    problems = serializers.ListField(child=serializers.CharField())


class VerificationOut(serializers.Serializer[Any]):
    invoice = serializers.CharField()
    number = serializers.CharField()
    ok = serializers.BooleanField()
    total = MoneyOut()
    recomputed_total = MoneyOut()
    records = serializers.IntegerField()
    sha256 = serializers.CharField()
    problems = serializers.ListField(child=serializers.CharField())
    lines = LineCheckOut(many=True)


class BalanceOut(serializers.Serializer[Any]):
    mode = serializers.CharField()
    wallet = MoneyOut()
    credit_limit = MoneyOut()
    owed = MoneyOut()
    used = MoneyOut()
    held = MoneyOut()
    available = MoneyOut()
    credit = MoneyOut()
    past_due = serializers.BooleanField()


class EarnedOut(serializers.Serializer[Any]):
    month = serializers.CharField()
    sku = serializers.CharField()
    quantity = serializers.CharField()
    unit = serializers.CharField()
    billed = MoneyOut()
    fee = MoneyOut()
    share = MoneyOut()
    demo = serializers.BooleanField()


class StandingOut(serializers.Serializer[Any]):
    currency = serializers.CharField()
    accrued = MoneyOut()
    available = MoneyOut()
    reserved = MoneyOut()
    paid = MoneyOut()
    owed_back = MoneyOut()


class EarningsOut(serializers.Serializer[Any]):
    balances = StandingOut(many=True)
    items = EarnedOut(many=True)


def _money(minor: int, invoice: Any) -> dict[str, str]:
    return Money(minor, invoice.currency).wire()
