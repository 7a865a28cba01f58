"""Between organisations the smallest dominant share goes first; inside one priority, then age, then id."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from scheduling.domain.fairness import Held, dominant_share
from scheduling.domain.order import Waiting, order, position

THEN = datetime(2026, 11, 30, tzinfo=UTC)
ALL = Held(100_000, 100_000, 1_000, 10)


def waits(
    task: int, organisation: int = 1, priority: int = 5, minutes: int = 0, cores: int = 1_000, cards: int = 0
) -> Waiting:
    return Waiting(
        task, organisation, priority, THEN + timedelta(minutes=minutes), Held(cores_milli=cores, cards=cards)
    )


def turns(*queue: Waiting, holding: dict[int, Held] | None = None) -> list[int]:
    return [item.task for item in order(queue, holding or {}, ALL)]


def test_inside_an_organisation_priority_then_age_then_id() -> None:
    assert turns(waits(1), waits(2, priority=9, minutes=5), waits(3, minutes=-1), waits(4)) == [2, 3, 1, 4]


def test_who_holds_least_goes_first_and_turns_alternate() -> None:
    queue = [waits(1), waits(2), waits(3), waits(4, 2), waits(5, 2)]
    assert turns(*queue) == [1, 4, 2, 5, 3]
    assert turns(*queue, holding={1: Held(cores_milli=50_000)}) == [4, 5, 1, 2, 3]


def test_the_dominant_resource_counts() -> None:
    assert dominant_share(Held(cores_milli=10_000, cards=5), ALL) == 0.5
    assert dominant_share(Held(cores_milli=10_000, cards=5), Held(cores_milli=100_000)) == 0.1
    assert dominant_share(Held(), Held()) == 0.0
    assert turns(
        waits(1, 1, cores=1), waits(2, 2, cores=1), holding={1: Held(cards=5), 2: Held(cores_milli=40_000)}
    ) == [2, 1]


def test_a_position_counts_from_one() -> None:
    served = order([waits(7), waits(8)], {}, ALL)
    assert (position(served, 7), position(served, 8), position(served, 9)) == (1, 2, None)


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 9), st.integers(0, 5)), max_size=40))
def test_everybody_gets_a_turn_whatever_order_they_come_in(rows: list[tuple[int, int, int]]) -> None:
    queue = [waits(i, organisation, priority, minutes) for i, (organisation, priority, minutes) in enumerate(rows)]
    assert sorted(turns(*queue)) == list(range(len(rows)))
    assert turns(*queue) == turns(*reversed(queue))
