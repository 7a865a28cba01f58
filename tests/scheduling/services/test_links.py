"""Agents report links; placement follows what is believed of them, at once when it is bad."""

from datetime import timedelta
from typing import Any

import pytest

from marketplace.models import Node
from portal import softstate
from portal.outbox.models import OutboxMessage
from scheduling.domain.linkstate import Measured
from scheduling.gateways import linkstore
from scheduling.models import Attempt, Link
from scheduling.selectors import beliefs, snapshot
from scheduling.selectors import links as selectors
from scheduling.services import cycle, links
from tests.cast import Person
from tests.factories.market import a_link, a_node
from tests.scheduling.services.works import NOW, heard, submit

pytestmark = pytest.mark.django_db

KEY = "ab" * 16
GOOD, BAD = Measured(30_000, 0, 1_000), Measured(30_000, 50_000, 1_000)
PERIOD = timedelta(seconds=5)


@pytest.fixture
def nodes(sol: Person) -> dict[str, Node]:
    """Three regions, one node each; west is a little dearer than north, data lies in east."""
    made = {
        name: a_node(sol, region=name, name=name, prices={"core": price})
        for name, price in (("east", "0.90"), ("north", "0.10"), ("west", "0.101"))
    }
    for a in made:
        for b in made:
            if a != b:
                a_link(a, b, price=0, rtt_ms=30)
    heard()
    return made


def tell(node: Node, sequence: int, at: Any = NOW, *, beacon: bool = True, **seen: Measured) -> links.Plan:
    place = ("203.0.113.7", 7_070, KEY) if beacon else None
    return links.report(node=node, sequence=sequence, links=tuple(seen.items()), beacon=place, now=at)


def test_agents_are_told_the_beacons_of_other_regions(nodes: dict[str, Node]) -> None:
    first = tell(nodes["east"], 1)
    assert (first.targets, first.period_ms) == ((), 5_000)
    second = tell(nodes["north"], 1)
    assert [(one.region, one.host, one.port, one.key) for one in second.targets] == [
        ("east", "203.0.113.7", 7_070, KEY)
    ]
    assert second.period_ms == 5_000
    silent = tell(nodes["west"], 1, NOW + timedelta(seconds=21), beacon=False)
    assert (silent.targets, silent.period_ms) == ((), 60_000)


def test_two_agents_of_a_region_probe_and_the_others_are_asked_rarely(nodes: dict[str, Node], sol: Person) -> None:
    more = sorted((a_node(sol, region="east") for _ in range(3)), key=lambda node: node.public_id)
    tell(nodes["north"], 1)
    for node in more:
        tell(node, 1, beacon=False)
    plans = [tell(node, 2, beacon=False) for node in more]
    assert [len(plan.targets) for plan in plans] == [1, 1, 0]
    assert [plan.period_ms for plan in plans] == [5_000, 5_000, 300_000]


def test_bad_news_are_believed_at_once_and_wake_the_cycle(nodes: dict[str, Node]) -> None:
    tell(nodes["east"], 1, north=GOOD)
    assert beliefs.everything()["east", "north"].base_us == 30_000
    OutboxMessage.objects.all().delete()
    softstate.forget("count")
    tell(nodes["east"], 2, NOW + PERIOD, north=BAD)
    links.refresh(now=NOW + PERIOD)
    assert beliefs.everything()["east", "north"].base_us == pytest.approx(180_000)
    path = snapshot.paths(now=NOW + PERIOD).between("east", "north")
    assert path.rtt_us is not None
    assert path.rtt_us >= 180_000  # no better than the forecast
    assert path.mbps is not None
    assert path.mbps < 70


def test_the_cycle_is_woken_only_by_urgent_news(nodes: dict[str, Node]) -> None:
    tell(nodes["east"], 1, north=GOOD)
    woken = OutboxMessage.objects.filter(topic="cycle.wanted", key__startswith="links.").count()
    assert woken == 1
    tell(nodes["east"], 2, NOW + PERIOD, north=Measured(31_000, 0, 1_000))
    assert OutboxMessage.objects.filter(topic="cycle.wanted", key__startswith="links.").count() == woken


def test_an_older_report_changes_nothing(nodes: dict[str, Node]) -> None:
    tell(nodes["east"], 5, north=GOOD)
    tell(nodes["east"], 4, NOW + PERIOD, north=BAD)
    links.refresh(now=NOW + PERIOD)
    assert beliefs.everything()["east", "north"].base_us == 30_000


