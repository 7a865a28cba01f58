"""The demo market: real places, listed prices, people, four tokens that trade against one another, an issued invoice of last month."""

from datetime import UTC, datetime, timedelta

import pytest

from billing.models import Invoice, UsageRecord
from billing.services.invoices import verify
from marketplace.models import Node, ReferencePrice, Region, Zone
from marketplace.selectors import offers
from marketplace.services import nodes
from portal.accounts.models import Organisation, User
from portal.demo import history, seed
from scheduling.models import Link
from tests.factories.hardware import SomeHardware, SomeReport, SomeSelfTest, cards

NOW = datetime(2026, 11, 30, 9, 0, tzinfo=UTC)


@pytest.fixture
def made(db):
    return seed.seed(now=NOW, password="correct horse battery")


def test_places_carry_published_figures_and_links_join_them_all(made):
    regions = Region.objects.count()
    assert regions >= 12
    assert Link.objects.count() == regions * (regions - 1)
    finland = Region.objects.get(slug="europe-north1")
    assert (finland.green_ratio_ppm, finland.carbon_g_per_kwh) == (980_000, 39)
    assert "2024" in finland.figures_source
    assert Zone.objects.filter(pue_milli=None).exists(), "an unknown PUE stays unknown"


def test_at_least_200_listings_with_source_and_licence_and_none_of_them_bookable(made):
    assert ReferencePrice.objects.count() >= 200
    assert set(ReferencePrice.objects.values_list("licence", flat=True)) == {"MIT"}
    assert offers.live_rows(NOW) == []
    found = offers.search(filter_text="kind=reference gpu_name=A100-80GB num_gpus=8", now=NOW)
    assert found.rows
    assert all(row["kind"] == "reference" for row in found.rows)


def test_people_can_sign_in_and_stand_in_a_tree(made, client):
    for email in (seed.TENANT, seed.PROVIDER, seed.OPERATOR):
        assert client.login(email=email, password="correct horse battery")
    tenant = Organisation.objects.get(slug="moss-research")
    assert tenant.parent.slug == "moss-group"
    assert {p.department for p in tenant.projects.exclude(slug="default")} == {row[2] for row in seed.PROJECTS}
    assert User.objects.get(email=seed.OPERATOR).is_operator
    assert User.objects.get(email=seed.TENANT).memberships.order_by("id").first().organisation == tenant


def test_four_tokens_become_four_offers_that_trade_price_green_and_transfer(made):
    assert [row["region"] for row in made] == list(seed.TERMS)
    hardware = SomeHardware(cores_milli=500, devices=cards(2, virtual=True))
    for row in made:
        node = nodes.enroll(token=row["token"], hardware=hardware, agent_version="1", boot_id="b", now=NOW).node
        nodes.on_inventory(
            node=node,
            hardware=hardware,
            agent_version="1",
            self_test=SomeSelfTest(),
            fingerprint=SomeReport(short=True),
            now=NOW,
        )
    rows = {row.region: row for row in offers.live_rows(NOW)}
    assert len(rows) == 4
    assert {row.currency for row in rows.values()} == {"CNY"}
    data = made[0]["region"]
    prices = {region: row.price("card", "fixed", "virtual")[1] for region, row in rows.items()}
    green = {region: row.green_ratio_ppm for region, row in rows.items()}
    assert min(prices, key=prices.get) != data, "elsewhere is cheaper than where the data lies"
    assert green[data] == min(green.values()), "where the data lies it is least green"
    assert max(green, key=green.get) != min(prices, key=prices.get), "the greenest is not the cheapest"
    demo = Node.objects.order_by("id").first()
    assert demo.zone.region.slug == data, "demo_key takes the first node's region"


def test_last_month_is_closed_and_its_invoice_recomputes(made):
    invoice = Invoice.objects.get(organisation__slug="moss-research")
    assert (invoice.period.month, invoice.state, invoice.currency) == ("2026-10", "open", "CNY")
    assert invoice.demo
    assert invoice.number
    assert verify(invoice).ok
    assert set(UsageRecord.objects.values_list("demo", flat=True)) == {True}
    lost = [line for line in invoice.lines.all() if "node_lost" in str(line.unbilled_reason)]
    assert lost
    assert all(line.amount_minor == 0 for line in lost)


def test_again_it_changes_nothing_but_renews_unused_tokens(made):
    before = (
        Organisation.objects.count(),
        Region.objects.count(),
        ReferencePrice.objects.count(),
        Invoice.objects.count(),
    )
    again = seed.seed(now=NOW + timedelta(hours=1), password="correct horse battery")
    assert before == (
        Organisation.objects.count(), Region.objects.count(), ReferencePrice.objects.count(), Invoice.objects.count()
    )  # fmt: skip
    assert len(again) == 4
    assert {row["token"] for row in again}.isdisjoint({row["token"] for row in made})
    assert Node.objects.filter(state="invited").count() == 4


@pytest.mark.parametrize(
    ("now", "month"),
    [
        (datetime(2026, 11, 30, 9, tzinfo=UTC), "2026-10"),
        (datetime(2026, 12, 2, 9, tzinfo=UTC), "2026-10"),  # November still waits for late usage
        (datetime(2026, 12, 3, 16, tzinfo=UTC), "2026-11"),
        (datetime(2027, 1, 1, 9, tzinfo=UTC), "2026-11"),
    ],
)
def test_the_newest_month_whose_grace_is_over(now, month):
    name, start, end = history.last_closable_month(now, "Asia/Shanghai")
    assert name == month
    assert start.hour == end.hour == 16, "midnight in Shanghai"


def test_nodes_that_joined_stay_in_the_list_without_a_token(made):
    nodes.enroll(token=made[1]["token"], hardware=SomeHardware(), agent_version="1", boot_id="b", now=NOW)
    again = seed.seed(now=NOW + timedelta(hours=1), password="correct horse battery")
    assert [row["region"] for row in again] == list(seed.TERMS)
    assert [bool(row["token"]) for row in again] == [True, False, True, True]
