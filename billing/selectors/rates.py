"""Stored exchange rates, and amounts beside each other by one of them. Only for display: nothing is paid or credited by a rate."""

from datetime import date
from typing import Any

from django.db.models import Q, QuerySet

from billing.domain import rates as rules
from billing.domain.rates import Compared, Rate
from billing.models import ExchangeRate
from portal.kit.money import Money


def everyone() -> QuerySet[ExchangeRate]:
    """All rows, the newest day first."""
    return ExchangeRate.objects.order_by("-day", "base", "quote", "-id")


def latest(one: str, other: str, *, day: date) -> Rate | None:
    """The newest rate of two currencies, in either direction, that is not of a later day."""
    pair = Q(base=one, quote=other) | Q(base=other, quote=one)
    row = ExchangeRate.objects.filter(pair, day__lte=day).order_by("-day", "-id").first()
    return None if row is None else Rate(row.base, row.quote, row.rate_nano, row.day, row.source)


def compare(amount: Money, to: str, *, day: date) -> Compared | None:
    """`amount` as it looks in `to`, with the rate that says so; None if no stored rate is fresh enough: then nothing is compared."""
    rate = None if amount.currency == to else latest(amount.currency, to, day=day)
    return rules.compare(amount, to, rate, day=day)


def wire(row: ExchangeRate) -> dict[str, Any]:
    """The JSON form."""
    return {
        "day": row.day.isoformat(), "base": row.base, "quote": row.quote, "rate": rules.rate_text(row.rate_nano), "source": row.source,
    }  # fmt: skip
