"""Leases step here and nowhere else: under the row's lock, by the machine, as a conditional UPDATE whose row count is
checked.

Effects that the machine returns are performed in the same transaction: usage is closed in billing, the task goes on
(``outcomes``), capacity comes back.
Order of locks: Task, Attempt, Lease, NodeState, Job. They are all taken with NO KEY: a row that
only points to a task (a log chunk, an output, a usage report) then never waits for it, nor does it for them.
"""

from dataclasses import dataclass, fields
from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection, transaction

from billing.services import usage
from portal.kit.errors import Conflict, InvalidTransition, StaleFence
from scheduling.domain import attempt as attempts
from scheduling.domain.attempt import AttemptEvent, AttemptState, AttemptValue
from scheduling.domain.lease import (
    LeaseEffect,
    LeaseEvent,
    LeaseEventKind,
    LeaseState,
    LeaseValue,
    Times,
)
from scheduling.domain.lease import (
    step as next_lease,
)
from scheduling.domain.reasons import ENDED, EndReason
from scheduling.gateways import alive
from scheduling.models import Attempt, Lease, Task
from scheduling.services import capacity, live, outcomes

STOP_GRACE = timedelta(seconds=30)
"""From TERM to KILL when the portal asks an attempt to stop."""


def times(lease_class: str) -> Times:
    """The times of a lease class, from settings."""
    row = settings.IDLEWILD_LEASE_CLASSES[lease_class]
    return Times(**{field.name: row[field.name] for field in fields(Times)})


def classes() -> tuple[str, ...]:
    """The lease classes there are."""
    return tuple(settings.IDLEWILD_LEASE_CLASSES)


