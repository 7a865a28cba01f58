"""The attempt machine: every pair; reasons agree with what billing charges for; phases only go forward."""

from itertools import product

import pytest

from billing.domain.endings import REASONS as BILLED
from portal.kit.errors import InvalidTransition
from scheduling.domain.attempt import (
    ENDED,
    ENDS,
    LIVE,
    TABLE,
    AttemptEvent,
    AttemptState,
    AttemptValue,
    Phase,
    believable,
    phase_may_follow,
    step,
)
from scheduling.domain.reasons import ENDED as BECAUSE
from scheduling.domain.reasons import EndReason

S, E = AttemptState, AttemptEvent
_GOING = (S.LEASED, S.RUNNING, S.CANCELLING)

EXPECTED: dict[tuple[AttemptState, AttemptEvent], AttemptState] = {
    (S.ASSIGNED, E.ACCEPTED): S.LEASED,
    (S.ASSIGNED, E.STOP_ASKED): S.CANCELLED,
    (S.ASSIGNED, E.LAPSED): S.ASSIGNMENT_EXPIRED,
    (S.LEASED, E.STARTED): S.RUNNING,
    (S.RUNNING, E.STARTED): S.RUNNING,
    (S.CANCELLING, E.STARTED): S.CANCELLING,
    (S.UNREACHABLE, E.HEARD): S.RUNNING,
    (S.UNREACHABLE, E.STOP_ASKED): S.UNREACHABLE,
}
for _state in _GOING:
    EXPECTED[_state, E.SILENT] = S.UNREACHABLE
    EXPECTED[_state, E.STOP_ASKED] = S.CANCELLING
for _state in (*_GOING, S.UNREACHABLE):
    EXPECTED |= {
        (_state, E.ENDED_WELL): S.SUCCEEDED,
        (_state, E.ENDED_BADLY): S.FAILED,
        (_state, E.ENDED_OOM): S.OOM,
        (_state, E.ENDED_TIMEOUT): S.TIMEOUT,
        (_state, E.ENDED_STOPPED): S.CANCELLED,
        (_state, E.LAPSED): S.LOST,
    }


@pytest.mark.parametrize(("state", "event"), list(product(AttemptState, AttemptEvent)))
def test_every_pair(state: AttemptState, event: AttemptEvent) -> None:
    attempt = AttemptValue(state)
    if (state, event) not in EXPECTED:
        with pytest.raises(InvalidTransition):
            step(attempt, event)
        return
    assert step(attempt, event).state is EXPECTED[state, event]


@pytest.mark.parametrize("before", _GOING)
def test_a_node_that_comes_back_finds_its_attempt_as_it_left_it(before: AttemptState) -> None:
    silent = step(AttemptValue(before), E.SILENT)
    assert silent == AttemptValue(S.UNREACHABLE, before)
    assert step(silent, E.HEARD) == AttemptValue(before)


def test_a_stop_asked_while_silent_is_not_forgotten() -> None:
    silent = step(step(AttemptValue(S.RUNNING), E.SILENT), E.STOP_ASKED)
    assert step(silent, E.HEARD) == AttemptValue(S.CANCELLING)


def test_what_has_ended_stays_so() -> None:
    assert {state for state, _ in TABLE} == LIVE
    assert set(AttemptState) == ENDED | LIVE


def test_the_reasons_agree_with_billing() -> None:
    with_attempt = {reason for reason in EndReason if BECAUSE[reason].attempt_state}
    assert {reason.value for reason in with_attempt} == set(BILLED)
    for reason in with_attempt:
        fault, billed = BILLED[reason.value]
        assert (BECAUSE[reason].fault.value, BECAUSE[reason].billed) == (fault.value, billed), reason


def test_each_reason_ends_the_attempt_in_its_state() -> None:
    for reason, event in ENDS.items():
        expected = BECAUSE[reason].attempt_state
        before = S.ASSIGNED if expected == S.ASSIGNMENT_EXPIRED else S.RUNNING
        assert step(AttemptValue(before), event).state == expected


@pytest.mark.parametrize(
    ("reason", "asked", "expected"),
    [
        (EndReason.FINISHED, "", True),
        (EndReason.EXIT_NONZERO, "cancelled_by_tenant", True),
        (EndReason.NODE_DRAINED, "", True),
        (EndReason.CANCELLED_BY_TENANT, "", False),
        (EndReason.CANCELLED_BY_TENANT, "cancelled_by_tenant", True),
        (EndReason.PREEMPTED, "cancelled_by_tenant", False),
        (EndReason.NODE_LOST, "", False),
        (EndReason.NO_CAPACITY, "", False),
    ],
)
def test_an_agent_is_believed_only_what_it_can_know(reason: EndReason, asked: str, expected: bool) -> None:
    assert believable(reason, asked=asked) is expected


def test_phases_only_go_forward() -> None:
    assert phase_may_follow("", Phase.RUN)
    assert phase_may_follow("setup", Phase.RUN)
    assert phase_may_follow("run", Phase.RUN)
    assert not phase_may_follow("run", Phase.STAGING)
