"""The market against the real portal: searching, inviting, publishing, repricing, draining."""

from collections.abc import Callable
from typing import Any

import pytest

from marketplace.models import Enrolment, Node, Offer, PriceVersion
from portal import clock
from scheduling.models import Job
from tests.client.conftest import Speaker
from tests.factories.market import a_node, a_zone

Speak = Callable[..., Speaker]


@pytest.fixture
def sols(live: Speak, sol: Any) -> Speaker:
    return live(sol)


def test_offers_are_found_sorted_and_explained(live: Speak, ada: Any, sol: Any) -> None:
    a_node(sol, gpus=2, name="oak", now=clock.now())
    a_node(sol, name="elm", prices={"core": "0.05"}, now=clock.now())
    command = live(ada)
    said = command("offers", "search", "-o", "price_core_hour-")
    assert said.exit == 0
    assert said.out.index("oak") < said.out.index("elm")
    assert "A100-80GB" in said.out
    assert [row["node"]["name"] for row in command("offers", "search", "num_gpus>=2", "--json").lines[0]["items"]] == [
        "oak"
    ]
    none = command("offers", "search", "num_gpus>=2 region=west")
    assert "oak" not in none.out
    assert "region=west" in none.out


@pytest.mark.parametrize("filter", ["num_gpu>=2", "num_gpus>=many", "num_gpus"])
def test_a_filter_that_cannot_be_read_is_200(live: Speak, ada: Any, filter: str) -> None:
    said = live(ada)("offers", "search", filter, "--json")
    assert said.exit == 200, said
    assert said.lines[-2]["error"]["code"] == "bad_filter"


def test_invite_prints_the_line_once(sols: Speaker) -> None:
    a_zone("east", "a")
    said = sols(
        "node",
        "invite",
        "--region",
        "east",
        "--zone",
        "a",
        "--name",
        "oak",
        "--price",
        "core=0.02,card=1.20",
        "--green",
        "0.8",
        "--window",
        "22:00-07:00*0.5",
    )
    assert said.exit == 0, said
    assert "enroll" in said.out
    assert Enrolment.objects.count() == 1
    assert sols("node", "invite", "--region", "nowhere").exit in {200, 209}
    assert sols("node", "invite", "--region", "east", "--zone", "a", "--green", "60").exit == 200
    assert Enrolment.objects.count() == 1


def test_a_nodes_life_by_name_and_by_id(sols: Speaker, sol: Any) -> None:
    node = a_node(sol, name="oak")
    assert "oak" in sols("node", "list").out
    assert "Example 9000" in sols("node", "show", "oak").out
    for deed, state in (("drain", "draining"), ("undrain", "probing"), ("retire", "retired")):
        said = sols("node", deed, node.public_id if deed == "drain" else "oak", "-y")
        assert said.exit == 0, said
        assert Node.objects.get(id=node.id).state == state
    assert sols("node", "undrain", node.public_id).exit == 209
    assert sols("node", "show", "nobody").exit == 2


def test_an_offers_life(sols: Speaker, sol: Any) -> None:
    a_node(sol, name="oak", offered=False)
    assert sols("offer", "publish", "oak", "--price", "core=0.02").exit == 0
    offer = Offer.objects.get()
    assert offer.public_id in sols("offer", "list").out
    assert sols("offer", "reprice", offer.public_id, "--price", "core=0.03").exit == 0
    assert PriceVersion.objects.filter(offer=offer, unit_price_micro=30_000).exists()
    for deed, state in (("pause", "paused"), ("resume", "published"), ("withdraw", "withdrawn")):
        assert sols("offer", deed, offer.public_id, "-y").exit == 0
        assert Offer.objects.get().state == state
    assert sols("offer", "resume", offer.public_id).exit == 209


@pytest.mark.parametrize("price", ["-1", "1e12", "NaN", "0.0000001", "much", "1000000000000"])
def test_a_bad_price_changes_nothing(sols: Speaker, sol: Any, price: str) -> None:
    """P37 by the command: offers, tokens, and the cap of a job."""
    node = a_node(sol, name="oak", offered=False)
    assert sols("offer", "publish", "oak", "--price", f"core={price}").exit == 200
    assert sols("node", "invite", "--region", "east", "--price", f"core={price}").exit == 200
    assert sols("run", "--max-price", price, "-y", "--", "true").exit == 200
    assert Offer.objects.count() == 0
    assert [row.id for row in Node.objects.all()] == [node.id]
    assert Job.objects.count() == 0


def test_a_strangers_nodes_and_offers_are_not_there(live: Speak, sol: Any, cleo: Any) -> None:
    node = a_node(sol, name="oak")
    offer = Offer.objects.get()
    stranger = live(cleo)
    assert stranger("node", "show", node.public_id).exit == 209
    assert stranger("node", "drain", node.public_id).exit == 209
    assert stranger("node", "list", "--json").lines[0] == {"items": []}
    assert stranger("offer", "withdraw", offer.public_id, "-y").exit == 209
    assert stranger("offer", "reprice", offer.public_id, "--price", "core=9").exit == 209
    assert stranger("offer", "list", "--json").lines[0] == {"items": []}
    assert (Node.objects.get().state, Offer.objects.get().state) == ("listed", "published")


def test_a_key_without_the_deed_may_not_publish(sols: Speaker, sol: Any) -> None:
    a_node(sol, name="oak", offered=False)
    weak = sol.key(scopes=["work.read"]).text
    assert sols("offer", "publish", "oak", "--price", "core=1", IDLEWILD_KEY=weak).exit == 201
    assert sols("node", "drain", "oak", IDLEWILD_KEY=weak).exit == 201
    assert Offer.objects.count() == 0
