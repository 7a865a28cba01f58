"""What an agent does about one attempt: (state, event) → (state, instructions). Pure: no clock, no process, no socket.

The runner feeds events (answers of the portal, facts about processes) and performs the instructions; everything that can
go wrong between the two is decided here, so that it can be read and replayed. Times are milliseconds of CLOCK_BOOTTIME and
come in with the events.

| event ↓ state → | offered | staging | ready | starting | running | frozen | stopping | uploading | saving | finishing | killing |
|---|---|---|---|---|---|---|---|---|---|---|---|
| Accepted | staging·stage | | | | | | | | | | |
| Refused | done·forget | | | | | | | | | | |
| Staged | | starting·launch ¹ | | | | | | | | | |
| StagingFailed | | finishing·finish | | | | | | | | | |
| Started | | | | running·report | running·report | = | = | | | | = |
| Froze | | | | frozen·report | frozen·report | = | =·stop ² | | | | = |
| Thawed | | | | | = | running·report | = | | | | = |
| Renewed | = | = | starting·launch ¹ | =·renew | =·renew | =·renew | =·renew | = | = | = | = |
| Cancelled | done·forget | fin·abort | fin·finish | stopping·stop | stopping·stop | stopping·stop ² | = | fin·abort | = | = | = |
| FencedOff | done·forget | done·abort | done·forget | killing·kill | killing·kill | killing·kill | killing·kill | done·abort | done·abort | done·abort | = |
| Ended | | | | ³ | ³ | ³ | ³ | | | | done·forget |
| SupervisorLost | | | | fin·finish | fin·finish | fin·finish | fin·finish | | | | done·forget |
| Uploaded | | | | | | | | fin·finish | | | |
| UploadFailed | | | | | | | | fin·finish | | | |
| Saved | | | | | | | | | fin·finish | | |
| Delivered | | | | | | | | | | done·forget | |
| Undeliverable | | | | | | | | | | done·forget | |

`fin` = finishing; `abort` is followed by finish or forget. Empty = `InvalidTransition`, nothing changes. `=` stays, without
instructions. `done` is terminal and swallows every late fact.
¹ only before the deadline: nothing is started under a lease that may have lapsed; otherwise `ready`, until a renewal.
² a frozen job cannot tidy up: no grace. ³ a job that finished and has outputs: uploading·report upload; one that ended otherwise, may go on elsewhere and
stores checkpoints: saving·report save (also when its supervisor was lost); else fin·finish.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Callable, Union

from .protocol import AssignmentSpec, Phase, Reason, SyncAnswer, UploadedOutput


class State(str, Enum):
    OFFERED = "offered"
    STAGING = "staging"
    READY = "ready"
    STARTING = "starting"
    RUNNING = "running"
    FROZEN = "frozen"
    STOPPING = "stopping"
    UPLOADING = "uploading"
    SAVING = "saving"
    FINISHING = "finishing"
    KILLING = "killing"
    DONE = "done"


class InvalidTransition(Exception):
    """This event cannot happen in this state: a defect of the agent or a confused peer. Nothing changed."""


# ── events ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Accepted:
    """The portal answered our accept; the lease runs from when the accept was sent."""

    spec: AssignmentSpec
    deadline_ms: int


@dataclass(frozen=True)
class Refused:
    """The assignment was taken back, or its time to accept is over."""

    why: str = ""


@dataclass(frozen=True)
class Staged:
    now_ms: int


@dataclass(frozen=True)
class StagingFailed:
    reason: Reason
    message: str = ""


@dataclass(frozen=True)
class Started:
    """The supervisor has started the first process of this phase."""

    phase: Phase


@dataclass(frozen=True)
class Froze:
    """The tree is frozen: the deadline passed without a renewal."""


@dataclass(frozen=True)
class Thawed:
    pass


@dataclass(frozen=True)
class Renewed:
    deadline_ms: int
    now_ms: int


@dataclass(frozen=True)
class Cancelled:
    reason: Reason
    grace_ms: int


@dataclass(frozen=True)
class FencedOff:
    """410: the attempt is no longer ours. Whatever we still know about it must not be sent."""


@dataclass(frozen=True)
class Ended:
    """The supervisor's exit record: the last process of the job is gone."""

    reason: Reason
    started: bool
    exit_code: int | None = None
    message: str = ""


@dataclass(frozen=True)
class SupervisorLost:
    """No exit record and no supervisor: it was killed (its job died with it) or the machine was started anew."""

    reason: Reason
    message: str = ""


@dataclass(frozen=True)
class Uploaded:
    outputs: tuple[UploadedOutput, ...] = ()


