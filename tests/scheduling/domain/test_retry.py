"""Again or not, when, and where not."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from scheduling.domain.demand import Action, Resources, Strategy, TaskSpec
from scheduling.domain.reasons import ENDED, EndReason, RetryEvent
from scheduling.domain.retry import MOST_EXCLUDED, UNFIT, History, Policy, RetryDecision, Why, decide, delay

NOW = datetime(2026, 11, 2, 8, 0, tzinfo=UTC)
R = EndReason


def after(
    reason: EndReason, policy: Policy | None = None, history: History | None = None, exit_code: int | None = None
) -> RetryDecision:
    return decide(
        reason=reason,
        exit_code=exit_code,
        node="nod_a",
        policy=policy or Policy(),
        history=history or History(),
        now=NOW,
    )


@pytest.mark.parametrize("reason", [reason for reason in EndReason if ENDED[reason].attempt_state])
def test_by_default_interruptions_are_tried_again_and_nothing_else(reason: EndReason) -> None:
    event = ENDED[reason].event
    decision = after(reason)
    assert decision.again is (event is RetryEvent.INTERRUPTION)
    expected = {None: Why.NEVER_FOR_THIS_REASON, RetryEvent.ERROR: Why.EVENT_NOT_WANTED}
    assert decision.why is expected.get(event, Why.AGAIN)


def test_an_infrastructure_failure_never_uses_the_tenants_restarts() -> None:
    policy = Policy(restarts_on_errors=1)
    history = History(failures={"node_lost": 50, "preempted": 9}, first_failed_at=NOW - timedelta(hours=1))
    assert after(R.EXIT_NONZERO, policy, history).again
    assert after(R.NODE_LOST, policy, History(failures={"exit_nonzero": 1, "errors": 1})).again


def test_errors_are_counted_together_over_their_reasons() -> None:
    policy = Policy(restarts_on_errors=2)
    first = after(R.EXIT_NONZERO, policy)
    second = after(R.OUT_OF_MEMORY, policy, History(first.failures, first.first_failed_at))
    third = after(R.DISK_FULL, policy, History(second.failures, second.first_failed_at))
    assert [first.again, second.again, third.again] == [True, True, False]
    assert third.why is Why.RESTARTS_USED_UP


def test_a_listed_exit_code_is_an_interruption() -> None:
    policy = Policy(recover_on_exit_codes=frozenset({75}))
    again = after(R.EXIT_NONZERO, policy, exit_code=75)
    assert again.again
    assert again.event is RetryEvent.INTERRUPTION
    assert "errors" not in again.failures
    assert not after(R.EXIT_NONZERO, policy, exit_code=1).again
    assert after(R.EXIT_NONZERO, policy).event is RetryEvent.ERROR


@pytest.mark.parametrize("reason", [R.NODE_LOST, R.NODE_REBOOTED])
def test_stop_means_no_new_attempt_after_silence(reason: EndReason) -> None:
    decision = after(reason, Policy(action=Action.STOP))
    assert (decision.again, decision.why) == (False, Why.STOP_ON_DISCONNECT)


def test_stop_does_not_speak_of_other_interruptions() -> None:
    assert after(R.PREEMPTED, Policy(action=Action.STOP)).again


def test_the_tenant_can_do_without_failover() -> None:
    for policy in (Policy(strategy=Strategy.NONE), Policy(on_events=frozenset({"no-capacity"}))):
        assert after(R.NODE_LOST, policy).why is Why.EVENT_NOT_WANTED


def test_the_duration_counts_from_the_first_failure() -> None:
    policy = Policy(duration=timedelta(hours=1))
    assert after(R.NODE_LOST, policy, History(first_failed_at=NOW - timedelta(hours=1))).again
    late = after(R.NODE_LOST, policy, History(first_failed_at=NOW - timedelta(hours=1, seconds=1)))
    assert (late.again, late.why) == (False, Why.DURATION_OVER)


def test_back_off_begins_with_the_second_failure_for_the_same_reason() -> None:
    seconds = [delay(n).total_seconds() for n in range(1, 10)]
    assert seconds == [0, 5, 10, 20, 40, 80, 160, 300, 300]
    assert delay(10_000) == timedelta(minutes=5)
    assert after(R.NODE_LOST, history=History({"preempted": 5}, NOW)).not_before == NOW
    assert after(R.NODE_LOST, history=History({"node_lost": 1}, NOW)).not_before == NOW + timedelta(seconds=5)


@pytest.mark.parametrize("reason", sorted(UNFIT))
def test_a_node_that_could_not_do_it_is_left_out_once(reason: EndReason) -> None:
    assert after(reason).excluded_nodes == ("nod_a",)
    assert after(reason, history=History(excluded_nodes=("nod_a",))).excluded_nodes == ("nod_a",)


def test_a_silent_node_is_not_left_out_and_the_list_stays_short() -> None:
    assert after(R.NODE_LOST).excluded_nodes == ()
    many = tuple(f"nod_{n}" for n in range(MOST_EXCLUDED))
    assert after(R.START_FAILED, history=History(excluded_nodes=many)).excluded_nodes[-1] == "nod_a"
    assert len(after(R.START_FAILED, history=History(excluded_nodes=many)).excluded_nodes) == MOST_EXCLUDED


def test_the_policy_is_read_from_the_task() -> None:
    needs: dict[str, Any] = {"strategy": "none", "max_restarts_on_errors": 2, "recover_on_exit_codes": (75,)}
    task = TaskSpec(run="true", retry_on=("error",), retry_for_s=60, on_disconnect="stop", resources=Resources(**needs))
    assert Policy.of(task) == Policy(frozenset({"error"}), timedelta(seconds=60), "none", 2, frozenset({75}), "stop")
