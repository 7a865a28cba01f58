"""Money in three types that cannot be mistaken for one another (design decision 2).

====================  ==========================================================  =========================
type                  holds                                                       becomes
====================  ==========================================================  =========================
:class:`UnitPrice`    whole micro-currency per unit-hour (per GB for transfer)    × quantity → Exact
:class:`Exact`        a fraction of the currency: quantity × price, not rounded   :meth:`Exact.to_money`
:class:`Money`        whole minor units of a currency: what is posted and paid    added, split
====================  ==========================================================  =========================

:func:`half_up` is the one rounding function; a line is rounded once, from the exact product (billing §5). No type
takes a float or mixes currencies.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from portal.kit.quantities import US_PER_HOUR

MICRO = 1_000_000
PPM = 1_000_000
GIGABYTE = 10**9
MAX_UNIT_PRICE_MICRO = 1_000_000 * MICRO
"""Dearest unit price that is accepted: one million per unit-hour."""


@dataclass(frozen=True)
class Currency:
    """A currency we bill in: decimal places, and the payment rail's step and minimum in minor units."""

    code: str
    exponent: int
    rail_step: int = 1
    rail_minimum: int = 50


CURRENCIES: dict[str, Currency] = {
    c.code: c
    for c in (
        Currency("JPY", 0, 1, 50),
        *(Currency(code, 2) for code in ("CNY", "USD", "EUR", "GBP", "HKD", "SGD")),
        *(Currency(code, 3, 10, 500) for code in ("BHD", "JOD", "KWD", "OMR", "TND")),
    )
}
"""Every currency of the product; the rail takes three-decimal amounts only in multiples of 10."""


def currency(code: str) -> Currency:
    """The currency of that ISO 4217 code; ValueError names the ones we know."""
    try:
        return CURRENCIES[code]
    except KeyError:
        raise ValueError(f"currency {code!r} is not one of {', '.join(sorted(CURRENCIES))}") from None


def half_up(value: Fraction) -> int:
    """The nearest whole number; a half goes away from zero (0.5 → 1, −0.5 → −1)."""
    magnitude = (2 * abs(value.numerator) + value.denominator) // (2 * value.denominator)
    return -magnitude if value < 0 else magnitude


def _whole(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} takes whole numbers, not {type(value).__name__}")
    return value


@dataclass(frozen=True)
class Exact:
    """An amount before rounding, in units of the currency (1 = one yuan)."""

    value: Fraction
    currency: str

    def __post_init__(self) -> None:
        if not isinstance(self.value, Fraction):
            raise TypeError("Exact takes a Fraction")
        currency(self.currency)

    def __add__(self, other: "Exact") -> "Exact":
        _same(self.currency, other.currency)
        return Exact(self.value + other.value, self.currency)

    def __neg__(self) -> "Exact":
        return Exact(-self.value, self.currency)

    def to_money(self) -> "Money":
        """Rounded once to whole minor units, half away from zero."""
        return Money(half_up(self.value * 10 ** currency(self.currency).exponent), self.currency)

    def micro(self) -> int:
        """Rounded to whole micro-currency: for display and estimates; never rounded again into minor units."""
        return half_up(self.value * MICRO)


@dataclass(frozen=True)
class UnitPrice:
    """Micro-currency per unit-hour: ``UnitPrice(3_500, "USD")`` is 0.0035 per core-hour. Refuses negative and absurd
    prices.
    """

    micro: int
    currency: str

    def __post_init__(self) -> None:
        _whole(self.micro, "UnitPrice")
        currency(self.currency)
        if not 0 <= self.micro <= MAX_UNIT_PRICE_MICRO:
            raise ValueError("a unit price lies between 0 and 1,000,000")

    @classmethod
    def parse(cls, text: str, code: str) -> "UnitPrice":
        """From decimal text with at most six decimals; ValueError says what is wrong (sign, size, decimals, not a
        number).
        """
        return cls(parse_micro(text), code)

    def text(self) -> str:
        """Decimal text without needless zeros, at least two decimals: ``0.0035``, ``4.00``."""
        return micro_text(self.micro)


