"""Energy and carbon beside usage, with the basis of each figure named.

energy of a fact  = quantity × power of one whole unit × PUE of the zone. Unknown power: no figure. Unknown PUE: the energy of the machine alone, and the
basis says so; it is never taken as 1 in silence.

carbon, location-based = energy × the grid's published grams per kWh;
carbon, market-based   = the same × (1 − green ratio of the offer); where no ratio is known it equals the location-based figure.

Both are given side by side, as the GHG Protocol (Scope 2) asks. Whole numbers: microwatt-hours and micrograms, rounded half up once per fact.
"""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from portal.kit.money import PPM, half_up
from portal.kit.quantities import MILLI, US_PER_HOUR

MOST_MILLIWATTS = 100_000_000
"""A unit that draws more than 100 kW is a mistake."""


class Basis(StrEnum):
    """Where the power of a unit comes from."""

    UNKNOWN = ""
    MEASURED = "measured"  # read from the device while it ran
    NAMEPLATE = "nameplate"  # the maker's figure for the model
    COEFFICIENT = "coefficient"  # a published average for its kind


@dataclass(frozen=True, slots=True)
class Footprint:
    """Energy in microwatt-hours, carbon in micrograms of CO2e; None = not known."""

    energy_uwh: int | None = None
    carbon_ug: int | None = None
    carbon_market_ug: int | None = None


def footprint(
    *, qty_us: int, power_mw: int | None, pue_milli: int | None, grid_g_per_kwh: int | None, green_ratio_ppm: int | None
) -> Footprint:
    """The energy and carbon of a quantity of core- or card-time. ValueError for a power that no unit has."""
    if power_mw is None:
        return Footprint()
    if not 0 <= power_mw <= MOST_MILLIWATTS:
        raise ValueError(f"{power_mw} mW is no power of one unit")
    pue = pue_milli or MILLI
    energy, per = qty_us * power_mw * pue, US_PER_HOUR  # mW·h × 1000 = µWh
    if grid_g_per_kwh is None:
        return Footprint(_round(energy, per))
    carbon = energy * grid_g_per_kwh  # g/kWh = µg/µWh ÷ 1000
    market = carbon * (PPM - (green_ratio_ppm or 0))
    return Footprint(_round(energy, per), _round(carbon, per * MILLI), _round(market, per * MILLI * PPM))


def _round(value: int, per: int) -> int:
    """value / per, rounded half up (both are never negative here)."""
    return (2 * value + per) // (2 * per)


def basis_text(basis: str, *, pue_known: bool) -> str:
    """The basis in words that a document prints: ``nameplate × PUE``, ``nameplate, machine only``, ``unknown``."""
    if not basis:
        return "unknown"
    return f"{basis} × PUE" if pue_known else f"{basis}, machine only"


def kwh_text(uwh: int) -> str:
    """Kilowatt-hours with three decimals, half away from zero."""
    return _thousandths(uwh, 10**9)


def kg_text(micrograms: int) -> str:
    """Kilograms of CO2e with three decimals, half away from zero."""
    return _thousandths(micrograms, 10**9)


def _thousandths(value: int, per: int) -> str:
    whole = half_up(Fraction(value * MILLI, per))
    digits = str(abs(whole)).rjust(4, "0")
    return f"{'-' if whole < 0 else ''}{digits[:-3]}.{digits[-3:]}"
