"""A wallet as its owner sees it: what is in it, what is kept, what moved, what was given."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from billing.domain.ledger import AccountKind
from billing.domain.statement import iso
from billing.models import Entry
from billing.selectors import balances, bank, grants, terms
from portal.accounts.models import Organisation
from portal.kit.money import Money

KINDS = ("topup", "takeout", "hold", "prepaid", "bank")
"""What moves a wallet; other kinds come from the rail."""


def entries(organisation: Organisation) -> QuerySet[Entry]:
    """Every movement of the wallet, newest first."""
    mine = Entry.objects.filter(account__owner=organisation.public_id, account__kind=AccountKind.WALLET)
    return mine.select_related("txn").order_by("-id")


def reference_of(entry: Entry) -> str:
    """What moved the money: of a payment its own reference, else the job, invoice or transfer."""
    if entry.txn.kind in {"topup", "takeout"}:
        return entry.txn.idem_key.partition(":")[2]
    return entry.txn.reference


def entry_wire(entry: Entry) -> dict[str, Any]:
    """The JSON form of one movement: above 0 into the wallet, below 0 out of it."""
    return {
        "at": iso(entry.txn.at),
        "kind": entry.txn.kind,
        "amount": Money(entry.amount_minor, entry.currency).wire(),
        "reference": reference_of(entry),
    }


def overview(tenant: Organisation, *, now: datetime) -> Mapping[str, Any]:
    """The JSON form of a wallet of both kinds: money and granted hours."""
    agreed, standing = terms.of(tenant), balances.balance(organisation_id=tenant.id)
    kept = Money(balances.of(tenant.public_id, AccountKind.HOLD, tenant.currency), tenant.currency)
    low = None if agreed.low_minor is None else Money(agreed.low_minor, tenant.currency).wire()
    return {
        "mode": agreed.mode,
        "balance": standing.wallet.wire(),
        "kept": kept.wire(),
        "available": standing.available.wire(),
        "credit": standing.credit.wire(),
        "low_at": low,
        "payment_days": agreed.payment_days,
        "bank_transfer": bank.of_wallet(tenant),
        "credits": grants.credits_wire(tenant, now=now),
        "hours": grants.hours_wire(tenant, now=now),
    }