@dataclass(frozen=True, order=False)
class Money:
    """Whole minor units of a currency (fen, cent; yen has none)."""

    minor: int
    currency: str

    def __post_init__(self) -> None:
        _whole(self.minor, "Money")
        currency(self.currency)

    @classmethod
    def parse(cls, text: str, code: str) -> "Money":
        """From decimal text with no more places than the currency has; ValueError otherwise."""
        exponent = currency(code).exponent
        scaled = _decimal(text).scaleb(exponent)
        if scaled != scaled.to_integral_value():
            raise ValueError(f"{code} has {exponent} decimal places")
        return cls(int(scaled), code)

    def text(self) -> str:
        """Decimal text with exactly the currency's places: ``12.34``, ``1235``, ``-0.05``."""
        exponent = currency(self.currency).exponent
        digits = str(abs(self.minor)).rjust(exponent + 1, "0")
        sign = "-" if self.minor < 0 else ""
        return sign + (f"{digits[:-exponent]}.{digits[-exponent:]}" if exponent else digits)

    def wire(self) -> dict[str, str]:
        """The JSON form of contracts: ``{"amount": "12.34", "currency": "USD"}``."""
        return {"amount": self.text(), "currency": self.currency}

    def __add__(self, other: "Money") -> "Money":
        _same(self.currency, other.currency)
        return Money(self.minor + other.minor, self.currency)

    def __sub__(self, other: "Money") -> "Money":
        _same(self.currency, other.currency)
        return Money(self.minor - other.minor, self.currency)

    def __neg__(self) -> "Money":
        return Money(-self.minor, self.currency)

    def __lt__(self, other: "Money") -> bool:
        _same(self.currency, other.currency)
        return self.minor < other.minor

    def __le__(self, other: "Money") -> bool:
        _same(self.currency, other.currency)
        return self.minor <= other.minor


def rate(quantity_us: int, price: UnitPrice, discount_ppm: int = 0) -> Exact:
    """Quantity in resource-microseconds × price per unit-hour × (1 − discount), exactly. Works on |quantity|; the sign
    comes back.
    """
    kept = PPM - _whole(discount_ppm, "discount_ppm")
    if not 0 <= kept <= PPM:
        raise ValueError("a discount lies between 0 and 1,000,000 ppm")
    product = _whole(quantity_us, "quantity_us") * price.micro * kept
    return Exact(Fraction(product, US_PER_HOUR * PPM * MICRO), price.currency)


def rate_bytes(quantity: int, price: UnitPrice) -> Exact:
    """Bytes × price per decimal gigabyte (10⁹), exactly."""
    return Exact(Fraction(_whole(quantity, "bytes") * price.micro, GIGABYTE * MICRO), price.currency)


def split(total_minor: int, weights: Sequence[int]) -> list[int]:
    """`total_minor` laid over `weights` by largest remainder on its size; ties go to the earlier part; the sign comes
    back. ValueError if all weights are 0.
    """
    _whole(total_minor, "split")
    whole = sum(_whole(w, "weight") for w in weights)
    if whole <= 0 or min(weights) < 0:
        raise ValueError("weights are not negative and not all zero")
    size = abs(total_minor)
    parts = [size * w // whole for w in weights]
    order = sorted(range(len(weights)), key=lambda i: (-(size * weights[i] % whole), i))
    for i in order[: size - sum(parts)]:
        parts[i] += 1
    return [-p for p in parts] if total_minor < 0 else parts


def parse_micro(text: str) -> int:
    """Decimal text with at most six decimals as whole micro-units; ValueError for NaN, more decimals or no number."""
    scaled = _decimal(text).scaleb(6)
    if scaled != scaled.to_integral_value():
        raise ValueError("at most six decimals")
    return int(scaled)


def micro_text(micro: int) -> str:
    """Micro-units as decimal text, at least two and at most six decimals."""
    digits = str(abs(_whole(micro, "micro"))).rjust(7, "0")
    whole, places = digits[:-6], digits[-6:].rstrip("0").ljust(2, "0")
    return f"{'-' if micro < 0 else ''}{whole}.{places}"


_NUMBER = re.compile(r"[-+]?([0-9]{1,40}(\.[0-9]{0,40})?|\.[0-9]{1,40})([eE][-+]?[0-9]{1,3})?")


def plain_decimal(text: str) -> Decimal:
    """A number as people write it; ValueError for anything else.

    Decimal reads more than that: NaN, infinity, ``1_0``, other scripts' digits, and exponents (1e999999999) whose
    first product overflows, or falls to a silent 0.
    """
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{text[:60]!r} is not a number")
    return Decimal(text)


def _decimal(text: str) -> Decimal:
    if not isinstance(text, str):
        raise TypeError("amounts are read from text, never from floats")
    value = plain_decimal(text.strip())
    if abs(value) >= Decimal(10) ** 15:
        raise ValueError(f"{text!r} is too large")
    return value


def _same(left: str, right: str) -> None:
    if left != right:
        raise ValueError(f"{left} and {right} cannot be added or compared")
