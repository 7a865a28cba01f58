"""Usage and what it will cost: coming lines of a job or a month, sums by group, the raw records."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models import QuerySet

from billing.domain import energy, invoicing, rating, statement
from billing.domain.invoicing import NetLine
from billing.domain.metering import RecordState, Resource
from billing.domain.periods import PeriodState, containing
from billing.domain.rating import Line, Part
from billing.domain.statement import PrintedLine
from billing.models import BillingPeriod, Hold, UsageAnomaly, UsageRecord
from billing.selectors import coming, estimates, grants, periods, taxes
from billing.selectors import parts as rows
from portal.accounts.models import Organisation
from portal.kit.errors import Finding, InvalidInput
from portal.kit.intervals import Interval
from portal.kit.money import Exact, Money
from portal.kit.quantities import hours_text

GROUPS = {
    "project": ("project_ref", "project_name"),
    "department": ("department", "department"),
    "provider": ("provider_ref", "provider_name"),
    "sku": ("sku", "sku"),
    "resource": ("resource", "resource"),
    "region": ("region", "region"),
    "zone": ("zone", "zone"),
    "node": ("node_ref", "node_ref"),
    "job": ("job_ref", "job_name"),
    "user": ("user_ref", "user_ref"),
    "task": ("task_name", "task_name"),
    "hardware": ("hardware_model", "hardware_model"),
    "price_version": ("price_version_ref", "price_version_ref"),
}
TIMES = ("day", "hour")


@dataclass(frozen=True, slots=True)
class JobCost:
    """What a job costs so far: the coming lines, lines of 0 included. Its total is net of tax."""

    job_ref: str
    lines: tuple[PrintedLine, ...]
    total: Money
    final: bool

    def wire(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "job": self.job_ref,
            "final": self.final,
            "total": self.total.wire(),
            "lines": [line.wire() for line in self.lines],
        }


@dataclass(frozen=True, slots=True)
class Upcoming:
    """The coming invoice of a month that is not closed: not final."""

    month: str
    starts_at: datetime
    ends_at: datetime
    timezone: str
    state: str
    currency: str
    lines: tuple[PrintedLine, ...]
    subtotal: Money
    tax: Money
    total: Money

    def wire(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "month": self.month,
            "start": statement.iso(self.starts_at),
            "end": statement.iso(self.ends_at),
            "timezone": self.timezone,
            "state": self.state,
            "final": False,
            "subtotal": self.subtotal.wire(),
            "tax": self.tax.wire(),
            "total": self.total.wire(),
            "lines": [line.wire() for line in self.lines],
        }


@dataclass(frozen=True, slots=True)
class Group:
    """Usage of a month under one heading, and what it costs (net, an estimate until its month is closed)."""

    key: str
    name: str
    resource: str
    qty_us: int
    billed_us: int
    amount: Money
    energy_uwh: int | None = None
    carbon_ug: int | None = None
    green_ratio_ppm: int | None = None

    @property
    def quantity(self) -> str:
        """The quantity in units, four decimals."""
        return statement.quantity_text(self.resource, self.qty_us, statement.PLACES)

    @property
    def unit(self) -> str:
        return statement.UNITS[Resource(self.resource)]

    def wire(self) -> dict[str, Any]:
        """The JSON form. `billed_us` leaves out what is a line of 0."""
        return {
            "key": self.key,
            "name": self.name,
            "resource": self.resource,
            "unit": self.unit,
            "quantity": self.quantity,
            "qty_us": self.qty_us,
            "billed_us": self.billed_us,
            "amount": self.amount.wire(),
            "energy_kwh": None if self.energy_uwh is None else energy.kwh_text(self.energy_uwh),
            "carbon_kg": None if self.carbon_ug is None else energy.kg_text(self.carbon_ug),
            "green_ratio": None if self.green_ratio_ppm is None else statement.ppm_text(self.green_ratio_ppm),
        }


def job_cost(job_ref: str) -> JobCost:
    """The lines that a job makes or has made, rated as the invoice rates them; 0.00 for a job that never got a node."""
    known = UsageRecord.objects.filter(job_ref=job_ref, state=RecordState.OK)
    first = known.order_by("started_at").first()
    if first is None:
        return JobCost(job_ref, (), Money(0, _currency(job_ref)), final=False)
    last = known.order_by("-ended_at").first() or first
    months = BillingPeriod.objects.filter(
        organisation_id=first.organisation_id, ends_at__gt=first.started_at, starts_at__lte=last.ended_at
    ).order_by("starts_at")
    shares: list[Line] = []
    for period in months:
        shares += _job_lines(period, job_ref)
    printed = _printed(shares, first.organisation_id)
    total = Money(sum(line.amount.minor for line in printed), first.currency)
    return JobCost(job_ref, tuple(printed), total, final=all(period.state == PeriodState.CLOSED for period in months))


def upcoming(organisation_id: int, now: datetime) -> Upcoming | None:
    """The coming invoice of the month in which `now` lies; None if the tenant has used nothing yet."""
    period = periods.at(organisation_id=organisation_id, moment=now)
    return None if period is None else of_month(period)


def of_month(period: BillingPeriod) -> Upcoming:
    """The coming invoice of a month, in the tenant's currency."""
    code = Organisation.objects.values_list("currency", flat=True).get(id=period.organisation_id)
    found = [part for part in coming.parts(period) if part.currency == code] if period.pk else []
    lines = _printed(coming.rate(found, organisation_id=period.organisation_id), period.organisation_id)
    totals = invoicing.add_up(
        [NetLine(line.provider_ref, line.amount.minor, line.tax_rate_ppm) for line in lines],
        fee_ppm=settings.IDLEWILD_PLATFORM_FEE_PPM,
    )
    return Upcoming(
        month=period.month,
        starts_at=period.starts_at,
        ends_at=period.ends_at,
        timezone=period.timezone,
        state=period.state,
        currency=code,
        lines=tuple(lines),
        subtotal=Money(totals.subtotal_minor, code),
        tax=Money(totals.tax_minor, code),
        total=Money(totals.total_minor, code),
    )


