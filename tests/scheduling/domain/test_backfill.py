"""A planned start is the earliest that is certain; before it others use the node only if they end in time."""

from scheduling.domain.backfill import Promise, Running, earliest, promise
from scheduling.domain.fairness import Held

NOW = 1_000


def cores(count: int) -> Held:
    return Held(cores_milli=count * 1_000)


def test_it_starts_when_enough_must_have_ended() -> None:
    running = [Running("n", cores(2), 5_000), Running("n", cores(2), 3_000), Running("n", cores(4), 9_000)]
    assert earliest(cores(4), cores(4), running, NOW) == NOW
    assert earliest(cores(0), cores(2), running, NOW) == 3_000
    assert earliest(cores(0), cores(4), running, NOW) == 5_000
    assert earliest(cores(0), cores(9), running, NOW) is None
    assert earliest(cores(0), cores(1), [Running("n", cores(1), 10)], NOW) == NOW  # overdue


def test_the_earliest_node_that_nobody_else_waits_for() -> None:
    running = [Running("a", cores(8), 4_000), Running("b", cores(8), 3_000)]
    places = [("a", cores(0), cores(8)), ("b", cores(0), cores(8)), ("c", cores(0), cores(8))]
    assert promise(7, places, running, (), NOW) == Promise(7, "b", 3_000)
    assert promise(7, places, running, ("b",), NOW) == Promise(7, "a", 4_000)
    assert promise(7, places, running, ("a", "b"), NOW) is None


def test_who_may_use_it_until_then() -> None:
    promised = Promise(7, "n", 3_000)
    assert promised.admits(7, 99_999)
    assert promised.admits(8, 3_000)
    assert not promised.admits(8, 3_001)
