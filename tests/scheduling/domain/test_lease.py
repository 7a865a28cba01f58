"""The lease machine: all pairs, the fence before everything, usage opened and closed at most once."""

from datetime import UTC, datetime, timedelta
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.kit.errors import InvalidTransition, StaleFence
from scheduling.domain.lease import (
    ENDED,
    TABLE,
    LeaseEffect,
    LeaseEvent,
    LeaseEventKind,
    LeaseState,
    LeaseValue,
    Silence,
    Times,
    judge_silence,
    step,
)

NOW = datetime(2026, 11, 2, 8, 0, tzinfo=UTC)
LATER = NOW + timedelta(seconds=15)
S, E, X = LeaseState, LeaseEventKind, LeaseEffect

EXPECTED = {
    (S.PENDING, E.ACKNOWLEDGED): (S.ACTIVE, (X.OPEN_USAGE,)),
    (S.PENDING, E.LAPSED): (S.EXPIRED, (X.RETRY_TASK,)),
    (S.PENDING, E.REVOKED): (S.REVOKED, ()),
    (S.ACTIVE, E.RENEWED): (S.ACTIVE, ()),
    (S.ACTIVE, E.RELEASED): (S.RELEASED, (X.CLOSE_USAGE,)),
    (S.ACTIVE, E.LAPSED): (S.EXPIRED, (X.CLOSE_USAGE, X.RETRY_TASK)),
    (S.ACTIVE, E.REVOKED): (S.REVOKED, (X.CLOSE_USAGE, X.STOP_ATTEMPT)),
}


@pytest.mark.parametrize(("state", "kind"), list(product(LeaseState, LeaseEventKind)))
def test_every_pair_is_as_the_table_of_the_house_says(state: LeaseState, kind: LeaseEventKind) -> None:
    lease = LeaseValue(state, 7, NOW)
    event = LeaseEvent(kind, 7, NOW)
    if (state, kind) not in EXPECTED:
        with pytest.raises(InvalidTransition):
            step(lease, event)
        return
    after, effects = step(lease, event)
    assert (after.state, effects) == EXPECTED[state, kind]
    assert after.fence == 7


@pytest.mark.parametrize(("state", "kind", "fence"), list(product(LeaseState, LeaseEventKind, (6, 8))))
def test_another_fence_is_refused_before_anything_else(state: LeaseState, kind: LeaseEventKind, fence: int) -> None:
    with pytest.raises(StaleFence) as refusal:
        step(LeaseValue(state, 7, NOW), LeaseEvent(kind, fence, NOW))
    assert refusal.value.status == 410
    assert refusal.value.code == "FENCED"


def test_a_renewal_moves_the_expiry_and_never_back() -> None:
    lease = LeaseValue(S.ACTIVE, 1, LATER)
    assert step(lease, LeaseEvent(E.RENEWED, 1, NOW, NOW))[0].expires_at == LATER
    moved = step(lease, LeaseEvent(E.RENEWED, 1, NOW, LATER + timedelta(seconds=3)))[0]
    assert moved.expires_at == LATER + timedelta(seconds=3)


def test_ended_states_have_no_way_out() -> None:
    assert {state for state, _ in TABLE} == set(LeaseState) - ENDED


@given(st.lists(st.sampled_from(list(LeaseEventKind)), max_size=12))
def test_usage_opens_and_closes_at_most_once_and_in_order(kinds: list[LeaseEventKind]) -> None:
    lease, effects = LeaseValue(S.PENDING, 1, NOW), []
    for kind in kinds:
        try:
            lease, more = step(lease, LeaseEvent(kind, 1, NOW))
        except InvalidTransition:
            continue
        effects += [effect for effect in more if effect in {X.OPEN_USAGE, X.CLOSE_USAGE}]
    assert effects in ([], [X.OPEN_USAGE], [X.OPEN_USAGE, X.CLOSE_USAGE])


STANDARD = Times(ttl_ms=15_000, renew_ms=3_000, deadline_ms=13_000, lapse_ms=17_000, suspect_ms=7_000, accept_ms=3_000)


@pytest.mark.parametrize(
    ("overdue_ms", "grace_ms", "expected"),
    [
        (-1, 0, Silence.HEARD),
        (0, 0, Silence.UNREACHABLE),
        (1_999, 0, Silence.UNREACHABLE),
        (2_000, 0, Silence.LAPSED),
        (2_000, 120_000, Silence.UNREACHABLE),
        (121_999, 120_000, Silence.UNREACHABLE),
        (122_000, 120_000, Silence.LAPSED),
    ],
)
def test_silence_is_judged_by_ttl_margin_and_grace(overdue_ms: int, grace_ms: int, expected: Silence) -> None:
    assert judge_silence(overdue_ms=overdue_ms, grace_ms=grace_ms, times=STANDARD) is expected


def test_the_agents_deadline_is_always_before_the_servers_lapse() -> None:
    for grace in (0, 600_000):
        assert STANDARD.agent_deadline_ms(grace) < STANDARD.ttl_ms + STANDARD.margin_ms(grace)
