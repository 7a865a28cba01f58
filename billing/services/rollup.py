"""The hourly roll-up of usage: it grows with every batch by what the batch says, and can be made again from the records at any time.

A row is Σ of one attempt and resource at one price in one UTC hour (cut again where a billing month begins): time, and the energy and carbon beside it.
Pages read it; invoices never do.
"""

import json
from collections.abc import Iterable
from datetime import datetime
from operator import attrgetter
from typing import Any

from django.db import connection, transaction
from django.db.models import QuerySet

from billing.domain import metering
from billing.domain.energy import Footprint
from billing.domain.metering import RecordState
from billing.models import BillingPeriod, UsageRecord
from billing.services import locks
from portal.kit.intervals import Interval

SNAPSHOT = (
    "organisation_id", "attempt_ref", "resource", "sku", "price_version_ref", "unit_price_micro", "discount_ppm", "currency", "tiers",
    "project_ref", "project_name", "department", "provider_ref", "provider_name", "node_ref", "job_ref", "job_name", "task_name",
    "user_ref", "region", "zone", "hardware_model", "virtual", "demo",
)  # fmt: skip
KEY = ("attempt_ref", "resource", "price_version_ref", "unit_price_micro", "discount_ppm")
SUMS = (
    "qty_us", "green_known_us", "green_weight", "energy_uwh", "energy_known_us", "carbon_ug", "carbon_market_ug", "carbon_known_us",
)  # fmt: skip
TYPES = {
    "organisation_id": "bigint", "unit_price_micro": "bigint", "discount_ppm": "int", "tiers": "jsonb", "virtual": "boolean",
    "demo": "boolean", "bucket_at": "timestamptz", **dict.fromkeys(SUMS, "numeric"),
}  # fmt: skip
COLUMNS = (*SNAPSHOT, "bucket_at", *SUMS)
SHAPE = ", ".join(f"{name} {TYPES.get(name, 'text')}" for name in COLUMNS)
GROW = (
    f"INSERT INTO billing_usagehour ({', '.join(COLUMNS)}) SELECT {', '.join(COLUMNS)} FROM jsonb_to_recordset(%s::jsonb) AS x({SHAPE})"  # noqa: S608
    f" ON CONFLICT ({', '.join(KEY)}, bucket_at) DO UPDATE SET "
    + ", ".join(f"{name} = billing_usagehour.{name} + excluded.{name}" for name in SUMS)
)

WHOLE = """
SELECT attempt_ref, resource, sum(qty_us) FROM billing_usagerecord
WHERE organisation_id = %s AND state = 'ok' AND started_at >= %s AND ended_at <= %s AND started_at < %s GROUP BY 1, 2
"""
"""Records that lie wholly inside a period; those that cross its ends are cut by the rule."""

Source = Any
"""A usage fact or a stored record: both have the fields of SNAPSHOT and the green ratio."""
_key = attrgetter(*KEY)
_snapshot = attrgetter(*SNAPSHOT)


Piece = tuple[Source, datetime, int, int, int, Footprint]
"""(source, bucket, quantity in it, what of the source lies before, quantity of the whole source, footprint of the whole source)."""


def add(pieces: Iterable[Piece]) -> None:
    """Add pieces of facts or records to the roll-up, in key order."""
    hours: dict[tuple[Any, ...], list[Any]] = {}
    for source, bucket, quantity, before, whole, footprint in pieces:
        key = (*_key(source), bucket)
        row = hours.get(key)
        if row is None:
            row = hours[key] = [source, *[0] * len(SUMS)]
        row[1] += quantity
        if source.green_ratio_ppm is not None:
            row[2] += quantity
            row[3] += quantity * source.green_ratio_ppm
        if footprint.energy_uwh is not None:
            row[4] += _part(footprint.energy_uwh, before, quantity, whole)
            row[5] += quantity
        if footprint.carbon_ug is not None and footprint.carbon_market_ug is not None:
            row[6] += _part(footprint.carbon_ug, before, quantity, whole)
            row[7] += _part(footprint.carbon_market_ug, before, quantity, whole)
            row[8] += quantity
    if hours:
        rows = [
            dict(zip(COLUMNS, (*_snapshot(row[0]), key[-1].isoformat(), *row[1:]), strict=True))
            for key, row in sorted(hours.items())
        ]
        with connection.cursor() as cursor:
            cursor.execute(GROW, [json.dumps(rows)])


