"""What a month's usage says: by day, what is odd, what costs most, what would have cost less, how much energy and carbon. All from the hourly roll-up.

Amounts are net estimates until the month is closed, rated as the coming invoice rates them (exactly for plain prices, closely for tiers).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

from django.db import connection

from billing.domain import anomalies, energy, savings, statement
from billing.domain.anomalies import Anomaly
from billing.domain.savings import Bought, Saving
from billing.models import BillingPeriod
from billing.selectors import estimates, periods
from portal.accounts.models import Organisation
from portal.kit.money import PPM, Exact, Money, currency

LOOK_BACK = timedelta(days=35)
HOT, EXPLAINING = 10, 3
MINIMUM = 1
"""An anomaly below one whole unit of the currency is not told."""

JOINED = " FROM billing_usagehour h LEFT JOIN billing_attemptending e ON e.attempt_ref = h.attempt_ref"
BILLED = " AND (e.attempt_ref IS NULL OR e.billed)"
WHERE = " WHERE h.organisation_id = %s AND h.bucket_at >= %s AND h.bucket_at < %s AND h.currency = %s"
PRICED = "h.resource, h.sku, h.unit_price_micro, h.discount_ppm, h.tiers::text, h.price_version_ref"


@dataclass(frozen=True, slots=True)
class Explained:
    """An anomaly of one project and resource, and the jobs behind it with what they cost in it."""

    project: str
    project_name: str
    resource: str
    anomaly: Anomaly
    jobs: tuple[tuple[str, str, Money], ...]
    currency: str

    def wire(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "project": self.project,
            "project_name": self.project_name,
            "resource": self.resource,
            "since": self.anomaly.since,
            "until": self.anomaly.until,
            "days": self.anomaly.days,
            "usual_per_day": Money(self.anomaly.usual, self.currency).wire(),
            "actual": Money(self.anomaly.actual, self.currency).wire(),
            "excess": Money(self.anomaly.excess, self.currency).wire(),
            "score_milli": self.anomaly.score_milli,
            "jobs": [{"job": job, "name": name, "amount": amount.wire()} for job, name, amount in self.jobs],
        }


@dataclass(frozen=True, slots=True)
class Insight:
    """A month of one tenant, explained."""

    month: str
    currency: str
    days: tuple[tuple[str, Money, int, int], ...]
    found: tuple[Explained, ...]
    hot: tuple[tuple[str, str, Money, int], ...]
    saved: tuple[Saving, ...]
    energy_uwh: int
    energy_known_ppm: int
    carbon_ug: int
    carbon_market_ug: int
    carbon_known_ppm: int
    bases: tuple[str, ...]

    def wire(self) -> dict[str, Any]:
        """The JSON form. Energy and carbon are of the share of core- and card-time whose power is known."""
        return {
            "month": self.month,
            "currency": self.currency,
            "days": [
                {"day": day, "amount": amount.text(), "core_us": core, "card_us": card}
                for day, amount, core, card in self.days
            ],
            "anomalies": [found.wire() for found in self.found],
            "hot_jobs": [
                {"job": job, "name": name, "amount": amount.wire(), "share_ppm": share}
                for job, name, amount, share in self.hot
            ],
            "savings": [
                {
                    "kind": saving.kind.value,
                    "subject": saving.subject,
                    "where": saving.where,
                    "saved": saving.saved.wire(),
                }
                for saving in self.saved
            ],
            "energy": {
                "kwh": energy.kwh_text(self.energy_uwh),
                "known_ppm": self.energy_known_ppm,
                "carbon_kg_location_based": energy.kg_text(self.carbon_ug),
                "carbon_kg_market_based": energy.kg_text(self.carbon_market_ug),
                "carbon_known_ppm": self.carbon_known_ppm,
                "bases": list(self.bases),
            },
        }


def of_month(tenant: Organisation, month: str) -> Insight:
    """The insight of a stored month; NotFound if nothing was used in it."""
    period = periods.of_month(organisation_id=tenant.id, month=month)
    code = tenant.currency
    hot = _jobs(tenant.id, period.starts_at, period.ends_at, code)
    whole = sum(amount.minor for _, _, amount in hot)
    measured = _energy(tenant.id, period, code)
    return Insight(
        month=month,
        currency=code,
        days=tuple(_days(tenant.id, period, code)),
        found=tuple(_anomalies(tenant.id, period, code)),
        hot=tuple((job, name, amount, PPM * amount.minor // whole if whole else 0) for job, name, amount in hot[:HOT]),
        saved=tuple(savings.propose(_bought(tenant.id, period, code), _failed(tenant.id, period, code), currency=code)),
        **measured,
    )


def hours_by_model(organisation_id: int, period: BillingPeriod) -> list[tuple[str, str, int]]:
    """(resource, model, quantity that was billed) of core- and card-time of a month: what a comparison with other price lists needs."""
    return [
        (resource, model, int(quantity))
        for resource, model, quantity in _ask(
            f"SELECT h.resource, h.hardware_model, sum(h.qty_us){JOINED} WHERE h.organisation_id = %s AND h.bucket_at >= %s"
            f" AND h.bucket_at < %s AND h.resource IN ('core', 'card'){BILLED} GROUP BY 1, 2 ORDER BY 1, 2",
            [organisation_id, period.starts_at, period.ends_at],
        )
    ]


def _days(organisation_id: int, period: BillingPeriod, code: str) -> list[tuple[str, Money, int, int]]:
    """(local day, amount, core-µs, card-µs) of each day of the month, in order, days without usage included."""
    sums = _sums("''", organisation_id, period.starts_at, period.ends_at, period.timezone, code)
    zone = ZoneInfo(period.timezone)
    found = []
    for day in _dates(period.starts_at.astimezone(zone).date(), period.ends_at, zone):
        amounts = [row for (key, resource, when), row in sums.items() if when == day]
        total = Money(sum((row[0].to_money().minor for row in amounts), 0), code)
        quantity = {resource: row[1] for (_, resource, when), row in sums.items() if when == day}
        found.append((day, total, quantity.get("core", 0), quantity.get("card", 0)))
    return found


def _anomalies(organisation_id: int, period: BillingPeriod, code: str) -> list[Explained]:
    """Odd days of the month by project and resource, judged by the days before them (five weeks are read)."""
    zone = ZoneInfo(period.timezone)
    begin = period.starts_at - LOOK_BACK
    sums = _sums("h.project_ref", organisation_id, begin, period.ends_at, period.timezone, code)
    last = max((when for _, _, when in sums), default="")
    dates = [day for day in _dates(begin.astimezone(zone).date(), period.ends_at, zone) if day <= last]
    minimum = MINIMUM * 10 ** currency(code).exponent
    found = []
    for project, resource in sorted({(key, resource) for key, resource, _ in sums}):
        nothing = (Exact(Fraction(0), code), 0, "")
        first = min(
            when for key, of, when in sums if (key, of) == (project, resource)
        )  # before it began nothing was usual
        series = [
            (day, sums.get((project, resource, day), nothing)[0].to_money().minor) for day in dates if day >= first
        ]
        name = max(row[2] for (key, _, _), row in sums.items() if key == project)
        for anomaly in anomalies.find(series, minimum=minimum):
            start = _midnight(anomaly.since, zone)
            if start < period.starts_at:
                continue
            end = _midnight(anomaly.until, zone) + timedelta(days=1)
            jobs = _jobs(organisation_id, start, end, code, project=project, resource=resource)[:EXPLAINING]
            found.append(Explained(project, name, resource, anomaly, tuple(jobs), code))
    return sorted(found, key=lambda row: (-row.anomaly.excess, row.project, row.resource))


def _jobs(
    organisation_id: int, start: datetime, end: datetime, code: str, *, project: str | None = None, resource: str = ""
) -> list[tuple[str, str, Money]]:
    """(job, name, amount), the dearest first."""
    more = ("" if project is None else " AND h.project_ref = %s") + (" AND h.resource = %s" if resource else "")
    rows = _ask(
        f"SELECT h.job_ref, max(h.job_name), {PRICED}, sum(h.qty_us){JOINED}{WHERE}{BILLED}{more}"
        " GROUP BY 1, 3, 4, 5, 6, 7, 8 ORDER BY 1, 3, 4, 8",
        [organisation_id, start, end, code, *([] if project is None else [project]), *([resource] if resource else [])],
    )
    names: dict[str, str] = {}
    exact: dict[str, Exact] = {}
    places: dict[str, int] = {}
    for job, name, *priced, quantity in rows:
        names[job] = max(names.get(job, ""), name)
        exact[job] = exact.get(job, Exact(Fraction(0), code)) + _amount(priced, int(quantity), code, places)
    found = [(job, names[job], amount.to_money()) for job, amount in exact.items()]
    return sorted((row for row in found if row[2].minor), key=lambda row: (-row[2].minor, row[0]))


def _sums(
    key: str, organisation_id: int, start: datetime, end: datetime, zone: str, code: str
) -> dict[tuple[str, str, str], tuple[Exact, int, str]]:
    """(key, resource, local day) → (amount, quantity, name of the project)."""
    rows = _ask(
        f"SELECT {key}, to_char(h.bucket_at AT TIME ZONE %s, 'YYYY-MM-DD'), max(h.project_name), {PRICED}, sum(h.qty_us){JOINED}{WHERE}"
        f"{BILLED} GROUP BY 1, 2, 4, 5, 6, 7, 8, 9 ORDER BY 1, 2, 4, 5, 9",
        [zone, organisation_id, start, end, code],
    )
    found: dict[tuple[str, str, str], tuple[Exact, int, str]] = {}
    places: dict[str, int] = {}
    for name, day, project, *priced, quantity in rows:
        heading = (name, priced[0], day)
        amount, before, label = found.get(heading, (Exact(Fraction(0), code), 0, ""))
        added = _amount(priced, int(quantity), code, places)
        found[heading] = (amount + added, before + int(quantity), max(label, project))
    return found


def _amount(priced: Sequence[Any], quantity: int, code: str, places: dict[str, int]) -> Exact:
    resource, sku, price, discount, tiers, _ = priced
    return estimates.amount(tiers, price, resource, sku, quantity, discount, code, places)


def _bought(organisation_id: int, period: BillingPeriod, code: str) -> list[Bought]:
    rows = _ask(
        f"SELECT h.resource, h.hardware_model, h.sku, max(h.provider_name), h.zone, h.unit_price_micro, h.discount_ppm, sum(h.qty_us){JOINED}"
        f"{WHERE}{BILLED} AND h.tiers = '[]' AND h.resource IN ('core', 'card') GROUP BY h.provider_ref, 1, 2, 3, 5, 6, 7 ORDER BY 1, 2, 3, 5, 6",
        [organisation_id, period.starts_at, period.ends_at, code],
    )
    return [
        Bought(resource, model, sku.rpartition(":")[2], provider, zone, price * (PPM - discount) // PPM, int(quantity))
        for resource, model, sku, provider, zone, price, discount, quantity in rows
    ]


def _failed(organisation_id: int, period: BillingPeriod, code: str) -> dict[str, Money]:
    """Reason → what was billed of attempts that failed on the tenant's side."""
    rows = _ask(
        f"SELECT e.reason, {PRICED}, sum(h.qty_us){JOINED}{WHERE} AND e.billed AND e.fault = 'tenant' AND e.reason <> 'cancelled_by_tenant'"
        " GROUP BY 1, 2, 3, 4, 5, 6, 7 ORDER BY 1, 2, 3, 7",
        [organisation_id, period.starts_at, period.ends_at, code],
    )
    exact: dict[str, Exact] = {}
    for reason, *priced, quantity in rows:
        exact[reason] = exact.get(reason, Exact(Fraction(0), code)) + _amount(priced, int(quantity), code, {})
    return {reason: amount.to_money() for reason, amount in exact.items()}


