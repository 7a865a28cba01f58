"""Usage facts enter here, once and for ever, and attempts end here.

A batch is one transaction: the keys that are new are claimed in one statement, their records go in by COPY, the hourly roll-up grows by the same
amounts. Whoever sends a fact again, in any order and at the same time, changes nothing.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from operator import attrgetter
from typing import Any

from django.db import connection, transaction

from billing.domain import endings, energy, metering
from billing.domain.endings import Ending
from billing.domain.energy import Footprint
from billing.domain.invoicing import InvoiceState
from billing.domain.metering import Answer, Judged, Known, Neighbour, Oddity, Recorded, RecordState, UsageFact
from billing.models import AttemptEnding, BillingPeriod, LateChange, LineRecord, UsageAnomaly, UsageRecord
from billing.services import locks, months, rollup
from billing.services.rollup import SNAPSHOT
from portal.accounts.models import Organisation
from portal.kit.errors import Conflict, Finding, InvalidInput
from portal.kit.intervals import Interval

Key = tuple[str, str, int]

RECORD = (
    *SNAPSHOT, "seq", "fence", "started_at", "ended_at", "count_milli", "qty_us", "labels", "green_ratio_ppm", "pue_milli", "received_at",
    "state", "oddity", "power_mw", "power_basis", "grid_g_per_kwh", "energy_uwh", "carbon_ug", "carbon_market_ug",
)  # fmt: skip
COPY = f"COPY billing_usagerecord ({', '.join(RECORD)}) FROM STDIN"
CHUNK = 1000
ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
NONE = Footprint()
ANSWERS = {
    RecordState.OK: Answer.STORED,
    RecordState.QUARANTINED: Answer.QUARANTINED,
    RecordState.REJECTED_STALE: Answer.REJECTED_STALE,
}
_common = attrgetter(*SNAPSHOT)

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
        judged = _judge([first[key] for key in sorted(new)], new, tenants, now=now, stale=stale)
        _store(judged, now)
        _roll_up(judged, now, closing=closing)
        answers = {fact.key: _answer(verdict) for fact, verdict, _ in judged}
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


def _judge(
    facts: list[UsageFact], new: set[Key], tenants: set[int], *, now: datetime, stale: bool
) -> list[tuple[UsageFact, Judged, Footprint]]:
    """What is stored of each new fact, in the order of their keys. Neighbours that are new themselves cannot be stored yet: they are not asked for."""
    if not facts:
        return []
    around = {(fact.attempt_ref, fact.resource, fact.seq + step) for fact in facts for step in (-1, 1)} - new
    neighbours: dict[Key, Neighbour] = {}
    with connection.cursor() as cursor:
        cursor.execute(NEIGHBOURS, _columns(sorted(around)))
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
        judged.append((fact, verdict, _footprint(fact, verdict)))
    return judged


def _footprint(fact: UsageFact, verdict: Judged) -> Footprint:
    if fact.power_mw is None or verdict.state is not RecordState.OK:
        return NONE
    return energy.footprint(
        qty_us=verdict.qty_us,
        power_mw=fact.power_mw,
        pue_milli=fact.pue_milli,
        grid_g_per_kwh=fact.grid_g_per_kwh,
        green_ratio_ppm=fact.green_ratio_ppm,
    )


def _store(judged: Sequence[tuple[UsageFact, Judged, Footprint]], now: datetime) -> None:
    """The records, by COPY. What facts of one attempt have in common is written once and used again."""
    if not judged:
        return
    heads: dict[tuple[Any, ...], str] = {}
    received = _text(now)
    with connection.cursor() as cursor, cursor.copy(COPY) as copy:
        for start in range(0, len(judged), CHUNK):
            copy.write(
                "".join(
                    _row(fact, verdict, print_, heads, received)
                    for fact, verdict, print_ in judged[start : start + CHUNK]
                )
            )
    odd = [(fact, verdict.oddity) for fact, verdict, _ in judged if verdict.state is RecordState.OK and verdict.oddity]
    if odd:
        _note_anomalies(odd, now)


def _row(
    fact: UsageFact, verdict: Judged, footprint: Footprint, heads: dict[tuple[Any, ...], str], received: str
) -> str:
    """One line of COPY's text format, in the order of RECORD."""
    common = _common(fact)
    head = heads.get(common)
    if head is None:
        head = heads[common] = "\t".join(
            _text(_stored(name, value)) for name, value in zip(SNAPSHOT, common, strict=True)
        )
    labels = _text(json.dumps(dict(fact.labels))) if fact.labels else "{}"
    return (
        f"{head}\t{fact.seq}\t{fact.fence}\t{verdict.started_at.isoformat()}\t{verdict.ended_at.isoformat()}\t{fact.count_milli}"
        f"\t{verdict.qty_us}\t{labels}\t{_text(fact.green_ratio_ppm)}\t{_text(fact.pue_milli)}\t{received}\t{verdict.state.value}"
        f"\t{verdict.oddity.value}\t{_text(fact.power_mw)}\t{_text(fact.power_basis)}\t{_text(fact.grid_g_per_kwh)}"
        f"\t{_text(footprint.energy_uwh)}\t{_text(footprint.carbon_ug)}\t{_text(footprint.carbon_market_ug)}\n"
    )


def _stored(name: str, value: Any) -> Any:
    return json.dumps(value) if name == "tiers" else value


def _text(value: Any) -> str:
    """A value in COPY's text format."""
    if value is None:
        return "\\N"
    if isinstance(value, str):
        return value.translate(ESCAPES)
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value)


def _roll_up(judged: Sequence[tuple[UsageFact, Judged, Footprint]], now: datetime, *, closing: bool) -> None:
    """Add the rated ones to the hours, and note those that fall into a closed month (`closing`: or into one that may be closing now)."""
    rated = [row for row in judged if row[1].state is RecordState.OK]
    if not rated:
        return
    spans: dict[int, tuple[datetime, datetime]] = {}
    for fact, verdict, _ in rated:
        first, last = spans.get(fact.organisation_id, (verdict.started_at, verdict.ended_at))
        spans[fact.organisation_id] = (min(first, verdict.started_at), max(last, verdict.ended_at))
    calendar = months.ensure(spans)
    rollup.add(_pieces(rated, {tenant: _bounds(periods) for tenant, periods in calendar.items()}))
    watched = {
        tenant: [period for period in periods if period.state == "closed" or (closing and period.ends_at <= now)]
        for tenant, periods in calendar.items()
    }
    late = {
        (fact.key, period.id): period
        for fact, verdict, _ in rated
        for period in watched[fact.organisation_id]
        if _touches(verdict, period)
    }
    if late:
        _note_late(late, now)


def _pieces(
    rated: Sequence[tuple[UsageFact, Judged, Footprint]], bounds: dict[int, list[Interval]]
) -> Iterator[rollup.Piece]:
    for fact, verdict, footprint in rated:
        before = 0
        whole = Interval(verdict.started_at, verdict.ended_at)
        for bucket, quantity in metering.buckets(verdict.qty_us, whole, bounds[fact.organisation_id]):
            yield fact, bucket, quantity, before, verdict.qty_us, footprint
            before += quantity


def _bounds(months: Sequence[BillingPeriod]) -> list[Interval]:
    return [Interval(period.starts_at, period.ends_at) for period in months]


def _touches(verdict: Judged, period: BillingPeriod) -> bool:
    if verdict.started_at == verdict.ended_at:
        return period.starts_at <= verdict.started_at < period.ends_at
    return verdict.started_at < period.ends_at and period.starts_at < verdict.ended_at


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
    return Recorded(ANSWERS[verdict.state], verdict.oddity)


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
