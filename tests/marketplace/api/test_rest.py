"""The market over REST: places, offers, nodes; strangers see 404, wrong values 422, nothing changes."""

from datetime import timedelta

import pytest

from marketplace.models import Enrolment, Node, Offer, PriceVersion
from portal import clock
from tests.factories.market import a_fingerprint, a_node, a_zone, an_invited

API = "/api/v1"


@pytest.fixture
def node(sol):
    return a_node(sol, gpus=2, name="sunny", now=clock.now())


@pytest.fixture
def offer(node):
    return node.offers.get()


def post(person, path, body=None, **headers):
    return person.web().post(f"{API}{path}", body or {}, format="json", headers=headers)


def test_regions_and_zones_with_their_published_figures(ada, node):
    (region,) = ada.web().get(f"{API}/regions").json()["items"]
    assert (region["slug"], region["green_ratio"], region["zones"], region["nodes"]) == ("east", "0.6", ["a"], 1)
    assert region["coordinates"] == {"lat": 31.2, "lon": 121.5}
    (zone,) = ada.web().get(f"{API}/zones").json()["items"]
    assert (zone["pue"], zone["tier"], zone["failure_domain"]) == ("1.12", "centre", "east-a")
    assert ada.web().get(f"{API}/regions/east").json() == region
    assert ada.web().get(f"{API}/regions/nowhere").status_code == 404


def test_search_of_offers(ada, node):
    answer = (
        ada.web()
        .get(f"{API}/offers", {"filter": "gpu_name in [A100-80GB] num_gpus>=2", "order": "scu_per_price-"})
        .json()
    )
    (item,) = answer["items"]
    assert (item["node"]["name"], item["dph"], item["price_card_hour"], item["currency"]) == (
        "sunny",
        "4.10",
        "2.00",
        "CNY",
    )
    assert item["declared"]["green_ratio_of"] == "region"
    assert item["measured"]["cpu"]["tflops"] == "0.12"
    assert answer["applied_defaults"] == ["live", "verified", "bookable"]
    assert answer["hidden"] == {"live": 0, "verified": 0, "bookable": 0}
    assert (answer["relax"], answer["shape"], answer["next_cursor"]) == ([], {"cores": "1", "cards": 2}, None)


def test_an_empty_answer_says_what_to_relax(ada, node):
    answer = ada.web().get(f"{API}/offers", {"filter": "dph<0.01"}).json()
    assert answer["items"] == []
    assert {"clause": "dph<0.01", "count": 1} in answer["relax"]


def test_a_bad_filter_says_where(ada, db):
    answer = ada.web().get(f"{API}/offers", {"filter": "gpu_nam=A100"})
    assert (answer.status_code, answer["Content-Type"]) == (422, "application/problem+json")
    problem = answer.json()
    assert (problem["code"], problem["position"], problem["nearest"]) == ("bad_filter", 0, "gpu_name")
    assert problem["errors"][0]["column"] == 1


@pytest.mark.parametrize(
    "query",
    [
        {"order": "prize"},
        {"task_type": "dance"},
        {"cores": "-1"},
        {"cards": "x"},
        {"limit": "0"},
        {"limit": "201"},
        {"limit": "ten"},
        {"kind": "ghost"},
        {"colour": "green"},
    ],
)
def test_bad_queries(ada, query):
    assert ada.web().get(f"{API}/offers", query).status_code == 422


def test_paging_walks_all_offers_once(ada, sol):
    for _ in range(5):
        a_node(sol, now=clock.now(), capacity=False)
    client, seen, cursor = ada.web(), [], None
    for _ in range(3):
        page = client.get(f"{API}/offers", {"limit": 2, **({"cursor": cursor} if cursor else {})}).json()
        seen += [item["id"] for item in page["items"]]
        cursor = page["next_cursor"]
    assert cursor is None
    assert len(set(seen)) == len(seen) == 5


