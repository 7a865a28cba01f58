"""Quantities of resources: stored in whole resource-microseconds, printed in core-hours and card-hours.

``qty_us`` = thousandths allocated (``count_milli``) × unfrozen microseconds // 1000, rounded down once on the
cumulative counter (billing P1).
"""

from fractions import Fraction

US_PER_HOUR = 3_600_000_000
"""Microseconds in an hour: the divisor between ``qty_us`` and unit-hours."""
MILLI = 1000


def qty_us(count_milli: int, microseconds: int) -> int:
    """Resource-microseconds of `count_milli` thousandths over `microseconds`, rounded down (both non-negative)."""
    if count_milli < 0 or microseconds < 0:
        raise ValueError("quantities are not negative")
    return count_milli * microseconds // MILLI


def hours(quantity_us: int) -> Fraction:
    """Unit-hours (core-hours, card-hours) of `quantity_us`, exactly."""
    return Fraction(quantity_us, US_PER_HOUR)


def hours_text(quantity_us: int, places: int = 2) -> str:
    """Unit-hours as decimal text with `places` decimals, half away from zero: ``8400000000 → "2.33"``."""
    scaled = abs(quantity_us) * 10**places
    whole = (2 * scaled + US_PER_HOUR) // (2 * US_PER_HOUR)
    text = str(whole).rjust(places + 1, "0")
    sign = "-" if quantity_us < 0 and whole else ""
    return sign + (f"{text[:-places]}.{text[-places:]}" if places else text)
