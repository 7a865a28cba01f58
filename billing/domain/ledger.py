"""The ledger: every event of money is a balanced set of entries, or it is refused.

Entries are credit-positive: liabilities and income grow by positive entries, assets by negative ones; a set sums to 0. The database holds the same
promises once more (migration ``0002_guards``), for whoever comes with raw SQL.

====================  ============================================================================================
event                 entries
====================  ============================================================================================
invoice issued        tenant_receivable −total, accrued[provider] +seller, platform_fee +fee, tax_payable +tax
negative invoice      the same with the signs turned; what is owed back goes to ``credit`` of the tenant
credit used           credit −x, tenant_receivable +x
invoice paid          cash −x, tenant_receivable +x
invoice void          the mirror of the invoice
wallet topped up      cash −x, wallet +x (taken out: the mirror)
hold                  wallet −x, hold +x (given back: the mirror)
invoice from wallet   hold −x, wallet −y, tenant_receivable +(x + y)
credit given          promo_cost −x, credit +x (expired: the mirror)
credit note           the invoice's mirror in part; what was paid goes to ``credit``; a share no longer there becomes provider_receivable
bank transfer         cash −x, tenant_receivable +y, wallet +(x − y); nobody's yet: cash −x, unmatched +x
given up              bad_debt −x, tenant_receivable +x
====================  ============================================================================================
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from portal.kit.errors import Conflict


class AccountKind(StrEnum):
    CASH = "cash"
    TENANT_RECEIVABLE = "tenant_receivable"
    PROVIDER_RECEIVABLE = "provider_receivable"
    WALLET = "wallet"
    HOLD = "hold"
    CREDIT = "credit"
    ACCRUED = "accrued"
    AVAILABLE = "available"
    RESERVED = "reserved"
    TAX_PAYABLE = "tax_payable"
    UNMATCHED = "unmatched"
    PLATFORM_FEE = "platform_fee"
    PROMO_COST = "promo_cost"
    RAIL_FEE = "rail_fee"
    BAD_DEBT = "bad_debt"


NEVER_BELOW_ZERO = frozenset(
    {
        AccountKind.WALLET,
        AccountKind.HOLD,
        AccountKind.CREDIT,
        AccountKind.ACCRUED,
        AccountKind.AVAILABLE,
        AccountKind.RESERVED,
    }
)
PLATFORM = "platform"
"""Owner of the platform's own accounts."""


@dataclass(frozen=True, slots=True, order=True)
class Leg:
    """One entry to be: whose account, of which kind, how much (credit-positive, never 0)."""

    owner: str
    kind: AccountKind
    amount_minor: int


@dataclass(frozen=True, slots=True)
class Posting:
    """A balanced set of legs in one currency."""

    currency: str
    legs: tuple[Leg, ...]

    def body_hash(self) -> str:
        """SHA-256 of the posting: the same idempotency key with another hash is an error."""
        body = [self.currency, *([leg.owner, leg.kind.value, leg.amount_minor] for leg in self.legs)]
        return hashlib.sha256(json.dumps(body, ensure_ascii=False).encode()).hexdigest()

    def mirrored(self) -> "Posting":
        """The posting that undoes this one."""
        return balanced(self.currency, [(leg.owner, leg.kind, -leg.amount_minor) for leg in self.legs])


class Unbalanced(Conflict):
    """A set of entries that does not sum to 0, or has fewer than two."""

    code = "unbalanced_posting"


def balanced(currency: str, legs: Iterable[tuple[str, AccountKind, int]]) -> Posting:
    """The posting of `legs`: entries to one account are one entry, zeros fall out, the order is fixed. Unbalanced if the sum is not 0."""
    sums: dict[tuple[str, AccountKind], int] = {}
    for owner, kind, amount in legs:
        sums[owner, kind] = sums.get((owner, kind), 0) + amount
    kept = tuple(sorted(Leg(owner, kind, amount) for (owner, kind), amount in sums.items() if amount))
    if sum(leg.amount_minor for leg in kept) != 0 or len(kept) == 1:
        raise Unbalanced("the entries of a posting sum to 0")
    return Posting(currency, kept)


