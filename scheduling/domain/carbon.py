"""What a task emits: energy × PUE × the grid's intensity over the hours it runs. An estimate, and it says by what.

The basis is **location-based**: the grid where the node stands, as it was (or is forecast) in that hour; contracts for
green power do not change it. Power comes from a published table of watts (`marketplace.domain.power`, the one that
usage records are made with), not from a meter. What is not in the table is unknown, and so is then the sum; unknown
is never 0.
"""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

MICRO = 1_000_000


class Basis(StrEnum):
    """Where an intensity comes from."""

    HOURLY = "hourly"  # a series of the grid, by the hours the task runs
    YEARLY = "yearly"  # the region's published mean
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Footprint:
    """Grams of CO₂ equivalent and watt-hours of a task; None = unknown."""

    watt_hours: int | None
    grams: int | None
    basis: str


def footprint(
    *, power_mw: int | None, seconds: int, pue_milli: int | None, intensity_mg: int | None, basis: str = Basis.UNKNOWN
) -> Footprint:
    """Energy and carbon of `seconds` at `power_mw`. `intensity_mg`: milligrams per kWh. An unknown PUE leaves both unknown."""
    if power_mw is None or pue_milli is None:
        return Footprint(None, None, Basis.UNKNOWN)
    energy = Fraction(power_mw * seconds * pue_milli, 3_600 * 1_000 * 1_000)  # Wh
    if intensity_mg is None:
        return Footprint(round(energy), None, Basis.UNKNOWN)
    return Footprint(round(energy), round(energy * intensity_mg / MICRO), basis)
