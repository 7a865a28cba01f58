"""From an agent's cumulative counters to usage facts.

An agent reports, per resource, how much an attempt has used since its first process started (allocation × unfrozen
time, rounded down once on the
sum), and how old that reading is. Each report becomes one fact over [end of the last one, until):

1. `until` = received − age: the server's clock, never the node's;
2. the first fact begins where the counter says, at the earliest when the attempt was accepted;
3. what was not used before fits into the interval × the allocation, or it is not taken yet: it is offered again with
   the next report, as counters are
   cumulative. So jitter of the network loses nothing, and no node can claim more than allocation × time observed by us;
4. a counter that falls, or a second report under the same number with other figures, is a conflict and changes nothing;
5. nothing is ever extrapolated: silence is not usage.

Only what the lease has a price for becomes a fact (core, card; transfer once, at the start); other counters are kept
for show.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from billing.domain.metering import UsageFact
from billing.services import usage
from marketplace.domain import power
from marketplace.models import Node, Offer
from portal.audit.services import note
from scheduling.models import Attempt, AttemptReport, Lease, Meter
from scheduling.services import live

MILLI = 1000
TOLERANCE = timedelta(seconds=2)
"""A claim that exceeds the time we saw by more than this is written to the audit trail."""
TRANSFER = "network_byte"


@dataclass(frozen=True)
class Reading:
    """One cumulative counter of one resource."""

    resource: str
    seq: int
    count_milli: int
    qty: int
    until: datetime


def take(
    *, attempt: Attempt, lease: Lease, readings: Sequence[Reading], received_at: datetime, stale: bool = False
) -> list[str]:
    """Meter readings of one attempt, in order, and answer each: stored, duplicate, conflict, quarantined or
    rejected_stale.

    The caller has locked the attempt. `stale`: it has ended or its fence is old; then the facts are kept for audit,
    never rated.
    """
    meters = {meter.resource: meter for meter in Meter.objects.select_for_update(no_key=True).filter(attempt=attempt)}
    known = _known(attempt, readings)
    verdicts: list[str] = []
    facts: list[tuple[int, UsageFact]] = []
    for place, reading in enumerate(readings):
        digest = _digest(reading)
        before = known.get((reading.resource, reading.seq))
        if before is not None:
            verdicts.append("duplicate" if before == digest else "conflict")
            continue
        known[reading.resource, reading.seq] = digest
        verdict, fact = _one(attempt, lease, meters, reading, received_at, stale)
        verdicts.append(verdict)
        if fact is not None:
            facts.append((place, fact))
        _remember(attempt, reading, digest, verdict, received_at)
    if not stale:
        _carried(attempt, readings)
    if facts:
        answers = usage.record_many(facts=[fact for _, fact in facts], now=received_at, stale=stale)
        for (place, _), answer in zip(facts, answers, strict=True):
            verdicts[place] = answer.answer.value
        live.changed(f"job.{attempt.task.job.public_id}")
    return verdicts


def _carried(attempt: Attempt, readings: Sequence[Reading]) -> None:
    """What the job's own network carried: shown, never billed."""
    carried = max((reading.qty for reading in readings if reading.resource == TRANSFER), default=None)
    if carried is not None and carried > attempt.stats.get("network_bytes", -1):
        attempt.stats = {**attempt.stats, "network_bytes": carried}
        Attempt.objects.filter(id=attempt.id).update(stats=attempt.stats)


def moved(*, attempt: Attempt, lease: Lease, now: datetime) -> None:
    """The transfer of an attempt's inputs between regions, as one fact when its first process starts."""
    transfer = lease.prices.get("transfer") or {}
    size, price = int(transfer.get("bytes") or 0), int(transfer.get("price_micro_per_gb") or 0)
    if size <= 0:
        return
    link = str(transfer.get("link") or "")
    item = {"sku": f"{TRANSFER}:-:fixed", "price_version": f"link:{link}", "unit_price_micro": price, "tiers": []}
    begun = attempt.accepted_at or now
    usage.record(fact=_fact(attempt, lease, item, TRANSFER, 1, begun, now, 0, size), now=now)


