"""What a month would have cost elsewhere, and by REST: insight, idle jobs, CSV."""

from datetime import date, timedelta

import pytest

from billing.services import rates, usage
from marketplace.services import references
from marketplace.services.references import Listing
from scheduling.selectors import insights
from tests.billing.books import OCTOBER, a_fact

pytestmark = pytest.mark.django_db
DAY = date(2026, 10, 20)


def listed(price="41.00", code="USD", market="Elsewhere"):
    rows = [
        Listing(name="eight", price=price, currency=code, card_model="A100-80GB", cards=8),
        Listing(name="one", price="9.00", currency=code, card_model="A100-80GB", cards=1),
        Listing(name="other", price="1.00", currency=code, card_model="L4", cards=1),
    ]
    references.load(
        market=market, listings=rows, source="a published list", licence="MIT", listed_on=date(2026, 9, 1), by="test", now=OCTOBER
    )  # fmt: skip


def used(person):
    fact = a_fact(person.organisation, seconds=8 * 3600, started_at=OCTOBER)
    core = a_fact(person.organisation, resource="core", attempt_ref="att_2", seconds=60)
    usage.record_many(facts=[fact, core], now=OCTOBER + timedelta(days=1))


def test_a_month_at_other_price_lists_only_where_a_stored_rate_says_how_to_compare(ada):
    used(ada)
    listed()
    listed(price="160.00", code="CNY", market="Nearby")
    (near,) = insights.elsewhere(ada.organisation, "2026-10", today=DAY)
    assert (near.market, near.here.text(), near.there.text(), near.approximate) == ("Nearby", "32.00", "72.00", False)
    rates.enter(
        day=DAY,
        base="USD",
        quote="CNY",
        rate="7.1",
        source="central bank",
        by="usr_1",
        now=OCTOBER + timedelta(days=20),
    )
    found = insights.elsewhere(ada.organisation, "2026-10", today=DAY)
    said = {row.market: row.wire() for row in found}
    assert said["Elsewhere"]["there"] == {"amount": "291.10", "currency": "CNY"}  # 8 h × 41.00 / 8 × 7.1
    assert (said["Elsewhere"]["approximate"], said["Elsewhere"]["licence"]) == (True, "MIT")
    assert said["Elsewhere"]["items"][0]["listing"] == "eight"


def test_insight_by_rest(ada, cleo):
    used(ada)
    web = ada.web()
    for part in ("insight", "elsewhere", "idle"):
        answer = web.get(f"/api/v1/usage/{part}?month=2026-10")
        assert answer.status_code == 200, answer.content
        assert web.get(f"/api/v1/usage/{part}?month=soon").status_code == 422
        assert cleo.web().get(f"/api/v1/usage/{part}?month=2026-10").status_code == 404
    text = web.get("/api/v1/usage.csv?month=2026-10&group_by=hardware").content.decode("utf-8-sig")
    header, first = text.split("\r\n")[:2]
    assert header.startswith("key,name,resource")
    assert "core" in first
    assert cleo.web().get("/api/v1/usage.csv?month=2026-10").status_code == 404
