"""Money over a payment rail: what it can take, what it says of things, the life of a payment, and the entries of each event.

The rail's own balance is an account of the ledger (`RAIL`, cash), so that both can be compared every day.

====================  ===================================================================================================
event                 entries
====================  ===================================================================================================
invoice paid          rail cash −x, tenant_receivable +x (``ledger.payment``)
more than was open    rail cash −x, credit +x
nothing fits          rail cash −x, unmatched +x: visible, and a person looks
fee of a charge       rail cash +f, rail_fee −f
refund asked          credit −x, reserved +x: the money is set aside before the rail is asked
refund sent           reserved −x, rail cash +x; refused: reserved −x, credit +x
dispute               rail cash +x, bad_debt −x, its fee as above; won: the same with the signs turned
paid out to us        rail cash +x, platform cash −x
====================  ===================================================================================================

Payments. A state has a rank and never goes to a lower one, whatever order events come in.

===============  =====  ========  ==========  =========  =======  =========  ========  ========
state            rank   asked     processing  succeeded  failed   cancelled  disputed  refunded
===============  =====  ========  ==========  =========  =======  =========  ========  ========
created          0      requires  processing  succeeded  failed   cancelled
requires_action  1      (stays)   processing  succeeded  failed   cancelled
processing       2                (stays)     succeeded  failed   cancelled
succeeded        4                            (stays)                        disputed  refunded
disputed         5                                                           (stays)   refunded
failed           9
cancelled        9
refunded         9
===============  =====  ========  ==========  =========  =======  =========  ========  ========
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from billing.domain.ledger import PLATFORM, AccountKind, Posting, balanced
from portal.kit.machine import step
from portal.kit.money import Money, currency

RAIL = "rail:stripe"
"""Owner of the rail's cash account."""
KEY_LIFE = timedelta(hours=23)
"""Older than this, a key may be forgotten at the rail (24 h): look before asking again."""


def chargeable(amount: Money) -> Money:
    """The part of `amount` that can be charged now; 0 below the rail's minimum and for nothing owed."""
    rules = currency(amount.currency)
    if amount.minor <= 0 or amount.minor < rules.rail_minimum:
        return Money(0, amount.currency)
    return Money(amount.minor - amount.minor % rules.rail_step, amount.currency)


def in_steps(amount: Money) -> bool:
    """Whether the rail can take or give exactly this: a positive number of its steps."""
    return amount.minor > 0 and amount.minor % currency(amount.currency).rail_step == 0


# --- payments -------------------------------------------------------------------------------------------------------------
class PaymentState(StrEnum):
    CREATED = "created"
    REQUIRES_ACTION = "requires_action"
    PROCESSING = "processing"
    SUCCEEDED = "succeeded"
    DISPUTED = "disputed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REFUNDED = "refunded"


class PaymentEvent(StrEnum):
    ASKED = "asked"
    PROCESSING = "processing"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    DISPUTED = "disputed"
    REFUNDED = "refunded"


class PaymentEffect(StrEnum):
    SETTLE = "settle"
    TELL = "tell"


class Purpose(StrEnum):
    INVOICE = "invoice"
    TOP_UP = "top_up"


S, E, F = PaymentState, PaymentEvent, PaymentEffect
LIVE = frozenset({S.CREATED, S.REQUIRES_ACTION, S.PROCESSING})
"""The money may still come: no second payment of the same invoice is begun."""
RANK: Mapping[PaymentState, int] = {
    S.CREATED: 0, S.REQUIRES_ACTION: 1, S.PROCESSING: 2, S.SUCCEEDED: 4, S.DISPUTED: 5, S.FAILED: 9, S.CANCELLED: 9, S.REFUNDED: 9,
}  # fmt: skip
TABLE: Mapping[tuple[PaymentState, PaymentEvent], tuple[PaymentState, tuple[PaymentEffect, ...]]] = {
    (S.CREATED, E.ASKED): (S.REQUIRES_ACTION, ()),
    (S.CREATED, E.PROCESSING): (S.PROCESSING, ()),
    (S.REQUIRES_ACTION, E.PROCESSING): (S.PROCESSING, ()),
    **{(state, E.SUCCEEDED): (S.SUCCEEDED, (F.SETTLE,)) for state in (S.CREATED, S.REQUIRES_ACTION, S.PROCESSING)},
    **{(state, E.FAILED): (S.FAILED, (F.TELL,)) for state in (S.CREATED, S.REQUIRES_ACTION, S.PROCESSING)},
    **{(state, E.CANCELLED): (S.CANCELLED, ()) for state in (S.CREATED, S.REQUIRES_ACTION, S.PROCESSING)},
    (S.SUCCEEDED, E.DISPUTED): (S.DISPUTED, (F.TELL,)),
    (S.SUCCEEDED, E.REFUNDED): (S.REFUNDED, ()),
    (S.DISPUTED, E.REFUNDED): (S.REFUNDED, ()),
}
SAYS: Mapping[str, PaymentEvent] = {
    "requires_action": E.ASKED,
    "processing": E.PROCESSING,
    "succeeded": E.SUCCEEDED,
    "canceled": E.CANCELLED,
}
"""Status of an intent at the rail → event; the others (waiting for a card) are none."""


