"""The lease machine: part of a node, promised to one attempt for a while.

====================================================  =======================  =============================  ==========
event ↓ state →                                       pending                  active                         ended
====================================================  =======================  =============================  ==========
acknowledged (the agent took it)                      active · open_usage      ✗                              ✗
renewed                                               ✗                        active, expiry moves           ✗
released (the attempt ended)                          ✗                        released · close_usage         ✗
lapsed (the agent is silent)                          expired · retry_task     expired · close_usage,         ✗
                                                                               retry_task
revoked (taken back; cancel, pre-emption, drain)      revoked                  revoked · close_usage,         ✗
                                                                               stop_attempt
====================================================  =======================  =============================  ==========

✗ = InvalidTransition, nothing changes. Ended = released, expired, revoked. Checked first: the speaker's fence. If it
is not the lease's, a newer attempt
exists and the speaker must kill its process (StaleFence, 410), whatever it says.

*Lapsed* is raised only when TTL and margin are over, so the node must have frozen or killed the job by itself; until
then a late renewal is granted. A
revoked lease frees its capacity only when the agent confirms the stop or that time has passed, or else two attempts
could overlap.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from portal.kit import machine
from portal.kit.errors import StaleFence


class LeaseState(StrEnum):
    PENDING = "pending"
    ACTIVE = "active"
    RELEASED = "released"
    EXPIRED = "expired"
    REVOKED = "revoked"


class LeaseEventKind(StrEnum):
    ACKNOWLEDGED = "acknowledged"
    RENEWED = "renewed"
    RELEASED = "released"
    LAPSED = "lapsed"
    REVOKED = "revoked"


class LeaseEffect(StrEnum):
    """What a service does next: admit usage facts, end metering at the last proven moment, queue the task, stop the
    attempt.
    """

    OPEN_USAGE = "open_usage"
    CLOSE_USAGE = "close_usage"
    RETRY_TASK = "retry_task"
    STOP_ATTEMPT = "stop_attempt"


ENDED = frozenset({LeaseState.RELEASED, LeaseState.EXPIRED, LeaseState.REVOKED})

S, E, X = LeaseState, LeaseEventKind, LeaseEffect
TABLE: dict[tuple[LeaseState, LeaseEventKind], tuple[LeaseState, tuple[LeaseEffect, ...]]] = {
    (S.PENDING, E.ACKNOWLEDGED): (S.ACTIVE, (X.OPEN_USAGE,)),
    (S.PENDING, E.LAPSED): (S.EXPIRED, (X.RETRY_TASK,)),
    (S.PENDING, E.REVOKED): (S.REVOKED, ()),
    (S.ACTIVE, E.RENEWED): (S.ACTIVE, ()),
    (S.ACTIVE, E.RELEASED): (S.RELEASED, (X.CLOSE_USAGE,)),
    (S.ACTIVE, E.LAPSED): (S.EXPIRED, (X.CLOSE_USAGE, X.RETRY_TASK)),
    (S.ACTIVE, E.REVOKED): (S.REVOKED, (X.CLOSE_USAGE, X.STOP_ATTEMPT)),
}


@dataclass(frozen=True)
class LeaseValue:
    """What the machine needs of a lease."""

    state: LeaseState
    fence: int
    expires_at: datetime


@dataclass(frozen=True)
class LeaseEvent:
    """Something that happened to a lease: what, under which fence, when; a renewal and an acknowledgement bring the
    new expiry.
    """

    kind: LeaseEventKind
    fence: int
    at: datetime
    expires_at: datetime | None = None


def step(lease: LeaseValue, event: LeaseEvent) -> tuple[LeaseValue, tuple[LeaseEffect, ...]]:
    """The lease after `event` and the effects to perform; StaleFence (410) or InvalidTransition (409) change
    nothing.
    """
    if event.fence != lease.fence:
        raise StaleFence(
            "a newer attempt of this task exists: kill this one and say nothing more about it", code="FENCED"
        )
    state, effects = machine.step(TABLE, lease.state, event.kind)
    expires_at = lease.expires_at
    if event.expires_at is not None:
        expires_at = max(expires_at, event.expires_at)  # a renewal that was long on its way never shortens
    return replace(lease, state=state, expires_at=expires_at), effects


@dataclass(frozen=True)
class Times:
    """The times of one lease class, in milliseconds (execution §3.2)."""

    ttl_ms: int
    renew_ms: int
    deadline_ms: int
    lapse_ms: int
    suspect_ms: int
    accept_ms: int

    def margin_ms(self, grace_ms: int) -> int:
        """From the end of the TTL until *lapsed* may be raised; G of ``wait`` comes on top."""
        return self.lapse_ms - self.ttl_ms + grace_ms

    def agent_deadline_ms(self, grace_ms: int) -> int:
        """From sending a renewal until the agent freezes the job: always before the server's lapse."""
        return self.deadline_ms + grace_ms


class Silence(StrEnum):
    """What a silence of some length means for a lease."""

    HEARD = "heard"
    UNREACHABLE = "unreachable"
    LAPSED = "lapsed"


def judge_silence(*, overdue_ms: int, grace_ms: int, times: Times) -> Silence:
    """`overdue_ms` = time since the expiry (negative: not yet). Unreachable from the TTL on, lapsed from TTL +
    margin (+ G) on.
    """
    if overdue_ms < 0:
        return Silence.HEARD
    if overdue_ms < times.margin_ms(grace_ms):
        return Silence.UNREACHABLE
    return Silence.LAPSED
