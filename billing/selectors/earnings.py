"""What a provider earned: by month from issued lines, in total from the ledger. It sees its own share of lines, never who its tenants are."""

from dataclasses import dataclass
from typing import Any

from django.db import connection

from billing.domain.ledger import AccountKind
from billing.domain.metering import Resource
from billing.domain.payout import PayoutState
from billing.domain.statement import PLACES, UNITS, quantity_text
from billing.models import Account, Payout
from portal.kit.money import Money

KINDS = (AccountKind.ACCRUED, AccountKind.AVAILABLE, AccountKind.RESERVED, AccountKind.PROVIDER_RECEIVABLE)
MONTHS = """
SELECT p.month, i.currency, l.sku, l.resource, sum(l.qty_us), sum(l.amount_minor), sum(l.fee_minor), sum(l.seller_minor), bool_or(l.demo)
FROM billing_invoiceline l JOIN billing_invoice i ON i.id = l.invoice_id JOIN billing_billingperiod p ON p.id = i.period_id
WHERE l.provider_ref = %s AND i.state NOT IN ('draft', 'void')
GROUP BY 1, 2, 3, 4 ORDER BY 1 DESC, 2, 3
"""


@dataclass(frozen=True, slots=True)
class Earned:
    """One sku of one month of invoices: what tenants were billed, our fee, the provider's share."""

    month: str
    sku: str
    resource: str
    qty_us: int
    billed: Money
    fee: Money
    share: Money
    demo: bool

    @property
    def quantity(self) -> str:
        return quantity_text(self.resource, self.qty_us, PLACES)

    @property
    def unit(self) -> str:
        return UNITS[Resource(self.resource)]

    def wire(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "month": self.month,
            "sku": self.sku,
            "quantity": self.quantity,
            "unit": self.unit,
            "billed": self.billed.wire(),
            "fee": self.fee.wire(),
            "share": self.share.wire(),
            "demo": self.demo,
        }


def overview(*, provider_ref: str) -> dict[str, Any]:
    """The JSON form of both; `paid` is what was sent for good, less what was taken back."""
    sent: dict[str, int] = {}
    for payout in Payout.objects.filter(organisation__public_id=provider_ref, state=PayoutState.PAID):
        sent[payout.currency] = sent.get(payout.currency, 0) + payout.amount_minor - payout.reversed_minor
    balances = [
        {
            "currency": code,
            "accrued": held.get(AccountKind.ACCRUED, Money(0, code)).wire(),
            "available": held.get(AccountKind.AVAILABLE, Money(0, code)).wire(),
            "reserved": held.get(AccountKind.RESERVED, Money(0, code)).wire(),
            "paid": Money(sent.get(code, 0), code).wire(),
            "owed_back": (-held.get(AccountKind.PROVIDER_RECEIVABLE, Money(0, code))).wire(),
        }
        for code, held in standing(provider_ref=provider_ref).items()
    ]
    return {"balances": balances, "items": [row.wire() for row in months(provider_ref=provider_ref)]}


def months(*, provider_ref: str) -> list[Earned]:
    """The provider's earnings by month and sku, newest first. `provider_ref` is the organisation's public id."""
    with connection.cursor() as cursor:
        cursor.execute(MONTHS, [provider_ref])
        return [
            Earned(
                month=month,
                sku=sku,
                resource=resource,
                qty_us=int(quantity),
                billed=Money(int(billed), code),
                fee=Money(int(fee), code),
                share=Money(int(share), code),
                demo=demo,
            )
            for month, code, sku, resource, quantity, billed, fee, share, demo in cursor.fetchall()
        ]


def standing(*, provider_ref: str) -> dict[str, dict[str, Money]]:
    """Per currency what the ledger holds for the provider: accrued (invoiced, not paid out), available, reserved, and what it owes."""
    found: dict[str, dict[str, Money]] = {}
    accounts = Account.objects.filter(owner=provider_ref, kind__in=[kind.value for kind in KINDS]).order_by(
        "currency", "kind"
    )
    for account in accounts:
        found.setdefault(account.currency, {})[account.kind] = Money(account.balance_minor, account.currency)
    return found
