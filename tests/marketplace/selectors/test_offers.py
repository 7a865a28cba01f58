"""Rows of the snapshot, and the search of the market."""

from datetime import date, timedelta

import pytest

from marketplace.selectors import offers
from marketplace.services import nodes
from marketplace.services import offers as services
from marketplace.services.references import Listing, load
from portal.accounts.services import organisations
from portal.kit.errors import InvalidInput, NotFound
from tests.cast import THEN
from tests.factories.market import a_fingerprint, a_link, a_node

NOW = THEN + timedelta(hours=1)


def found(text="", **how):
    return [row["row"].node_name for row in offers.search(filter_text=text, now=NOW, **how).rows]


@pytest.fixture
def market(sol):
    """Three nodes: a cheap one without cards, a green one with two, a dear one at the edge."""
    a_node(sol, name="cheap", prices={"core": "0.05"})
    a_node(
        sol, name="green", gpus=2, region="north", prices={"core": "0.10", "card": "2"}, terms={"green_ratio": "0.99"}
    )
    a_node(sol, name="dear", gpus=4, region="west", prices={"core": "0.50", "card": "9"}, terms={"spot_factor": "0.5"})


def test_a_row_tells_what_placement_needs(sol):
    node = a_node(sol, gpus=2, isolation="bwrap")
    (row,) = offers.live_rows(NOW)
    assert (row.node, row.region, row.zone, row.pue_milli, row.isolation) == (
        node.public_id,
        "east",
        "a",
        1120,
        "bwrap",
    )
    assert (row.cores_milli, row.card_count, row.cards[0].model, row.cards[0].local_ids) == (
        8000,
        2,
        "A100-80GB",
        ("GPU-0", "GPU-1"),
    )
    assert (row.green_ratio_ppm, row.green_origin) == (600_000, "region")
    assert row.bookable
    assert row.price("core")[1:] == (100_000, ())
    assert row.price("core", "spot") is None
    assert row.scu("training", cores_milli=4000) == pytest.approx(row.scu("training", cores_milli=8000) / 2)


@pytest.mark.parametrize("how", ["draining", "paused", "suspended", "probing"])
def test_what_is_not_for_sale_has_no_row(sol, how):
    node = a_node(sol, state="probing" if how == "probing" else "listed")
    if how == "draining":
        nodes.drain(node=node, by="usr", now=NOW)
    elif how == "paused":
        services.pause(offer=node.offers.get(), by="usr", now=NOW)
    elif how == "suspended":
        organisations.suspend(organisation=sol.organisation, by="usr", reason="", now=NOW)
    assert offers.live_rows(NOW) == []


def test_the_newest_valid_measurement_of_this_hardware_counts(sol):
    node = a_node(sol)
    newer = a_fingerprint(node, now=NOW)
    assert offers.live_rows(NOW)[0].measured.public_id == newer.public_id
    a_fingerprint(node, now=NOW + timedelta(minutes=1), state="unstable")
    assert offers.live_rows(NOW + timedelta(minutes=2))[0].measured.public_id == newer.public_id
    assert offers.live_rows(NOW + timedelta(days=14))[0].measured is None
    node.hardware_hash = "e" * 64
    node.save()
    assert offers.live_rows(NOW)[0].measured is None


def test_the_cheapest_first_and_other_orders(market):
    assert found() == ["cheap", "green", "dear"]
    assert found(order=["green_ratio-"]) == ["green", "cheap", "dear"]
    assert found(order=["num_gpus-", "dph"]) == ["dear", "green", "cheap"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("num_gpus>=2", ["green", "dear"]),
        ("gpu_name=A100-80GB dph<5", ["green"]),
        ("price_card_hour>=9 price_card_hour<=9", ["dear"]),
        ("price_core_hour<0.1", ["cheap"]),
        ("spot_dph>0", ["dear"]),
        ("region in [east,west]", ["cheap", "dear"]),
        ("green_ratio>98%", ["green"]),
        ("provider=sol-power", ["cheap", "green", "dear"]),
        ('provider="Sol Power" num_gpus=0', ["cheap"]),
        (
            "cpu_cores=8 cpu_ram=32 disk_space=200 cpu_arch=x86_64 engine=agent executor=bwrap isolation=full",
            ["cheap", "green", "dear"],
        ),
        (
            "lease_class=tolerant virtual=false tier=centre pue=1.12 python>=3.11 currency=CNY",
            ["cheap", "green", "dear"],
        ),
        ("duration>1d fingerprint_age<1d window_open=true", ["cheap", "green", "dear"]),
        ("reliability>0.9", []),
        ("reliability_samples=0", ["cheap", "green", "dear"]),
        ("scu>0 scu_per_price>0 inet_up>1Gbps", ["cheap", "green", "dear"]),
    ],
)
def test_every_field_can_be_asked_for(market, text, names):
    assert found(text) == names


def test_the_price_is_that_of_the_asked_shape(market):
    rows = offers.search(filter_text="num_gpus>=2", now=NOW, cores_milli=4000).rows
    assert [str(row["dph"]) for row in rows] == ["22/5", "20"], "2 cards and 4 cores"
    rows = offers.search(now=NOW, cores_milli=4000, cards=1).rows
    assert [row["dph"] for row in rows if row["row"].node_name == "cheap"] == [None], "it sells no card"


