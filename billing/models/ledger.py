"""The ledger's rows. Their guards are in the database (``0002_guards``): they hold for the application, the owner and raw SQL alike."""

from django.db import models
from django.db.models import Q

from billing.domain.ledger import NEVER_BELOW_ZERO, AccountKind

BELOW_ZERO = sorted(kind.value for kind in AccountKind if kind not in NEVER_BELOW_ZERO)


class Account(models.Model):
    """One owner's account of one kind in one currency, with its cached balance (credit-positive)."""

    owner = models.CharField(max_length=80)
    kind = models.CharField(max_length=20)
    currency = models.CharField(max_length=3)
    allow_negative = models.BooleanField()
    balance_minor = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["owner", "kind", "currency"], name="account_once"),
            models.UniqueConstraint(
                fields=["id", "currency"], name="account_id_currency"
            ),  # target of the entries' composite key
            models.CheckConstraint(
                condition=Q(kind__in=sorted(k.value for k in AccountKind)), name="account_kind_known"
            ),
            models.CheckConstraint(
                condition=Q(allow_negative=True, kind__in=BELOW_ZERO)
                | (Q(allow_negative=False) & ~Q(kind__in=BELOW_ZERO)),
                name="account_negative_by_kind",
            ),
            models.CheckConstraint(
                condition=Q(allow_negative=True) | Q(balance_minor__gte=0), name="account_not_below_zero"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.owner} {self.kind} {self.currency}"


class Txn(models.Model):
    """A balanced set of entries, posted once under its key."""

    kind = models.CharField(max_length=20)
    idem_key = models.CharField(max_length=120, unique=True)
    body_hash = models.CharField(max_length=64)
    currency = models.CharField(max_length=3)
    reference = models.CharField(max_length=80)
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["id", "currency"], name="txn_id_currency")]
        indexes = [models.Index(fields=["reference"], name="txn_of_reference")]  # postings of an invoice

    def __str__(self) -> str:
        return self.idem_key


class Entry(models.Model):
    """One side of a posting; credit-positive, never 0."""

    txn = models.ForeignKey(Txn, models.PROTECT, related_name="entries")
    account = models.ForeignKey(Account, models.PROTECT, related_name="entries")
    currency = models.CharField(max_length=3)
    amount_minor = models.BigIntegerField()

    class Meta:
        constraints = [models.CheckConstraint(condition=~Q(amount_minor=0), name="entry_not_zero")]

    def __str__(self) -> str:
        return f"{self.account_id}: {self.amount_minor}"
