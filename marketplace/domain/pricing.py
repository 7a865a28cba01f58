"""What an offer asks for: terms as providers write them, skus, and graduated tiers.

``{"prices": {"core": "0.10", "card": "2.00"}, "spot_factor": "0.6", "windows": […], "hours": […], "green_ratio": "0.8",
"until": "2027-01-31T00:00:00Z", "refuse_past_due": true, "currency": "CNY"}``; ``spot_prices`` instead of a factor
names interruptible prices one by one, ``tiers`` graduates one of them. Prices are per core-hour and per card-hour.
Amounts are text (or whole numbers), never floats: −1, 10¹², NaN and a seventh decimal are refused here, and again by
the database.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

from marketplace.domain import windows as daily
from marketplace.domain.windows import Span
from portal.kit.errors import Finding, InvalidInput
from portal.kit.money import CURRENCIES, MAX_UNIT_PRICE_MICRO, PPM, half_up, parse_micro

RESOURCES = ("core", "card")
RENTALS = ("fixed", "spot")
FIELDS = frozenset(
    {
        "prices",
        "spot_prices",
        "spot_factor",
        "tiers",
        "windows",
        "hours",
        "green_ratio",
        "until",
        "refuse_past_due",
        "currency",
    }
)
MOST_TIERS = 20
_SKU = re.compile(r"(core|card):(.+):(fixed|spot)")

Tier = tuple[int | None, int]
"""(up to so many unit-hours or None for all above, micro-currency)."""


def sku(resource: str, model: str, rental: str) -> str:
    """``card:A100-80GB:spot``, ``core:-:fixed``."""
    return f"{resource}:{model or '-'}:{rental}"


def parse_sku(text: str) -> tuple[str, str, str]:
    """(resource, model or "-", rental) of a sku of ours; ValueError otherwise."""
    found = _SKU.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is no sku")
    return found[1], found[2], found[3]


@dataclass(frozen=True)
class Price:
    """A unit price in whole micro-currency, with its tiers if it is graduated."""

    micro: int
    tiers: tuple[Tier, ...] = ()

    def times(self, factor_ppm: int) -> "Price":
        """Multiplied, rounded half away from zero per price."""
        return Price(
            _times(self.micro, factor_ppm), tuple((upto, _times(micro, factor_ppm)) for upto, micro in self.tiers)
        )


def _times(micro: int, factor_ppm: int) -> int:
    return half_up(Fraction(micro * factor_ppm, PPM))


@dataclass(frozen=True)
class Terms:
    """What was said; None or an absent key = not said (a reprice keeps what it does not name)."""

    prices: Mapping[tuple[str, str], Price] = field(default_factory=dict)
    currency: str = ""
    hours: tuple[Span, ...] | None = None
    windows: tuple[Span, ...] | None = None
    green_ratio_ppm: int | None = None
    green_given: bool = False
    until: datetime | None = None
    until_given: bool = False
    refuse_past_due: bool | None = None


def read_terms(data: Any, *, currency: str, timezone: str, now: datetime, complete: bool, path: str = "") -> Terms:
    """Terms of an input object.

    InvalidInput with every finding. `complete`: at least a price per core-hour is needed.
    """
    if not isinstance(data, Mapping):
        raise InvalidInput([Finding(path or "terms", "not_an_object", "an object with prices")])
    at = f"{path}." if path else ""
    findings = [
        Finding(f"{at}{name}", "unknown_field", "there is no such field") for name in data if name not in FIELDS
    ]
    code = data.get("currency") or currency
    if code not in CURRENCIES:
        findings.append(Finding(f"{at}currency", "unknown_currency", f"one of {', '.join(sorted(CURRENCIES))}"))
    prices = _prices(data, at, findings)
    if complete and ("core", "fixed") not in prices and not any(f.path.startswith(f"{at}prices") for f in findings):
        findings.append(Finding(f"{at}prices.core", "missing", "a price per core-hour is needed", "0.10"))
    hours = _spans(data, "hours", at, timezone, False, findings)
    priced = _spans(data, "windows", at, timezone, True, findings)
    green = _green(data, at, findings)
    until = _until(data, at, now, findings)
    refuse = data.get("refuse_past_due")
    if refuse is not None and not isinstance(refuse, bool):
        findings.append(Finding(f"{at}refuse_past_due", "not_a_boolean", "true or false"))
    if findings:
        raise InvalidInput(findings)
    return Terms(prices, str(code), hours, priced, green, "green_ratio" in data, until, "until" in data, refuse)


def read_price(text: Any) -> int:
    """A price in micro-currency; ValueError says what is wrong."""
    micro = parse_micro(_text(text))
    if not 0 <= micro <= MAX_UNIT_PRICE_MICRO:
        raise ValueError("a price lies between 0 and 1,000,000")
    return micro


def _text(value: Any) -> str:
    if isinstance(value, bool | float) or not isinstance(value, str | int | Decimal):
        raise ValueError('an amount is written as text, such as "0.10"')
    return str(value)


def _prices(data: Mapping[str, Any], at: str, findings: list[Finding]) -> dict[tuple[str, str], Price]:
    prices = _amounts(data.get("prices", {}), f"{at}prices", "fixed", findings)
    spot = _amounts(data.get("spot_prices", {}), f"{at}spot_prices", "spot", findings)
    factor = data.get("spot_factor")
    if factor is not None:
        try:
            ppm = parse_micro(_text(factor))
            if not 0 <= ppm <= PPM:
                raise ValueError("a factor from 0 to 1")
            spot = {(r, "spot"): price.times(ppm) for (r, _fixed), price in prices.items()} | spot
        except ValueError as error:
            findings.append(Finding(f"{at}spot_factor", "bad_factor", str(error), "0.6"))
    prices |= spot
    _tiers(data.get("tiers", {}), f"{at}tiers", prices, findings)
    return prices


def _amounts(value: Any, path: str, rental: str, findings: list[Finding]) -> dict[tuple[str, str], Price]:
    if not isinstance(value, Mapping):
        findings.append(Finding(path, "not_an_object", "prices by core and card", '{"core": "0.10"}'))
        return {}
    prices: dict[tuple[str, str], Price] = {}
    for resource, amount in value.items():
        if resource not in RESOURCES:
            findings.append(Finding(f"{path}.{resource}", "unknown_field", "core or card"))
            continue
        try:
            prices[str(resource), rental] = Price(read_price(amount))
        except ValueError as error:
            findings.append(Finding(f"{path}.{resource}", "bad_price", str(error), "0.10"))
    return prices


def _tiers(value: Any, path: str, prices: dict[tuple[str, str], Price], findings: list[Finding]) -> None:
    """``{"core": [{"up_to_h": 100, "price": "0.10"}, {"up_to_h": null, "price": "0.08"}]}`` for fixed prices."""
    if not isinstance(value, Mapping):
        findings.append(Finding(path, "not_an_object", "tiers by core and card"))
        return
    for resource, rows in value.items():
        here = f"{path}.{resource}"
        if (resource, "fixed") not in prices:
            findings.append(Finding(here, "no_price", "tiers need the price of the same resource"))
            continue
        try:
            prices[resource, "fixed"] = Price(prices[resource, "fixed"].micro, _tier_rows(rows))
        except (ValueError, TypeError, KeyError) as error:
            findings.append(Finding(here, "bad_tiers", str(error)))


def _tier_rows(rows: Any) -> tuple[Tier, ...]:
    if not isinstance(rows, list) or not 1 <= len(rows) <= MOST_TIERS:
        raise ValueError(f"1 to {MOST_TIERS} tiers")
    tiers: list[Tier] = []
    for index, row in enumerate(rows):
        upto, last = row["up_to_h"], index == len(rows) - 1
        if (upto is None) != last or (upto is not None and (isinstance(upto, bool) or not isinstance(upto, int))):
            raise ValueError("up_to_h is a whole number, and null in the last tier only")
        if upto is not None and upto <= (tiers[-1][0] or 0 if tiers else 0):
            raise ValueError("up_to_h grows from tier to tier")
        tiers.append((upto, read_price(row["price"])))
    return tuple(tiers)


def _spans(
    data: Mapping[str, Any], name: str, at: str, timezone: str, priced: bool, findings: list[Finding]
) -> tuple[Span, ...] | None:
    if data.get(name) is None:
        return None
    spans, wrong = daily.read(f"{at}{name}", data[name], timezone=timezone, priced=priced)
    findings += wrong
    return spans


def _green(data: Mapping[str, Any], at: str, findings: list[Finding]) -> int | None:
    value = data.get("green_ratio")
    if value is None:
        return None
    try:
        ppm = parse_micro(_text(value))
        if not 0 <= ppm <= PPM:
            raise ValueError("a share from 0 to 1")
    except ValueError as error:
        findings.append(Finding(f"{at}green_ratio", "out_of_range", str(error), "0.8"))
        return None
    return ppm


LAST_YEAR = 9000
"""9999-12-31 west of Greenwich is the year 10000: PostgreSQL stores it and no program reads it back, so one such offer
broke the market's page for everybody.
"""


def _until(data: Mapping[str, Any], at: str, now: datetime, findings: list[Finding]) -> datetime | None:
    value = data.get("until")
    if value is None:
        return None
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
        if moment.tzinfo is None:
            raise ValueError("a time with its zone")
        if moment.year > LAST_YEAR:
            raise ValueError("a time that a calendar can hold")
        if moment <= now:
            raise ValueError("a time to come")
    except ValueError as error:
        findings.append(Finding(f"{at}until", "bad_time", str(error), "2027-01-31T00:00:00Z"))
        return None
    return moment


def tiers_json(tiers: tuple[Tier, ...]) -> list[dict[str, int | None]]:
    """As a price version stores them."""
    return [{"up_to_h": upto, "price_micro": micro} for upto, micro in tiers]


def tiers_of(rows: Any) -> tuple[Tier, ...]:
    """As stored, back to values."""
    return tuple((row["up_to_h"], int(row["price_micro"])) for row in rows)
