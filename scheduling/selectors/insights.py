"""Where money and machines meet: what a month would have cost at other markets' published prices, and which jobs held capacity that they hardly used."""

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import Any

from django.db.models import Q

from billing.selectors import insight, periods, rates
from billing.selectors import usage as used
from marketplace.models import ReferencePrice
from portal.accounts.models import Organisation
from portal.kit.money import PPM, Exact, Money, UnitPrice, rate
from scheduling.models import Attempt

LONG_ENOUGH = timedelta(minutes=10)
HARDLY_PPM = 50_000
MOST = 20


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """One market's price list against a month: which hours it can be compared for, what they cost here and would cost there, at list price."""

    market: str
    listed_on: date
    source: str
    licence: str
    covered_us: int
    here: Money
    there: Money
    approximate: bool
    items: tuple[tuple[str, str, int, Money], ...]

    def wire(self) -> dict[str, Any]:
        """The JSON form. `approximate`: its prices are in another currency and were turned by a stored, dated rate."""
        return {
            "market": self.market,
            "listed_on": self.listed_on.isoformat(),
            "source": self.source,
            "licence": self.licence,
            "card_us": self.covered_us,
            "here": self.here.wire(),
            "there": self.there.wire(),
            "approximate": self.approximate,
            "items": [
                {"model": model, "listing": name, "card_us": quantity, "there": amount.wire()}
                for model, name, quantity, amount in self.items
            ],
        }


@dataclass(frozen=True, slots=True)
class Idle:
    """An attempt that held cores for long and hardly used them. `used_ppm`: of the core-time it held."""

    job: str
    job_name: str
    attempt: str
    node: str
    started_at: datetime
    seconds: int
    cores_milli: int
    used_ppm: int

    def wire(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "job": self.job,
            "job_name": self.job_name,
            "attempt": self.attempt,
            "node": self.node,
            "started_at": self.started_at.isoformat(),
            "seconds": self.seconds,
            "cores_milli": self.cores_milli,
            "used_ppm": self.used_ppm,
        }


def elsewhere(tenant: Organisation, month: str, *, today: date) -> list[Elsewhere]:
    """The card-hours of a month at the published prices of other markets, cheapest first. For show only: nothing is quoted or billed by it.

    A market whose prices are in a currency for which no fresh rate is stored is left out: amounts of two currencies are not compared without one.
    """
    period = periods.of_month(organisation_id=tenant.id, month=month)
    hours = {
        model: quantity
        for resource, model, quantity in insight.hours_by_model(tenant.id, period)
        if resource == "card" and model
    }
    paid = _paid(tenant, month)
    lists: dict[tuple[str, date, str], list[ReferencePrice]] = {}
    for row in ReferencePrice.objects.filter(card_model__in=hours, cards__gt=0).order_by("market", "id"):
        lists.setdefault((row.market, row.listed_on, row.currency), []).append(row)
    found = []
    for (market, listed_on, code), rows in lists.items():
        items = _at(rows, hours, code)
        there = Exact(sum((amount.value for _, _, _, amount in items), Fraction(0)), code).to_money()
        compared = rates.compare(there, tenant.currency, day=today)
        if compared is None:
            continue
        found.append(
            Elsewhere(
                market=market,
                listed_on=listed_on,
                source=rows[0].source,
                licence=rows[0].licence,
                covered_us=sum(quantity for _, _, quantity, _ in items),
                here=Money(sum(paid.get(model, 0) for model, _, _, _ in items), tenant.currency),
                there=compared.amount.to_money(),
                approximate=code != tenant.currency,
                items=tuple((model, name, quantity, amount.to_money()) for model, name, quantity, amount in items),
            )
        )
    return sorted(found, key=lambda row: (row.there.minor, row.market))


def idle(tenant: Organisation, month: str) -> list[Idle]:
    """Attempts of a month that ran for ten minutes or more and used less than 5 % of the core-time they held, the longest waste first."""
    period = periods.of_month(organisation_id=tenant.id, month=month)
    rows = (
        Attempt.objects.filter(
            task__job__organisation=tenant, started_at__lt=period.ends_at, proven_until__gt=period.starts_at
        )
        .filter(Q(stats__has_key="cpu_us"))
        .select_related("task__job", "node", "lease")
        .order_by("id")
    )
    found = []
    for row in rows.iterator(chunk_size=500):
        if row.started_at is None or row.proven_until is None or row.proven_until - row.started_at < LONG_ENOUGH:
            continue
        length = (row.proven_until - row.started_at) // timedelta(microseconds=1)
        held = row.lease.cores_milli * length // 1000
        share = PPM * int(row.stats["cpu_us"]) // held if held else PPM
        if share < HARDLY_PPM:
            job = row.task.job
            found.append(
                Idle(
                    job.public_id,
                    job.name,
                    row.public_id,
                    row.node.public_id,
                    row.started_at,
                    length // 10**6,
                    row.lease.cores_milli,
                    share,
                )
            )
    return sorted(found, key=lambda one: (-one.seconds * one.cores_milli * (PPM - one.used_ppm), one.attempt))[:MOST]


def _at(rows: list[ReferencePrice], hours: dict[str, int], code: str) -> list[tuple[str, str, int, Exact]]:
    """(model, listing, quantity, amount) at the list's lowest price per card of each model."""
    best: dict[str, tuple[int, str]] = {}
    for row in rows:
        per_card = row.price_micro // row.cards
        best[row.card_model] = min(best.get(row.card_model, (per_card, row.name)), (per_card, row.name))
    return [
        (model, name, hours[model], rate(hours[model], UnitPrice(price, code)))
        for model, (price, name) in sorted(best.items())
    ]


def _paid(tenant: Organisation, month: str) -> dict[str, int]:
    """Model → what its card-hours cost here, in minor units of the tenant's currency."""
    groups = used.summary(tenant.id, month, "hardware")
    return {
        group.key: group.amount.minor
        for group in groups
        if group.resource == "card" and group.amount.currency == tenant.currency
    }