def _energy(organisation_id: int, period: BillingPeriod, code: str) -> dict[str, Any]:
    """Sums of energy and carbon over core- and card-time, and for how much of it they are known; the bases that records name."""
    values = [organisation_id, period.starts_at, period.ends_at]
    (sums,) = _ask(
        "SELECT coalesce(sum(energy_uwh), 0), coalesce(sum(energy_known_us), 0), coalesce(sum(carbon_ug), 0), coalesce(sum(carbon_market_ug), 0),"
        " coalesce(sum(carbon_known_us), 0), coalesce(sum(qty_us), 0) FROM billing_usagehour WHERE organisation_id = %s AND bucket_at >= %s"
        " AND bucket_at < %s AND resource IN ('core', 'card')",
        values,
    )
    used, known, carbon, market, carbon_known, whole = map(int, sums)
    bases = _ask(
        "SELECT DISTINCT power_basis, pue_milli IS NOT NULL FROM billing_usagerecord WHERE organisation_id = %s AND ended_at >= %s"
        " AND started_at < %s AND state = 'ok' AND energy_uwh IS NOT NULL ORDER BY 1, 2",
        values,
    )
    return {
        "energy_uwh": used,
        "energy_known_ppm": PPM * known // whole if whole else 0,
        "carbon_ug": carbon,
        "carbon_market_ug": market,
        "carbon_known_ppm": PPM * carbon_known // whole if whole else 0,
        "bases": tuple(energy.basis_text(basis, pue_known=pue) for basis, pue in bases),
    }


def _dates(first: date, end: datetime, zone: ZoneInfo) -> list[str]:
    """Local days from `first` to the one before `end`."""
    found = []
    while datetime(first.year, first.month, first.day, tzinfo=zone) < end:
        found.append(first.isoformat())
        first += timedelta(days=1)
    return found


def _midnight(day: str, zone: ZoneInfo) -> datetime:
    moment = date.fromisoformat(day)
    return datetime(moment.year, moment.month, moment.day, tzinfo=zone)


def _ask(sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return list(cursor.fetchall())


def table(tenant: Organisation, month: str) -> list[list[str]]:
    """The days of a month as rows of text, for CSV: day, amount, currency, core-hours, card-hours."""
    return [
        [
            day, amount.text(), amount.currency, statement.quantity_text("core", core, statement.PLACES),
            statement.quantity_text("card", card, statement.PLACES),
        ]
        for day, amount, core, card in of_month(tenant, month).days
    ]  # fmt: skip