def overview(tenant: Organisation, *, month: str, group_by: str, now: datetime) -> dict[str, Any]:
    """The JSON form of a month: its bounds and zone, its groups (or coming lines) and their sum. Without a month: the one of `now`."""
    period = (
        periods.of_month(organisation_id=tenant.id, month=month)
        if month
        else periods.at(organisation_id=tenant.id, moment=now)
    )
    if period is None:  # nothing was used yet: the month is not stored
        bounds = containing(now, tenant.period_timezone)
        period = BillingPeriod(
            organisation=tenant,
            month=bounds.name,
            starts_at=bounds.interval.start,
            ends_at=bounds.interval.end,
            timezone=bounds.timezone,
        )
    invoice = of_month(period) if group_by == "line" else None
    groups = [] if invoice or period.pk is None else summary(tenant.id, period.month, group_by)
    net = sum(group.amount.minor for group in groups if group.amount.currency == tenant.currency)
    length = Interval(period.starts_at, period.ends_at).microseconds
    return {
        "month": period.month,
        "start": statement.iso(period.starts_at),
        "end": statement.iso(period.ends_at),
        "timezone": period.timezone,
        "hours": hours_text(length, 2).removesuffix(".00"),
        "state": str(period.state),
        "final": period.state == PeriodState.CLOSED,
        "group_by": group_by,
        "groups": [group.wire() for group in groups],
        "lines": [line.wire() for line in invoice.lines] if invoice else [],
        "total": (invoice.subtotal if invoice else Money(net, tenant.currency)).wire(),
    }


def summary(organisation_id: int, month: str, group_by: str = "project") -> list[Group]:
    """Σ of a month per resource and currency, by one of GROUPS or by day or hour (in the period's zone)."""
    period = periods.of_month(organisation_id=organisation_id, month=month)
    if group_by in TIMES:
        key, values = (
            f"to_char(date_trunc('{group_by}', h.bucket_at AT TIME ZONE %s), 'YYYY-MM-DD\"T\"HH24:MI')",
            [period.timezone],
        )
        name = "''"
    elif group_by in GROUPS:
        column, label = GROUPS[group_by]
        key, name, values = f"h.{column}", f"max(h.{label})", []
    else:
        raise InvalidInput(
            [Finding("group_by", "unknown_group", f"{group_by!r} is not a group", ", ".join([*GROUPS, *TIMES]))]
        )
    sql = (
        f"SELECT {key}, {name}, h.resource, h.currency, h.sku, h.price_version_ref, h.unit_price_micro, h.discount_ppm, h.tiers::text,"  # noqa: S608
        " sum(h.qty_us), sum(h.qty_us) FILTER (WHERE e.attempt_ref IS NULL), sum(h.energy_uwh), sum(h.energy_known_us), sum(h.carbon_ug),"
        " sum(h.carbon_known_us), sum(h.green_weight), sum(h.green_known_us)"
        " FROM billing_usagehour h LEFT JOIN billing_attemptending e ON e.attempt_ref = h.attempt_ref AND NOT e.billed"
        " WHERE h.organisation_id = %s AND h.bucket_at >= %s AND h.bucket_at < %s"
        " GROUP BY 1, 3, 4, 5, 6, 7, 8, 9 ORDER BY 1, 3, 4, 5, 6, 7, 8, 9"
    )
    with connection.cursor() as cursor:
        cursor.execute(sql, [*values, organisation_id, period.starts_at, period.ends_at])
        return _grouped(cursor.fetchall())


