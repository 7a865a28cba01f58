"""Stored records as the parts that rating takes: clipped to a month, with the ending of their attempt."""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection

from billing.domain import tiers
from billing.domain.metering import portion
from billing.domain.rating import Part
from billing.models import BillingPeriod
from portal.kit.intervals import Interval

COLUMNS = (
    "r.id, r.attempt_ref, r.resource, r.seq, (extract(epoch FROM r.started_at) * 1000000)::bigint,"
    " (extract(epoch FROM r.ended_at) * 1000000)::bigint, r.qty_us, r.sku, r.price_version_ref, r.unit_price_micro, r.currency,"
    " r.tiers::text, r.discount_ppm, r.project_ref, r.project_name, r.department, r.provider_ref, r.provider_name, r.node_ref, r.job_ref,"
    " r.region, r.zone, r.hardware_model, r.virtual, r.green_ratio_ppm, r.demo, coalesce(e.reason, '')"
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
"""Times are read as whole microseconds since then: a month has a million records, and a number is read ten times faster than a time."""
FROM = " FROM billing_usagerecord r LEFT JOIN billing_attemptending e ON e.attempt_ref = r.attempt_ref AND NOT e.billed WHERE r.state = 'ok'"


def of_period(period: BillingPeriod, *, job_ref: str = "") -> list[Part]:
    """All rated parts of a period, whatever arrived when; of one job if `job_ref` is given."""
    where = (
        " AND r.organisation_id = %s AND r.ended_at >= %s AND r.started_at < %s AND (r.ended_at > %s OR r.ended_at = r.started_at)"
        + (" AND r.job_ref = %s" if job_ref else "")
    )
    values: list[Any] = [period.organisation_id, period.starts_at, period.ends_at, period.starts_at]
    bounds = Interval(period.starts_at, period.ends_at)
    return list(_parts(where, [*values, job_ref] if job_ref else values, bounds))


def of_records(record_ids: Sequence[int], period: BillingPeriod, *, correction_of: str) -> list[Part]:
    """The parts of some records in a closed period, as corrections of its month."""
    bounds = Interval(period.starts_at, period.ends_at)
    return list(_parts(" AND r.id = ANY(%s)", [list(record_ids)], bounds, correction_of=correction_of))


def one(record_id: int, started_at: datetime, ended_at: datetime) -> Part | None:
    """A record clipped to an interval: to compute a proof again."""
    where = " AND r.id = %s"
    return next(iter(_parts(where, [record_id], Interval(started_at, ended_at))), None)


def _parts(where: str, values: Sequence[Any], bounds: Interval, *, correction_of: str = "") -> Iterator[Part]:
    parsed: dict[str, tiers.Tiers] = {"[]": ()}
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {COLUMNS}{FROM}{where}", values)
        for row in cursor.fetchall():
            start, end, quantity = (
                EPOCH + timedelta(microseconds=row[4]),
                EPOCH + timedelta(microseconds=row[5]),
                row[6],
            )
            if start < bounds.start or end > bounds.end:
                whole = Interval(start, end)
                inside = whole.clip(bounds)
                if inside is None:
                    continue
                start, end, quantity = inside.start, inside.end, portion(quantity, whole, inside)
            yield Part(
                record_id=row[0], attempt_ref=row[1], resource=row[2], seq=row[3], started_at=start, ended_at=end, qty_us=quantity,
                sku=row[7], price_version_ref=row[8], unit_price_micro=row[9], currency=row[10], tiers=_tiers(row[11], parsed),
                discount_ppm=row[12], project_ref=row[13], project_name=row[14], department=row[15], provider_ref=row[16],
                provider_name=row[17], node_ref=row[18], job_ref=row[19], region=row[20], zone=row[21], hardware_model=row[22],
                virtual=row[23], green_ratio_ppm=row[24], demo=row[25], unbilled_reason=row[26], correction_of=correction_of,
            )  # fmt: skip


def _tiers(text: str, parsed: dict[str, tiers.Tiers]) -> tiers.Tiers:
    if text not in parsed:
        parsed[text] = tiers.parse(json.loads(text))
    return parsed[text]
