"""Amounts of different currencies side by side: only by a dated, stored rate, only for the eye.

A comparison names its rate, its day and its source; without a rate that is fresh enough there is none. Nothing here makes money: the result is an
`Exact` for display, and no service posts it.
"""

from dataclasses import dataclass
from datetime import date, timedelta
from fractions import Fraction

from portal.kit.money import Exact, Money, currency, plain_decimal

NANO = 10**9
FRESH = timedelta(days=7)
"""An older rate compares nothing."""
MOST_NANO = 10**9 * NANO


@dataclass(frozen=True, slots=True)
class Rate:
    """1 `base` = `nano` / 10⁹ `quote`, as a source said on a day."""

    base: str
    quote: str
    nano: int
    day: date
    source: str

    def inverse(self) -> Fraction:
        """How much `base` one `quote` is."""
        return Fraction(NANO, self.nano)


@dataclass(frozen=True, slots=True)
class Compared:
    """An amount as it would look in another currency; never paid, posted or added to real money."""

    amount: Exact
    rate: Rate | None

    def wire(self) -> dict[str, object]:
        """The JSON form, with the rate that was used."""
        about: dict[str, object] = {**self.amount.to_money().wire(), "approximate": self.rate is not None}
        if self.rate is not None:
            about["rate"] = {
                "base": self.rate.base, "quote": self.rate.quote, "rate": rate_text(self.rate.nano), "day": self.rate.day.isoformat(),
                "source": self.rate.source,
            }  # fmt: skip
        return about


def compare(amount: Money, to: str, rate: Rate | None, *, day: date) -> Compared | None:
    """`amount` in `to` by `rate` (either direction); None without a rate of these two that is at most a week old on `day`."""
    value = Fraction(amount.minor, 10 ** currency(amount.currency).exponent)
    if amount.currency == to:
        return Compared(Exact(value, to), None)
    if rate is None or {rate.base, rate.quote} != {amount.currency, to} or not timedelta(0) <= day - rate.day <= FRESH:
        return None
    factor = Fraction(rate.nano, NANO) if rate.base == amount.currency else rate.inverse()
    return Compared(Exact(value * factor, to), rate)


def parse_rate(text: str) -> int:
    """A rate as people write it, at most nine decimals, as whole billionths; ValueError for anything else."""
    scaled = plain_decimal(text.strip()).scaleb(9)
    if scaled != scaled.to_integral_value() or not 0 < scaled <= MOST_NANO:
        raise ValueError("a rate is a number above 0 with at most nine decimals")
    return int(scaled)


def rate_text(nano: int) -> str:
    """A rate as decimal text without needless zeros: ``7.1042``."""
    whole, places = divmod(nano, NANO)
    return f"{whole}.{places:09d}".rstrip("0").rstrip(".")