def database_now() -> datetime:
    """The database's clock: rows of leases are stamped and judged by it, so no two servers' clocks are compared."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        moment: datetime = cursor.fetchone()[0]
    return moment


@dataclass(frozen=True)
class Stepped:
    """A lease after a step, and what is to be done about it."""

    lease: Lease
    effects: tuple[LeaseEffect, ...]


def step(*, lease_id: int, event: LeaseEvent, now: datetime) -> Stepped:
    """One event of one lease; StaleFence or InvalidTransition change nothing."""
    with transaction.atomic():
        lease = Lease.objects.select_for_update(no_key=True).get(id=lease_id)
        before = LeaseValue(LeaseState(lease.state), lease.fence, lease.expires_at)
        after, effects = next_lease(before, event)
        ended = after.state is not before.state and after.state is not LeaseState.ACTIVE
        updated = Lease.objects.filter(id=lease_id, state=before.state, fence=before.fence).update(
            state=after.state, expires_at=after.expires_at, **({"ended_at": now} if ended else {})
        )
        if updated != 1:  # another got there first
            raise Conflict("the lease has changed", code="lease_moved")
        lease.state, lease.expires_at = after.state, after.expires_at
        return Stepped(lease, effects)


@dataclass(frozen=True)
class Locked:
    """An attempt with its task and lease, locked in the order of the house."""

    task: Task
    attempt: Attempt
    lease: Lease


def lock(*, attempt_id: int) -> Locked:
    """Lock task, attempt and lease of an attempt, in that order."""
    task_id = Attempt.objects.values_list("task_id", flat=True).get(id=attempt_id)
    task = Task.objects.select_for_update(no_key=True).get(id=task_id)
    attempt = (
        Attempt.objects.select_for_update(of=("self",), no_key=True)
        .select_related("node__organisation", "node__zone__region")
        .get(id=attempt_id)
    )
    lease = Lease.objects.select_for_update(no_key=True).get(attempt_id=attempt_id)
    return Locked(task, attempt, lease)


def move(*, attempt: Attempt, event: AttemptEvent, **values: object) -> None:
    """One step of the attempt machine, as a conditional UPDATE on (state, fence)."""
    before = AttemptValue(
        AttemptState(attempt.state), AttemptState(attempt.state_before) if attempt.state_before else None
    )
    after = attempts.step(before, event)
    values = {"state": after.state, "state_before": after.before or "", **values}
    updated = Attempt.objects.filter(id=attempt.id, state=before.state, fence=attempt.fence).update(**values)
    if updated != 1:  # another got there first
        raise Conflict("the attempt has changed", code="attempt_moved")
    for name, value in values.items():
        setattr(attempt, name, value)


@dataclass(frozen=True)
class End:
    """Why and when an attempt ended. `proven_at`: the last moment that usage may reach."""

    reason: EndReason
    proven_at: datetime
    message: str = ""
    exit_code: int | None = None
    actor: str = "system"


def end(*, locked: Locked, kind: LeaseEventKind, why: End, now: datetime, free: bool = True) -> None:
    """End an attempt and its lease, and let the task go on; the caller holds the locks and the transaction.

    `free` False: the node may still be running it (a revoked lease that nobody confirmed), so its capacity waits.
    """
    task, attempt, lease = locked.task, locked.attempt, locked.lease
    ending = ENDED[why.reason]
    started = attempt.accepted_at is not None
    move(
        attempt=attempt,
        event=attempts.ENDS[why.reason] if attempt.state != AttemptState.ASSIGNED else _ending_unaccepted(why.reason),
        reason=why.reason,
        fault=ending.fault,
        actor=why.actor,
        message=why.message,
        exit_code=why.exit_code,
        ended_at=now,
        frozen=False,
        result_accepted=why.reason is EndReason.FINISHED,
    )
    if lease.state not in (LeaseState.REVOKED,):
        effects = step(lease_id=lease.id, event=LeaseEvent(kind, attempt.fence, now), now=now).effects
    else:
        effects = (LeaseEffect.CLOSE_USAGE,)  # revoked before; its end was awaited
    if LeaseEffect.CLOSE_USAGE in effects and started:
        usage.end_attempt(
            attempt_ref=attempt.public_id,
            reason=why.reason,
            fault=ending.fault,
            billed=ending.billed,
            message=why.message or ending.text,
            ended_at=why.proven_at,
            now=now,
        )
    outcomes.after_attempt(
        task=task, attempt=attempt, reason=_for_task(attempt, why.reason), exit_code=why.exit_code, now=now
    )
    if free:
        capacity.free(lease=lease, now=now)
    outcomes.settle(job_id=task.job_id, now=now, happened=[_ended_event(task, attempt, why)])
    node, identity = attempt.node.public_id, attempt.public_id
    transaction.on_commit(lambda: alive.forget(node=node, attempts=[identity]), robust=True)
    live.wake(node)
    live.changed(f"node.{node}")


def _for_task(attempt: Attempt, reason: EndReason) -> EndReason:
    """What counts for the task: a final stop that was asked for, however the attempt ended meanwhile."""
    if reason is EndReason.FINISHED or not attempt.stop_reason:
        return reason
    asked = EndReason(attempt.stop_reason)
    return asked if ENDED[asked].event is None else reason


def _ending_unaccepted(reason: EndReason) -> AttemptEvent:
    return AttemptEvent.LAPSED if reason is EndReason.NOT_ACCEPTED else AttemptEvent.STOP_ASKED


def _ended_event(task: Task, attempt: Attempt, why: End) -> outcomes.Event:
    return outcomes.Event(
        "attempt.ended",
        attempt=attempt.public_id,
        task=task.public_id,
        data={
            "state": str(attempt.state),
            "reason": why.reason.value,
            "node": attempt.node.public_id,
            "fence": attempt.fence,
            "exit_code": why.exit_code,
            "billed": ENDED[why.reason].billed,
            "next": task.state,
        },
    )


def ask_stop(*, attempt_id: int, reason: EndReason, actor: str, now: datetime, displaced_by: str = "") -> bool:
    """Ask for the end of an attempt; False if it has ended already.

    One that its agent has not taken yet is taken back at once: an agent starts nothing before its `accept` is
    answered. Another becomes ``cancelling``: the
    agent is told, stops the job (TERM, at most 30 s, KILL) and reports the end; what it doesn't confirm, the sweep
    revokes.
    """
    with transaction.atomic():
        locked = lock(attempt_id=attempt_id)
        attempt = locked.attempt
        if displaced_by:
            Attempt.objects.filter(id=attempt.id).update(displaced_by=displaced_by)
        if attempt.state == AttemptState.ASSIGNED:
            end(locked=locked, kind=LeaseEventKind.REVOKED, why=End(reason, now, actor=actor), now=now)
            return True
        try:
            move(
                attempt=attempt,
                event=AttemptEvent.STOP_ASKED,
                stop_requested_at=attempt.stop_requested_at or now,
                stop_reason=attempt.stop_reason or reason,
                actor=actor,
            )
        except InvalidTransition:
            return False
        outcomes.settle(
            job_id=locked.task.job_id,
            now=now,
            happened=[
                outcomes.Event(
                    "attempt.stopping",
                    attempt=attempt.public_id,
                    task=locked.task.public_id,
                    data={"reason": reason.value, "actor": actor},
                )
            ],
        )
        live.wake(attempt.node.public_id)
    return True


def refuse_stale(*, attempt: Attempt, fence: int) -> None:
    """The fence check that comes before everything an agent says about an attempt (410)."""
    if fence != attempt.fence or attempt.state in attempts.ENDED:
        raise StaleFence(
            "a newer attempt of this task exists: kill this one and say nothing more about it", code="FENCED"
        )
