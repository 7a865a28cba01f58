"""Graduated prices: each hour costs what its place in the month costs.

Volume prices ("from 500 h on, all hours are cheaper") have a cliff: 500 h cost more than 501 h. So only graduated tiers exist here; an amount never
falls when usage grows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from portal.kit.money import MAX_UNIT_PRICE_MICRO
from portal.kit.quantities import US_PER_HOUR

Tiers = tuple[tuple[int | None, int], ...]
"""``(up_to_h or None, price_micro)`` in rising order; the last one is open. Empty = one price."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A quantity inside one tier: number (1, 2, …; 0 = no tiers), quantity, price."""

    tier: int
    qty_us: int
    price_micro: int


def parse(rows: Sequence[Any]) -> Tiers:
    """Tiers from stored or sent rows (pairs, or maps with ``up_to_h`` and ``price_micro``). ValueError if they do not rise to an open end."""
    tiers = tuple(
        (row["up_to_h"], row["price_micro"]) if isinstance(row, Mapping) else (row[0], row[1]) for row in rows
    )
    below = 0
    for up_to, _price in tiers[:-1]:
        if up_to is None or up_to <= below:
            raise ValueError("tiers rise, and only the last one is open")
        below = up_to
    if tiers and tiers[-1][0] is not None:
        raise ValueError("the last tier is open")
    if any(not 0 <= price <= MAX_UNIT_PRICE_MICRO for _, price in tiers):
        raise ValueError("a unit price lies between 0 and 1,000,000")
    return tiers


def slices(tiers: Tiers, unit_price_micro: int, *, position_us: int, qty_us: int) -> list[Slice]:
    """`qty_us` that begins at `position_us` of the month, cut where a tier ends. Without tiers: one slice at the unit price."""
    if not tiers:
        return [Slice(0, qty_us, unit_price_micro)] if qty_us else []
    found, at, left = [], position_us, qty_us
    for number, (up_to, price) in enumerate(tiers, start=1):
        room = left if up_to is None else min(left, max(0, up_to * US_PER_HOUR - at))
        if room:
            found.append(Slice(number, room, price))
            at, left = at + room, left - room
    return found
