"""The capacity map: published by changes, equal to a whole publication, unknown when nobody publishes, read by API and page."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.test import override_settings

from portal import clock, softstate
from scheduling.gateways import capacity as gateway
from scheduling.models import NodeState
from scheduling.selectors import capacity, kept, mapped
from scheduling.services import summaries
from scheduling.tasks import refresh
from tests.cast import Person
from tests.factories.market import a_node, a_zone
from tests.scheduling.services.works import NOW, heard

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _whole() -> Iterator[None]:
    summaries.forget()
    yield
    summaries.forget()
    kept.forget()


def test_only_what_changed_is_sent_and_the_map_is_that_of_a_whole_publication(sol: Person) -> None:
    nodes = [a_node(sol, region=region, gpus=gpus) for region, gpus in (("east", 0), ("east", 2), ("west", 0))]
    heard()
    first = summaries.publish(now=NOW)
    assert (first.whole, first.figures, first.nodes) == (True, 2 * 12, 3)
    again = summaries.publish(now=NOW)
    assert (again.whole, again.figures, again.nodes, again.size) == (False, 0, 0, 0)
    NodeState.objects.filter(node=nodes[0]).update(free_cores_milli=1_500)
    delta = summaries.publish(now=NOW)
    assert (delta.whole, delta.figures, delta.nodes) == (False, 2, 1), "cores and SCU of one zone"
    assert 0 < delta.size < first.size
    by_changes = mapped.zones(), mapped.nodes("east/a"), mapped.nodes("west/a")
    summaries.forget()
    assert summaries.publish(now=NOW).whole
    assert (mapped.zones(), mapped.nodes("east/a"), mapped.nodes("west/a")) == by_changes


def test_what_is_no_longer_for_sale_leaves_the_map(sol: Person) -> None:
    east, west = a_node(sol), a_node(sol, region="west")
    second = a_node(sol)
    heard()
    summaries.publish(now=NOW)
    west.offers.update(state="paused")
    second.offers.update(state="paused")
    gone = summaries.publish(now=NOW)
    assert not gone.whole
    assert mapped.nodes("west/a") == {}
    assert list(mapped.nodes("east/a")) == [east.public_id]
    assert list(mapped.zones() or {}) == ["east/a"]


def test_after_another_publisher_the_whole_map_is_sent_once(sol: Person) -> None:
    a_node(sol)
    heard()
    summaries.publish(now=NOW)
    softstate.put("map:stamp", "another", ttl_ms=5_000)
    taken = summaries.publish(now=NOW)
    assert taken.whole
    assert not summaries.publish(now=NOW).whole


def test_a_silent_node_is_not_free_and_an_old_map_is_unknown(sol: Person) -> None:
    node = a_node(sol)
    a_zone("north")
    heard()
    summaries.publish(now=NOW + timedelta(minutes=1))
    (east, north) = capacity.everything()["regions"]
    assert east["summary"]["nodes"] == {"all": 1, "heard": 0, "taking_work": 0}
    assert east["summary"]["cores"] == {"free": "0", "total": "8"}
    assert (north["summary"], north["reason"]) == (None, None), "nothing is for sale there"
    (row,) = capacity.nodes("east", "a")
    assert (row["node"], row["heard"], row["takes_work"]) == (node.public_id, False, True)
    softstate.forget("map:stamp")
    unknown = capacity.everything()
    assert not unknown["known"]
    assert unknown["total"] is None
    assert unknown["regions"][0]["reason"] == "summary_expired"


@override_settings(REDIS_URL="redis://127.0.0.1:9/0")
def test_without_the_store_nothing_is_known_and_nothing_breaks(sol: Person) -> None:
    a_node(sol)
    heard()
    softstate._client.cache_clear()
    try:
        fresh = [mapped._ZONES, mapped._NODES]
        for script in fresh:
            script._script = None
        sent = summaries.publish(now=NOW)
        assert sent.whole
        assert mapped.zones() is None
        assert mapped.nodes("east/a") == {}
    finally:
        softstate._client.cache_clear()
        for script in (mapped._ZONES, mapped._NODES, gateway._PUBLISH):
            script._script = None


def test_api_and_page_show_the_map(ada: Person, sol: Person) -> None:
    a_node(sol, gpus=2, now=clock.now())
    NodeState.objects.update(last_sync_at=clock.now() + timedelta(hours=1))  # heard for a while
    program = ada.program()
    assert program.get("/api/v1/capacity").json()["known"] is False
    assert "not known now" in ada.browser().get("/capacity").content.decode()
    refresh()
    shown: dict[str, Any] = program.get("/api/v1/capacity").json()
    assert shown["total"]["cores"] == {"free": "8", "total": "8"}
    (region,) = shown["regions"]
    (zone,) = region["zones"]
    assert (region["region"], zone["zone"], zone["summary"]["cards"]) == ("east", "a", {"free": 2, "total": 2})
    assert zone["summary"]["prices_from"][0].keys() == {"resource", "rental", "amount", "currency"}
    (node,) = program.get("/api/v1/capacity/east/a").json()["items"]
    assert node["free"]["cores"] == "8"
    assert program.get("/api/v1/capacity/east/zz").json()["code"] == "zone_not_found"
    assert program.get("/api/v1/capacity?colour=red").status_code == 422
    page = ada.browser().get("/capacity").content.decode()
    assert "2 × A100-80GB" in page
    assert '<svg class="world"' in page
