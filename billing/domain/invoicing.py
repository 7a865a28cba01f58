"""The monthly invoice: totals that add up as printed, and a life in one table.

subtotal = Σ printed lines · total = subtotal + tax · payable = total − credit used. A net below zero makes an invoice of 0.00 and a credit balance,
never a negative document (billing §5).

==============  =========  =========  =========  =========  ==============
state           issued     part_paid  paid       overdue    voided / given up
==============  =========  =========  =========  =========  ==============
draft           open
open                       partially  paid       past_due   void
partially_paid             partially  paid       past_due
past_due                   past_due   paid                  void, uncollectible
==============  =========  =========  =========  =========  ==============

Void needs zero payments. ``paid``, ``void`` and ``uncollectible`` are ends. Everything but a draft is *issued*: its content never changes again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from billing.domain import payout, tax
from portal.kit.machine import step

TERMS = timedelta(days=14)
"""From the day of issue until an unpaid invoice is past due."""


class InvoiceState(StrEnum):
    DRAFT = "draft"
    OPEN = "open"
    PARTIALLY_PAID = "partially_paid"
    PAST_DUE = "past_due"
    PAID = "paid"
    VOID = "void"
    UNCOLLECTIBLE = "uncollectible"


class InvoiceEvent(StrEnum):
    ISSUED = "issued"
    PART_PAID = "part_paid"
    PAID = "paid"
    OVERDUE = "overdue"
    VOIDED = "voided"
    GIVEN_UP = "given_up"


class InvoiceEffect(StrEnum):
    NUMBER = "number"
    POST = "post"
    COLLECT = "collect"
    TELL = "tell"
    MIRROR = "mirror"


S, E, F = InvoiceState, InvoiceEvent, InvoiceEffect
TABLE: Mapping[tuple[InvoiceState, InvoiceEvent], tuple[InvoiceState, tuple[InvoiceEffect, ...]]] = {
    (S.DRAFT, E.ISSUED): (S.OPEN, (F.NUMBER, F.POST, F.TELL, F.COLLECT)),
    (S.OPEN, E.PART_PAID): (S.PARTIALLY_PAID, ()),
    (S.OPEN, E.PAID): (S.PAID, ()),
    (S.OPEN, E.OVERDUE): (S.PAST_DUE, (F.TELL,)),
    (S.OPEN, E.VOIDED): (S.VOID, (F.MIRROR,)),
    (S.PARTIALLY_PAID, E.PART_PAID): (S.PARTIALLY_PAID, ()),
    (S.PARTIALLY_PAID, E.PAID): (S.PAID, ()),
    (S.PARTIALLY_PAID, E.OVERDUE): (S.PAST_DUE, (F.TELL,)),
    (S.PAST_DUE, E.PART_PAID): (S.PAST_DUE, ()),
    (S.PAST_DUE, E.PAID): (S.PAID, ()),
    (S.PAST_DUE, E.VOIDED): (S.VOID, (F.MIRROR,)),
    (S.PAST_DUE, E.GIVEN_UP): (S.UNCOLLECTIBLE, ()),
}

OWED = frozenset({S.OPEN, S.PARTIALLY_PAID, S.PAST_DUE})
"""States in which something is still to be paid."""


@dataclass(frozen=True, slots=True)
class NetLine:
    """What the totals need to know of a line."""

    provider_ref: str
    amount_minor: int
    tax_rate_ppm: int


@dataclass(frozen=True, slots=True)
class Totals:
    """An invoice added up. `shares` belongs to the lines, in their order."""

    subtotal_minor: int
    taxes: tuple[tax.Tax, ...]
    tax_minor: int
    total_minor: int
    credit_used_minor: int
    payable_minor: int
    to_credit_minor: int
    shares: tuple[payout.Shares, ...]

    @property
    def fee_minor(self) -> int:
        """The platform's fee over all lines."""
        return sum(share.fee_minor for share in self.shares)


def add_up(lines: Sequence[NetLine], *, fee_ppm: int, credit_minor: int = 0) -> Totals:
    """The totals of `lines`, using up to `credit_minor` of the tenant's credit balance."""
    subtotal = sum(line.amount_minor for line in lines)
    taxes = tuple(tax.of_lines((line.amount_minor, line.tax_rate_ppm) for line in lines))
    tax_minor = sum(t.tax_minor for t in taxes)
    net = subtotal + tax_minor
    total = max(0, net)
    used = min(total, max(0, credit_minor))
    return Totals(
        subtotal_minor=subtotal,
        taxes=taxes,
        tax_minor=tax_minor,
        total_minor=total,
        credit_used_minor=used,
        payable_minor=total - used,
        to_credit_minor=total - net,
        shares=tuple(payout.shares([(line.provider_ref, line.amount_minor) for line in lines], fee_ppm)),
    )


def advance(state: InvoiceState, event: InvoiceEvent) -> tuple[InvoiceState, tuple[InvoiceEffect, ...]]:
    """The state after `event` and what is to be done; InvalidTransition when the table has no such pair."""
    return step(TABLE, state, event)


def number(series: str, count: int) -> str:
    """The printed number of the count-th document of a series: ``IW-2026-000327``."""
    return f"{series}-{count:06d}"
