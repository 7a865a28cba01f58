"""Offers: published once per node, repriced by new versions, refused by service and by database."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, connection, transaction

from marketplace.models import Fingerprint, PriceVersion
from marketplace.selectors import offers as rows
from marketplace.services import offers
from portal.kit.errors import Conflict, InvalidInput, InvalidTransition
from portal.outbox.models import OutboxMessage
from tests.cast import THEN
from tests.factories.market import a_node

LATER = THEN + timedelta(hours=1)


@pytest.fixture
def node(sol):
    return a_node(sol, gpus=2, offered=False)


@pytest.fixture
def offer(node):
    return offers.publish(node=node, terms={"prices": {"core": "0.10", "card": "2.00"}}, by="usr", now=THEN)


def test_publishing_opens_a_price_version_per_sku(offer):
    assert offer.state == "published"
    assert sorted(offer.prices.values_list("sku", "unit_price_micro", "zone", "valid_from", "valid_until")) == [
        ("card:A100-80GB:fixed", 2_000_000, "east/a", THEN, None),
        ("core:-:fixed", 100_000, "east/a", THEN, None),
    ]
    assert OutboxMessage.objects.filter(topic="cycle.wanted").exists()


def test_one_open_offer_per_node(offer, node):
    with pytest.raises(Conflict) as refused:
        offers.publish(node=node, terms={"prices": {"core": "1"}}, by="usr", now=LATER)
    assert refused.value.code == "offer_exists"
    offers.withdraw(offer=offer, by="usr", now=LATER)
    assert offers.publish(node=node, terms={"prices": {"core": "1"}}, by="usr", now=LATER).state == "published"


def test_a_node_that_never_joined_offers_nothing(sol):
    with pytest.raises(Conflict):
        offers.publish(
            node=a_node(sol, state="invited", offered=False), terms={"prices": {"core": "1"}}, by="usr", now=THEN
        )


def test_repricing_is_a_new_version_from_now(offer):
    old = offer.prices.get(sku="core:-:fixed")
    offers.reprice(offer=offer, terms={"prices": {"core": "0.20"}}, by="usr", now=LATER)
    old.refresh_from_db()
    new = offer.prices.get(sku="core:-:fixed", valid_until=None)
    assert (old.unit_price_micro, old.valid_until) == (100_000, LATER)
    assert (new.unit_price_micro, new.valid_from) == (200_000, LATER)
    assert offer.prices.filter(sku="card:A100-80GB:fixed").count() == 1, "what is not named stays"
    (row,) = rows.live_rows(LATER)
    assert row.price("core")[:2] == (new.public_id, 200_000)
    (before,) = rows.live_rows(LATER - timedelta(microseconds=1))
    assert before.price("core")[1] == 100_000


def test_the_same_price_stays_the_same_version(offer):
    offers.reprice(offer=offer, terms={"prices": {"core": "0.1"}}, by="usr", now=LATER)
    assert offer.prices.filter(sku="core:-:fixed").count() == 1


def test_a_price_may_begin_later_and_only_one_may_wait(offer):
    start = LATER + timedelta(hours=5)
    offers.reprice(offer=offer, terms={"prices": {"core": "0.30"}}, by="usr", start=start, now=LATER)
    assert rows.live_rows(LATER)[0].price("core")[1] == 100_000
    assert rows.live_rows(start)[0].price("core")[1] == 300_000
    with pytest.raises(Conflict) as refused:
        offers.reprice(offer=offer, terms={"prices": {"core": "0.40"}}, by="usr", now=LATER)
    assert refused.value.code == "reprice_pending"
    with pytest.raises(InvalidInput):
        offers.reprice(offer=offer, terms={"prices": {"core": "1"}}, by="usr", start=THEN, now=LATER)


def test_other_terms_change_with_the_version_count(offer):
    changed = offers.reprice(
        offer=offer,
        terms={
            "windows": [{"from": "00:00", "to": "24:00", "factor": "0.5"}],
            "hours": [{"from": "00:00", "to": "01:00", "timezone": "UTC"}],
            "green_ratio": "0.9",
            "until": "2027-01-01T00:00:00Z",
            "refuse_past_due": False,
        },
        by="usr",
        now=LATER,
    )
    assert changed.version == 2
    (row,) = rows.live_rows(LATER)
    assert row.price("core")[1] == 50_000, "the window's factor"
    assert row.listed_prices["core:-:fixed"] == 100_000
    assert row.window["factor_ppm"] == 500_000
    assert (row.open_now, row.green_ratio_ppm, row.refuse_past_due) == (False, 900_000, False)


def test_the_currency_stays(offer):
    with pytest.raises(InvalidInput, match="publish another"):
        offers.reprice(offer=offer, terms={"currency": "USD"}, by="usr", now=LATER)


def test_pause_resume_withdraw(offer):
    assert offers.pause(offer=offer, by="usr", now=LATER).state == "paused"
    assert rows.live_rows(LATER) == []
    assert offers.resume(offer=offer, by="usr", now=LATER).state == "published"
    offers.withdraw(offer=offer, by="usr", now=LATER)
    assert set(offer.prices.values_list("valid_until", flat=True)) == {LATER}
    for deed in (offers.pause, offers.resume, offers.withdraw):
        with pytest.raises(InvalidTransition):
            deed(offer=offer, by="usr", now=LATER)
    with pytest.raises(Conflict):
        offers.reprice(offer=offer, terms={"prices": {"core": "1"}}, by="usr", now=LATER)


def test_an_offer_ends_at_its_until(sol):
    node = a_node(sol, terms={"until": (THEN + timedelta(days=1)).isoformat()})
    assert offers.expire(now=LATER) == 0
    assert offers.expire(now=THEN + timedelta(days=1)) == 1
    assert node.offers.get().state == "expired"


@pytest.mark.parametrize("price", ["-1", "1e12", "NaN", "0.1234567"])
def test_p37_services_refuse_absurd_prices(offer, price):
    with pytest.raises(InvalidInput):
        offers.reprice(offer=offer, terms={"prices": {"core": price}}, by="usr", now=LATER)
    assert offer.prices.count() == 2


@pytest.mark.parametrize("micro", [-1, 10**12 + 1, 10**18])
def test_p37_the_database_refuses_them_too(offer, micro):
    with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO marketplace_priceversion (public_id, offer_id, sku, resource, rental, unit_price_micro, currency, tiers, zone,"
            " provider, valid_from, created_by) VALUES ('prv_x', %s, 'x', 'core', 'fixed', %s, 'CNY', '[]', '', '', now(), '')",
            [offer.id, micro],
        )


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE marketplace_priceversion SET unit_price_micro = 1",
        "UPDATE marketplace_priceversion SET valid_until = now(), currency = 'USD'",
        "UPDATE marketplace_priceversion SET valid_until = NULL",
        "DELETE FROM marketplace_priceversion",
        "TRUNCATE marketplace_priceversion",
        "UPDATE marketplace_fingerprint SET state = 'accepted'",
        "DELETE FROM marketplace_fingerprint",
        "TRUNCATE marketplace_fingerprint",
    ],
)
def test_price_versions_and_fingerprints_refuse_change(offer, statement):
    before = (list(PriceVersion.objects.values()), list(Fingerprint.objects.values()))
    assert all(before)
    with (
        pytest.raises(Exception, match=r"append-only|permission denied"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(statement)
    assert (list(PriceVersion.objects.values()), list(Fingerprint.objects.values())) == before


def test_a_price_version_ends_once(offer):
    version = offer.prices.first()
    PriceVersion.objects.filter(id=version.id).update(valid_until=LATER)
    with pytest.raises(Exception, match="append-only"), transaction.atomic():
        PriceVersion.objects.filter(id=version.id).update(valid_until=LATER + timedelta(hours=1))