def test_unknown_regions_and_oneself_are_left_out(nodes: dict[str, Node]) -> None:
    tell(nodes["east"], 1, nowhere=GOOD, east=GOOD, west=GOOD)
    assert set(beliefs.everything()) == {("east", "west")}


def test_silence_makes_a_link_worse_each_period_and_then_it_expires(nodes: dict[str, Node]) -> None:
    tell(nodes["east"], 1, north=GOOD)
    fresh, later, gone = (snapshot.paths(now=NOW + timedelta(seconds=s)).between("east", "north") for s in (15, 25, 80))
    assert (fresh.rtt_us, fresh.mbps) == (30_000, 1_000)
    assert (later.rtt_us, later.mbps) == (67_500, 250)
    assert gone.expired
    assert gone.rtt_us is None


def test_an_expired_link_cannot_promise_a_latency(nodes: dict[str, Node], ada: Person) -> None:
    tell(nodes["east"], 1, north=GOOD)
    late = NOW + timedelta(seconds=80)
    heard(now=late)
    job = submit(
        ada, now=late, placement={"max_latency_ms": 100, "latency_to": "east", "regions": ["north"]}, max_price="5"
    )
    cycle.run(now=late)
    refused = job.tasks.get().waiting["tiers"][0]["refused"]
    assert "link_expired" in {one["reason"] for one in refused}


def test_new_work_leaves_a_link_that_turned_bad(nodes: dict[str, Node], ada: Person) -> None:
    data = [{"url": "https://example.org/x", "path": "x", "size_bytes": 2 * 10**9, "region": "east"}]
    wish = {"pick": "weights", "weights": {"cost": 0.5, "time": 0.5}, "regions": ["north", "west"]}
    tell(nodes["east"], 1, north=GOOD, west=GOOD)
    submit(ada, inputs=data, placement=wish)
    cycle.run(now=NOW)
    assert _region() == "north"
    tell(nodes["east"], 2, NOW + PERIOD, north=BAD, west=GOOD)
    links.refresh(now=NOW + PERIOD)
    heard(now=NOW + PERIOD)
    submit(ada, now=NOW + PERIOD, inputs=data, placement=wish)
    cycle.run(now=NOW + PERIOD)
    assert _region() == "west"


def test_transfers_under_way_make_a_link_longer_for_the_next(nodes: dict[str, Node], ada: Person) -> None:
    data = [{"url": "https://example.org/x", "path": "x", "size_bytes": 10**9, "region": "east"}]
    wish = {"pick": "fastest", "regions": ["north", "west"]}
    for _ in range(4):
        submit(ada, inputs=data, placement=wish)
    cycle.run(now=NOW)
    regions = sorted(Attempt.objects.values_list("node__zone__region__slug", flat=True))
    assert regions == ["north", "north", "west", "west"]
    assert snapshot.paths(now=NOW).staging_s([("east", 10**9)], "north") == pytest.approx(24)


def test_links_nobody_speaks_of_are_forgotten(nodes: dict[str, Node]) -> None:
    tell(nodes["east"], 1, north=GOOD)
    links.refresh(now=NOW + timedelta(minutes=11))
    assert beliefs.everything() == {}
    assert linkstore.database() == {}


def test_without_measurements_the_configured_figures_count(nodes: dict[str, Node]) -> None:
    path = snapshot.paths(now=NOW).between("east", "north")
    assert (path.rtt_us, path.mbps, path.expired) == (30_000, 1_000, False)


def _region() -> str:
    return str(Attempt.objects.order_by("-id").values_list("node__zone__region__slug", flat=True).first())


def test_a_link_shows_what_was_measured_and_what_counts(nodes: dict[str, Node]) -> None:
    row = Link.objects.get(source="east", target="north")
    assert selectors.shown(row, now=NOW)["believed"] is None
    tell(nodes["east"], 1, north=BAD)
    known = beliefs.everything()["east", "north"]
    shown = selectors.shown(row, now=NOW, belief=known)["believed"]
    assert (shown["state"], shown["rtt_ms"]) == ("fresh", 180.0)
    assert shown["measured"] == {"rtt_ms": 30.0, "loss_percent": 5.0, "bandwidth_mbps": 1_000}
    late = selectors.shown(row, now=NOW + timedelta(seconds=20), belief=known)["believed"]
    assert late["state"] == "late"
    gone = selectors.shown(row, now=NOW + timedelta(seconds=90), belief=known)["believed"]
    assert (gone["state"], gone["rtt_ms"], gone["bandwidth_mbps"]) == ("expired", None, None)
