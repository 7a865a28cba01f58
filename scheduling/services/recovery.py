"""The sweep: silence becomes *unreachable* and then *lapsed*, and the task is queued again. Every half second, on a
queue and worker of its own.

**PostgreSQL alone ends a lease**, and only when both its row and its entry in the soft store are past by the margin.
The soft store may lie by forgetting,
so each sweep checks that it is still the same process and still has our mark:

* process or mark changed, or no answer → every lease counts as renewed now; nothing lapses before now + TTL + margin;
* one entry missing → the same for that lease.

**Deaf?** While no node at all has been heard for `DEAF`, at the first sweep after a pause of ours, and until `DEAF`
after the next node was heard, nothing
lapses: the fault is ours. After ten minutes of it leases lapse as `platform_fault`.

The rows follow the store: a lease found renewed there gets that expiry here, so it is looked at again only when that
is over.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F, Max
from django.db.models.functions import Greatest

from portal.kit.errors import Conflict
from scheduling.domain import attempt as attempts
from scheduling.domain.attempt import AttemptEvent, AttemptState
from scheduling.domain.lease import LeaseEvent, LeaseEventKind, LeaseState, Silence, Times, judge_silence
from scheduling.domain.reasons import EndReason
from scheduling.gateways import alive
from scheduling.models import Attempt, Lease, NodeState, SweepState, Task
from scheduling.services import leases, live, nodes_sync
from scheduling.services.leases import End

DEAF_MOST = timedelta(seconds=5)
OUTAGE_MOST = timedelta(minutes=10)
PAUSE = timedelta(seconds=3)
"""Sweeps that lie further apart than this have missed something: the next one is a first one."""
CONFIRM = timedelta(seconds=15)
"""Beyond TERM's grace: so long a stop may stay unconfirmed before the lease is revoked."""
EXCLUDED_FOR = timedelta(minutes=10)
"""A task that waits this long may go to excluded nodes again."""


@dataclass(frozen=True)
class Swept:
    """What one sweep did."""

    lapsed: int = 0
    unreachable: int = 0
    heard: int = 0
    not_accepted: int = 0
    revoked: int = 0
    freed: int = 0
    forgiven: int = 0
    quiet: str = ""  # why nothing could lapse


