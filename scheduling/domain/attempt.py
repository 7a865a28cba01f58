"""The attempt machine: one try of a task on one node.

=======================  ==========  =========  =========  =============  ===============
event ↓ state →          assigned    leased     running    cancelling     unreachable
=======================  ==========  =========  =========  =============  ===============
accepted                 leased      ✗          ✗          ✗              ✗
started (a process runs) ✗           running    running    cancelling     ✗
silent (TTL passed)      ✗           unreach.   unreach.   unreach.       ✗
heard (renewed again)    ✗           ✗          ✗          ✗              the one before
stop_asked               cancelled   cancelling cancelling cancelling     unreachable (*)
ended_well               ✗           succeeded  succeeded  succeeded      succeeded
ended_badly              ✗           failed     failed     failed         failed
ended_oom                ✗           oom        oom        oom            oom
ended_timeout            ✗           timeout    timeout    timeout        timeout
ended_stopped            ✗           cancelled  cancelled  cancelled      cancelled
lapsed                   expired     lost       lost       lost           lost
=======================  ==========  =========  =========  =============  ===============

Every pair with an ended state is ✗ (InvalidTransition): what has ended stays so. (*) its state before becomes
cancelling. "expired" = assignment_expired.
A report of an end is taken from any live state after accept: the reports between may have been lost, the finish
carries everything.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from portal.kit.errors import InvalidTransition
from scheduling.domain.reasons import ENDED as ENDED_BECAUSE
from scheduling.domain.reasons import EndReason


class AttemptState(StrEnum):
    ASSIGNED = "assigned"
    LEASED = "leased"
    RUNNING = "running"
    UNREACHABLE = "unreachable"
    CANCELLING = "cancelling"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    OOM = "oom"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    ASSIGNMENT_EXPIRED = "assignment_expired"
    LOST = "lost"


class AttemptEvent(StrEnum):
    ACCEPTED = "accepted"
    STARTED = "started"
    SILENT = "silent"
    HEARD = "heard"
    STOP_ASKED = "stop_asked"
    ENDED_WELL = "ended_well"
    ENDED_BADLY = "ended_badly"
    ENDED_OOM = "ended_oom"
    ENDED_TIMEOUT = "ended_timeout"
    ENDED_STOPPED = "ended_stopped"
    LAPSED = "lapsed"


class Phase(StrEnum):
    """Where a leased or running attempt is on its node, in order."""

    PULLING = "pulling"
    STAGING = "staging"
    RESTORING = "restoring"
    SETUP = "setup"
    RUN = "run"
    UPLOADING = "uploading"


ACTIVE = frozenset({AttemptState.LEASED, AttemptState.RUNNING, AttemptState.CANCELLING})
LIVE = ACTIVE | {AttemptState.ASSIGNED, AttemptState.UNREACHABLE}
ENDED = frozenset(AttemptState) - LIVE

S, E = AttemptState, AttemptEvent
_ENDS = {
    E.ENDED_WELL: S.SUCCEEDED,
    E.ENDED_BADLY: S.FAILED,
    E.ENDED_OOM: S.OOM,
    E.ENDED_TIMEOUT: S.TIMEOUT,
    E.ENDED_STOPPED: S.CANCELLED,
    E.LAPSED: S.LOST,
}
TABLE: dict[tuple[AttemptState, AttemptEvent], AttemptState | None] = {
    (S.ASSIGNED, E.ACCEPTED): S.LEASED,
    (S.ASSIGNED, E.STOP_ASKED): S.CANCELLED,
    (S.ASSIGNED, E.LAPSED): S.ASSIGNMENT_EXPIRED,
    (S.LEASED, E.STARTED): S.RUNNING,
    (S.RUNNING, E.STARTED): S.RUNNING,
    (S.CANCELLING, E.STARTED): S.CANCELLING,
    **{(state, E.SILENT): S.UNREACHABLE for state in (S.LEASED, S.RUNNING, S.CANCELLING)},
    (S.UNREACHABLE, E.HEARD): None,  # the state before
    **{(state, E.STOP_ASKED): S.CANCELLING for state in (S.LEASED, S.RUNNING, S.CANCELLING)},
    (S.UNREACHABLE, E.STOP_ASKED): S.UNREACHABLE,
    **{
        (state, event): end
        for state in (S.LEASED, S.RUNNING, S.CANCELLING, S.UNREACHABLE)
        for event, end in _ENDS.items()
    },
}
"""(state, event) → the next state; None = the state before the silence."""


@dataclass(frozen=True)
class AttemptValue:
    """What the machine needs of an attempt; `before` is where a renewal leads back to from unreachable."""

    state: AttemptState
    before: AttemptState | None = None


def step(attempt: AttemptValue, event: AttemptEvent) -> AttemptValue:
    """The attempt after `event`; InvalidTransition (409) when the table has no such pair."""
    if (attempt.state, event) not in TABLE:
        raise InvalidTransition(f"{event.value} is not possible while {attempt.state.value}")
    state = TABLE[attempt.state, event]
    if state is None:
        return AttemptValue(attempt.before or AttemptState.RUNNING)
    if state is AttemptState.UNREACHABLE:
        return AttemptValue(state, AttemptState.CANCELLING if event is AttemptEvent.STOP_ASKED else attempt.state)
    return replace(attempt, state=state, before=None)


_BY_STATE = {
    "succeeded": E.ENDED_WELL,
    "failed": E.ENDED_BADLY,
    "oom": E.ENDED_OOM,
    "timeout": E.ENDED_TIMEOUT,
    "cancelled": E.ENDED_STOPPED,
    "lost": E.LAPSED,
    "assignment_expired": E.LAPSED,
}
ENDS: dict[EndReason, AttemptEvent] = {
    reason: _BY_STATE[ending.attempt_state] for reason, ending in ENDED_BECAUSE.items() if ending.attempt_state
}
"""Reason → the event that ends an attempt for it."""

R = EndReason
PORTAL_ONLY = frozenset({R.NODE_LOST, R.NOT_ACCEPTED, R.REPORT_FORGED})
"""Reasons no agent may give: only the portal can know them."""
ON_REQUEST = frozenset(
    {
        R.CANCELLED_BY_TENANT,
        R.BUDGET_EXHAUSTED,
        R.BALANCE_EXHAUSTED,
        R.ORGANISATION_SUSPENDED,
        R.PREEMPTED,
        R.STOPPED_BY_OPERATOR,
    }
)
"""Reasons an agent may only give back when the portal asked it to stop for them."""


def believable(reason: EndReason, *, asked: str) -> bool:
    """May an agent report `reason`, when it was asked to stop for `asked` ("" = it was not)?"""
    if reason in PORTAL_ONLY or reason not in ENDS:
        return False
    return reason not in ON_REQUEST or reason == asked


_ORDER = {phase: place for place, phase in enumerate(Phase)}
STARTED = frozenset({Phase.SETUP, Phase.RUN, Phase.UPLOADING})
"""In these phases a process of the job has started."""


def phase_may_follow(before: str, after: Phase) -> bool:
    """Phases only go forward; some may be skipped."""
    return not before or _ORDER[after] >= _ORDER[Phase(before)]
