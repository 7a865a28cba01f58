"""What a task emits: energy × PUE × the grid's intensity over the hours it runs. An estimate, and it says by what.

The basis is **location-based**: the grid where the node stands, as it was (or is forecast) in that hour; contracts for
green power do not change it. Energy comes from a published table of watts, not from a meter: a core at half load, memory, and each
kind of card at its rated board power × 0.8. What is not in the table is unknown, and so is then the sum; unknown is never 0.

| part | watts | source |
|---|---|---|
| core (thread) | 2.12 | mean of idle 0.74 and full 3.5, Cloud Carbon Footprint's coefficients of large clouds |
| GiB of memory | 0.392 | the same |
| card | 0.8 × board power | makers' data sheets |
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

MICRO = 1_000_000
CORE_MILLIWATT = 2_120
MEMORY_MILLIWATT_PER_GIB = 392
CARD_LOAD = Fraction(8, 10)
CARD_WATTS: Mapping[str, int] = {
    "A10": 150,
    "A100-40GB": 400,
    "A100-80GB": 400,
    "B200": 1_000,
    "H100": 700,
    "H200": 700,
    "K80": 300,
    "L4": 72,
    "L40S": 350,
    "MI250X": 560,
    "MI300X": 750,
    "P100": 250,
    "RTX3090": 350,
    "RTX4090": 450,
    "RTX5090": 575,
    "RTXA6000": 300,
    "T4": 70,
    "V100": 300,
}
"""Board power by card model, watts."""


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


def milliwatts(*, cores_milli: int, memory_mib: int, cards: int, card_model: str) -> int | None:
    """Power of an allocation; None for a card that the table does not have. Virtual cards draw nothing of their own."""
    own = cores_milli * CORE_MILLIWATT // 1_000 + memory_mib * MEMORY_MILLIWATT_PER_GIB // 1_024
    if not cards or card_model.startswith("virtual"):
        return own
    watts = CARD_WATTS.get(card_model)
    return None if watts is None else own + int(cards * watts * 1_000 * CARD_LOAD)


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
