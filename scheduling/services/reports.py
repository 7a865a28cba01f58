"""What agents say about their attempts: accepted, at this phase, used so much, finished.

Every message names the fence it speaks under. A stale one is refused (410) before anything else; the same message
again gets its stored answer; another
message under the same number is a conflict; none of these changes anything. Times are the server's: a message says
how old its facts are, never when.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from django.db import transaction
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext as _

from marketplace.models import Node
from portal import ids
from portal.accounts.services import secrets
from portal.audit.services import note
from portal.kit.errors import Conflict, Finding, InvalidInput, InvalidTransition, NotFound, StaleFence
from scheduling.domain import attempt as attempts
from scheduling.domain.attempt import AttemptEvent, AttemptState, Phase, believable, phase_may_follow
from scheduling.domain.demand import TaskSpec
from scheduling.domain.job import TaskEvent
from scheduling.domain.lease import LeaseEvent, LeaseEventKind, Times
from scheduling.domain.reasons import EndReason
from scheduling.gateways import alive
from scheduling.models import Artefact, Attempt, AttemptReport, Checkpoint, Lease
from scheduling.selectors import spending
from scheduling.services import artefacts, checkpoints, leases, live, metering, outcomes
from scheduling.services.leases import End, Locked
from scheduling.services.metering import Reading

MOST_AGE_MS = 25 * 3600 * 1000
"""No report is older than this: a finish is repeated for 24 h."""


@dataclass(frozen=True)
class Assigned:
    """What an agent needs to run an attempt it has accepted."""

    attempt: Attempt
    lease: Lease
    spec: TaskSpec
    secret: str
    times: Times
    secrets: Mapping[str, str]
    region: str
    checkpoints: Sequence[Checkpoint] = ()


@dataclass(frozen=True)
class Answer:
    """The answer to a report; `repeated`: it was known."""

    state: str
    repeated: bool = False


@dataclass(frozen=True)
class Finish:
    """The end of an attempt as its agent tells it. `body`: what makes a repetition the same message."""

    seq: int
    fence: int
    reason: EndReason
    started: bool
    age: timedelta
    readings: Sequence[tuple[str, int, int]]  # resource, count_milli, cumulative qty
    usage_seq: int
    exit_code: int | None = None
    message: str = ""
    outputs: Mapping[str, tuple[int, str]] = field(default_factory=dict)  # name → size, sha256
    stats: Mapping[str, int] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)


def of_node(*, node: Node, attempt: str, now: datetime) -> Attempt:
    """The attempt of that id if it is this node's; NotFound (and an audit event) if it is another's."""
    found = (
        Attempt.objects.select_related("task__job__organisation", "node__zone__region", "lease")
        .filter(public_id=attempt)
        .first()
    )
    if found is None or found.node_id != node.id:
        if found is not None:
            note(
                actor=node.public_id,
                deed="attempt.foreign",
                target=attempt,
                organisation_id=node.organisation_id,
                data={"refused": True},
                now=now,
            )
        raise NotFound(_("This node has no such attempt."))
    return found


def check_secret(*, attempt: Attempt, secret: str) -> None:
    """The lease secret that `accept` gave; NotFound otherwise, so that a guess learns nothing."""
    if not attempt.lease.secret_hash or not ids.same(attempt.lease.secret_hash, ids.digest(secret)):
        raise NotFound(_("This node has no such attempt."), code="lease_secret")


def accepted(*, node: Node, attempt: str, fence: int, now: datetime) -> Assigned:
    """The agent takes an assignment. The answer may be asked for again until a process has started.

    Conflict `TAKEN_BACK` if the portal has given it to another node or cancelled it.
    """
    mine = of_node(node=node, attempt=attempt, now=now)
    with transaction.atomic():
        locked = leases.lock(attempt_id=mine.id)
        row = locked.attempt
        if fence != row.fence or locked.task.fence != fence:
            raise StaleFence(_("A newer attempt of this task exists."), code="FENCED")
        if row.state not in (AttemptState.ASSIGNED, AttemptState.LEASED):
            raise Conflict(_("The assignment has been taken back."), code="TAKEN_BACK", state=row.state)
        secret = _lease_secret(row)
        times = leases.times(locked.lease.lease_class)
        expires = now + timedelta(milliseconds=times.ttl_ms)
        if row.state == AttemptState.ASSIGNED:
            event = LeaseEvent(LeaseEventKind.ACKNOWLEDGED, fence, now, expires)
            leases.step(lease_id=locked.lease.id, event=event, now=now)
            leases.move(attempt=row, event=AttemptEvent.ACCEPTED, accepted_at=now, isolation=node.isolation)
            Attempt.objects.filter(task=locked.task, rank=row.rank, replaced_by=None, fence__lt=fence).update(
                replaced_by=row
            )
            happened = [outcomes.Event("attempt.accepted", attempt, locked.task.public_id, {"node": node.public_id})]
            outcomes.settle(job_id=locked.task.job_id, now=now, happened=happened)
        Lease.objects.filter(id=locked.lease.id).update(secret_hash=ids.digest(secret))
        spec = TaskSpec.from_form(locked.task.spec)
        job = mine.task.job
        opened = secrets.open_for_attempt(
            organisation=job.organisation,
            project=job.project,
            names=spec.secrets,
            attempt=attempt,
            node=node.public_id,
            now=now,
        )
        entry = alive.Renewed(attempt, fence, times.ttl_ms)
        transaction.on_commit(lambda: alive.keep(node=node.public_id, leases=[entry]), robust=True)
    region = node.zone.region.slug
    kept = checkpoints.offered(task=locked.task) if spec.checkpoint is not None else []
    return Assigned(mine, locked.lease, spec, secret, times, opened, region, kept)


def _lease_secret(attempt: Attempt) -> str:
    """The same at each `accept` of one attempt: a request that arrives twice must not lock the agent out."""
    return salted_hmac("scheduling.lease", f"{attempt.public_id} {attempt.fence}", algorithm="sha256").hexdigest()


def progress(
    *,
    node: Node,
    attempt: str,
    secret: str,
    fence: int,
    seq: int,
    phase: Phase | None,
    frozen: bool,
    message: str,
    now: datetime,
) -> Answer:
    """A phase report. With the first process (setup, run) the attempt runs and metering begins. `phase` None =
    ended, the finish report follows.
    """
    mine = of_node(node=node, attempt=attempt, now=now)
    check_secret(attempt=mine, secret=secret)
    digest = _digest({"phase": phase, "frozen": frozen, "message": message, "fence": fence})
    with transaction.atomic():
        locked = leases.lock(attempt_id=mine.id)
        known = _known(locked.attempt, "phase", seq, digest)
        if known:
            return known
        leases.refuse_stale(attempt=locked.attempt, fence=fence)
        _in_order(locked.attempt, seq)
        _go_on(locked, phase, frozen, now)
        state = _store(locked.attempt, "phase", seq, digest, now)
        live.changed(f"job.{mine.task.job.public_id}")
    return Answer(state)


def used(*, node: Node, rows: Sequence[tuple[str, int, Reading]], now: datetime) -> list[str]:
    """A batch of counters: (attempt, fence, reading) each; one verdict per row, in order. Any verdict settles the
    row.
    """
    verdicts = [""] * len(rows)
    by_attempt: dict[str, list[int]] = {}
    for place, (attempt, _fence, _reading) in enumerate(rows):
        by_attempt.setdefault(attempt, []).append(place)
    for attempt in sorted(by_attempt):
        places = by_attempt[attempt]
        mine = of_node(node=node, attempt=attempt, now=now)
        with transaction.atomic():
            locked = _lock_attempt(mine.id)
            for fence in sorted({rows[place][1] for place in places}):
                some = [place for place in places if rows[place][1] == fence]
                stale = fence != locked.fence or locked.state in attempts.ENDED or locked.accepted_at is None
                answers = metering.take(
                    attempt=locked,
                    lease=locked.lease,
                    readings=[rows[place][2] for place in some],
                    received_at=now,
                    stale=stale,
                )
                for place, verdict in zip(some, answers, strict=True):
                    verdicts[place] = verdict
        _watch_budget(locked, now)
    return verdicts


def finished(*, node: Node, attempt: str, secret: str, report: Finish, now: datetime) -> Answer:
    """The end of an attempt: one result per task, final counters, outputs published, all in one transaction under
    the fence.
    """
    mine = of_node(node=node, attempt=attempt, now=now)
    check_secret(attempt=mine, secret=secret)
    digest = _digest(report.body)
    with transaction.atomic():
        locked = leases.lock(attempt_id=mine.id)
        row = locked.attempt
        known = _known(row, "finish", report.seq, digest)
        if known:
            return known
        leases.refuse_stale(attempt=row, fence=report.fence)
        if row.state == AttemptState.ASSIGNED:
            raise InvalidTransition(_("The assignment has not been accepted."))
        if not believable(report.reason, asked=row.stop_reason):
            raise InvalidInput(
                [Finding("reason", "reason_not_asked", _("only the portal can end an attempt for this reason"))],
                code="MALFORMED",
            )
        ended_at = now - report.age
        if report.started and row.started_at is None:  # the phase reports were lost on the way
            _begin(locked, max(row.accepted_at or ended_at, ended_at), now)
        _last_counters(locked, report, now)
        why = _judge_outputs(locked, report)
        proven = max(row.proven_until or row.started_at or row.accepted_at or now, min(ended_at, now))
        Attempt.objects.filter(id=row.id).update(stats={**row.stats, **report.stats})
        kind = _lease_event(locked.lease, why.reason)
        end = End(why.reason, proven, why.message, report.exit_code, row.actor or node.public_id)
        if why.reason is EndReason.FINISHED:
            artefacts.publish(attempt=row, names=list(report.outputs), now=now)
        leases.end(locked=locked, kind=kind, why=end, now=now)
        state = _store(row, "finish", report.seq, digest, now)
    return Answer(state)


def _lease_event(lease: Lease, reason: EndReason) -> LeaseEventKind:
    """A node that was restarted tells of a loss; everything else is an orderly release."""
    return LeaseEventKind.LAPSED if reason is EndReason.NODE_REBOOTED else LeaseEventKind.RELEASED


@dataclass(frozen=True)
class _Why:
    reason: EndReason
    message: str


def _judge_outputs(locked: Locked, report: Finish) -> _Why:
    """A job that ended well without a required output has not ended well."""
    if report.reason is not EndReason.FINISHED:
        return _Why(report.reason, report.message)
    stored = {row.name: row for row in Artefact.objects.filter(attempt=locked.attempt, complete=True)}
    for name, (size, digest) in sorted(report.outputs.items()):
        row = stored.get(name)
        if row is None or row.size_bytes != size or row.sha256 != digest:
            return _Why(EndReason.UPLOAD_FAILED, f"output {name} did not arrive whole")
    for output in TaskSpec.from_form(locked.task.spec).outputs:
        if output.required and output.name not in report.outputs:
            return _Why(EndReason.OUTPUT_MISSING, f"output {output.name} ({output.path}) was not there")
    return _Why(EndReason.FINISHED, report.message)


def _last_counters(locked: Locked, report: Finish, now: datetime) -> None:
    until = now - report.age
    readings = [Reading(resource, report.usage_seq, count, qty, until) for resource, count, qty in report.readings]
    attempt = _with_names(locked.attempt)
    metering.take(attempt=attempt, lease=locked.lease, readings=readings, received_at=now)
    locked.attempt.proven_until, locked.attempt.stats = attempt.proven_until, attempt.stats


def _go_on(locked: Locked, phase: Phase | None, frozen: bool, now: datetime) -> None:
    attempt = locked.attempt
    if phase is not None:
        if not phase_may_follow(attempt.phase, phase):
            raise InvalidTransition(
                _("The attempt is at %(now)s already.") % {"now": attempt.phase}, state=attempt.state
            )
        if phase in attempts.STARTED and attempt.started_at is None:
            _begin(locked, now, now)
    values: dict[str, Any] = {"frozen": frozen}
    if phase is not None:
        values["phase"] = phase
    updated = Attempt.objects.filter(id=attempt.id, state=attempt.state, fence=attempt.fence).update(**values)
    if updated != 1:  # another got there first
        raise Conflict("the attempt has changed", code="attempt_moved")


def _begin(locked: Locked, started_at: datetime, now: datetime) -> None:
    """The first process of the job runs."""
    attempt = locked.attempt
    if attempt.state == AttemptState.UNREACHABLE:
        leases.move(attempt=attempt, event=AttemptEvent.HEARD)
    if attempt.state == AttemptState.ASSIGNED:
        raise InvalidTransition(_("The assignment has not been accepted."))
    leases.move(attempt=attempt, event=AttemptEvent.STARTED, started_at=started_at)
    outcomes.move(task=locked.task, event=TaskEvent.STARTED, now=now)
    metering.moved(attempt=_with_names(attempt), lease=locked.lease, now=now)
    started = outcomes.Event(
        "attempt.started",
        attempt=attempt.public_id,
        task=locked.task.public_id,
        data={"node": attempt.node.public_id, "fence": attempt.fence},
    )
    outcomes.settle(job_id=locked.task.job_id, now=now, happened=[started])


def _with_names(attempt: Attempt) -> Attempt:
    """The same attempt with everything that a usage fact names."""
    found: Attempt = Attempt.objects.select_related(
        "task__job__project", "node__organisation", "node__zone__region"
    ).get(id=attempt.id)
    return found


def _lock_attempt(attempt_id: int) -> Attempt:
    found: Attempt = (
        Attempt.objects.select_for_update(of=("self",), no_key=True)
        .select_related("task__job__project", "node__organisation", "node__zone__region", "lease")
        .get(id=attempt_id)
    )
    return found


def _watch_budget(attempt: Attempt, now: datetime) -> None:
    """A hard cap: when what the job has used reaches it, its attempts are stopped. Takes its own locks."""
    job = attempt.task.job
    if job.budget_minor is None or attempt.state in attempts.ENDED or attempt.stop_requested_at is not None:
        return
    if spending.is_spent(job):
        for one in Attempt.objects.filter(task__job=job, state__in=[*attempts.LIVE]).order_by("id"):
            leases.ask_stop(attempt_id=one.id, reason=EndReason.BUDGET_EXHAUSTED, actor="system", now=now)


def _known(attempt: Attempt, kind: str, seq: int, digest: str) -> Answer | None:
    row = AttemptReport.objects.filter(attempt=attempt, kind=kind, seq=seq).first()
    if row is None:
        return None
    if row.body_hash != digest:
        raise Conflict(
            _("Another report was sent under this number before."), code="report_differs", state=attempt.state
        )
    return Answer(row.answer["state"], repeated=True)


def _in_order(attempt: Attempt, seq: int) -> None:
    newest = (
        AttemptReport.objects.filter(attempt=attempt, kind="phase")
        .order_by("-seq")
        .values_list("seq", flat=True)
        .first()
    )
    if newest is not None and seq < newest:
        raise Conflict(_("A newer report is here already."), code="out_of_order", state=attempt.state)


def _store(attempt: Attempt, kind: str, seq: int, digest: str, now: datetime) -> str:
    state = str(attempt.state)
    AttemptReport.objects.create(
        attempt=attempt, kind=kind, seq=seq, body_hash=digest, answer={"state": state}, received_at=now
    )
    return state


def _digest(body: Mapping[str, Any]) -> str:
    return sha256(json.dumps(body, sort_keys=True, default=str).encode()).hexdigest()
