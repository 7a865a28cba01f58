"""Usage: exactly once from many threads, endings set once, what is odd is kept, the proofs find what is wrong."""

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from billing.models import AttemptEnding, UsageAnomaly, UsageHour, UsageRecord
from billing.selectors import usage as used
from billing.services import rollup, usage
from portal.kit.errors import Conflict, InvalidInput, NotFound
from tests.billing.books import AFTER_OCTOBER, a_fact, a_tenant, october
from tests.billing.services.test_periods import in_threads

pytestmark = pytest.mark.django_db
START = datetime(2026, 10, 5, tzinfo=UTC)
NOW = START + timedelta(days=1)


def ended(attempt="att_1", reason="finished", fault="none", billed=True, at=NOW):
    return usage.end_attempt(
        attempt_ref=attempt, reason=reason, fault=fault, billed=billed, message="", ended_at=at, now=at
    )


@pytest.mark.django_db(transaction=True)
def test_p33_ten_thousand_reports_five_times_in_any_order_from_four_threads():
    tenant = a_tenant()
    facts = [
        a_fact(
            tenant,
            attempt_ref=f"att_{n % 20}",
            job_ref=f"job_{n % 5}",
            seq=n // 20,
            started_at=START + timedelta(minutes=n // 20),
        )
        for n in range(10_000)
    ]

    def deliver(thread):
        chance = random.Random(thread)
        mine = facts * (2 if thread == 0 else 1)
        chance.shuffle(mine)
        said = []
        while mine:
            batch, mine = mine[:500], mine[500:]
            said += [recorded.answer for recorded in usage.record_many(facts=batch, now=NOW)]
        return said

    answers = [answer for said in in_threads(4, deliver) for answer in said]
    assert (answers.count("stored"), answers.count("duplicate"), len(answers)) == (10_000, 40_000, 50_000)
    assert UsageRecord.objects.count() == 10_000
    assert sum(row.qty_us for row in UsageHour.objects.all()) == 10_000 * 60_000_000
    assert rollup.prove(now=NOW) == []
    assert october(tenant).total_minor == 66_667
    assert not UsageAnomaly.objects.exists()


def test_an_empty_batch_is_nothing():
    assert usage.record_many(facts=[], now=NOW) == []


def test_a_repetition_and_a_contradiction_inside_one_batch():
    fact = a_fact(a_tenant())
    answers = usage.record_many(facts=[fact, fact, replace(fact, qty_us=1)], now=NOW)
    assert [each.answer for each in answers] == ["stored", "duplicate", "conflict"]
    assert UsageRecord.objects.count() == UsageAnomaly.objects.count() == 1


def test_an_unknown_tenant_and_resource_are_kept_in_quarantine():
    tenant = a_tenant()
    facts = [a_fact(999_999_999, attempt_ref="att_x"), a_fact(tenant, resource="gold", sku="gold:-:fixed")]
    assert [each.answer for each in usage.record_many(facts=facts, now=NOW)] == ["quarantined", "quarantined"]
    assert UsageRecord.objects.filter(state="quarantined").count() == 2
    assert not UsageHour.objects.exists()


@pytest.mark.parametrize("price", [-1, 10**12 + 1])
def test_p37_a_price_that_is_none_is_quarantined_not_billed(price):
    said = usage.record(fact=a_fact(a_tenant(), unit_price_micro=price), now=NOW)
    assert (said.answer, said.oddity) == ("quarantined", "bad_price")


def test_an_old_fence_is_kept_for_audit_and_never_rated():
    tenant = a_tenant()
    usage.record(fact=a_fact(tenant, fence=3), now=NOW)
    old = a_fact(tenant, fence=2, seq=2, started_at=START + timedelta(minutes=1))
    assert usage.record(fact=old, now=NOW).answer == "rejected_stale"
    refused = a_fact(tenant, attempt_ref="att_2")
    assert usage.record(fact=refused, now=NOW, stale=True).answer == "rejected_stale"
    assert UsageRecord.objects.filter(state="rejected_stale").count() == 2
    assert used.metered_us(attempt_ref="att_2", resource="card") == 0
    assert used.job_cost("job_1").lines[0].qty_us == 60_000_000


def test_over_the_allocation_is_clipped_and_an_overlap_is_quarantined():
    tenant = a_tenant()
    usage.record(fact=a_fact(tenant, qty_us=120_000_000), now=NOW)
    assert UsageAnomaly.objects.get().kind == "over_allocation"
    over = a_fact(tenant, seq=2, started_at=START + timedelta(seconds=30))
    said = usage.record(fact=over, now=NOW)
    assert (said.answer, said.oddity) == ("quarantined", "overlap")
    assert used.metered_us(attempt_ref="att_1", resource="card") == 60_000_000


def test_an_ending_is_set_once():
    first = ended()
    assert ended() == first
    with pytest.raises(Conflict) as refused:
        ended(reason="exit_nonzero", fault="tenant")
    assert refused.value.code == "attempt_ended"
    assert AttemptEnding.objects.get().reason == "finished"


@pytest.mark.parametrize(
    ("reason", "fault", "billed"),
    [
        ("bored", "none", True),
        ("node_lost", "provider", True),
        ("finished", "none", False),
        ("exit_nonzero", "provider", True),
    ],
)
def test_an_ending_that_contradicts_the_table_is_refused(reason, fault, billed):
    with pytest.raises(InvalidInput):
        ended(reason=reason, fault=fault, billed=billed)
    assert not AttemptEnding.objects.exists()


def test_usage_after_the_end_of_an_attempt_is_clipped_to_it():
    tenant = a_tenant()
    ended(at=START + timedelta(seconds=40))
    said = usage.record(fact=a_fact(tenant), now=NOW)
    assert (said.answer, said.oddity) == ("stored", "past_the_end")
    assert used.metered_us(attempt_ref="att_1", resource="card") == 40_000_000


def test_transfer_is_a_line_of_its_own_per_gigabyte():
    tenant = a_tenant()
    fact = a_fact(
        tenant,
        resource="network_byte",
        seconds=0,
        ended_at=START,
        count_milli=0,
        qty_us=50_000_000_000,
        unit_price_micro=120_000,
    )
    assert usage.record(fact=fact, now=NOW).answer == "stored"
    (line,) = used.job_cost("job_1").lines
    assert (line.quantity, line.unit, line.unit_price, line.amount.text()) == ("50.0000", "GB", "0.12", "6.00")
    assert october(tenant).total_minor == 600


def test_p29_a_running_attempt_keeps_its_price_and_the_next_pays_the_new_one():
    tenant = a_tenant()
    for minute in range(3):  # the provider reprices to 2.00 after the first minute; the lease keeps its snapshot
        fact = a_fact(
            tenant,
            seq=minute,
            started_at=START + timedelta(minutes=20 * minute),
            seconds=1200,
            unit_price_micro=1_000_000,
        )
        usage.record(fact=fact, now=fact.ended_at)
    after = a_fact(
        tenant,
        attempt_ref="att_2",
        started_at=START + timedelta(hours=1),
        seconds=3600,
        unit_price_micro=2_000_000,
        price_version_ref="prv_2",
    )
    usage.record(fact=after, now=after.ended_at)
    lines = used.job_cost("job_1").lines
    assert [(line.price_version_ref, line.unit_price, line.amount.text()) for line in lines] == [
        ("prv_1", "1.00", "1.00"),
        ("prv_2", "2.00", "2.00"),
    ]


def test_p36_a_job_without_a_node_costs_nothing_and_a_cancelled_one_only_until_its_cancel():
    tenant = a_tenant()
    never = used.job_cost("job_never")
    assert (never.total.text(), never.lines, never.final) == ("0.00", (), False)
    fact = a_fact(tenant, seconds=900)
    usage.record(fact=fact, now=fact.ended_at)
    ended(reason="cancelled_by_tenant", fault="tenant", at=fact.ended_at)
    month_later = fact.ended_at + timedelta(days=30)
    beyond = a_fact(tenant, seq=2, started_at=fact.ended_at + timedelta(seconds=1), ended_at=month_later)
    assert usage.record(fact=beyond, now=month_later).answer == "rejected_stale"
    assert used.job_cost("job_1").total.text() == "1.00"


def test_the_daily_proof_finds_an_overlap():
    """Three facts whose seq do not touch, so that no neighbour is compared when they arrive."""
    tenant = a_tenant()
    for seq, minute in ((1, 0), (5, 10), (9, 5)):
        usage.record(fact=a_fact(tenant, seq=seq, started_at=START + timedelta(minutes=minute), seconds=420), now=NOW)
    found = rollup.prove(now=NOW)
    assert len(found) == 2
    assert all("overlaps" in text for text in found)


# --- what people read --------------------------------------------------------------------------------------------------


def test_sums_by_every_group(settings):
    tenant = a_tenant(period_timezone="Asia/Shanghai")
    facts = [
        a_fact(tenant, attempt_ref="att_1", seconds=7200, started_at=datetime(2026, 10, 4, 15, 0, tzinfo=UTC)),
        a_fact(tenant, attempt_ref="att_2", project_ref="prj_2", project_name="Sound", job_ref="job_2", seconds=3600),
        a_fact(
            tenant, attempt_ref="att_2", resource="core", seconds=3600, unit_price_micro=20_000, project_ref="prj_2"
        ),
        a_fact(tenant, attempt_ref="att_3", seconds=3600, department="", node_ref="nod_2"),
    ]
    usage.record_many(facts=facts, now=NOW)
    ended("att_3", reason="node_lost", fault="provider", billed=False)

    def sums(group):
        found = used.summary(tenant.id, "2026-10", group)
        return {(each.key, each.resource): (each.quantity, each.amount.text(), each.billed_us) for each in found}

    hour = 3_600_000_000
    assert sums("project") == {
        ("prj_1", "card"): ("3.0000", "8.00", 2 * hour),
        ("prj_2", "card"): ("1.0000", "4.00", hour),
        ("prj_2", "core"): ("1.0000", "0.02", hour),
    }
    assert sums("department")["", "card"] == ("1.0000", "0.00", 0)
    assert sums("day") == {
        ("2026-10-04T00:00", "card"): ("1.0000", "4.00", hour),
        ("2026-10-05T00:00", "card"): ("3.0000", "8.00", 2 * hour),
        ("2026-10-05T00:00", "core"): ("1.0000", "0.02", hour),
    }
    assert sums("hour")["2026-10-04T23:00", "card"] == ("1.0000", "4.00", hour)
    for group in (*used.GROUPS, *used.TIMES):
        assert sum(each.qty_us for each in used.summary(tenant.id, "2026-10", group)) == 5 * hour
    with pytest.raises(InvalidInput):
        used.summary(tenant.id, "2026-10", "colour")
    with pytest.raises(NotFound):
        used.summary(tenant.id, "2026-09", "project")


def test_the_coming_invoice_is_the_invoice(settings):
    settings.IDLEWILD_TAX_PPM = 60_000
    tenant = a_tenant()
    assert used.upcoming(tenant.id, NOW) is None
    tiers = ((1, 4_000_000), (None, 2_000_000))
    for number in range(5):
        fact = a_fact(
            tenant,
            attempt_ref=f"att_{number}",
            job_ref=f"job_{number}",
            started_at=START + timedelta(hours=number),
            seconds=2345,
            tiers=tiers,
        )
        usage.record(fact=fact, now=fact.ended_at)
    ended("att_3", reason="node_lost", fault="provider", billed=False)
    coming = used.upcoming(tenant.id, NOW)
    jobs = [used.job_cost(f"job_{number}") for number in range(5)]
    assert sum(line.qty_us for job in jobs for line in job.lines) == sum(line.qty_us for line in coming.lines)
    assert not coming.wire()["final"]
    invoice = october(tenant)
    assert (coming.subtotal.minor, coming.tax.minor, coming.total.minor) == (
        invoice.subtotal_minor,
        invoice.tax_minor,
        invoice.total_minor,
    )
    assert used.job_cost("job_3").final
    assert [line.unbilled_reason for line in used.job_cost("job_3").lines] == ["node_lost"]
    assert used.records(tenant.id, job_ref="job_3", month="2026-10").count() == 1
    assert used.anomalies(tenant.id).count() == used.anomalies().count() == 0
    assert invoice.period.ends_at < AFTER_OCTOBER
