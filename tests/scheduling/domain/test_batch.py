"""Equal questions are answered once; what nobody could take even empty is not asked again."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from scheduling.domain.asleep import ASK_AGAIN, MOST, Asleep
from scheduling.domain.batch import Batch
from scheduling.domain.columns import HEARD, KEPT, Row, build
from scheduling.domain.placement import decide
from scheduling.domain.request import Path, Paths, Policy, Request
from scheduling.domain.summaries import levels

NOW = datetime(2026, 11, 30, tzinfo=UTC)
CHEAPEST = Policy(("cost", "time"), "cheapest")


def row(node: str, price: int, cores: int = 4) -> Row:
    return Row(
        node, f"o-{node}", node, "east", "a", "sol", "CNY", core_fixed=price, cores_milli=cores * 1_000, memory_mib=9_000, disk_gib=900,
        total_cores_milli=cores * 1_000, total_memory_mib=9_000, total_disk_gib=900, verified=True, scu_cpu={"custom": 1.0},
    )  # fmt: skip


def request(cores: int) -> Request:
    return Request("custom", cores * 1_000, 100, 1, (), "fixed", "CNY", 3_600, int(NOW.timestamp()))


def test_one_decision_serves_until_the_place_is_full() -> None:
    """As deciding each anew would choose."""
    table = build([row("a", 100), row("b", 200), row("c", 300)])
    batch = Batch(table, Paths({}), levels(table), explain=False)
    anew = build([row("a", 100), row("b", 200), row("c", 300)])
    for _ in range(12):
        found = batch.decide("one core", [request(1)], CHEAPEST)
        table.take(found.place, cores=1_000, memory=100, disk=1, cards=0)
        other = decide(request(1), CHEAPEST, anew, Paths({}))
        anew.take(other.place, cores=1_000, memory=100, disk=1, cards=0)
        assert found.node == other.node
    assert batch.decided == 3
    assert batch.decide("one core", [request(1)], CHEAPEST).row is None


def test_a_place_that_is_not_heard_or_kept_no_longer_holds() -> None:
    table = build([row("a", 100), row("b", 200)])
    batch = Batch(table, Paths({}), levels(table), explain=True)
    first = batch.decide("q", [request(1)], CHEAPEST)
    assert first.node == "a"
    table.mark(table.of_node("a"), KEPT, True)
    assert not batch.holds(first)
    assert batch.decide("q", [request(1)], CHEAPEST).node == "b"
    table.mark(table.of_node("a"), KEPT, False)
    table.mark(table.of_node("b"), HEARD, False)
    assert batch.decide("q", [request(1)], CHEAPEST).node == "a"


def test_with_data_a_decision_holds_until_its_way_is_a_twentieth_longer() -> None:
    table = build([row("a", 100), row("b", 200)])
    paths = Paths({("west", "east"): Path(20_000, 800, 0)})
    batch = Batch(table, paths, levels(table), explain=False)
    brings = replace(request(1), data=(("west", 100_000_000),))
    first = batch.decide("q", [brings], CHEAPEST)
    paths.take([("west", 4_000_000)], "east")
    assert batch.decide("q", [brings], CHEAPEST) is first
    paths.take([("west", 2_000_000)], "east")
    assert not batch.holds(first)
    assert batch.decide("q", [brings], CHEAPEST) is not first
    assert batch.decided == 2


def test_a_hopeless_question_sleeps_until_an_offer_changes() -> None:
    offers, others = object(), object()
    asleep = Asleep()
    assert asleep.reason("q", offers, NOW) is None
    asleep.note("q", {"reason": "cores_short"}, offers, NOW)
    assert asleep.reason("q", offers, NOW + timedelta(days=1)) == {"reason": "cores_short"}
    assert asleep.reason("q", others, NOW + ASK_AGAIN / 2) == {"reason": "cores_short"}
    assert asleep.reason("q", others, NOW + ASK_AGAIN) is None
    for number in range(MOST + 1):
        asleep.note(number, {}, offers, NOW)
    assert asleep.reason("q", offers, NOW) is None