def _one(
    attempt: Attempt,
    lease: Lease,
    meters: dict[str, Meter],
    reading: Reading,
    received_at: datetime,
    stale: bool,
) -> tuple[str, UsageFact | None]:
    meter = meters.get(reading.resource)
    allowed = allocation(lease, reading.resource)
    count = min(reading.count_milli, allowed) if allowed else reading.count_milli
    priced = lease.prices.get("items", {}).get(reading.resource)
    if meter is None:
        start = _first_start(attempt, count, reading)
        meter = Meter(attempt=attempt, resource=reading.resource, proven_until=start)
        meters[reading.resource] = meter
    if meter.seq and reading.seq < meter.seq and not stale:
        return "rejected_stale", None  # late and out of order: a newer reading contains it
    if reading.qty < meter.reported:
        return "conflict", None
    start, until = meter.proven_until, max(meter.proven_until, min(reading.until, received_at))
    growth = reading.qty - meter.accepted
    if count and reading.resource != TRANSFER:
        needed, seen = -(-growth * MILLI // count), _us(received_at - start)
        until = max(until, start + timedelta(microseconds=min(needed, max(0, seen))))
        if (needed - seen > _us(TOLERANCE) or reading.count_milli > allowed > 0) and not stale:
            _suspicious(attempt, lease, reading, allowed, received_at)
        growth = min(growth, count * _us(until - start) // MILLI)
    if stale:
        fact = (
            _fact(attempt, lease, priced, reading.resource, reading.seq, start, until, count, growth)
            if priced
            else None
        )
        return "rejected_stale", fact
    meter.seq, meter.reported, meter.count_milli, meter.proven_until = reading.seq, reading.qty, count, until
    meter.accepted += growth
    meter.save()
    if attempt.proven_until is None or until > attempt.proven_until:
        attempt.proven_until = until
        Attempt.objects.filter(id=attempt.id).update(proven_until=until)
    if not priced or growth == 0:
        return "stored", None
    return "stored", _fact(attempt, lease, priced, reading.resource, reading.seq, start, until, count, growth)


def allocation(lease: Lease, resource: str) -> int:
    """Thousandths of a resource that the lease allocates (0: not metered by allocation)."""
    return {
        "core": lease.cores_milli,
        "card": lease.cards * MILLI,
        "memory_gib": lease.memory_mib * MILLI // 1024,
        "storage_gib": lease.disk_gib * MILLI,
    }.get(resource, 0)


def _first_start(attempt: Attempt, count: int, reading: Reading) -> datetime:
    """Where the first interval begins: as long before the reading as it says, not before the attempt was accepted."""
    accepted = attempt.accepted_at or reading.until
    most = max(0, _us(reading.until - accepted))  # a claim of 2**62 is no interval that a clock can hold
    used = min(most, -(-reading.qty * MILLI // count)) if count else 0
    begun = reading.until - timedelta(microseconds=used)
    return max(accepted, min(begun, attempt.started_at or begun))


def _fact(
    attempt: Attempt,
    lease: Lease,
    item: dict[str, Any],
    resource: str,
    seq: int,
    start: datetime,
    until: datetime,
    count: int,
    qty: int,
) -> UsageFact:
    task, node = attempt.task, attempt.node
    job = task.job
    zone = node.zone
    green, pue = _energy(node)
    model = lease.card_model if resource == "card" else node.cpu_model if resource == "core" else ""
    power_mw, basis = power.of_unit(resource, model)
    return UsageFact(
        attempt_ref=attempt.public_id,
        fence=attempt.fence,
        resource=resource,
        seq=seq,
        started_at=start,
        ended_at=until,
        count_milli=count,
        qty_us=qty,
        sku=item["sku"],
        price_version_ref=item["price_version"],
        unit_price_micro=item["unit_price_micro"],
        currency=lease.prices["currency"],
        tiers=_tiers(item.get("tiers") or []),
        discount_ppm=0 if resource == TRANSFER else lease.prices.get("discount_ppm", 0),
        organisation_id=job.organisation_id,
        project_ref=job.project.public_id,
        project_name=job.project.name,
        department=job.project.department,
        provider_ref=node.organisation.public_id,
        provider_name=node.organisation.name,
        node_ref=node.public_id,
        job_ref=job.public_id,
        job_name=job.name,
        task_name=task.name,
        user_ref=job.submitted_by,
        region=zone.region.slug,
        zone=zone.slug,
        hardware_model=model,
        virtual=resource == "card" and node.devices.filter(local_id__in=lease.devices, virtual=True).exists(),
        labels=job.labels,
        green_ratio_ppm=green,
        pue_milli=pue,
        power_mw=power_mw,
        power_basis=basis,
        grid_g_per_kwh=zone.region.carbon_g_per_kwh if power_mw is not None else None,
    )


def _tiers(rows: Sequence[Any]) -> tuple[tuple[int | None, int], ...]:
    return tuple((row["up_to_h"], row["price_micro"]) if isinstance(row, dict) else (row[0], row[1]) for row in rows)


def _energy(node: Node) -> tuple[int | None, int | None]:
    """Green ratio and PUE that hold now: the offer's own figure, else the region's; unknown stays unknown."""
    offer = Offer.objects.filter(node=node).exclude(green_ratio_ppm=None).order_by("-id").first()
    region = node.zone.region
    return (offer.green_ratio_ppm if offer else region.green_ratio_ppm), node.zone.pue_milli


def _known(attempt: Attempt, readings: Sequence[Reading]) -> dict[tuple[str, int], str]:
    kinds = {_kind(reading.resource) for reading in readings}
    numbers = {reading.seq for reading in readings}
    rows = AttemptReport.objects.filter(attempt=attempt, kind__in=kinds, seq__in=numbers)
    return {(row.kind.removeprefix("usage:"), row.seq): row.body_hash for row in rows}


def _remember(attempt: Attempt, reading: Reading, digest: str, verdict: str, now: datetime) -> None:
    AttemptReport.objects.create(
        attempt=attempt,
        kind=_kind(reading.resource),
        seq=reading.seq,
        body_hash=digest,
        answer={"verdict": verdict},
        received_at=now,
    )


def _kind(resource: str) -> str:
    return f"usage:{resource}"


def _digest(reading: Reading) -> str:
    return sha256(f"{reading.count_milli} {reading.qty}".encode()).hexdigest()


def _us(length: timedelta) -> int:
    return (length.days * 86_400 + length.seconds) * 1_000_000 + length.microseconds


def _suspicious(attempt: Attempt, lease: Lease, reading: Reading, allowed: int, now: datetime) -> None:
    """More than was allocated, or than the time since accept has room for: clipped, and written down once per
    attempt.
    """
    stats = dict(attempt.stats)
    if stats.get("clipped"):
        return
    stats["clipped"] = True
    attempt.stats = stats
    Attempt.objects.filter(id=attempt.id).update(stats=stats)
    note(
        actor=attempt.node.public_id,
        deed="usage.clipped",
        target=attempt.public_id,
        organisation_id=attempt.node.organisation_id,
        data={
            "resource": reading.resource,
            "seq": reading.seq,
            "count_milli": reading.count_milli,
            "allocated_milli": allowed,
            "qty": reading.qty,
        },
        now=now,
    )