@pytest.mark.parametrize("cursor", ["nonsense", "%%%", "eyJ9", "LTE", "dHJ1ZQ"])
@pytest.mark.parametrize("path", ["/offers", "/nodes"])
def test_cursors_that_are_not_ours(ada, cursor, path):
    answer = ada.web().get(f"{API}{path}", {"cursor": cursor})
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_cursor")


def test_an_offer_shows_its_price_versions(ada, offer):
    shown = ada.web().get(f"{API}/offers/{offer.public_id}").json()
    assert {row["sku"]: row["price"] for row in shown["price_versions"]} == {
        "core:-:fixed": "0.10",
        "card:A100-80GB:fixed": "2.00",
    }
    assert ada.web().get(f"{API}/offers/ofr_nothing").status_code == 404


# --- providers ---------------------------------------------------------------------------------------------------------
def test_a_token_is_shown_once_with_the_line_to_paste(sol):
    a_zone()
    body = {
        "region": "east",
        "prices": {"core": "0.10"},
        "windows": [{"from": "22:00", "to": "07:00", "factor": "0.5"}],
    }
    answer = post(sol, "/nodes:invite", body, **{"Idempotency-Key": "k"})
    assert answer.status_code == 201, answer.content
    made = answer.json()
    assert made["token"] in made["line"]
    assert (made["region"], made["zone"]) == ("east", "a")
    assert Enrolment.objects.get().terms == {"prices": body["prices"], "windows": body["windows"]}
    shown = sol.web().get(f"{API}/nodes/{made['node']}").json()
    assert shown["state"] == "invited"
    assert made["token"] not in str(shown)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"region": "nowhere"},
        {"region": "east", "zone": "z"},
        {"region": "east", "prices": {"core": "-1"}},
        {"region": "east", "prices": {"core": "1e12"}},
        {"region": "east", "prices": {"core": "NaN"}},
        {"region": "east", "prices": {"core": "0.1234567"}},
        {"region": "east", "colour": "green"},
        {"region": "east", "name": "x" * 81},
        {"region": ["east"]},
    ],
)
def test_bad_invitations_make_nothing(sol, body):
    a_zone()
    assert post(sol, "/nodes:invite", body).status_code == 422
    assert not Node.objects.exists()


def test_a_region_of_several_zones_needs_one(sol):
    a_zone("east", "a")
    a_zone("east", "b")
    answer = post(sol, "/nodes:invite", {"region": "east"})
    assert answer.json()["errors"][0]["code"] == "missing"


def test_a_developer_invites_but_sets_no_prices(ada, ben):
    a_zone()
    assert post(ben, "/nodes:invite", {"region": "east"}).status_code == 201
    answer = post(ben, "/nodes:invite", {"region": "east", "prices": {"core": "1"}})
    assert (answer.status_code, answer.json()["deed"]) == (403, "offers.price")
    assert "Ada" in answer.json()["detail"], "it names who can grant the deed"