@dataclass(frozen=True)
class UploadFailed:
    reason: Reason
    message: str = ""
    outputs: tuple[UploadedOutput, ...] = ()


@dataclass(frozen=True)
class Saved:
    """The last checkpoint is stored, or there was no time for it."""


@dataclass(frozen=True)
class Delivered:
    """The finish report is stored."""


@dataclass(frozen=True)
class Undeliverable:
    """The finish report was refused as malformed, or nobody took it for 24 hours."""

    why: str = ""


Event = Union[
    Accepted,
    Refused,
    Staged,
    StagingFailed,
    Started,
    Froze,
    Thawed,
    Renewed,
    Cancelled,
    FencedOff,
    Ended,
    SupervisorLost,
    Uploaded,
    UploadFailed,
    Saved,
    Delivered,
    Undeliverable,
]


# ── instructions ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Accept:
    within_ms: int


@dataclass(frozen=True)
class Stage:
    """Make the job's folder and fetch its inputs."""


@dataclass(frozen=True)
class Launch:
    """Start a supervisor, which starts the job."""


@dataclass(frozen=True)
class Renew:
    deadline_ms: int


@dataclass(frozen=True)
class Stop:
    reason: Reason
    grace_ms: int


@dataclass(frozen=True)
class Kill:
    """Now, without grace and without a word to the portal."""


@dataclass(frozen=True)
class Abort:
    """Stop staging, uploading or delivering."""


@dataclass(frozen=True)
class Report:
    phase: Phase
    frozen: bool


@dataclass(frozen=True)
class Upload:
    pass


@dataclass(frozen=True)
class Save:
    """Store a last checkpoint of the ended job, for its next attempt."""


@dataclass(frozen=True)
class Finish:
    """Send the last logs, then the finish report; both again until they are taken."""


@dataclass(frozen=True)
class Forget:
    """Remove the folder and the groups; keep the journal's row."""

    tell: str = ""


Instruction = Union[Accept, Stage, Launch, Renew, Stop, Kill, Abort, Report, Upload, Save, Finish, Forget]


# ── the attempt ───────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Attempt:
    """What the agent knows about an attempt; `reason` … `outputs` are what the finish report will say."""

    id: str
    fence: int
    state: State
    phase: Phase = Phase.STAGING
    deadline_ms: int = 0
    has_outputs: bool = False
    has_checkpoint: bool = False
    started: bool = False
    reason: Reason | None = None
    exit_code: int | None = None
    message: str = ""
    outputs: tuple[UploadedOutput, ...] = ()

    @property
    def frozen(self) -> bool:
        return self.state is State.FROZEN

    @property
    def holds_lease(self) -> bool:
        """Whether the heartbeat names it: from the answered accept until the finish report is stored."""
        return self.state not in (State.OFFERED, State.KILLING, State.DONE)


Step = tuple[Attempt, tuple[Instruction, ...]]

NOTHING_TO_SAVE = frozenset(
    {
        Reason.FINISHED,
        Reason.CANCELLED_BY_TENANT,
        Reason.ORGANISATION_SUSPENDED,
        Reason.STOPPED_BY_OPERATOR,
        Reason.START_FAILED,
        Reason.DEVICE_ERROR,
        Reason.NODE_REBOOTED,
    }
)
"""After these no attempt follows, or what lies on the disk was not left by an orderly end."""


def offered(attempt: str, fence: int, accept_ms: int) -> Step:
    return Attempt(id=attempt, fence=fence, state=State.OFFERED), (Accept(accept_ms),)


def step(attempt: Attempt, event: Event) -> Step:
    """The next state and what to do; InvalidTransition when the table has no such pair."""
    if attempt.state is State.DONE:
        return attempt, ()
    handler = TABLE.get((attempt.state, type(event)))
    if handler is None:
        raise InvalidTransition(f"{type(event).__name__} in state {attempt.state.value} of {attempt.id}")
    return handler(attempt, event)


def _stay(attempt: Attempt, event: Event) -> Step:
    return attempt, ()


def _accepted(attempt: Attempt, event: Accepted) -> Step:
    staging = replace(
        attempt,
        state=State.STAGING,
        deadline_ms=event.deadline_ms,
        has_outputs=bool(event.spec.outputs),
        has_checkpoint=event.spec.checkpoint is not None,
    )
    return staging, (Stage(),)


def _refused(attempt: Attempt, event: Refused) -> Step:
    return replace(attempt, state=State.DONE), (Forget(event.why),)


