"""Figures as people read them: money with its currency, hours, shares, sizes; in the page's language.

Nothing here rounds what is owed: amounts arrive rounded (`Money`) or are shown as estimates and say so.
"""

from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

from django.utils.translation import get_language, ngettext
from django.utils.translation import gettext as _

from portal.kit.money import CURRENCIES, MICRO, Exact, Money, micro_text

US_PER_HOUR = 3_600_000_000
UNKNOWN = "–"
SIZES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
SYMBOLS = {"USD": "US$", "EUR": "€", "GBP": "£", "HKD": "HK$", "SGD": "S$", "JPY": "JP¥", "CNY": "CN¥"}
AT_HOME = {"zh-hans": {"CNY": "¥"}}
"""The sign a currency has where it is at home; elsewhere it says whose dollar or yuan it is."""


def sign_of(code: str) -> str:
    own = AT_HOME.get(get_language() or "en", {})
    return own.get(code) or SYMBOLS.get(code) or f"{code}\N{NO-BREAK SPACE}"


def grouped(text: str) -> str:
    """Plain decimal text with a comma after every third digit; both languages write it so."""
    sign, text = ("-", text[1:]) if text.startswith("-") else ("", text)
    whole, point, places = text.partition(".")
    return f"{sign}{int(whole or '0'):,}{point}{places}"


def amount_text(text: str, code: str) -> str:
    shown = grouped(text)
    return f"-{sign_of(code)}{shown[1:]}" if shown.startswith("-") else f"{sign_of(code)}{shown}"


def money(amount: Money | Exact | None) -> str:
    """US$1,284.07; an exact amount is first rounded the one way there is."""
    if amount is None:
        return UNKNOWN
    if isinstance(amount, Exact):
        amount = amount.to_money()
    return amount_text(amount.text(), amount.currency)


def minor(amount: int | None, code: str) -> str:
    return UNKNOWN if amount is None else money(Money(int(amount), code))


def unit_price(micro: int | None, code: str) -> str:
    """US$0.0035: all the places the price has, at least two."""
    return UNKNOWN if micro is None else amount_text(micro_text(int(micro)), code)


def estimate(micro: int | None, code: str) -> str:
    """An amount that is not owed yet, from micro-currency: as money, with more places only where money would show 0."""
    if micro is None:
        return UNKNOWN
    rounded = Exact(Fraction(int(micro), MICRO), code).to_money()
    if int(micro) and not rounded.minor:
        return unit_price(int(micro), code)
    return money(rounded)


def rounded_up(micro: int, code: str) -> str:
    """What is reserved for an amount: never too little."""
    step = 10 ** (6 - CURRENCIES[code].exponent)
    return money(Money(-(-int(micro) // step), code))


def number(value: object, places: int = 0) -> str:
    if value is None or value == "":
        return UNKNOWN
    return grouped(f"{round(Decimal(str(value)), places):.{places}f}")


def significant(value: float, digits: int = 3) -> str:
    """A measured figure with three significant digits: 0.0123, 4.56, 789."""
    return grouped(f"{Decimal(format(value, f'.{digits}g')):f}")


def hours(quantity_us: int | None, places: int = 4) -> str:
    """Resource-microseconds as resource-hours; four places, as an invoice line prints them."""
    if quantity_us is None:
        return UNKNOWN
    exact = Fraction(int(quantity_us), US_PER_HOUR)
    return number(Decimal(exact.numerator) / Decimal(exact.denominator), places)


def percent(ppm: int | None, places: int = 0) -> str:
    """Parts per million as per cent; unknown stays unknown."""
    if ppm is None:
        return UNKNOWN
    return number(Decimal(int(ppm)) / 10_000, places) + "\N{NO-BREAK SPACE}%"


def ratio(milli: int | None) -> str:
    """A factor kept in thousandths, such as PUE: 1120 is 1.12."""
    return UNKNOWN if milli is None else number(Decimal(int(milli)) / 1000, 2)


def size(amount: int | None) -> str:
    """Bytes in the largest binary unit that keeps a figure before the point."""
    if amount is None:
        return UNKNOWN
    value, unit = Decimal(int(amount)), 0
    while abs(value) >= 1024 and unit < len(SIZES) - 1:
        value, unit = value / 1024, unit + 1
    places = 0 if unit == 0 or value >= 100 or value == value.to_integral_value() else 1
    return f"{number(value, places)}\N{NO-BREAK SPACE}{SIZES[unit]}"


def gigabytes(amount: int | None, places: int = 3) -> str:
    """Bytes as decimal gigabytes, the unit of transfer."""
    return UNKNOWN if amount is None else number(Decimal(int(amount)) / 10**9, places)


def mebibytes(amount: int | None) -> str:
    return UNKNOWN if amount is None else size(int(amount) * 1024 * 1024)


def cores(milli: int | None) -> str:
    """Thousandths of a core as cores, one place only where it is needed."""
    if milli is None:
        return UNKNOWN
    value = Decimal(int(milli)) / 1000
    return number(value, 0 if value == value.to_integral_value() else 1)


def duration(length: timedelta | int | float | None) -> str:
    """2 h 5 min, 3 min 20 s, 45 s: the two largest parts."""
    if length is None:
        return UNKNOWN
    seconds = round(length.total_seconds() if isinstance(length, timedelta) else length)
    sign, seconds = ("-" if seconds < 0 else ""), abs(seconds)
    days, rest = divmod(seconds, 86_400)
    whole_hours, rest = divmod(rest, 3_600)
    minutes, left = divmod(rest, 60)
    parts = [
        (days, ngettext("%(n)s day", "%(n)s days", days)),
        (whole_hours, _("%(n)s h")),
        (minutes, _("%(n)s min")),
        (left, _("%(n)s s")),
    ]
    shown = [text % {"n": amount} for amount, text in parts if amount][:2]
    return sign + " ".join(shown) if shown else _("%(n)s s") % {"n": 0}
