"""Bank transfers (对公转账): the reference a payer writes, and which line of a statement pays what.

A reference is an ISO 11649 creditor reference (``RF`` + two check digits + ours), so a mistyped one is known as such and pays nobody else's invoice.
Ours is the invoice's number without its dashes, or for the wallet ``W`` + the 26 characters of the organisation's id cut to 19. People also write only the
number of the invoice: that is read too.

===========  ==========  ===========  =====================================
state        event       becomes      money
===========  ==========  ===========  =====================================
unmatched    matched     matched      pays the invoice, the rest the wallet
unmatched    assigned    assigned     the same, as an operator said
unmatched    returned    returned     went back to the payer
===========  ==========  ===========  =====================================
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum

from portal.kit.machine import step
from portal.kit.money import Money

LONGEST = 21
"""Characters of a creditor reference after RF and its check digits."""


class TransferState(StrEnum):
    UNMATCHED = "unmatched"
    MATCHED = "matched"
    ASSIGNED = "assigned"
    RETURNED = "returned"


class TransferEvent(StrEnum):
    MATCHED = "matched"
    ASSIGNED = "assigned"
    RETURNED = "returned"


class TransferEffect(StrEnum):
    """A transfer has no effects outside: its postings are in the same transaction."""


S, E = TransferState, TransferEvent
TABLE: Mapping[tuple[TransferState, TransferEvent], tuple[TransferState, tuple[TransferEffect, ...]]] = {
    (S.UNMATCHED, E.MATCHED): (S.MATCHED, ()),
    (S.UNMATCHED, E.ASSIGNED): (S.ASSIGNED, ()),
    (S.UNMATCHED, E.RETURNED): (S.RETURNED, ()),
}


class Why(StrEnum):
    """Why a transfer waits for an operator."""

    NO_REFERENCE = "no_reference"
    BAD_REFERENCE = "bad_reference"
    UNKNOWN_REFERENCE = "unknown_reference"
    SEVERAL_REFERENCES = "several_references"
    CURRENCY_DIFFERS = "currency_differs"
    NOTHING_OPEN = "nothing_open"


@dataclass(frozen=True, slots=True)
class Credit:
    """One line of a statement: money that came in."""

    bank_reference: str
    booked_on: date
    amount: Money
    payer_name: str
    payer_account: str
    text: str


@dataclass(frozen=True, slots=True)
class Payable:
    """Something that a reference can mean: an invoice with what is open on it, or an organisation's wallet."""

    reference: str
    currency: str
    open_minor: int
    invoice: bool


@dataclass(frozen=True, slots=True)
class Match:
    """What a line pays: `reference` of a payable, and how it is divided; or why nobody's."""

    reference: str = ""
    to_invoice_minor: int = 0
    to_wallet_minor: int = 0
    why: Why | None = None


def advance(state: TransferState, event: TransferEvent) -> TransferState:
    """The state after `event`; InvalidTransition when the transfer was settled already."""
    return step(TABLE, state, event)[0]


def creditor_reference(ours: str) -> str:
    """``IW-2026-000327`` → ``RF21IW2026000327``: letters and digits only, two check digits by ISO 7064 mod 97-10."""
    plain = _plain(ours)[:LONGEST]
    return f"RF{98 - _mod97(plain + 'RF00'):02d}{plain}"


def wallet_reference(organisation_ref: str) -> str:
    """The reference of a wallet: W + the end of the organisation's id, which is its random part."""
    return creditor_reference("W" + _plain(organisation_ref.partition("_")[2])[-19:])


def printed(reference: str) -> str:
    """In groups of four, as such references are printed: ``RF21 IW20 2600 0327``."""
    return " ".join(reference[at : at + 4] for at in range(0, len(reference), 4))


def is_valid(reference: str) -> bool:
    """Do the check digits agree?"""
    return len(reference) > 4 and reference[2:4].isdigit() and _mod97(reference[4:] + reference[:4]) == 1


_OURS = re.compile(r"RF\d\d(?:(?:IW|DEMO)\d{10}|W[0-9A-Z]{19})")
_NUMBER = re.compile(r"(?:IW|DEMO)\d{10}")


def references(text: str) -> tuple[set[str], bool]:
    """(the references a payer's text names, whether one of them is mistyped). Spaces, dashes and case do not matter."""
    plain = _plain(text)
    whole = _OURS.findall(plain)
    good = {reference for reference in whole if is_valid(reference)}
    rest = plain
    for reference in whole:
        rest = rest.replace(reference, " ")
    good |= {creditor_reference(number) for number in _NUMBER.findall(rest)}
    return good, len({reference for reference in whole if not is_valid(reference)}) > 0


def match(credit: Credit, payables: Mapping[str, Payable]) -> Match:
    """What `credit` pays. Never converted, never divided over several invoices by a guess: what is not clear waits for an operator."""
    named, mistyped = references(credit.text)
    if not named:
        return Match(why=Why.BAD_REFERENCE if mistyped else Why.NO_REFERENCE)
    known = sorted(reference for reference in named if reference in payables)
    if not known:
        return Match(why=Why.UNKNOWN_REFERENCE)
    if len(known) > 1:
        return Match(why=Why.SEVERAL_REFERENCES)
    payable = payables[known[0]]
    if payable.currency != credit.amount.currency:
        return Match(why=Why.CURRENCY_DIFFERS)
    if payable.invoice and payable.open_minor <= 0:
        return Match(why=Why.NOTHING_OPEN)
    part = min(payable.open_minor, credit.amount.minor) if payable.invoice else 0
    return Match(payable.reference, part, credit.amount.minor - part)


def unique(credits: Sequence[Credit]) -> list[str]:
    """The bank references that stand in a statement more than once: each must be there once."""
    seen: set[str] = set()
    twice: set[str] = set()
    for credit in credits:
        (twice if credit.bank_reference in seen else seen).add(credit.bank_reference)
    return sorted(twice)


def _plain(text: str) -> str:
    return "".join(letter for letter in text.upper() if letter.isascii() and letter.isalnum())


def _mod97(text: str) -> int:
    return int("".join(str(int(letter, 36)) for letter in text)) % 97


def names(credits: Iterable[Credit]) -> set[str]:
    """All references that a statement names."""
    return {reference for credit in credits for reference in references(credit.text)[0]}