def records(
    organisation_id: int,
    *,
    month: str = "",
    job_ref: str = "",
    attempt_ref: str = "",
    state: str = "",
    project_ref: str = "",
) -> QuerySet[UsageRecord]:
    """The raw records of a tenant, newest first; quarantined and rejected ones too."""
    found = UsageRecord.objects.filter(organisation_id=organisation_id).order_by("-id")
    if month:
        period = periods.of_month(organisation_id=organisation_id, month=month)
        found = found.filter(ended_at__gte=period.starts_at, started_at__lt=period.ends_at)
    named = {"job_ref": job_ref, "attempt_ref": attempt_ref, "state": state, "project_ref": project_ref}
    return found.filter(**{name: value for name, value in named.items() if value})


def anomalies(organisation_id: int | None = None) -> QuerySet[UsageAnomaly]:
    """Facts that contradicted a stored one or were clipped, newest first."""
    found = UsageAnomaly.objects.order_by("-id")
    return found if organisation_id is None else found.filter(organisation_id=organisation_id)


def metered_us(*, attempt_ref: str, resource: str) -> int:
    """What was proven of an attempt, whether billed or not."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT coalesce(sum(qty_us), 0) FROM billing_usagerecord WHERE attempt_ref = %s AND resource = %s AND state = 'ok'",
            [attempt_ref, resource],
        )
        return int(cursor.fetchone()[0])


def _grouped(rows: Sequence[Sequence[Any]]) -> list[Group]:
    names: dict[tuple[str, str, str], str] = {}
    amounts: dict[tuple[str, str, str], Exact] = {}
    sums: dict[tuple[str, str, str], list[int]] = {}
    places: dict[str, int] = {}
    for key, name, resource, code, sku, _, price, discount, tier_text, *counted in rows:
        heading = (key, resource, code)
        counts = [int(value or 0) for value in counted]
        amount = estimates.amount(tier_text, price, resource, sku, counts[1], discount, code, places)
        names[heading] = max(names.get(heading, ""), name)
        amounts[heading] = amounts[heading] + amount if heading in amounts else amount
        sums[heading] = [
            before + added for before, added in zip(sums.get(heading, [0] * len(counts)), counts, strict=True)
        ]
    found = []
    for heading, (qty, billed, used, known, carbon, carbon_known, green, green_known) in sums.items():
        found.append(
            Group(
                key=heading[0],
                name=names[heading],
                resource=heading[1],
                qty_us=qty,
                billed_us=billed,
                amount=amounts[heading].to_money(),
                energy_uwh=used if known else None,
                carbon_ug=carbon if carbon_known else None,
                green_ratio_ppm=green // green_known if green_known else None,
            )
        )
    return found


def _job_lines(period: BillingPeriod, job_ref: str) -> list[Line]:
    mine: Sequence[Part] = rows.of_period(period, job_ref=job_ref)
    closed = period if period.state == PeriodState.CLOSED else None
    given = grants.allowance(period.organisation_id, closed=closed)
    if not given and not any(part.tiers for part in mine):
        return rating.lines(mine)
    # Its place in the tiers, and in granted hours, depends on everything the tenant used: rate the month, keep the job's share.
    whole = rating.lines(rows.of_period(period), allowance=given)
    shares = (rating.only(line, job_ref=job_ref) for line in whole)
    return [line for line in shares if line is not None]


def _printed(lines: Sequence[Line], organisation_id: int) -> list[PrintedLine]:
    rate_ppm = taxes.rate_ppm(organisation_id)
    return [statement.printed(line, position=n, tax_rate_ppm=rate_ppm) for n, line in enumerate(lines, start=1)]


def _currency(job_ref: str) -> str:
    """The currency of a job that used nothing: that of its hold."""
    return Hold.objects.filter(reference=job_ref).values_list("currency", flat=True).first() or "CNY"