def deaf_after() -> timedelta:
    """How long all nodes may be silent before we take it for our own fault: 5 s, less only where leases are shorter."""
    shortest = min(leases.times(name).ttl_ms for name in leases.classes())
    return min(DEAF_MOST, timedelta(milliseconds=shortest * 5 // 6))


def sweep(*, now: datetime, at_ms: int | None = None) -> Swept:
    """One sweep. `at_ms`: a test's clock for the soft store."""
    memory, _made = SweepState.objects.get_or_create(id=1)
    watched = _watched(now)
    look = alive.look(attempts={row.public_id: row.node.public_id for row in watched}, at_ms=at_ms)
    seen, judgement = _judge_ourselves(memory, look, now)
    updated = SweepState.objects.filter(id=1, swept_at=memory.swept_at).update(swept_at=now, **seen)
    if updated != 1:  # another sweep got there first
        return Swept(quiet="another sweep")
    if judgement.forgive:
        forgiven = _forgive_all(now, at_ms)
        return Swept(forgiven=forgiven, quiet="the soft store has lost something", **_housekeeping(now))
    counts = {"lapsed": 0, "unreachable": 0, "heard": 0, "forgiven": 0}
    extended: list[tuple[int, datetime]] = []
    for row in watched:
        found = _one(row, look, judgement, now, extended, at_ms)
        if found:
            counts[found] += 1
    _follow(extended)
    return Swept(quiet=judgement.quiet, **counts, **_housekeeping(now))


def forget_exclusions(*, now: datetime) -> int:
    """An exclusion is a preference, not a ban: after ten minutes of waiting the task may go back there."""
    return (
        Task.objects.filter(state="queued", waiting_since__lt=now - EXCLUDED_FOR)
        .exclude(excluded_nodes=[])
        .update(excluded_nodes=[])
    )


@dataclass(frozen=True)
class _Judgement:
    """May leases lapse in this sweep, and for which reason."""

    forgive: bool
    quiet: str
    reason: EndReason


def _judge_ourselves(
    memory: SweepState, look: alive.Look | None, now: datetime
) -> tuple[dict[str, str | datetime | None], _Judgement]:
    run_id, generation = (look.run_id, look.generation) if look else ("", "")
    forgive = run_id != memory.run_id or generation != memory.generation or (look is not None and not look.intact)
    deaf_for = deaf_after()
    unheard = _unheard(look, now)
    paused = memory.swept_at is None or now - memory.swept_at > PAUSE
    hearing_since = deaf_since = None
    if unheard is None or unheard > deaf_for:
        deaf_since = memory.deaf_since or now
    else:
        hearing_since = now if paused or memory.hearing_since is None else memory.hearing_since
    seen: dict[str, str | datetime | None] = {
        "run_id": run_id,
        "generation": generation,
        "hearing_since": hearing_since,
        "deaf_since": deaf_since,
    }
    if deaf_since is not None:
        outage = now - deaf_since >= OUTAGE_MOST
        return seen, _Judgement(forgive, "" if outage else "no node is heard", EndReason.PLATFORM_FAULT)
    trusted = hearing_since is not None and now - hearing_since >= deaf_for
    return seen, _Judgement(forgive, "" if trusted else "hearing again", EndReason.NODE_LOST)


def _unheard(look: alive.Look | None, now: datetime) -> timedelta | None:
    if look is not None:
        return None if look.unheard_ms is None else timedelta(milliseconds=look.unheard_ms)
    last = NodeState.objects.aggregate(last=Max("last_sync_at"))["last"]
    return None if last is None else max(timedelta(0), now - last)


def _watched(now: datetime) -> list[Attempt]:
    """Attempts whose lease is past its row's expiry, and all that are unreachable."""
    due = Attempt.objects.filter(lease__state=LeaseState.ACTIVE, lease__expires_at__lte=now)
    silent = Attempt.objects.filter(state=AttemptState.UNREACHABLE, lease__state=LeaseState.ACTIVE)
    return list((due | silent).select_related("lease", "node", "task__job").order_by("id"))


def _one(
    row: Attempt,
    look: alive.Look | None,
    judgement: _Judgement,
    now: datetime,
    extended: list[tuple[int, datetime]],
    at_ms: int | None,
) -> str:
    """Judge one lease; the name of the counter to raise, or ""."""
    times = leases.times(row.lease.lease_class)
    row_overdue = _ms(now - row.lease.expires_at)
    overdue = row_overdue
    if look is not None:
        entry = look.entries.get(row.public_id)
        if entry is None or entry.fence != row.fence:
            return _forgive_one(row, times, now, at_ms)
        if entry.left_ms > -row_overdue:
            extended.append((row.lease.id, now + timedelta(milliseconds=entry.left_ms)))
        overdue = min(row_overdue, -entry.left_ms)
    silence = judge_silence(overdue_ms=overdue, grace_ms=row.lease.grace_ms, times=times)
    if silence is Silence.HEARD:
        back = row.state == AttemptState.UNREACHABLE and nodes_sync.heard_again(attempt=row, now=now)
        return "heard" if back else ""
    if silence is Silence.LAPSED and not judgement.quiet:
        return "lapsed" if _lapse(row, judgement.reason, now) else ""
    if row.state in attempts.ACTIVE:
        return "unreachable" if _mark_unreachable(row) else ""
    return ""


def _forgive_one(row: Attempt, times: Times, now: datetime, at_ms: int | None) -> str:
    """The store does not know this lease: it counts as renewed now."""
    expires = now + timedelta(milliseconds=times.ttl_ms)
    updated = Lease.objects.filter(id=row.lease.id, state=LeaseState.ACTIVE, expires_at__lt=expires).update(
        expires_at=expires
    )
    if updated != 1:  # another got there first
        return ""
    alive.keep(
        node=row.node.public_id,
        leases=[alive.Renewed(row.public_id, row.fence, times.ttl_ms)],
        at_ms=at_ms,
    )
    return "forgiven"


def _forgive_all(now: datetime, at_ms: int | None) -> int:
    """All leases count as renewed now, in the rows and (so that no entry is missed later) in the store."""
    count = 0
    for name in leases.classes():
        expires = now + timedelta(milliseconds=leases.times(name).ttl_ms)
        count += Lease.objects.filter(state=LeaseState.ACTIVE, lease_class=name).update(
            expires_at=Greatest(F("expires_at"), expires)
        )
    by_node: dict[str, list[alive.Renewed]] = {}
    held = Lease.objects.filter(state=LeaseState.ACTIVE).values_list(
        "node__public_id", "attempt__public_id", "fence", "lease_class"
    )
    for node, attempt, fence, lease_class in held:
        by_node.setdefault(node, []).append(alive.Renewed(attempt, fence, leases.times(lease_class).ttl_ms))
    for node, entries in by_node.items():
        alive.keep(node=node, leases=entries, at_ms=at_ms)
    return count


def _follow(extended: Sequence[tuple[int, datetime]]) -> None:
    for lease_id, expires in extended:
        Lease.objects.filter(id=lease_id, state=LeaseState.ACTIVE, expires_at__lt=expires).update(expires_at=expires)


def _mark_unreachable(row: Attempt) -> bool:
    try:
        with transaction.atomic():
            leases.move(attempt=row, event=AttemptEvent.SILENT)
            live.changed(f"job.{row.task.job.public_id}", f"node.{row.node.public_id}")
    except Conflict:
        return False
    return True


def _lapse(row: Attempt, reason: EndReason, now: datetime) -> bool:
    """End one lease for good, unless something renewed it since we looked."""
    with transaction.atomic():
        locked = leases.lock(attempt_id=row.id)
        if locked.lease.state != LeaseState.ACTIVE or locked.lease.expires_at != row.lease.expires_at:
            return False
        leases.end(locked=locked, kind=LeaseEventKind.LAPSED, why=_silent(locked.attempt, reason, now), now=now)
    return True


def _silent(attempt: Attempt, reason: EndReason, now: datetime) -> End:
    proven = attempt.proven_until or attempt.started_at or attempt.accepted_at or now
    return End(reason, proven, f"node {attempt.node.name or attempt.node.public_id} fell silent")


def _housekeeping(now: datetime) -> dict[str, int]:
    return {"not_accepted": _not_accepted(now), "revoked": _revoke_unconfirmed(now), "freed": _free_revoked(now)}


def _not_accepted(now: datetime) -> int:
    """Assignments that nobody took in time may be placed again at once: their agent has started nothing."""
    count = 0
    due = Attempt.objects.filter(lease__state=LeaseState.PENDING, lease__accept_by__lte=now).order_by("id")
    for attempt_id in list(due.values_list("id", flat=True)):
        with transaction.atomic():
            locked = leases.lock(attempt_id=attempt_id)
            if locked.lease.state != LeaseState.PENDING or locked.attempt.state != AttemptState.ASSIGNED:
                continue
            name = locked.attempt.node.name or locked.attempt.node.public_id
            why = End(EndReason.NOT_ACCEPTED, now, f"node {name} did not take the assignment in time")
            leases.end(locked=locked, kind=LeaseEventKind.LAPSED, why=why, now=now)
            count += 1
    return count


def _revoke_unconfirmed(now: datetime) -> int:
    """A stop that a reachable agent does not confirm: no more renewals, so it is fenced and must kill."""
    count = 0
    since = now - leases.STOP_GRACE - CONFIRM
    due = Attempt.objects.filter(
        stop_requested_at__lte=since, lease__state=LeaseState.ACTIVE, state__in=[*attempts.ACTIVE]
    ).order_by("id")
    for attempt_id in list(due.values_list("id", flat=True)):
        with transaction.atomic():
            locked = leases.lock(attempt_id=attempt_id)
            if locked.lease.state != LeaseState.ACTIVE or locked.attempt.state in attempts.ENDED:
                continue
            event = LeaseEvent(LeaseEventKind.REVOKED, locked.attempt.fence, now)
            leases.step(lease_id=locked.lease.id, event=event, now=now)
            node, name = locked.attempt.node.public_id, locked.attempt.public_id
            transaction.on_commit(lambda node=node, name=name: alive.forget(node=node, attempts=[name]))  # type: ignore[misc]
            live.wake(node)
            count += 1
    return count


def _free_revoked(now: datetime) -> int:
    """A revoked lease gives back capacity and task when its agent must have frozen or killed the job by itself."""
    count = 0
    waiting = Attempt.objects.filter(
        lease__state=LeaseState.REVOKED, lease__capacity_freed=False, state__in=[*attempts.LIVE]
    ).select_related("lease")
    for row in list(waiting.order_by("id")):
        times = leases.times(row.lease.lease_class)
        silent_by = (row.lease.ended_at or now) + timedelta(milliseconds=times.lapse_ms + row.lease.grace_ms)
        if now < silent_by:
            continue
        with transaction.atomic():
            locked = leases.lock(attempt_id=row.id)
            if locked.attempt.state in attempts.ENDED:
                continue
            reason = EndReason(locked.attempt.stop_reason or EndReason.STOPPED_BY_OPERATOR)
            proven = locked.attempt.proven_until or locked.attempt.started_at or now
            why = End(reason, proven, "the agent did not confirm the stop", actor=locked.attempt.actor or "system")
            leases.end(locked=locked, kind=LeaseEventKind.REVOKED, why=why, now=now)
            count += 1
    return count


def _ms(length: timedelta) -> int:
    return int(length / timedelta(milliseconds=1))
