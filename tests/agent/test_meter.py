"""Metering: whole cumulative counters, floored once, never past the deadline, never during a freeze."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent.meter import RunClock, allocation, counters
from agent.protocol import Resource, Resources

NODE = Resources(cores_milli=1500, memory_mib=1536, disk_mib=2048, devices=("virtual-0", "virtual-1"))


def quantities(ran_us: int, resources: Resources = NODE) -> dict[Resource, int]:
    return {c.resource: c.qty_us for c in counters(resources, ran_us)}


def test_one_second() -> None:
    assert quantities(1_000_000) == {
        Resource.CORE: 1_500_000,
        Resource.CARD: 2_000_000,
        Resource.MEMORY_GIB: 1_500_000,
        Resource.STORAGE_GIB: 2_000_000,
    }


def test_what_is_not_allocated_is_not_metered() -> None:
    assert set(allocation(Resources(500, 512, 1024))) == {Resource.CORE, Resource.MEMORY_GIB, Resource.STORAGE_GIB}


@given(st.integers(1, 10_000), st.lists(st.integers(0, 10**9), min_size=1, max_size=20))
def test_differences_add_up_to_the_floored_whole(cores_milli: int, spans: list[int]) -> None:
    """One rounding on the cumulative counter: however often it is reported, nothing is lost or gained."""
    resources = Resources(cores_milli, 1024, 1024)
    ran, before, total = 0, 0, 0
    for span in spans:
        ran += span
        now = quantities(ran, resources)[Resource.CORE]
        assert now >= before
        total += now - before
        before = now
    assert total == cores_milli * ran // 1000


def test_frozen_time_does_not_count() -> None:
    clock = RunClock()
    clock.start(100)
    clock.freeze(1100)
    assert (clock.ran_us(5000), clock.frozen_us(5000)) == (1000, 3900)
    clock.thaw(6100)
    clock.end(7100)
    assert (clock.ran_us(99_999), clock.frozen_us(99_999)) == (2000, 5000)


def test_time_past_the_deadline_is_not_proven() -> None:
    """The supervisor was stopped and finds out late: what ran past the deadline is left out."""
    clock = RunClock()
    clock.start(0)
    assert clock.ran_us(10_000, overrun_us=4_000) == 6_000
    clock.freeze(10_000, overrun_us=4_000)
    assert clock.ran_us(20_000) == 6_000
    never = RunClock()
    never.start(0)
    never.end(1_000, overrun_us=5_000)
    assert never.ran_us(2_000) == 0


def test_a_clock_that_never_started() -> None:
    clock = RunClock()
    clock.freeze(5)
    clock.thaw(6)
    clock.end(7)
    assert (clock.ran_us(8), clock.frozen_us(8)) == (0, 0)


def test_starting_twice_and_freezing_twice_count_once() -> None:
    clock = RunClock()
    clock.start(0)
    clock.start(50)
    clock.freeze(100)
    clock.freeze(200)
    clock.thaw(300)
    clock.thaw(400)
    clock.end(500)
    assert (clock.ran_us(600), clock.frozen_us(600)) == (300, 200)
    frozen_at_the_end = RunClock()
    frozen_at_the_end.start(0)
    frozen_at_the_end.freeze(10)
    frozen_at_the_end.end(30)
    assert (frozen_at_the_end.ran_us(50), frozen_at_the_end.frozen_us(50)) == (10, 20)


@given(st.lists(st.tuples(st.sampled_from(["start", "freeze", "thaw", "end"]), st.integers(0, 1000)), max_size=30))
def test_never_more_than_the_wall(acts: list[tuple[str, int]]) -> None:
    clock, now, before = RunClock(), 0, 0
    for act, span in acts:
        now += span
        getattr(clock, act)(now)
        ran = clock.ran_us(now)
        assert before <= ran
        assert ran + clock.frozen_us(now) <= now
        before = ran