def test_unreadable_bodies(sol):
    client = sol.web()
    answer = client.post(f"{API}/nodes:invite", "{", content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")
    assert client.post(f"{API}/nodes:invite", "[]", content_type="application/json").status_code == 422
    assert client.post(f"{API}/nodes:invite", "a=1", content_type="text/plain").status_code == 415
    assert client.put(f"{API}/nodes:invite", {}, format="json").status_code == 405


def test_a_provider_drains_and_retires_by_id_or_name(sol, node):
    later = (clock.now() + timedelta(hours=1)).isoformat()
    assert post(sol, f"/nodes/{node.public_id}:drain", {"deadline": later}).json()["state"] == "draining"
    assert post(sol, "/nodes/sunny:undrain").json()["state"] in ("probing", "listed")
    assert post(sol, f"/nodes/{node.public_id}:self-test").status_code == 200
    node.refresh_from_db()
    assert node.wanted == ["self_test"]
    assert post(sol, f"/nodes/{node.public_id}:retire").json()["state"] == "retired"
    again = post(sol, f"/nodes/{node.public_id}:retire")
    assert (again.status_code, again.json()["code"]) == (409, "invalid_transition")


@pytest.mark.parametrize("body", [{"deadline": "soon"}, {"deadline": "2020-01-01T00:00:00Z"}, {"when": "now"}])
def test_bad_deadlines_drain_nothing(sol, node, body):
    assert post(sol, f"/nodes/{node.public_id}:drain", body).status_code == 422
    node.refresh_from_db()
    assert node.state == "listed"


@pytest.mark.parametrize("deed", ["drain", "undrain", "retire", "self-test", "fingerprint"])
def test_a_stranger_gets_404_and_nothing_changes(cleo, node, deed):
    assert post(cleo, f"/nodes/{node.public_id}:{deed}").status_code == 404
    assert cleo.web().get(f"{API}/nodes/{node.public_id}").status_code == 404
    assert cleo.web().get(f"{API}/nodes").json()["items"] == []
    node.refresh_from_db()
    assert (node.state, node.wanted) == ("listed", [])


def test_publish_reprice_pause_resume_withdraw(sol):
    node = a_node(sol, offered=False, name="new", now=clock.now())
    made = post(sol, "/offers", {"node": "new", "prices": {"core": "0.30"}, "green_ratio": "0.5"})
    assert made.status_code == 201, made.content
    offer = made.json()
    assert (offer["state"], offer["price_core_hour"], offer["green_ratio"]) == ("published", "0.30", "0.5")
    path = f"/offers/{offer['id']}"
    repriced = post(sol, f"{path}:reprice", {"prices": {"core": "0.40"}})
    assert repriced.json()["price_core_hour"] == "0.40"
    later = (clock.now() + timedelta(hours=1)).isoformat()
    waiting = post(sol, f"{path}:reprice", {"prices": {"core": "0.50"}, "from": later}).json()
    assert (waiting["price_core_hour"], len(waiting["price_versions"])) == ("0.40", 3)
    assert [post(sol, f"{path}:{deed}").json()["state"] for deed in ("pause", "resume", "withdraw")] == [
        "paused",
        "published",
        "withdrawn",
    ]
    assert post(sol, f"{path}:resume").status_code == 409
    assert node.offers.count() == 1


def test_repricing_twice_with_one_key_is_one_version(sol, offer):
    body = {"prices": {"core": "0.40"}}
    first = post(sol, f"/offers/{offer.public_id}:reprice", body, **{"Idempotency-Key": "k"})
    again = post(sol, f"/offers/{offer.public_id}:reprice", body, **{"Idempotency-Key": "k"})
    assert first.json() == again.json()
    assert PriceVersion.objects.filter(sku="core:-:fixed").count() == 2


@pytest.mark.parametrize("price", ["-1", "1000000000000", "1e12", "NaN", "0.1234567", 0.1, None])
def test_p37_absurd_prices_over_rest(sol, offer, price):
    answer = post(sol, f"/offers/{offer.public_id}:reprice", {"prices": {"core": price}})
    assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, "prices.core")
    assert offer.prices.count() == 2


def test_a_stranger_prices_nothing(cleo, offer):
    for deed, body in (("reprice", {"prices": {"core": "1"}}), ("pause", {}), ("resume", {}), ("withdraw", {})):
        assert post(cleo, f"/offers/{offer.public_id}:{deed}", body).status_code == 404
    assert post(cleo, "/offers", {"node": offer.node.public_id, "prices": {"core": "1"}}).status_code == 404
    offer.refresh_from_db()
    assert (offer.state, Offer.objects.count(), offer.prices.count()) == ("published", 1, 2)


def test_measurements_are_open_to_tenants(ada, node):
    a_fingerprint(node, state="unstable", now=clock.now())
    rows = ada.web().get(f"{API}/nodes/{node.public_id}/fingerprints").json()["items"]
    assert [(row["state"], row["valid"]) for row in rows] == [("unstable", False), ("accepted", True)]
    assert ada.web().get(f"{API}/nodes/nod_nothing/fingerprints").status_code == 404


def test_an_invited_node_shows_no_measurements(ada, sol):
    assert ada.web().get(f"{API}/nodes/{an_invited(sol).node.public_id}/fingerprints").status_code == 404
