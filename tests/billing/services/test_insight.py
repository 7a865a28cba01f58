"""Insight: what is odd and which jobs are behind it, what costs most, what would have cost less, energy and carbon."""

from datetime import UTC, datetime, timedelta

import pytest

from billing.selectors import insight
from billing.selectors import usage as used
from billing.services import rollup, usage
from portal.kit.errors import NotFound
from tests.billing.books import a_fact, a_tenant

pytestmark = pytest.mark.django_db
START = datetime(2026, 10, 1, tzinfo=UTC)
POWER = {
    "power_mw": 400_000,
    "power_basis": "nameplate",
    "pue_milli": 1250,
    "grid_g_per_kwh": 400,
    "green_ratio_ppm": 500_000,
}


def day(tenant, number, hours, **values):
    """`hours` of one card on the n-th day of October."""
    known = {
        "attempt_ref": f"att_{tenant.id}_{number}", "job_ref": f"job_{number}", "job_name": f"day {number}",
        "started_at": START + timedelta(days=number - 1), "seconds": hours * 3600,
    }  # fmt: skip
    return a_fact(tenant, **(known | POWER | values))


@pytest.fixture
def tenant():
    """Two weeks of two hours a day, then a day of twenty hours; a cheaper place, spot, a failed attempt."""
    tenant = a_tenant()
    facts = [day(tenant, number, 2) for number in range(1, 15)]
    second = {"attempt_ref": "att_second", "job_ref": "job_15b", "job_name": "helper"}
    luna = {"unit_price_micro": 3_000_000, "provider_ref": "org_luna", "provider_name": "Luna", "zone": "west-1"}
    facts += [
        day(tenant, 15, 16, job_name="runaway"),
        day(tenant, 16, 4, started_at=START + timedelta(days=14, hours=17), **second),
        day(tenant, 17, 1, attempt_ref="att_cheap", project_ref="prj_2", **luna),
        day(
            tenant,
            18,
            1,
            attempt_ref="att_spot",
            unit_price_micro=1_000_000,
            sku="card:A100-80GB:spot",
            project_ref="prj_2",
        ),
        day(tenant, 19, 1, attempt_ref="att_oom", project_ref="prj_2"),
    ]
    usage.record_many(facts=facts, now=START + timedelta(days=20))
    usage.end_attempt(
        attempt_ref="att_oom", reason="out_of_memory", fault="tenant", billed=True, message="", ended_at=facts[-1].ended_at, now=facts[-1].ended_at
    )  # fmt: skip
    return tenant


def test_an_odd_day_is_found_with_the_jobs_behind_it(tenant):
    found = insight.of_month(tenant, "2026-10")
    (odd,) = found.found
    said = odd.wire()
    assert (said["since"], said["until"], said["resource"], said["project_name"]) == (
        "2026-10-15",
        "2026-10-15",
        "card",
        "Vision",
    )
    assert (said["usual_per_day"]["amount"], said["actual"]["amount"], said["excess"]["amount"]) == (
        "8.00",
        "80.00",
        "72.00",
    )
    assert [(job["name"], job["amount"]["amount"]) for job in said["jobs"]] == [
        ("runaway", "64.00"),
        ("helper", "16.00"),
    ]


def test_hot_jobs_savings_days_and_their_sums(tenant):
    said = insight.of_month(tenant, "2026-10").wire()
    total = sum(float(row["amount"]) for row in said["days"])
    assert len(said["days"]) == 31
    assert total == 14 * 8 + 80 + 3 + 1 + 4
    assert said["hot_jobs"][0]["name"] == "runaway"
    assert said["hot_jobs"][0]["share_ppm"] == 64 * 10**6 // 200
    kinds = {(row["kind"], row["where"]): row["saved"]["amount"] for row in said["savings"]}
    assert kinds["failed_work", "out_of_memory"] == "4.00"
    assert kinds["cheaper_place", "Luna, west-1"] == "49.00"  # 49 h at 4.00 instead of 3.00
    assert kinds["spot", "spot"] == "149.00"  # 49 h × 3.00 and 1 h × 2.00
    assert insight.table(tenant, "2026-10")[14] == ["2026-10-15", "80.00", "CNY", "0.0000", "20.0000"]


def test_energy_and_carbon_have_their_bases_and_survive_a_rebuild(tenant):
    said = insight.of_month(tenant, "2026-10").wire()["energy"]
    assert said == {
        "kwh": "25.500", "known_ppm": 1_000_000, "carbon_kg_location_based": "10.200", "carbon_kg_market_based": "5.100",
        "carbon_known_ppm": 1_000_000, "bases": ["nameplate × PUE"],
    }  # fmt: skip
    groups = {group.key: group for group in used.summary(tenant.id, "2026-10", "hardware")}
    assert groups["A100-80GB"].wire()["energy_kwh"] == "25.500"
    assert groups["A100-80GB"].wire()["green_ratio"] == "0.50"
    from django.db import connection

    from billing.models import BillingPeriod

    period = BillingPeriod.objects.get(organisation=tenant, month="2026-10")
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE billing_usagehour SET qty_us = qty_us + 1, energy_uwh = 0 WHERE organisation_id = %s", [tenant.id]
        )
    assert rollup.repair(period=period) > 0
    assert insight.of_month(tenant, "2026-10").wire()["energy"] == said


def test_usage_without_power_stays_unknown_and_an_empty_month_is_not_found():
    tenant = a_tenant()
    fact = a_fact(tenant)
    usage.record(fact=fact, now=fact.ended_at)
    said = insight.of_month(tenant, "2026-10").wire()
    assert (said["energy"]["known_ppm"], said["energy"]["bases"], said["anomalies"]) == (0, [], [])
    assert used.summary(tenant.id, "2026-10", "project")[0].wire()["energy_kwh"] is None
    with pytest.raises(NotFound):
        insight.of_month(tenant, "2026-09")