def advance(state: PaymentState, event: PaymentEvent) -> tuple[PaymentState, tuple[PaymentEffect, ...]]:
    """The state after `event` and what is to be done; InvalidTransition when the table has no such pair."""
    return step(TABLE, state, event)


def possible(state: PaymentState, event: PaymentEvent) -> bool:
    """Whether `event` leads anywhere from here; what comes late or twice does not, and is no error."""
    return (state, event) in TABLE


# --- what the rail says -----------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class PaymentFacts:
    """A payment intent as it is now. `amount` is what arrived when it succeeded, else what is asked; `fee` None: not known yet."""

    id: str
    reference: str
    status: str
    amount: Money
    charge: str = ""
    fee: Money | None = None
    method: str = ""
    failure: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """A hosted page for paying or saving a card."""

    id: str
    reference: str
    status: str
    url: str
    expires_at: datetime | None
    intent: str = ""
    setup: str = ""


@dataclass(frozen=True, slots=True)
class RefundFacts:
    id: str
    reference: str
    status: str
    amount: Money
    charge: str
    failure: str = ""


@dataclass(frozen=True, slots=True)
class BalanceEntry:
    """One movement of the rail's balance: `amount` without, `net` with the fee."""

    id: str
    kind: str
    source: str
    amount: Money
    fee: Money
    net: Money
    at: datetime


@dataclass(frozen=True, slots=True)
class DisputeFacts:
    id: str
    intent: str
    charge: str
    status: str
    reason: str
    amount: Money
    due_by: datetime | None
    entries: tuple[BalanceEntry, ...]


@dataclass(frozen=True, slots=True)
class AccountFacts:
    """A provider's account: `due` are the rail's names of what it still wants to know."""

    id: str
    reference: str
    details_submitted: bool
    payouts_enabled: bool
    due: tuple[str, ...]
    disabled_reason: str


@dataclass(frozen=True, slots=True)
class TransferFacts:
    id: str
    reference: str
    amount: Money
    destination: str
    reversed: Money


# --- postings --------------------------------------------------------------------------------------------------------------
def _cash(amount: Money, owner: str, kind: AccountKind) -> Posting:
    """Money arrived at the rail for `owner`."""
    return balanced(amount.currency, [(RAIL, AccountKind.CASH, -amount.minor), (owner, kind, amount.minor)])


def surplus(*, tenant: str, amount: Money) -> Posting:
    """More arrived than was open: it is the tenant's credit."""
    return _cash(amount, tenant, AccountKind.CREDIT)


def unmatched(*, amount: Money) -> Posting:
    """Money that fits nothing of ours."""
    return _cash(amount, PLATFORM, AccountKind.UNMATCHED)


def fee(*, amount: Money) -> Posting:
    """The rail kept its fee; the platform bears it."""
    return _cash(-amount, PLATFORM, AccountKind.RAIL_FEE)


def paid_out(*, amount: Money) -> Posting:
    """The rail sent money to our bank; below zero: our bank sent it to the rail."""
    return balanced(
        amount.currency, [(RAIL, AccountKind.CASH, amount.minor), (PLATFORM, AccountKind.CASH, -amount.minor)]
    )


def refund_reserved(*, tenant: str, amount: Money) -> Posting:
    """Set aside from the tenant's credit before the rail is asked."""
    return balanced(
        amount.currency, [(tenant, AccountKind.CREDIT, -amount.minor), (tenant, AccountKind.RESERVED, amount.minor)]
    )


def refund_sent(*, tenant: str, amount: Money) -> Posting:
    """The rail gave it back."""
    return _cash(-amount, tenant, AccountKind.RESERVED)


def refund_returned(*, tenant: str, amount: Money) -> Posting:
    """The bank sent a refund back after all: it is the tenant's credit again."""
    return _cash(amount, tenant, AccountKind.CREDIT)


def disputed(entry: BalanceEntry) -> Posting:
    """One movement of a dispute: the platform bears amount and fee, and gets both back when it wins."""
    return balanced(
        entry.net.currency,
        [
            (RAIL, AccountKind.CASH, -entry.net.minor),
            (PLATFORM, AccountKind.BAD_DEBT, entry.amount.minor),
            (PLATFORM, AccountKind.RAIL_FEE, -entry.fee.minor),
        ],
    )