def test_distances_come_from_configured_links(market):
    a_link("east", "north", rtt_ms=12)
    assert found("rtt_ms<=12", origin="east") == ["cheap", "green"]
    assert found("rtt_ms<=12") == [], "unknown without a place to measure from"


def test_defaults_hide_and_say_how_much(sol, market):
    a_node(sol, name="unmeasured", measured=False)
    a_node(sol, name="draining", state="draining")
    a_node(sol, name="closed", terms={"hours": [{"from": "01:00", "to": "02:00", "timezone": "UTC"}]})
    load_reference()
    result = offers.search(now=NOW)
    assert result.applied_defaults == ("live", "verified", "bookable")
    assert result.hidden == {"live": 1, "verified": 1, "bookable": 2}
    assert "closed" in found("window_open=false")
    assert len(found("verified=false")) == 1
    assert len(offers.search(now=NOW, no_default=True).rows) == 7


def test_relax_when_nothing_is_left(market):
    result = offers.search(filter_text="num_gpus>=2 dph<5 green_ratio>=0.5 region=west", now=NOW)
    assert result.rows == []
    assert dict(result.relax)["region=west"] == 1


def test_reference_prices_stand_apart(market):
    load_reference()
    (row,) = offers.search(filter_text="kind=reference", now=NOW).rows
    assert (row["kind"], row["dph"], row["price_card_hour"]) == ("reference", 8, 4)
    assert all(row.node for row in offers.live_rows(NOW)), "never in the snapshot"


def load_reference():
    listing = Listing(name="big", price="8", currency="USD", card_model="H100", cards=2, cores=48, memory_gib=256)
    assert (
        load(
            market="Elsewhere",
            listings=[listing],
            source="list",
            licence="MIT",
            listed_on=date(2025, 3, 7),
            by="usr",
            now=NOW,
        )
        == 1
    )
    assert (
        load(
            market="Elsewhere",
            listings=[listing],
            source="list",
            licence="MIT",
            listed_on=date(2025, 3, 7),
            by="usr",
            now=NOW,
        )
        == 0
    )


@pytest.mark.parametrize(
    "listing", [Listing(name="x", price="-1", currency="USD"), Listing(name="x", price="1", currency="XAU")]
)
def test_p37_an_import_refuses_absurd_prices(db, listing):
    with pytest.raises(InvalidInput):
        load(
            market="Elsewhere",
            listings=[listing],
            source="l",
            licence="MIT",
            listed_on=date(2025, 3, 7),
            by="usr",
            now=NOW,
        )


def test_ones_own_offers_in_every_state(sol, cleo, market):
    services.withdraw(offer=sol.organisation.nodes.get(name="cheap").offers.get(), by="usr", now=NOW)
    mine = offers.search(mine=True, viewer=sol.organisation, no_default=True, now=NOW)
    assert {row["row"].offer_state for row in mine.rows} == {"published", "withdrawn"}
    assert offers.search(mine=True, viewer=cleo.organisation, no_default=True, now=NOW).rows == []


def test_a_withdrawn_offer_is_seen_by_its_provider_only(sol, cleo):
    offer = a_node(sol).offers.get()
    assert offers.visible(offer.public_id, cleo.organisation, NOW).offer == offer.public_id
    services.withdraw(offer=offer, by="usr", now=NOW)
    assert offers.visible(offer.public_id, sol.organisation, NOW).offer_state == "withdrawn"
    for viewer in (cleo.organisation, None):
        with pytest.raises(NotFound):
            offers.visible(offer.public_id, viewer, NOW)
    with pytest.raises(NotFound):
        offers.of_provider(cleo.organisation, offer.public_id)


def test_the_number_of_queries_does_not_grow_with_the_market(sol, django_assert_max_num_queries):
    for _ in range(5):
        a_node(sol, gpus=1)
    with django_assert_max_num_queries(5):
        assert len(offers.live_rows(NOW)) == 5


def test_p22_forty_offers_and_a_filter_that_leaves_none(sol):
    """Each clause is named with what dropping it alone would give; the defaults say what they hide."""
    for n in range(40):
        a_node(
            sol,
            gpus=2 if n % 4 == 0 else 0,
            region="north" if n % 8 == 0 else "east",
            prices={"core": "1.00" if n == 0 else "0.10", "card": "2"},
            measured=n != 16,
            terms={"green_ratio": "0.9" if n in (0, 8, 16) else "0.1"},
            capacity=False,
        )
    result = offers.search(filter_text="num_gpus>=2 region=north price_core_hour<=0.05 green_ratio>=0.5", now=NOW)
    assert result.rows == []
    assert dict(result.relax) == {
        "num_gpus>=2": 0,
        "region=north": 0,
        "price_core_hour<=0.05": 2,  # nodes 0 and 8; node 16 is hidden by a default too
        "green_ratio>=0.5": 0,
        "live": 0,
        "verified": 0,
        "bookable": 0,
    }
    relaxed = offers.search(filter_text="num_gpus>=2 region=north green_ratio>=0.5", now=NOW)
    assert len(relaxed.rows) == 2
    assert relaxed.hidden == {"live": 0, "verified": 1, "bookable": 0}
