"""After an attempt has ended: again or not, when, and where not.

Read from top to bottom; the first line that fits decides:

1. the reason has no retry event (contracts §5.2) → the task ends with this reason. An exit code in
   ``recover_on_exit_codes`` makes an error an
   interruption;
2. the node fell silent and the tenant chose ``on_disconnect: stop`` → no;
3. ``retry.duration`` has passed since the first failure → no;
4. *interruption* (nobody of the tenant's side is at fault): yes, unless ``retry.on_events`` leaves it out or
   ``job_recovery.strategy`` is ``none``. It never
   uses up the restarts for errors;
5. *error*: as often as ``max_restarts_on_errors`` says (reading the spec puts 3 there if ``retry`` lists ``error``
   without a number), counting errors alone.

The first failure for a reason is tried again at once; from the second one on after 5 s × 2ⁿ, at most 5 minutes. A
node that took the work and could not
start it is excluded; one that fell silent is not: its soft state says by itself when it can be used again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from scheduling.domain.demand import Action, Strategy, TaskSpec
from scheduling.domain.reasons import ENDED, EndReason, RetryEvent

FIRST_DELAY = timedelta(seconds=5)
LONGEST_DELAY = timedelta(minutes=5)
SILENCES = frozenset({EndReason.NODE_LOST, EndReason.NODE_REBOOTED})
UNFIT = frozenset(
    {
        EndReason.NOT_ACCEPTED,
        EndReason.DEVICE_ERROR,
        EndReason.START_FAILED,
        EndReason.START_TIMEOUT,
        EndReason.REPORT_FORGED,
    }
)
"""The node itself could not do it: not there again."""
MOST_EXCLUDED = 20


class Why(StrEnum):
    """Why there is, or is no, next attempt."""

    AGAIN = "again"
    NEVER_FOR_THIS_REASON = "never_for_this_reason"
    STOP_ON_DISCONNECT = "stop_on_disconnect"
    DURATION_OVER = "duration_over"
    EVENT_NOT_WANTED = "event_not_wanted"
    RESTARTS_USED_UP = "restarts_used_up"


@dataclass(frozen=True)
class Policy:
    """The tenant's wishes: ``retry``, ``job_recovery`` and ``on_disconnect`` of the task."""

    on_events: frozenset[str] = frozenset({RetryEvent.NO_CAPACITY, RetryEvent.INTERRUPTION})
    duration: timedelta = timedelta(hours=24)
    strategy: str = Strategy.FAILOVER
    restarts_on_errors: int = 0
    recover_on_exit_codes: frozenset[int] = frozenset()
    action: str = Action.REPLACE

    @classmethod
    def of(cls, task: TaskSpec) -> "Policy":
        """As the task's spec says."""
        return cls(
            on_events=frozenset(task.retry_on),
            duration=timedelta(seconds=task.retry_for_s),
            strategy=task.resources.strategy,
            restarts_on_errors=task.resources.max_restarts_on_errors,
            recover_on_exit_codes=frozenset(task.resources.recover_on_exit_codes),
            action=task.on_disconnect,
        )


@dataclass(frozen=True)
class History:
    """What happened to the task before: failures per reason, errors among them (after `recover_on_exit_codes`),
    when the first was.
    """

    failures: Mapping[str, int] = field(default_factory=dict)
    first_failed_at: datetime | None = None
    excluded_nodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class RetryDecision:
    """A row, not a delay in a queue: the task goes back to queued with these values, or ends."""

    again: bool
    why: Why
    event: RetryEvent | None
    not_before: datetime
    failures: Mapping[str, int]
    first_failed_at: datetime
    excluded_nodes: tuple[str, ...]


ERRORS = "errors"
"""Key in `failures` of the number of errors; the other keys are reasons."""


def event_of(reason: EndReason, exit_code: int | None, policy: Policy) -> RetryEvent | None:
    """The retry event of an ending under this policy."""
    event = ENDED[reason].event
    if event is RetryEvent.ERROR and exit_code is not None and exit_code in policy.recover_on_exit_codes:
        return RetryEvent.INTERRUPTION
    return event


def delay(times_failed: int) -> timedelta:
    """Before the next attempt after the n-th failure for the same reason: none, then 5 s, 10 s, 20 s … 5 min."""
    if times_failed < 2:
        return timedelta(0)
    return min(LONGEST_DELAY, FIRST_DELAY * (1 << min(times_failed - 2, 10)))


def decide(
    *, reason: EndReason, exit_code: int | None, node: str, policy: Policy, history: History, now: datetime
) -> RetryDecision:
    """Again or not; see the module's list."""
    event = event_of(reason, exit_code, policy)
    failures = dict(history.failures)
    failures[reason.value] = failures.get(reason.value, 0) + 1
    if event is RetryEvent.ERROR:
        failures[ERRORS] = failures.get(ERRORS, 0) + 1
    first = history.first_failed_at or now
    excluded = history.excluded_nodes
    if reason in UNFIT and node not in excluded:
        excluded = (*excluded, node)[-MOST_EXCLUDED:]
    why = _why(event, reason, policy, failures, first, now)
    return RetryDecision(
        again=why is Why.AGAIN,
        why=why,
        event=event,
        not_before=now + delay(failures[reason.value]),
        failures=failures,
        first_failed_at=first,
        excluded_nodes=excluded,
    )


def _why(
    event: RetryEvent | None,
    reason: EndReason,
    policy: Policy,
    failures: Mapping[str, int],
    first: datetime,
    now: datetime,
) -> Why:
    if event is None:
        return Why.NEVER_FOR_THIS_REASON
    if reason in SILENCES and policy.action == Action.STOP:
        return Why.STOP_ON_DISCONNECT
    if now - first > policy.duration:
        return Why.DURATION_OVER
    if event is RetryEvent.INTERRUPTION:
        wanted = event in policy.on_events and policy.strategy != Strategy.NONE
        return Why.AGAIN if wanted else Why.EVENT_NOT_WANTED
    if failures[ERRORS] > policy.restarts_on_errors:
        return Why.RESTARTS_USED_UP if policy.restarts_on_errors else Why.EVENT_NOT_WANTED
    return Why.AGAIN
