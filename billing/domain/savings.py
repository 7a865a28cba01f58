"""What a month could have cost less, from what was bought in it: no promise, a sum with its reason.

=============  ==============================================================================================================
kind           what is compared
=============  ==============================================================================================================
cheaper_place  the same capacity (resource, model, rental) was bought at several prices: all of it at the lowest of them
spot           capacity at a fixed price, of a model whose interruptible price was paid in the same month: at that price
failed_work    time that was billed although its attempts failed on the tenant's side (exit code, memory, time limit …)
=============  ==============================================================================================================

Each amount is exact and rounded once. Proposals overlap (the same hours may be cheaper elsewhere and on spot): they are not added up.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from billing.domain import rating
from portal.kit.money import Exact, Money


class Proposal(StrEnum):
    CHEAPER_PLACE = "cheaper_place"
    SPOT = "spot"
    FAILED_WORK = "failed_work"


@dataclass(frozen=True, slots=True)
class Bought:
    """What was bought of one sku at one place and price. `price_micro` is the price after discount, rounded down."""

    resource: str
    model: str
    rental: str
    provider: str
    zone: str
    price_micro: int
    qty: int


@dataclass(frozen=True, slots=True)
class Saving:
    """One proposal: which capacity, what it would have saved, and where (a provider and zone, a rental, a reason)."""

    kind: Proposal
    subject: str
    where: str
    saved: Money


def propose(bought: Iterable[Bought], failed: Mapping[str, Money], *, currency: str) -> list[Saving]:
    """The proposals that save something, the largest first. `failed`: reason of the ending → what was billed."""
    rows = [row for row in bought if row.qty > 0]
    found = [*_cheaper(rows, currency), *_spot(rows, currency)]
    found += [Saving(Proposal.FAILED_WORK, reason, reason, amount) for reason, amount in failed.items()]
    return sorted(
        (saving for saving in found if saving.saved.minor > 0),
        key=lambda saving: (-saving.saved.minor, saving.kind, saving.subject),
    )


def _cheaper(rows: list[Bought], currency: str) -> list[Saving]:
    groups: dict[tuple[str, str, str], list[Bought]] = {}
    for row in rows:
        groups.setdefault((row.resource, row.model, row.rental), []).append(row)
    found = []
    for (resource, model, rental), mine in groups.items():
        best = min(mine, key=lambda row: (row.price_micro, row.provider, row.zone))
        saved = _difference(mine, best.price_micro, currency)
        found.append(
            Saving(Proposal.CHEAPER_PLACE, _subject(resource, model, rental), f"{best.provider}, {best.zone}", saved)
        )
    return found


def _spot(rows: list[Bought], currency: str) -> list[Saving]:
    spot: dict[tuple[str, str], int] = {}
    for row in rows:
        key = (row.resource, row.model)
        if row.rental == "spot":
            spot[key] = min(spot.get(key, row.price_micro), row.price_micro)
    found = []
    for key, price in spot.items():
        fixed = [
            row for row in rows if row.rental != "spot" and (row.resource, row.model) == key and row.price_micro > price
        ]
        found.append(Saving(Proposal.SPOT, _subject(*key, "fixed"), "spot", _difference(fixed, price, currency)))
    return found


def _difference(rows: Iterable[Bought], price_micro: int, currency: str) -> Money:
    """What the rows cost more than at that price."""
    total = Exact(Fraction(0), currency)
    for row in rows:
        total += rating.exact(row.resource, row.qty, row.price_micro - price_micro, currency)
    return total.to_money()


def _subject(resource: str, model: str, rental: str) -> str:
    return f"{resource} {model}, {rental}" if model else f"{resource}, {rental}"