def _dropped(attempt: Attempt, event: Event) -> Step:
    return replace(attempt, state=State.DONE), (Forget(),)


def _dropped_busy(attempt: Attempt, event: Event) -> Step:
    return replace(attempt, state=State.DONE), (Abort(), Forget())


def _launch_before(attempt: Attempt, now_ms: int) -> Step:
    if now_ms >= attempt.deadline_ms:
        return replace(attempt, state=State.READY), ()
    return replace(attempt, state=State.STARTING), (Launch(),)


def _staged(attempt: Attempt, event: Staged) -> Step:
    return _launch_before(attempt, event.now_ms)


def _finish(attempt: Attempt, reason: Reason, message: str, *, abort: bool = False) -> Step:
    ending = replace(attempt, state=State.FINISHING, phase=Phase.ENDED, reason=reason, message=message)
    return ending, ((Abort(), Finish()) if abort else (Finish(),))


def _staging_failed(attempt: Attempt, event: StagingFailed) -> Step:
    return _finish(attempt, event.reason, event.message)


def _started(attempt: Attempt, event: Started) -> Step:
    running = replace(attempt, state=State.RUNNING, phase=event.phase, started=True)
    return running, (Report(event.phase, frozen=False),)


def _started_late(attempt: Attempt, event: Started) -> Step:
    # The fact overtook a freeze or a stop: remember that a process ran, change nothing else.
    return replace(attempt, phase=event.phase, started=True), ()


def _froze(attempt: Attempt, event: Froze) -> Step:
    return replace(attempt, state=State.FROZEN), (Report(attempt.phase, frozen=True),)


def _froze_stopping(attempt: Attempt, event: Froze) -> Step:
    return attempt, (Stop(attempt.reason or Reason.PLATFORM_FAULT, 0),)


def _thawed(attempt: Attempt, event: Thawed) -> Step:
    return replace(attempt, state=State.RUNNING), (Report(attempt.phase, frozen=False),)


def _renewed_quietly(attempt: Attempt, event: Renewed) -> Step:
    return replace(attempt, deadline_ms=max(attempt.deadline_ms, event.deadline_ms)), ()


def _renewed_ready(attempt: Attempt, event: Renewed) -> Step:
    return _launch_before(_renewed_quietly(attempt, event)[0], event.now_ms)


def _renewed(attempt: Attempt, event: Renewed) -> Step:
    longer = _renewed_quietly(attempt, event)[0]
    return longer, (Renew(longer.deadline_ms),)


def _cancelled_idle(attempt: Attempt, event: Cancelled) -> Step:
    return _finish(attempt, event.reason, "")


def _cancelled_busy(attempt: Attempt, event: Cancelled) -> Step:
    return _finish(attempt, event.reason, "", abort=True)


def _cancelled(attempt: Attempt, event: Cancelled) -> Step:
    grace = 0 if attempt.frozen else event.grace_ms
    return replace(attempt, state=State.STOPPING, reason=event.reason), (Stop(event.reason, grace),)


def _fenced(attempt: Attempt, event: FencedOff) -> Step:
    return replace(attempt, state=State.KILLING), (Kill(),)


def _ended(attempt: Attempt, event: Ended) -> Step:
    known = replace(
        attempt,
        started=attempt.started or event.started,
        reason=event.reason,
        exit_code=event.exit_code,
        message=event.message,
    )
    if event.reason is Reason.FINISHED and attempt.has_outputs:
        uploading = replace(known, state=State.UPLOADING, phase=Phase.UPLOADING)
        return uploading, (Report(Phase.UPLOADING, frozen=False), Upload())
    return _save_first(known, event.reason, event.message)


def _save_first(attempt: Attempt, reason: Reason, message: str) -> Step:
    """What the job has written since its last checkpoint is worth keeping, if another attempt may follow."""
    if not (attempt.has_checkpoint and attempt.started) or reason in NOTHING_TO_SAVE:
        return _finish(attempt, reason, message)
    saving = replace(attempt, state=State.SAVING, phase=Phase.UPLOADING, reason=reason, message=message)
    return saving, (Report(Phase.UPLOADING, frozen=False), Save())


def _lost(attempt: Attempt, event: SupervisorLost) -> Step:
    return _save_first(attempt, event.reason, event.message)


def _saved(attempt: Attempt, event: Saved) -> Step:
    return _finish(attempt, attempt.reason or Reason.PLATFORM_FAULT, attempt.message)


def _uploaded(attempt: Attempt, event: Uploaded) -> Step:
    return _finish(replace(attempt, outputs=event.outputs), attempt.reason or Reason.FINISHED, attempt.message)


