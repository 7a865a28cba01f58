"""The shapes of wallets, budgets, credit notes and bank transfers in the REST, in and out."""

from typing import Any

from rest_framework import serializers

from billing.api.serializers import MoneyOut, PartyOut
from portal.api.serializers import Strict


class BankInstructionsOut(serializers.Serializer[Any]):
    account = serializers.CharField(allow_null=True)
    reference = serializers.CharField()
    printed = serializers.CharField()
    amount = MoneyOut(allow_null=True)


class CreditGrantOut(serializers.Serializer[Any]):
    id = serializers.CharField()
    amount = MoneyOut()
    left = MoneyOut()
    priority = serializers.IntegerField()
    expires_at = serializers.DateTimeField(allow_null=True)
    expired = serializers.BooleanField()
    reason = serializers.CharField()
    given_at = serializers.DateTimeField()


class HourGrantOut(serializers.Serializer[Any]):
    id = serializers.CharField()
    resource = serializers.CharField()
    giver = PartyOut()
    hours = serializers.CharField()
    left = serializers.CharField()
    priority = serializers.IntegerField()
    starts_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField(allow_null=True)
    expired = serializers.BooleanField()
    reason = serializers.CharField()


class WalletOut(serializers.Serializer[Any]):
    mode = serializers.CharField()
    balance = MoneyOut()
    kept = MoneyOut()
    available = MoneyOut()
    credit = MoneyOut()
    low_at = MoneyOut(allow_null=True)
    payment_days = serializers.IntegerField()
    bank_transfer = BankInstructionsOut()
    credits = CreditGrantOut(many=True)
    hours = HourGrantOut(many=True)


class WalletEntryOut(serializers.Serializer[Any]):
    at = serializers.DateTimeField()
    kind = serializers.CharField()
    amount = MoneyOut()
    reference = serializers.CharField()


class BudgetIn(Strict):
    scope = serializers.ChoiceField(choices=["organisation", "department", "project", "job"])
    key = serializers.CharField(max_length=120, default="", allow_blank=True)
    amount = serializers.CharField(max_length=30)
    at_limit = serializers.ChoiceField(choices=["notify", "block", "stop"], default="notify")
    thresholds = serializers.ListField(
        child=serializers.IntegerField(min_value=1, max_value=200),
        min_length=1,
        max_length=10,
        default=[50, 75, 90, 100],
    )


class BudgetAlertOut(serializers.Serializer[Any]):
    threshold = serializers.IntegerField()
    at = serializers.DateTimeField()


class BudgetOut(serializers.Serializer[Any]):
    id = serializers.CharField()
    scope = serializers.CharField()
    key = serializers.CharField(allow_null=True)
    name = serializers.CharField()
    amount = MoneyOut()
    at_limit = serializers.CharField()
    thresholds = serializers.ListField(child=serializers.IntegerField())
    month = serializers.CharField()
    ends_at = serializers.DateTimeField()
    spent = MoneyOut()
    committed = MoneyOut()
    left = MoneyOut()
    percent = serializers.IntegerField()
    forecast = MoneyOut()
    alerts = BudgetAlertOut(many=True)


class BudgetsOut(serializers.Serializer[Any]):
    items = BudgetOut(many=True)


class CreditNoteOut(serializers.Serializer[Any]):
    id = serializers.CharField()
    number = serializers.CharField()
    invoice = serializers.CharField()
    invoice_number = serializers.CharField()
    net = MoneyOut()
    tax = MoneyOut()
    total = MoneyOut()
    off_open = MoneyOut()
    to_credit = MoneyOut()
    reason = serializers.CharField()
    issued_at = serializers.DateTimeField()
    sha256 = serializers.CharField()


class CreditLineIn(Strict):
    line = serializers.IntegerField(min_value=1, max_value=1_000_000)
    amount = serializers.CharField(max_length=30)


class CreditNoteIn(Strict):
    """`total` (tax included) over all lines, or net amounts of `lines`."""

    total = serializers.CharField(required=False, max_length=30)
    lines = CreditLineIn(many=True, required=False)
    reason = serializers.CharField(max_length=200)
    reference = serializers.CharField(max_length=120)


class ReasonIn(Strict):
    reason = serializers.CharField(max_length=200)


class HoursIn(Strict):
    organisation = serializers.CharField(max_length=63)
    resource = serializers.ChoiceField(choices=["core", "card"])
    hours = serializers.IntegerField(min_value=1, max_value=10**9)
    priority = serializers.IntegerField(min_value=0, max_value=100, default=50)
    starts_at = serializers.DateTimeField(required=False)
    expires_at = serializers.DateTimeField(required=False)
    reason = serializers.CharField(max_length=200)


class CreditIn(Strict):
    amount = serializers.CharField(max_length=30)
    priority = serializers.IntegerField(min_value=0, max_value=100, default=50)
    expires_at = serializers.DateTimeField(required=False)
    reason = serializers.CharField(max_length=200)
    reference = serializers.CharField(max_length=120)


class TermsIn(Strict):
    mode = serializers.ChoiceField(choices=["prepaid", "postpaid"], required=False)
    payment_days = serializers.IntegerField(min_value=0, max_value=120, required=False)
    discount_ppm = serializers.IntegerField(min_value=0, max_value=1_000_000, required=False)


class TermsOut(serializers.Serializer[Any]):
    mode = serializers.CharField()
    payment_days = serializers.IntegerField()
    discount_ppm = serializers.IntegerField()


class StatementIn(Strict):
    """A CSV or camt.053 file as text."""

    name = serializers.CharField(max_length=120)
    content = serializers.CharField(max_length=5_000_000, trim_whitespace=False)
    currency = serializers.CharField(max_length=3, default="CNY")


class ImportedOut(serializers.Serializer[Any]):
    new = serializers.IntegerField()
    matched = serializers.IntegerField()
    known = serializers.IntegerField()
    repeated = serializers.BooleanField()


class TransfersQuery(Strict):
    state = serializers.ChoiceField(choices=["unmatched", "matched", "assigned", "returned"], default="")


class TransferOut(serializers.Serializer[Any]):
    id = serializers.CharField()
    booked_on = serializers.DateField()
    amount = MoneyOut()
    payer_name = serializers.CharField()
    payer_account = serializers.CharField()
    text = serializers.CharField()
    bank_reference = serializers.CharField()
    state = serializers.CharField()
    why = serializers.CharField(allow_null=True)
    organisation = PartyOut(allow_null=True)
    invoice = serializers.CharField(allow_null=True)
    to_invoice = MoneyOut()
    to_wallet = MoneyOut()
    settled_at = serializers.DateTimeField(allow_null=True)


class AssignIn(Strict):
    organisation = serializers.CharField(max_length=63)
    invoice = serializers.CharField(max_length=40, default="", allow_blank=True)


class ReferenceIn(Strict):
    reference = serializers.CharField(max_length=80)


class RateIn(Strict):
    day = serializers.DateField()
    base = serializers.CharField(max_length=3)
    quote = serializers.CharField(max_length=3)
    rate = serializers.CharField(max_length=30)
    source = serializers.CharField(max_length=120)  # type: ignore[assignment]  # a field, not where one reads from


class RateOut(serializers.Serializer[Any]):
    day = serializers.DateField()
    base = serializers.CharField()
    quote = serializers.CharField()
    rate = serializers.CharField()
    source = serializers.CharField()  # type: ignore[assignment]