def repair(*, period: BillingPeriod) -> int:
    """Make the roll-up of a period again if it is not what its records say; returns in how many keys it differed.

    Looked at twice before anything is locked: what is only being written just now differs once.
    """
    wrong = set(differences(period))
    wrong = wrong and wrong & set(differences(period))
    if not wrong:
        return 0
    bounds = Interval(period.starts_at, period.ends_at)
    with transaction.atomic():
        locks.own_roll_up(period.organisation_id)
        with connection.cursor() as cursor:
            cursor.execute(
                "DELETE FROM billing_usagehour WHERE organisation_id = %s AND bucket_at >= %s AND bucket_at < %s",
                [period.organisation_id, period.starts_at, period.ends_at],
            )
        add(
            (row, bucket, quantity, before, row.qty_us, Footprint(row.energy_uwh, row.carbon_ug, row.carbon_market_ug))
            for row in _records_of(period).iterator(chunk_size=5000)
            for bucket, quantity, before in _clipped(row, bounds)
        )
    return len(wrong)


def differences(period: BillingPeriod) -> list[tuple[str, str, int, int]]:
    """(attempt, resource, raw, rolled up) where the roll-up of a period is not what its records say."""
    bounds = Interval(period.starts_at, period.ends_at)
    with connection.cursor() as cursor:
        cursor.execute(WHOLE, [period.organisation_id, period.starts_at, period.ends_at, period.ends_at])
        raw = {(attempt, resource): int(total) for attempt, resource, total in cursor.fetchall()}
    for row in _records_of(period).exclude(started_at__gte=period.starts_at, ended_at__lte=period.ends_at):
        for _, quantity, _ in _clipped(row, bounds):
            raw[row.attempt_ref, row.resource] = raw.get((row.attempt_ref, row.resource), 0) + quantity
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT attempt_ref, resource, sum(qty_us) FROM billing_usagehour"
            " WHERE organisation_id = %s AND bucket_at >= %s AND bucket_at < %s GROUP BY 1, 2",
            [period.organisation_id, period.starts_at, period.ends_at],
        )
        rolled = {(attempt, resource): int(total) for attempt, resource, total in cursor.fetchall()}
    keys = sorted({key for key in raw.keys() | rolled.keys() if raw.get(key, 0) != rolled.get(key, 0)})
    return [(*key, raw.get(key, 0), rolled.get(key, 0)) for key in keys]


def prove(*, now: datetime) -> list[str]:
    """The daily proof over months that are not closed: roll-up = raw (else rebuilt), no two records of an attempt overlap. Returns what was wrong."""
    found = []
    for period in BillingPeriod.objects.exclude(state="closed").filter(starts_at__lte=now).order_by("id"):
        wrong = repair(period=period)
        if wrong:
            found.append(f"roll-up of {period} differed in {wrong} keys and was rebuilt")
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT attempt_ref, resource, seq FROM (SELECT attempt_ref, resource, seq, started_at, ended_at, max(ended_at) OVER"
            " (PARTITION BY attempt_ref, resource ORDER BY started_at, ended_at ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before"
            " FROM billing_usagerecord WHERE state = 'ok' AND received_at >= %s) r WHERE started_at < before AND ended_at > started_at",
            [now - metering.OLDEST],
        )
        found += [
            f"{attempt} {resource} {seq} overlaps an earlier record" for attempt, resource, seq in cursor.fetchall()
        ]
    return found


def _part(whole: int, before: int, quantity: int, of: int) -> int:
    """The share of `whole` that belongs to `quantity` of `of` after `before`: parts of a tiling add up."""
    if quantity >= of:
        return whole
    return whole * (before + quantity) // of - whole * before // of


def _records_of(period: BillingPeriod) -> QuerySet[UsageRecord]:
    return UsageRecord.objects.filter(
        organisation_id=period.organisation_id,
        state=RecordState.OK,
        ended_at__gte=period.starts_at,
        started_at__lt=period.ends_at,
    )


def _clipped(row: UsageRecord, bounds: Interval) -> list[tuple[datetime, int, int]]:
    """The buckets of a record inside `bounds`, with what of it lies before each."""
    found, before = [], 0
    for bucket, quantity in metering.buckets(row.qty_us, Interval(row.started_at, row.ended_at), [bounds]):
        if bucket in bounds:
            found.append((bucket, quantity, before))
        before += quantity
    return found