def _upload_failed(attempt: Attempt, event: UploadFailed) -> Step:
    return _finish(replace(attempt, outputs=event.outputs), event.reason, event.message)


_SUPERVISED = (State.STARTING, State.RUNNING, State.FROZEN, State.STOPPING)


def _table() -> dict[tuple[State, type], Callable[..., Step]]:
    s = State
    table: dict[tuple[State, type], Callable[..., Step]] = {
        (s.OFFERED, Accepted): _accepted,
        (s.OFFERED, Refused): _refused,
        (s.OFFERED, Renewed): _stay,
        (s.OFFERED, Cancelled): _dropped,
        (s.OFFERED, FencedOff): _dropped,
        (s.STAGING, Staged): _staged,
        (s.STAGING, StagingFailed): _staging_failed,
        (s.STAGING, Renewed): _renewed_quietly,
        (s.STAGING, Cancelled): _cancelled_busy,
        (s.STAGING, FencedOff): _dropped_busy,
        (s.READY, Renewed): _renewed_ready,
        (s.READY, Cancelled): _cancelled_idle,
        (s.READY, FencedOff): _dropped,
        (s.STARTING, Started): _started,
        (s.STARTING, Froze): _froze,
        (s.RUNNING, Started): _started,
        (s.RUNNING, Froze): _froze,
        (s.RUNNING, Thawed): _stay,
        (s.FROZEN, Started): _started_late,
        (s.FROZEN, Froze): _stay,
        (s.FROZEN, Thawed): _thawed,
        (s.STOPPING, Started): _started_late,
        (s.STOPPING, Froze): _froze_stopping,
        (s.STOPPING, Thawed): _stay,
        (s.UPLOADING, Uploaded): _uploaded,
        (s.UPLOADING, UploadFailed): _upload_failed,
        (s.UPLOADING, Renewed): _renewed_quietly,
        (s.UPLOADING, Cancelled): _cancelled_busy,
        (s.UPLOADING, FencedOff): _dropped_busy,
        (s.SAVING, Saved): _saved,
        (s.SAVING, Renewed): _renewed_quietly,
        (s.SAVING, Cancelled): _stay,
        (s.SAVING, FencedOff): _dropped_busy,
        (s.FINISHING, Delivered): _dropped,
        (s.FINISHING, Undeliverable): _dropped,
        (s.FINISHING, Renewed): _renewed_quietly,
        (s.FINISHING, Cancelled): _stay,
        (s.FINISHING, FencedOff): _dropped_busy,
        (s.KILLING, Ended): _dropped,
        (s.KILLING, SupervisorLost): _dropped,
    }
    for state in _SUPERVISED:
        table[(state, Renewed)] = _renewed
        table[(state, Cancelled)] = _cancelled
        table[(state, FencedOff)] = _fenced
        table[(state, Ended)] = _ended
        table[(state, SupervisorLost)] = _lost
    table[(s.STOPPING, Cancelled)] = _stay  # the portal repeats a cancel until the attempt has finished
    for event in (Started, Froze, Thawed, Renewed, Cancelled, FencedOff):
        table[(s.KILLING, event)] = _stay
    return table


TABLE: Mapping[tuple[State, type], Callable[..., Step]] = _table()


# ── a sync's answer ───────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class SyncFacts:
    """What a sync answer means for the attempts at hand: events in the order to be fed, and new offers of work."""

    events: tuple[tuple[str, Event], ...]
    offers: tuple[Step, ...]


def read_sync(known: Mapping[str, Attempt], answer: SyncAnswer, sent_ms: int, now_ms: int) -> SyncFacts:
    """Fences first (they forbid), then renewals (they allow), then cancels; what names another fence is not ours."""
    events: list[tuple[str, Event]] = []

    def ours(attempt: str, fence: int) -> bool:
        return attempt in known and known[attempt].fence == fence

    for fenced in answer.fenced:
        if ours(fenced.attempt, fenced.fence):
            events.append((fenced.attempt, FencedOff()))
    for renewal in answer.renewals:
        if ours(renewal.attempt, renewal.fence):
            events.append((renewal.attempt, Renewed(sent_ms + renewal.deadline_ms, now_ms)))
    for cancel in answer.cancels:
        if ours(cancel.attempt, cancel.fence):
            events.append((cancel.attempt, Cancelled(cancel.reason, cancel.grace_ms)))
    offers = tuple(offered(a.attempt, a.fence, a.accept_ms) for a in answer.assignments if a.attempt not in known)
    return SyncFacts(tuple(events), offers)
