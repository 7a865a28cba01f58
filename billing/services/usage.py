"""Usage facts enter here, once and for ever, and attempts end here.

A batch is one transaction: the keys that are new are claimed in one statement, their records go in by COPY, the hourly roll-up grows by the same
amounts. Whoever sends a fact again, in any order and at the same time, changes nothing.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from django.db import connection, transaction

from billing.domain import endings, metering
from billing.domain.endings import Ending
from billing.domain.invoicing import InvoiceState
from billing.domain.metering import Answer, Judged, Known, Neighbour, Oddity, Recorded, RecordState, UsageFact
from billing.models import AttemptEnding, BillingPeriod, LateChange, LineRecord, UsageAnomaly, UsageRecord
from billing.services import locks, months
from portal.accounts.models import Organisation
from portal.kit.errors import Conflict, Finding, InvalidInput
from portal.kit.intervals import Interval

Key = tuple[str, str, int]

SNAPSHOT = (
    "organisation_id", "attempt_ref", "resource", "sku", "price_version_ref", "unit_price_micro", "discount_ppm", "currency", "tiers",
    "project_ref", "project_name", "department", "provider_ref", "provider_name", "node_ref", "job_ref", "job_name", "task_name",
    "user_ref", "region", "zone", "hardware_model", "virtual", "demo",
)  # fmt: skip
RECORD = (
    *SNAPSHOT, "seq", "fence", "started_at", "ended_at", "count_milli", "qty_us", "labels", "green_ratio_ppm", "pue_milli", "received_at",
    "state", "oddity",
)  # fmt: skip
ROLL_UP_KEY = "attempt_ref, resource, price_version_ref, unit_price_micro, discount_ppm, bucket_at"
ROLL_UP_TYPES = {
    "organisation_id": "bigint", "unit_price_micro": "bigint", "discount_ppm": "int", "tiers": "jsonb", "virtual": "boolean",
    "demo": "boolean",
}  # fmt: skip

CLAIM = """
INSERT INTO billing_usagekey (attempt_ref, resource, seq, content_hash)
SELECT * FROM unnest(%s::text[], %s::text[], %s::bigint[], %s::text[])
ON CONFLICT (attempt_ref, resource, seq) DO NOTHING RETURNING attempt_ref, resource, seq
"""
HASHES = """
SELECT k.attempt_ref, k.resource, k.seq, k.content_hash FROM billing_usagekey k
JOIN unnest(%s::text[], %s::text[], %s::bigint[]) AS w(a, r, s) ON k.attempt_ref = w.a AND k.resource = w.r AND k.seq = w.s
"""
NEIGHBOURS = """
SELECT n.attempt_ref, n.resource, n.seq, n.started_at, n.ended_at, n.fence FROM billing_usagerecord n
JOIN unnest(%s::text[], %s::text[], %s::bigint[]) AS w(a, r, s) ON n.attempt_ref = w.a AND n.resource = w.r AND n.seq = w.s
WHERE n.state = 'ok'
"""


def record(*, fact: UsageFact, now: datetime, stale: bool = False) -> Recorded:
    """Store one usage fact; see :func:`record_many`."""
    return record_many(facts=[fact], now=now, stale=stale)[0]


def record_many(*, facts: Sequence[UsageFact], now: datetime, stale: bool = False) -> list[Recorded]:
    """Store usage facts that arrive at `now`, and answer each in order.

    `stale`: the sender's fence is old; the facts are kept for audit and never rated. Imports and demo history pass their own time as `now`.
    """
    first: dict[Key, UsageFact] = {}
    hashes: dict[Key, str] = {}
    sent = [(fact, fact.content_hash()) for fact in facts]
    for fact, content in sent:
        if fact.key not in first:
            first[fact.key], hashes[fact.key] = fact, content
    if not first:
        return []
    with transaction.atomic():
        tenants = _known_tenants(first.values())
        locks.share_roll_up(tenants)
        closing = not locks.share_books(tenants)
        new = _claim(hashes)
        judged = _judge([first[key] for key in sorted(new)], tenants, now=now, stale=stale)
        _store(judged, now)
        _roll_up(judged, now, closing=closing)
        answers = {fact.key: _answer(verdict) for fact, verdict in judged}
        return _answers(sent, hashes, new, answers, now)


def end_attempt(
    *, attempt_ref: str, reason: str, fault: str, billed: bool, message: str, ended_at: datetime, now: datetime
) -> Ending:
    """How an attempt ended, set once: the same ending again changes nothing, another one is a Conflict.

    Not billed: its metered time becomes a line of 0 that names reason and node; what an invoice has billed already is taken back by the next one.
    """
    try:
        ending = endings.decide(
            attempt_ref=attempt_ref, reason=reason, fault=fault, billed=billed, message=message, ended_at=ended_at
        )
    except ValueError as fault_found:
        raise InvalidInput([Finding("reason", "bad_ending", str(fault_found))]) from None
    with transaction.atomic():
        tenants = set(UsageRecord.objects.filter(attempt_ref=attempt_ref).values_list("organisation_id", flat=True))
        closing = not locks.share_books(tenants)
        AttemptEnding.objects.bulk_create(
            [AttemptEnding(**{**asdict(ending), "fault": ending.fault.value}, noted_at=now)], ignore_conflicts=True
        )
        kept = AttemptEnding.objects.get(attempt_ref=attempt_ref)
        if kept.reason != reason:
            raise Conflict(f"attempt {attempt_ref} ended already: {kept.reason}", code="attempt_ended")
        if not billed:
            take_back(attempt_ref=attempt_ref, now=now)
            if closing:  # its lines may be in a transaction that we cannot see yet: the next close looks again
                notes = [
                    LateChange(organisation_id=tenant, attempt_ref=attempt_ref, noted_at=now) for tenant in tenants
                ]
                LateChange.objects.bulk_create(notes, ignore_conflicts=True)
    return ending


def take_back(*, attempt_ref: str, now: datetime) -> None:
    """What lines have already billed of an attempt that turned out not to be billed."""
    billed = LineRecord.objects.filter(record__attempt_ref=attempt_ref, line__unbilled_reason="", line__qty_us__gt=0)
    billed = billed.exclude(line__invoice__state=InvoiceState.VOID).select_related("line__invoice__period", "record")
    changes = []
    for proof in billed:
        month = proof.line.correction_of or proof.line.invoice.period.month
        period = BillingPeriod.objects.get(organisation_id=proof.record.organisation_id, month=month)
        changes.append(
            LateChange(
                organisation_id=proof.record.organisation_id,
                period=period,
                record_id=proof.record_id,
                line_record=proof,
                noted_at=now,
            )
        )
    LateChange.objects.bulk_create(changes, ignore_conflicts=True)


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
        _add_hours((row, bucket, qty) for row in _records_of(period) for bucket, qty in _clipped(row, bounds))
    return len(wrong)


def differences(period: BillingPeriod) -> list[tuple[str, str, int, int]]:
    """(attempt, resource, raw, rolled up) where the roll-up of a period is not what its records say."""
    raw: dict[tuple[str, str], int] = {}
    bounds = Interval(period.starts_at, period.ends_at)
    for row in _records_of(period):
        for _, quantity in _clipped(row, bounds):
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


@dataclass(frozen=True, slots=True)
class _Hour:
    """One row to add to the roll-up."""

    values: dict[str, Any]
    qty_us: int
    green_known_us: int
    green_weight: int


def _known_tenants(facts: Iterable[UsageFact]) -> set[int]:
    return set(
        Organisation.objects.filter(id__in={fact.organisation_id for fact in facts}).values_list("id", flat=True)
    )


def _columns(keys: Iterable[Key]) -> list[list[Any]]:
    rows = list(keys)
    return [[row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows]]


def _claim(hashes: dict[Key, str]) -> set[Key]:
    """The keys that nobody had before. Sorted, so two batches never wait for each other in a ring."""
    ordered = sorted(hashes)
    with connection.cursor() as cursor:
        cursor.execute(CLAIM, [*_columns(ordered), [hashes[key] for key in ordered]])
        return {(attempt, resource, seq) for attempt, resource, seq in cursor.fetchall()}


def _judge(facts: list[UsageFact], tenants: set[int], *, now: datetime, stale: bool) -> list[tuple[UsageFact, Judged]]:
    if not facts:
        return []
    around = {(fact.attempt_ref, fact.resource, fact.seq + step) for fact in facts for step in (-1, 1)}
    neighbours: dict[Key, Neighbour] = {}
    with connection.cursor() as cursor:
        cursor.execute(NEIGHBOURS, _columns(around))
        for attempt, resource, seq, started_at, ended_at, fence in cursor.fetchall():
            neighbours[attempt, resource, seq] = Neighbour(seq, started_at, ended_at, fence)
    ended = {
        row[0]: (row[1], row[2])
        for row in AttemptEnding.objects.filter(attempt_ref__in={fact.attempt_ref for fact in facts}).values_list(
            "attempt_ref", "ended_at", "reason"
        )
    }
    judged = []
    for fact in facts:
        attempt, resource, seq = fact.key
        beside = (neighbours.get((attempt, resource, seq - 1)), neighbours.get((attempt, resource, seq + 1)))
        ended_at, reason = ended.get(attempt, (None, ""))
        known = Known(
            tenant=fact.organisation_id in tenants,
            stale=stale,
            neighbours=tuple(n for n in beside if n is not None),
            ended_at=ended_at,
            closed=reason in endings.SHUT,
        )
        verdict = metering.judge(fact, known, now=now)
        if verdict.state is RecordState.OK:
            neighbours[fact.key] = Neighbour(seq, verdict.started_at, verdict.ended_at, fact.fence)
        judged.append((fact, verdict))
    return judged


def _store(judged: list[tuple[UsageFact, Judged]], now: datetime) -> None:
    """The records, by COPY."""
    if not judged:
        return
    with (
        connection.cursor() as cursor,
        cursor.copy(f"COPY billing_usagerecord ({', '.join(RECORD)}) FROM STDIN") as copy,
    ):
        for fact, verdict in judged:
            copy.write_row([_value(fact, verdict, name, now) for name in RECORD])
    odd = [(fact, verdict) for fact, verdict in judged if verdict.state is RecordState.OK and verdict.oddity]
    _note_anomalies([(fact, verdict.oddity) for fact, verdict in odd], now)


def _value(fact: UsageFact, verdict: Judged, name: str, now: datetime) -> Any:
    if name in {"started_at", "ended_at", "qty_us", "oddity", "state"}:
        value = getattr(verdict, name)
        return value.value if name in {"oddity", "state"} else value
    if name == "received_at":
        return now
    value = getattr(fact, name)
    if name == "tiers":
        return json.dumps(value) if value else "[]"
    if name == "labels":
        return json.dumps(dict(value)) if value else "{}"
    return value


def _roll_up(judged: list[tuple[UsageFact, Judged]], now: datetime, *, closing: bool) -> None:
    """Add the rated ones to the hours, and note those that fall into a closed month (`closing`: or into one that may be closing now)."""
    rated = [(fact, verdict) for fact, verdict in judged if verdict.state is RecordState.OK]
    if not rated:
        return
    calendar = months.ensure(
        {
            tenant: (
                min(v.started_at for f, v in rated if f.organisation_id == tenant),
                max(v.ended_at for f, v in rated if f.organisation_id == tenant),
            )
            for tenant in {fact.organisation_id for fact, _ in rated}
        }
    )
    _add_hours(
        (fact, bucket, quantity)
        for fact, verdict in rated
        for bucket, quantity in metering.buckets(
            verdict.qty_us, Interval(verdict.started_at, verdict.ended_at), _bounds(calendar[fact.organisation_id])
        )
    )
    late = {
        (fact.key, period.id): period
        for fact, verdict in rated
        for period in calendar[fact.organisation_id]
        if (period.state == "closed" or (closing and period.ends_at <= now)) and _touches(verdict, period)
    }
    if late:
        _note_late(late, now)


def _bounds(months: Sequence[BillingPeriod]) -> list[Interval]:
    return [Interval(period.starts_at, period.ends_at) for period in months]


def _touches(verdict: Judged, period: BillingPeriod) -> bool:
    if verdict.started_at == verdict.ended_at:
        return period.starts_at <= verdict.started_at < period.ends_at
    return verdict.started_at < period.ends_at and period.starts_at < verdict.ended_at


def _add_hours(pieces: Iterable[tuple[UsageFact | UsageRecord, datetime, int]]) -> None:
    """Σ quantities per (attempt, resource, price, bucket) into the roll-up, in key order."""
    hours: dict[tuple[Any, ...], _Hour] = {}
    for source, bucket, quantity in pieces:
        key = (
            source.attempt_ref, source.resource, source.price_version_ref, source.unit_price_micro, source.discount_ppm, bucket,
        )  # fmt: skip
        known = 0 if source.green_ratio_ppm is None else quantity
        weight = known * (source.green_ratio_ppm or 0)
        row = hours.get(key)
        if row is None:
            values = {name: getattr(source, name) for name in SNAPSHOT} | {"bucket_at": bucket.isoformat()}
            hours[key] = _Hour(values, quantity, known, weight)
        else:
            hours[key] = replace(
                row,
                qty_us=row.qty_us + quantity,
                green_known_us=row.green_known_us + known,
                green_weight=row.green_weight + weight,
            )
    if not hours:
        return
    rows = [
        {**hour.values, "qty_us": hour.qty_us, "green_known_us": hour.green_known_us, "green_weight": hour.green_weight}
        for _, hour in sorted(hours.items())
    ]
    columns = [*SNAPSHOT, "bucket_at", "qty_us", "green_known_us", "green_weight"]
    types = {
        "bucket_at": "timestamptz",
        "qty_us": "numeric",
        "green_known_us": "numeric",
        "green_weight": "numeric",
        **ROLL_UP_TYPES,
    }
    shape = ", ".join(f"{name} {types.get(name, 'text')}" for name in columns)
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO billing_usagehour ({', '.join(columns)}) SELECT {', '.join(columns)} FROM jsonb_to_recordset(%s::jsonb) AS x({shape})"  # noqa: S608
            f" ON CONFLICT ({ROLL_UP_KEY}) DO UPDATE SET qty_us = billing_usagehour.qty_us + excluded.qty_us,"
            " green_known_us = billing_usagehour.green_known_us + excluded.green_known_us,"
            " green_weight = billing_usagehour.green_weight + excluded.green_weight",
            [json.dumps(rows)],
        )


def _note_late(late: dict[tuple[Key, int], BillingPeriod], now: datetime) -> None:
    """These facts touch a closed month: the next invoice corrects it."""
    ids: dict[Key, int] = {}
    for key in {key for key, _ in late}:
        ids[key] = UsageRecord.objects.values_list("id", flat=True).get(attempt_ref=key[0], resource=key[1], seq=key[2])
    LateChange.objects.bulk_create(
        LateChange(organisation_id=period.organisation_id, period=period, record_id=ids[key], noted_at=now)
        for (key, _), period in sorted(late.items())
    )


def _note_anomalies(odd: Iterable[tuple[UsageFact, Oddity]], now: datetime) -> None:
    UsageAnomaly.objects.bulk_create(
        [
            UsageAnomaly(
                attempt_ref=fact.attempt_ref,
                resource=fact.resource,
                seq=fact.seq,
                organisation_id=fact.organisation_id,
                kind=kind.value,
                content_hash=fact.content_hash(),
                sent={
                    "started_at": fact.started_at.isoformat(),
                    "ended_at": fact.ended_at.isoformat(),
                    "count_milli": fact.count_milli,
                    "qty_us": fact.qty_us,
                    "fence": fact.fence,
                },
                received_at=now,
            )
            for fact, kind in odd
        ],
        ignore_conflicts=True,
    )


def _answer(verdict: Judged) -> Recorded:
    answer = {
        RecordState.OK: Answer.STORED,
        RecordState.QUARANTINED: Answer.QUARANTINED,
        RecordState.REJECTED_STALE: Answer.REJECTED_STALE,
    }[verdict.state]
    return Recorded(answer, verdict.oddity)


def _answers(
    sent: Sequence[tuple[UsageFact, str]],
    hashes: dict[Key, str],
    new: set[Key],
    answers: dict[Key, Recorded],
    now: datetime,
) -> list[Recorded]:
    """One answer per fact as it was sent: repetitions are duplicates, contradictions are kept as anomalies."""
    stored = dict(hashes)
    old = [key for key in hashes if key not in new]
    if old:
        with connection.cursor() as cursor:
            cursor.execute(HASHES, _columns(old))
            stored |= {(attempt, resource, seq): known for attempt, resource, seq, known in cursor.fetchall()}
    said: list[Recorded] = []
    conflicts = []
    told: set[Key] = set()
    for fact, content in sent:
        if content != stored[fact.key]:
            conflicts.append((fact, Oddity.CONFLICT))
            said.append(Recorded(Answer.CONFLICT, Oddity.CONFLICT))
        elif fact.key in new and fact.key not in told:
            told.add(fact.key)
            said.append(answers[fact.key])
        else:
            said.append(Recorded(Answer.DUPLICATE))
    if conflicts:
        _note_anomalies(conflicts, now)
    return said


def _records_of(period: BillingPeriod) -> Iterable[UsageRecord]:
    return UsageRecord.objects.filter(
        organisation_id=period.organisation_id,
        state=RecordState.OK,
        ended_at__gte=period.starts_at,
        started_at__lt=period.ends_at,
    ).iterator(chunk_size=5000)


def _clipped(row: UsageRecord, bounds: Interval) -> list[tuple[datetime, int]]:
    """The buckets of a record inside `bounds`."""
    pieces = metering.buckets(row.qty_us, Interval(row.started_at, row.ended_at), [bounds])
    return [(bucket, quantity) for bucket, quantity in pieces if bucket in bounds]
