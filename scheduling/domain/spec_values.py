"""The small languages inside a job spec: sizes, ranges, durations, amounts, shares, cards. Text or whole numbers in,
whole numbers out.

Each reader raises :class:`Wrong` with a stable code; nothing here knows a field's name.
"""

import re
from decimal import ROUND_CEILING, Decimal

from portal.kit.money import MAX_UNIT_PRICE_MICRO, Money, parse_micro, plain_decimal
from scheduling.domain.reasons import N_

MIB, GIB = 2**20, 2**30
UNITS = {"": GIB, "GIB": GIB, "MIB": MIB, "GB": 10**9, "MB": 10**6}
SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
PPM = 1_000_000
MOST = Decimal(10) ** 12

_RANGE = re.compile(r"(?P<low>[^.+][^+]*?)\s*(?:(?P<more>\+)|\.\.\s*(?P<high>.+))?")
_SIZE = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)\s*(?P<unit>[A-Za-z]*)")
_DURATION = re.compile(r"(?P<number>[0-9]{1,9})\s*(?P<unit>[smhd])")


class Wrong(Exception):
    """A value that cannot be read: a stable code, a message with gaps, the gaps' values, and a hint."""

    def __init__(self, code: str, message: str, *, hint: str = "", **gaps: object) -> None:
        super().__init__(message)
        self.code, self.message, self.hint, self.gaps = code, message, hint, gaps


def text_of(value: object) -> str:
    """A number or text as text; Wrong `bad_type` for anything else."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise Wrong("bad_type", N_("a number or text is expected"))


def whole(value: object, low: int, high: int) -> int:
    """A whole number within [low, high]."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise Wrong("bad_type", N_("a whole number is expected"))
    if not low <= value <= high:
        raise Wrong("out_of_range", N_("must lie between {low} and {high}"), low=low, high=high)
    return value


def _decimal(text: str, code: str) -> Decimal:
    try:
        number = plain_decimal(text)
    except ValueError:
        raise Wrong(code, N_("{text} is not a number"), text=text[:60]) from None
    if abs(number) > MOST:
        raise Wrong(code, N_("{text} is not a usable number"), text=text)
    return number


def span(value: object) -> tuple[str, str | None]:
    """``4`` → ("4", "4"); ``4+`` → ("4", None); ``4..8`` → ("4", "8")."""
    text = text_of(value)
    found = _RANGE.fullmatch(text)
    if not found:
        raise Wrong("bad_quantity", N_("{text} is not a quantity"), text=text, hint="4, 4+, 4..8")
    low = found["low"].strip()
    return low, None if found["more"] else (found["high"] or low).strip()


def cores_milli(value: object) -> int:
    """Cores in steps of 0.1 → thousandths; the low end of a range, which is what will be allocated."""
    low, high = span(value)
    milli = _cores(low)
    if high is not None and _cores(high) < milli:
        raise Wrong("bad_range", N_("the range ends before it begins"), hint=f"{high}..{low}")
    return milli


def _cores(text: str) -> int:
    number = _decimal(text, "bad_quantity")
    if number <= 0:
        raise Wrong("out_of_range", N_("must be more than 0"))
    if number * 10 != (number * 10).to_integral_value():
        raise Wrong("bad_quantity", N_("cores come in steps of 0.1"), hint=str(round(number, 1) or Decimal("0.1")))
    return int(number * 1000)


def size(value: object, unit: int) -> int:
    """A size or range of sizes, its low end in whole `unit`s, rounded up. A plain number is GiB."""
    low, high = span(value)
    smallest = _bytes(low)
    if high is not None and _bytes(high) < smallest:
        raise Wrong("bad_range", N_("the range ends before it begins"), hint=f"{high}..{low}")
    return int((smallest / unit).to_integral_value(rounding=ROUND_CEILING))


def _bytes(text: str) -> Decimal:
    found = _SIZE.fullmatch(text)
    if not found or found["unit"].upper() not in UNITS:
        raise Wrong("bad_quantity", N_("{text} is not a size"), text=text, hint="64, 64GiB, 500MB")
    number = _decimal(found["number"], "bad_quantity") * UNITS[found["unit"].upper()]
    if number <= 0:
        raise Wrong("out_of_range", N_("must be more than 0"))
    return number


