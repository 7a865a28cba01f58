"""The provider's share: how it is cut from a line, what of it may go out, and the life of a payout.

The fee is rounded half up once per (invoice, provider) on the sum of its net lines, then laid over the lines by largest remainder. Negative lines
(corrections) are a group of their own, so what was taken is given back by the same rule (billing P7).

====================  ============================================================================================
event                 entries
====================  ============================================================================================
debt set off          accrued −x, provider_receivable +x: what a credit note took after it was paid out
released              accrued −x, available +x: the invoice is paid and the hold time over
reserved              available −x, reserved +x, before the rail is asked
paid                  reserved −x, rail cash +x
failed                reserved −x, available +x: the counter-entry; the next try has a new key
taken back            rail cash −x, provider_receivable +x
====================  ============================================================================================

=========  =========  =========  =========  =========  =========
state      ready      held       sent       paid       failed
=========  =========  =========  =========  =========  =========
accrued    available
available             reserved
reserved                         sent                  failed
sent                                        paid       failed
=========  =========  =========  =========  =========  =========

``accrued`` collects (too small, no account yet …); ``paid`` and ``failed`` are ends: what failed is collected again by a new payout.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from billing.domain.ledger import AccountKind, Posting, balanced
from billing.domain.rail import RAIL
from portal.kit.machine import step
from portal.kit.money import PPM, Money, currency, half_up, split


@dataclass(frozen=True, slots=True)
class Shares:
    """One line's net amount in two parts."""

    fee_minor: int
    seller_minor: int


def shares(lines: Sequence[tuple[str, int]], fee_ppm: int) -> list[Shares]:
    """Fee and seller's share of each (provider, net minor) line, in the given order."""
    if not 0 <= fee_ppm <= PPM:
        raise ValueError("a fee lies between 0 and 1,000,000 ppm")
    fees = [0] * len(lines)
    groups: dict[tuple[str, bool], list[int]] = {}
    for index, (provider, net) in enumerate(lines):
        if net:
            groups.setdefault((provider, net < 0), []).append(index)
    for members in groups.values():
        nets = [lines[i][1] for i in members]
        fee = half_up(Fraction(sum(nets) * fee_ppm, PPM))
        for index, part in zip(members, split(fee, [abs(net) for net in nets]), strict=True):
            fees[index] = part
    return [Shares(fee, net - fee) for fee, (_, net) in zip(fees, lines, strict=True)]


# --- a payout's life ----------------------------------------------------------------------------------------------------------
class PayoutState(StrEnum):
    ACCRUED = "accrued"
    AVAILABLE = "available"
    RESERVED = "reserved"
    SENT = "sent"
    PAID = "paid"
    FAILED = "failed"


class PayoutEvent(StrEnum):
    READY = "ready"
    HELD = "held"
    SENT = "sent"
    PAID = "paid"
    FAILED = "failed"


class PayoutEffect(StrEnum):
    DEBIT = "debit"
    ASK = "ask"
    SETTLE = "settle"
    GIVE_BACK = "give_back"
    TELL = "tell"


class WaitReason(StrEnum):
    """Why money is collected and not sent."""

    BELOW_MINIMUM = "below_minimum"
    NO_ACCOUNT = "no_account"
    PAYOUTS_DISABLED = "payouts_disabled"
    NO_RAIL = "no_rail"


S, E, F = PayoutState, PayoutEvent, PayoutEffect
OPEN = frozenset({S.ACCRUED, S.AVAILABLE})
"""It still collects."""
TABLE: Mapping[tuple[PayoutState, PayoutEvent], tuple[PayoutState, tuple[PayoutEffect, ...]]] = {
    (S.ACCRUED, E.READY): (S.AVAILABLE, ()),
    (S.AVAILABLE, E.HELD): (S.RESERVED, (F.DEBIT, F.ASK)),
    (S.RESERVED, E.SENT): (S.SENT, ()),
    (S.RESERVED, E.FAILED): (S.FAILED, (F.GIVE_BACK, F.TELL)),
    (S.SENT, E.PAID): (S.PAID, (F.SETTLE, F.TELL)),
    (S.SENT, E.FAILED): (S.FAILED, (F.GIVE_BACK, F.TELL)),
}