def invoice(
    *,
    tenant: str,
    currency: str,
    sellers: Mapping[str, int],
    fee_minor: int,
    tax_minor: int,
    accrued: Mapping[str, int] | None = None,
) -> Posting:
    """The posting of an issued invoice.

    `sellers`: each provider's share. A negative share comes out of what the provider has accrued (`accrued`), the rest becomes its debt. A negative
    total goes to the tenant's credit balance.
    """
    legs: list[tuple[str, AccountKind, int]] = [
        (PLATFORM, AccountKind.PLATFORM_FEE, fee_minor),
        (PLATFORM, AccountKind.TAX_PAYABLE, tax_minor),
    ]
    for provider, share in sellers.items():
        taken = max(share, -(accrued or {}).get(provider, 0)) if share < 0 else share
        legs += [(provider, AccountKind.ACCRUED, taken), (provider, AccountKind.PROVIDER_RECEIVABLE, share - taken)]
    total = sum(amount for _, _, amount in legs)
    legs.append((tenant, AccountKind.TENANT_RECEIVABLE if total >= 0 else AccountKind.CREDIT, -total))
    return balanced(currency, legs)


def credit_used(*, tenant: str, currency: str, amount_minor: int) -> Posting:
    """The tenant's credit balance pays a part of its invoice."""
    return balanced(
        currency, [(tenant, AccountKind.CREDIT, -amount_minor), (tenant, AccountKind.TENANT_RECEIVABLE, amount_minor)]
    )


def payment(*, tenant: str, currency: str, amount_minor: int, cash_owner: str = PLATFORM) -> Posting:
    """Money arrived for an invoice, in the cash of `cash_owner`: our bank, or a payment rail."""
    return balanced(
        currency, [(cash_owner, AccountKind.CASH, -amount_minor), (tenant, AccountKind.TENANT_RECEIVABLE, amount_minor)]
    )


def moved(
    currency: str, *, amount_minor: int, out_of: tuple[str, AccountKind], into: tuple[str, AccountKind]
) -> Posting:
    """`amount_minor` from one account to another. An asset (cash, receivable) that money comes out of grows, as its entries are negative."""
    return balanced(currency, [(*out_of, -amount_minor), (*into, amount_minor)])


def from_wallet(*, tenant: str, currency: str, hold_minor: int, wallet_minor: int) -> Posting:
    """A prepaid invoice: what its holds kept (`hold_minor`) and what comes from the wallet, or goes back to it (`wallet_minor` below 0)."""
    return balanced(
        currency,
        [
            (tenant, AccountKind.HOLD, -hold_minor),
            (tenant, AccountKind.WALLET, -wallet_minor),
            (tenant, AccountKind.TENANT_RECEIVABLE, hold_minor + wallet_minor),
        ],
    )


def credit_note(
    *,
    tenant: str,
    currency: str,
    sellers: Mapping[str, int],
    there: Mapping[str, tuple[int, ...]],
    fee_minor: int,
    tax_minor: int,
    off_open_minor: int,
    to_credit_minor: int,
) -> Posting:
    """The invoice's mirror in part. `sellers`: share taken back of each provider; `there`: what it has accrued and available now."""
    legs: list[tuple[str, AccountKind, int]] = [
        (PLATFORM, AccountKind.PLATFORM_FEE, -fee_minor),
        (PLATFORM, AccountKind.TAX_PAYABLE, -tax_minor),
        (tenant, AccountKind.TENANT_RECEIVABLE, off_open_minor),
        (tenant, AccountKind.CREDIT, to_credit_minor),
    ]
    for provider, share in sellers.items():
        accrued, available = there.get(provider, (0, 0))
        first = min(share, accrued)
        second = min(share - first, available)
        legs += [
            (provider, AccountKind.ACCRUED, -first),
            (provider, AccountKind.AVAILABLE, -second),
            (provider, AccountKind.PROVIDER_RECEIVABLE, -(share - first - second)),
        ]
    return balanced(currency, legs)


def bank_settled(*, tenant: str, currency: str, to_invoice_minor: int, to_wallet_minor: int) -> Posting:
    """Money that came by bank transfer finds its owner."""
    return balanced(
        currency,
        [
            (PLATFORM, AccountKind.UNMATCHED, -(to_invoice_minor + to_wallet_minor)),
            (tenant, AccountKind.TENANT_RECEIVABLE, to_invoice_minor),
            (tenant, AccountKind.WALLET, to_wallet_minor),
        ],
    )