def duration_s(value: object, *, least: int = 1, most: int | None = None) -> int:
    """``90s 10m 12h 7d`` → seconds."""
    text = text_of(value)
    found = _DURATION.fullmatch(text)
    if not found:
        raise Wrong("bad_quantity", N_("{text} is not a duration"), text=text, hint="90s, 10m, 12h, 7d")
    seconds = int(found["number"]) * SECONDS[found["unit"]]
    if seconds < least:
        raise Wrong("out_of_range", N_("must be at least {low} s"), low=least)
    if most is not None and seconds > most:
        raise Wrong("out_of_range", N_("must be at most {high} s"), high=most)
    return seconds


def duration_text(seconds: int) -> str:
    """The shortest of ``90s 10m 12h 7d`` that names `seconds` exactly."""
    for unit in ("d", "h", "m"):
        if seconds and seconds % SECONDS[unit] == 0:
            return f"{seconds // SECONDS[unit]}{unit}"
    return f"{seconds}s"


def price_micro(value: object) -> int:
    """A price per hour with at most six decimals → micro-units."""
    try:
        micro = parse_micro(text_of(value))
    except ValueError as error:
        raise Wrong("bad_amount", N_("{text} is not an amount"), text=str(value), hint=str(error)) from None
    if not 0 <= micro <= MAX_UNIT_PRICE_MICRO:
        raise Wrong("bad_amount", N_("a price lies between 0 and 1,000,000 per hour"))
    return micro


def money_minor(value: object, currency: str) -> int:
    """An amount in `currency` → minor units; more than 0."""
    try:
        minor = Money.parse(text_of(value), currency).minor
    except ValueError as error:
        raise Wrong("bad_amount", N_("{text} is not an amount"), text=str(value), hint=str(error)) from None
    if minor <= 0:
        raise Wrong("bad_amount", N_("an amount is more than 0"))
    return minor


def share_ppm(value: object) -> int:
    """A share 0…1 → parts per million. 60 is answered with "did you mean 0.6?"."""
    number = _decimal(text_of(value), "bad_quantity")
    if not 0 <= number <= 1:
        hint = f"0…1; did you mean {_short(number / 100)}?" if 1 < number <= 100 else "0…1"
        raise Wrong("out_of_range", N_("a share lies between 0 and 1"), hint=hint)
    scaled = number * PPM
    if scaled != scaled.to_integral_value():
        raise Wrong("bad_quantity", N_("at most six decimals"))
    return int(scaled)


def positive_micro(value: object) -> int:
    """A number above 0 with at most six decimals → millionths (SCU, SCU-hours, weights)."""
    micro = weight_micro(value)
    if micro == 0:
        raise Wrong("out_of_range", N_("must be more than 0"))
    return micro


def weight_micro(value: object) -> int:
    """A number ≥ 0 with at most six decimals → millionths."""
    scaled = _decimal(text_of(value), "bad_quantity") * PPM
    if scaled != scaled.to_integral_value():
        raise Wrong("bad_quantity", N_("at most six decimals"))
    if not 0 <= scaled <= 10**15:
        raise Wrong("out_of_range", N_("must not be negative, nor above 1,000,000,000"))
    return int(scaled)


def micro_short(micro: int) -> str:
    """Millionths as decimal text without needless zeros: 1500000 → "1.5"."""
    return _short(Decimal(micro) / PPM)


def _short(number: Decimal) -> str:
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def card_count(value: object) -> int:
    """Whole cards, at least 1."""
    text = text_of(value)
    low = span(text)[0]
    number = _decimal(low, "bad_quantity")
    if number != number.to_integral_value():
        raise Wrong("card_fraction", N_("cards are rented whole"), hint=str(max(1, int(number) + 1)))
    if not 1 <= number <= 64:
        raise Wrong("out_of_range", N_("must lie between {low} and {high}"), low=1, high=64)
    return int(number)


_CARD_MEMORY = re.compile(r"[0-9]+(\.[0-9]+)?\s*(GB|MB|GiB|MiB)?\s*(\+|\.\.\s*[0-9]+(\.[0-9]+)?\s*(GB|MB|GiB|MiB)?)?")


def card_memory_mib(text: str) -> tuple[int, int | None] | None:
    """``40GB..80GB`` → its bounds in MiB, ``40GB+`` → (…, None); None if `text` is a card's name."""
    if not _CARD_MEMORY.fullmatch(text):
        return None
    low, high = span(text)
    # A "40 GB" card carries a little less than 40 decimal GB in whole MiB: bounds are taken to the side that includes
    # it.
    least = int(_bytes(low) / MIB)
    most = None if high is None else int((_bytes(high) / MIB).to_integral_value(rounding=ROUND_CEILING))
    if most is not None and most < least:
        raise Wrong("bad_range", N_("the range ends before it begins"), hint=f"{high}..{low}")
    return least, most