def advance(state: PayoutState, event: PayoutEvent) -> tuple[PayoutState, tuple[PayoutEffect, ...]]:
    """The state after `event` and what is to be done; InvalidTransition when the table has no such pair."""
    return step(TABLE, state, event)


def wait_reason(*, rail: bool, account: bool, enabled: bool, amount: Money, minimum: Money) -> WaitReason | None:
    """Why `amount` cannot go out; None when it can."""
    if amount < minimum:
        return WaitReason.BELOW_MINIMUM
    if not rail:
        return WaitReason.NO_RAIL
    if not account:
        return WaitReason.NO_ACCOUNT
    return None if enabled else WaitReason.PAYOUTS_DISABLED


def sendable(amount: Money) -> Money:
    """What the rail can send of it: whole steps of the currency; the rest stays for the next payout."""
    return Money(max(0, amount.minor - amount.minor % currency(amount.currency).rail_step), amount.currency)


# --- what may go out -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Share:
    """What the ledger still holds as accrued for one provider from one invoice; below zero: taken back after it had gone out."""

    invoice_id: int
    left_minor: int
    due: bool
    """The invoice is paid and the hold time is over."""


def releasable(shares: Iterable[Share], *, accrued_minor: int) -> tuple[int, list[Share]]:
    """How much of a provider's accrued balance is to be released, and the shares it comes from.

    Shares of unpaid invoices stay, but what was taken back anywhere counts at once: a credit note on an old invoice may have been served out of the
    share of a new one.
    """
    counted = [share for share in shares if share.left_minor and (share.due or share.left_minor < 0)]
    total = sum(share.left_minor for share in counted)
    amount = max(0, min(total, accrued_minor))
    return amount, counted if amount else []


def set_off(*, provider: str, amount: Money) -> Posting:
    """The provider owes; its accrued money pays that first."""
    return _from(provider, AccountKind.ACCRUED, provider, AccountKind.PROVIDER_RECEIVABLE, amount)


def released(*, provider: str, amount: Money) -> Posting:
    return _from(provider, AccountKind.ACCRUED, provider, AccountKind.AVAILABLE, amount)


def reserved(*, provider: str, amount: Money) -> Posting:
    return _from(provider, AccountKind.AVAILABLE, provider, AccountKind.RESERVED, amount)


def paid(*, provider: str, amount: Money) -> Posting:
    return _from(provider, AccountKind.RESERVED, RAIL, AccountKind.CASH, amount)


def given_back(*, provider: str, amount: Money) -> Posting:
    return _from(provider, AccountKind.RESERVED, provider, AccountKind.AVAILABLE, amount)


def taken_back(*, provider: str, amount: Money) -> Posting:
    return _from(RAIL, AccountKind.CASH, provider, AccountKind.PROVIDER_RECEIVABLE, amount)


def _from(giver: str, out: AccountKind, taker: str, into: AccountKind, amount: Money) -> Posting:
    return balanced(amount.currency, [(giver, out, -amount.minor), (taker, into, amount.minor)])


# --- who a provider is, to the rail -------------------------------------------------------------------------------------------
class KycState(StrEnum):
    NONE = "none"
    INCOMPLETE = "incomplete"
    PENDING = "pending"
    ENABLED = "enabled"
    REJECTED = "rejected"


def kyc(*, account: bool, submitted: bool, enabled: bool, due: Sequence[str], disabled_reason: str) -> KycState:
    """Where a provider's proof of identity stands, in one word."""
    if not account:
        return KycState.NONE
    if disabled_reason.startswith("rejected"):
        return KycState.REJECTED
    if due or not submitted:
        return KycState.INCOMPLETE
    return KycState.ENABLED if enabled else KycState.PENDING
