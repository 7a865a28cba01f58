"""Between organisations the smallest dominant share goes first; inside one priority, then age, then id."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from scheduling.domain.fairness import Held, dominant_share
from scheduling.domain.order import Turns, Waiting, order, position

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


def test_weights_divide_the_share() -> None:
    queue = [waits(i, 1 + i % 2) for i in range(12)]
    turns_of = order(queue, {}, ALL, {2: 3_000})
    assert [item.organisation for item in turns_of[:8]].count(2) == 6


def test_a_refused_turn_keeps_the_share_and_blocks_nobody() -> None:
    queue = [waits(i) for i in range(3)] + [waits(10 + i, 2) for i in range(3)]
    taken = Turns(queue, {}, ALL)
    seen = []
    for item in taken:
        seen.append(item.task)
        if item.organisation == 2:
            taken.served(item)
    assert seen == [0, 10, 1, 2, 11, 12]
    assert sorted(item.task for item in Turns(queue, {}, ALL).likely()) == sorted(seen)


def test_what_was_served_elsewhere_takes_no_turn() -> None:
    taken = Turns([waits(1), waits(2), waits(3, 2)], {}, ALL)
    taken.drop({1, 3})
    assert [item.task for item in taken] == [2]


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(0, 2)), min_size=6, max_size=60),
    st.dictionaries(st.integers(1, 3), st.sampled_from([500, 1_000, 2_000, 4_000])),
)
def test_progressive_filling_is_fair(rows: list[tuple[int, int, int]], weights: dict[int, int]) -> None:
    """Sharing incentive and no envy, as far as whole tasks allow: whoever waits holds at most one task more than its weighted equal."""
    capacity = Held(cores_milli=20_000, cards=20)
    queue = [waits(i, organisation, cores=c * 1_000, cards=g) for i, (organisation, c, g) in enumerate(rows)]
    taken, held, free = Turns(queue, {}, capacity, weights), {o: Held() for o in (1, 2, 3)}, capacity
    starved: set[int] = set()
    for item in taken:
        if item.needs.cores_milli > free.cores_milli or item.needs.cards > free.cards:
            starved.add(item.organisation)
            continue
        if not starved:
            share = {o: dominant_share(held[o], capacity) * 1_000 / weights.get(o, 1_000) for o in held}
            waiting = {other.organisation for other in queue if other.task >= 0}
            mine = share[item.organisation]
            assert all(mine <= share[o] + 1e-9 for o in waiting if any(q.organisation == o for q in _left(taken)))
        taken.served(item)
        held[item.organisation] = held[item.organisation] + item.needs
        free = free - item.needs


def _left(turns_: Turns) -> list[Waiting]:
    return [item for line in turns_._lines.values() for item in line]
