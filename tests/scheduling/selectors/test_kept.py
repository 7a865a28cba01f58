"""The market that a process keeps: after any change, by whoever, it equals the market read whole."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import numpy as np
import psycopg
import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from marketplace.models import Device, Node, Offer
from marketplace.services import offers
from portal import clock
from scheduling.domain import columns, kernels
from scheduling.models import MarketChange, NodeState
from scheduling.selectors import kept, snapshot
from scheduling.services import engine
from tests.cast import Person
from tests.factories.market import a_node
from tests.scheduling.services.works import NOW, heard

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    kept.forget()
    yield
    kept.forget()


def same(now: Any = NOW) -> kept.Seen:
    """What is kept, checked against the market read whole."""
    found, whole = kept.current(now=now), kept.fresh(now=now)
    rows = [[table.current(i) for i in range(len(table))] for table in (found.table, whole.table)]
    assert rows[0] == rows[1]
    for name in columns.CHANGING:
        if name not in ("term", "profile"):
            assert np.array_equal(getattr(found.table, name), getattr(whole.table, name)), name
    assert all(mine.same(theirs) for mine, theirs in zip(found.tiers, whole.tiers, strict=True))
    assert found.live.keys() == whole.live.keys()
    assert found.capacity == whole.capacity
    return found


def free_of(seen: kept.Seen, node: Node) -> int:
    (row,) = seen.table.of_node(node.public_id)
    return int(seen.table.cores[row])


def test_taken_capacity_is_read_and_nothing_else(sol: Person) -> None:
    nodes = [a_node(sol, region=region) for region in ("east", "north", "west")]
    heard()
    assert len(same().table) == 3
    NodeState.objects.filter(node=nodes[1]).update(free_cores_milli=1_500)
    with CaptureQueriesContext(
        connection,
    ) as queries:
        seen = kept.current(now=NOW)
    assert free_of(seen, nodes[1]) == 1_500
    assert not any("marketplace_offer" in query["sql"] for query in queries), "offers did not change"
    assert free_of(same(), nodes[1]) == 1_500


def test_a_new_price_a_pause_a_node_more_and_a_lost_card_are_seen(sol: Person) -> None:
    first, second = a_node(sol), a_node(sol, gpus=2)
    heard()
    same()
    offer = Offer.objects.get(node=first)
    offers.reprice(offer=offer, terms={"prices": {"core": "0.77"}}, by="test", now=NOW)
    seen = same(NOW + timedelta(seconds=1))
    assert seen.live[first.public_id].price("core")[1] == 770_000  # type: ignore[index]
    Device.objects.filter(node=second).first().delete()  # type: ignore[union-attr]
    assert same(NOW + timedelta(seconds=1)).live[second.public_id].card_count == 1
    third = a_node(sol, region="west")
    heard()
    assert len(same(NOW + timedelta(seconds=2)).table) == 3
    offers.pause(offer=Offer.objects.get(node=third), by="test", now=NOW)
    assert len(same(NOW + timedelta(seconds=3)).table) == 2
    sol.organisation.__class__.objects.filter(id=sol.organisation.id).update(name="Sol of the South")
    assert same(NOW + timedelta(seconds=4)).live[first.public_id].provider_name == "Sol of the South"


def test_what_begins_by_itself_is_seen(sol: Person) -> None:
    node = a_node(sol, terms={"hours": [{"from": "22:00", "to": "07:00", "timezone": "UTC"}]})
    heard()
    closed = NOW.replace(hour=21, minute=59)
    heard(now=closed)
    assert not same(closed).live[node.public_id].open_now
    assert same(closed + timedelta(minutes=2)).live[node.public_id].open_now


def test_a_change_that_began_earlier_and_committed_later_is_not_lost(sol: Person) -> None:
    early, late = a_node(sol), a_node(sol, region="west")
    heard()
    same()
    settings = connection.settings_dict
    with psycopg.connect(
        dbname=settings["NAME"],
        user=settings["USER"],
        password=settings["PASSWORD"],
        host=settings["HOST"],
        port=settings["PORT"] or None,
    ) as other:
        other.execute("UPDATE scheduling_nodestate SET free_cores_milli = 100 WHERE node_id = %s", [early.id])
        NodeState.objects.filter(node=late).update(free_cores_milli=200)  # a later transaction, committed first
        seen = kept.current(now=NOW)
        assert (free_of(seen, early), free_of(seen, late)) == (8_000, 200)
        seen = kept.current(now=NOW)
        other.commit()
    assert free_of(same(), early) == 100


def test_a_caller_writes_into_columns_of_its_own(sol: Person) -> None:
    node = a_node(sol)
    heard()
    mine = kept.current(now=NOW)
    mine.table.close(node.public_id)
    mine.tiers.take(0, cores=8_000, memory=1, disk=1, cards=0)
    assert free_of(mine, node) == 0
    seen = same()
    assert free_of(seen, node) == 8_000
    assert seen.table.takes_work.all()


def test_a_silent_node_is_suspect_and_comes_back(sol: Person) -> None:
    a_node(sol)
    heard()
    assert same().table.alive.all()
    later = NOW + timedelta(minutes=1)
    assert not same(later).table.alive.any()
    heard(now=later)
    assert same(later).table.alive.all()


def test_rows_that_vanish_are_noticed(sol: Person) -> None:
    nodes = [a_node(sol), a_node(sol, region="west")]
    heard()
    same()
    NodeState.objects.filter(node=nodes[0]).delete()
    assert len(same().table) == 1


def test_inside_a_transaction_one_sees_ones_own_and_nothing_of_it_is_kept(sol: Person) -> None:
    node = a_node(sol)
    heard()
    same()
    with transaction.atomic():
        NodeState.objects.filter(node=node).update(free_cores_milli=1)
        assert int(snapshot.load(now=NOW).table.cores[0]) == 1
        transaction.set_rollback(True)
    assert int(snapshot.load(now=NOW).table.cores[0]) == 8_000


def test_every_few_minutes_all_is_read_anew_and_other_loops_can_be_handed_in(sol: Person) -> None:
    a_node(sol)
    heard()
    same()
    engine.expire(now=NOW)
    assert MarketChange.objects.exists(), "fresh notes stay"
    engine.expire(now=clock.now() + timedelta(hours=2))
    assert not MarketChange.objects.exists()
    heard(now=NOW + kept.WHOLE_EVERY)
    assert len(same(NOW + kept.WHOLE_EVERY).table) == 1
    kept.use(kernels.PLAIN)
    assert len(same().table) == 1
