"""How reliable a node is, as a published formula: its own faults, weighed by their age.

``r = Σ wᵢ · okᵢ / Σ wᵢ``, ``wᵢ = 2^(−ageᵢ / 10 days)``, over the attempts of the last 30 days that the node had accepted; ok = did not
end by the node's own fault. Below 20 attempts a node is new and has no figure.

Three in a row within a day that ended by its own fault make a node *doubtful*: it has to prove itself again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from portal.kit.money import PPM

WINDOW: Final = timedelta(days=30)
HALF_LIFE: Final = timedelta(days=10)
FEWEST: Final = 20
IN_A_ROW: Final = 3
WITHIN: Final = timedelta(days=1)


@dataclass(frozen=True)
class Ending:
    """How one attempt ended. `fault`: by the node's own fault; `success`: it did its work."""

    at: datetime
    fault: bool
    success: bool = False


def score(endings: Sequence[Ending], now: datetime) -> tuple[int | None, int]:
    """(r in millionths, None while new; how many attempts counted)."""
    counted = [one for one in endings if now - WINDOW <= one.at <= now]
    if len(counted) < FEWEST:
        return None, len(counted)
    weights = [0.5 ** ((now - one.at) / HALF_LIFE) for one in counted]
    good = sum(weight for weight, one in zip(weights, counted, strict=True) if not one.fault)
    return round(PPM * good / sum(weights)), len(counted)


def doubtful(endings: Sequence[Ending], now: datetime) -> int:
    """How many attempts in a row (newest first, up to the last that worked) ended by the node's fault within a day; 0 = below three.

    Endings that are nobody's or a tenant's fault neither count nor clear the node.
    """
    row = 0
    for one in sorted(endings, key=lambda ending: ending.at, reverse=True):
        if one.at < now - WITHIN or one.success:
            break
        row += one.fault
    return row if row >= IN_A_ROW else 0
