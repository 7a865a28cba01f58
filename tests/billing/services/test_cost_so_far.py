"""What a tenant has cost so far is what its invoice will say, to the cent: at any moment, whatever was used, given, discounted or taken back."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from billing.models import CreditUse
from billing.selectors import usage as used
from billing.services import grants, invoices, usage
from billing.services import periods as closing
from portal.accounts.models import Organisation
from tests.billing.books import AFTER_OCTOBER, a_fact, a_tenant
from tests.billing.services.test_periods import in_threads

pytestmark = pytest.mark.django_db
START = datetime(2026, 10, 1, tzinfo=UTC)
TIERS = ((2, 4_000_000), (7, 3_333_333), (None, 1_234_567))
NIGHT = 500_000  # a daily window at half price


def random_usage(tenant: Organisation, chance: random.Random, jobs: int) -> None:
    """Jobs of every kind: plain and tiered, by day and in the night window, fixed and spot, discounted, lost, retried, over hours and providers."""
    for job in range(jobs):
        provider, resource = chance.choice(["org_uni", "org_sol"]), chance.choice(["core", "card", "network_byte"])
        rental, window = chance.choice(["fixed", "spot"]), chance.choice([1_000_000, NIGHT])
        price = chance.randint(1, 9_999_999) * window // 1_000_000
        for attempt in range(chance.randint(1, 2)):
            ref, at, count = (
                f"att_{tenant.id}_{job}_{attempt}",
                START + timedelta(seconds=chance.randint(0, 2_000_000)),
                chance.randint(1, 4_000),
            )
            terms = {
                "resource": resource, "sku": f"{resource}:-:{rental}", "unit_price_micro": price, "provider_ref": provider, "count_milli": count,
                "price_version_ref": f"prv_{job}", "job_ref": f"job_{tenant.id}_{job}", "project_ref": f"prj_{job % 3}", "attempt_ref": ref,
                "discount_ppm": 0 if resource == "network_byte" else chance.choice([0, 0, 50_000, 123_456]),
                "tiers": TIERS if resource == "card" and chance.random() < 0.5 else (),
            }  # fmt: skip
            for seq in range(1, chance.randint(2, 6)):
                length = chance.randint(1, 5_000)
                quantity = {"qty_us": chance.randint(1, 10**10)} if resource == "network_byte" else {}
                fact = a_fact(tenant, seq=seq, started_at=at, seconds=length, **terms, **quantity)
                usage.record(fact=fact, now=fact.ended_at)
                at = fact.ended_at
            if attempt == 0 and chance.random() < 0.3:
                usage.end_attempt(
                    attempt_ref=ref, reason="node_lost", fault="provider", billed=False, message="", ended_at=at, now=at
                )


@pytest.mark.parametrize("seed", range(10))
def test_the_upcoming_invoice_is_the_invoice(seed, settings):
    """R1 R2 R3 at every moment: lines, tax and total that are shown before the close are those that are issued."""
    chance = random.Random(seed)
    settings.IDLEWILD_TAX_PPM = chance.choice([0, 60_000, 130_000])
    tenant = a_tenant()
    uni = Organisation.objects.filter(public_id="org_uni").first() or a_tenant(public_id="org_uni")
    for resource in ("core", "card"):
        if chance.random() < 0.7:
            grants.give_hours(
                organisation_id=tenant.id, giver_id=uni.id, resource=resource, qty_us=chance.randint(1, 20) * 1_000_000_000, reason="x",
                by="usr_uni", now=START,
            )  # fmt: skip
    random_usage(tenant, chance, 6)
    shown = used.upcoming(tenant.id, START + timedelta(days=30))
    assert shown is not None
    invoice = closing.close(organisation_id=tenant.id, month="2026-10", now=AFTER_OCTOBER).invoice
    assert invoice is not None
    lines = list(invoice.lines.order_by("position"))
    assert [line.amount.minor for line in shown.lines] == [line.amount_minor for line in lines]
    assert (shown.subtotal.minor, shown.tax.minor, shown.total.minor) == (
        invoice.subtotal_minor,
        invoice.tax_minor,
        invoice.total_minor,
    )
    assert all(line.amount_minor == 0 for line in lines if line.grant_ref or line.unbilled_reason)
    assert invoices.verify(invoice).ok, invoices.verify(invoice).wire()
    exact = sum(line.amount_micro for line in lines)
    assert abs(invoice.subtotal_minor * 10_000 - exact) <= 5_001 * len(lines)
    for job in {line.job_ref for line in used.records(tenant.id)}:  # the cost of each job, seen again after the close
        assert used.job_cost(job).final is True
    assert not CreditUse.objects.exists()


def test_hours_are_spent_once_over_two_months_and_given_back_when_time_is_taken_back():
    tenant, uni = a_tenant(), a_tenant(public_id="org_seller")
    hour = 3_600_000_000
    grant = grants.give_hours(
        organisation_id=tenant.id,
        giver_id=uni.id,
        resource="card",
        qty_us=3 * hour,
        reason="x",
        by="usr_uni",
        now=START,
    )
    first = a_fact(tenant, attempt_ref="att_1", started_at=START, seconds=7200)
    usage.record(fact=first, now=first.ended_at)
    october = closing.close(organisation_id=tenant.id, month="2026-10", now=AFTER_OCTOBER).invoice
    assert october is not None
    assert (october.total_minor, october.state) == (0, "paid")
    assert used.job_cost("job_1").total.minor == 0
    november = datetime(2026, 11, 10, tzinfo=UTC)
    second = a_fact(tenant, attempt_ref="att_2", job_ref="job_2", started_at=november, seconds=7200)
    usage.record(fact=second, now=second.ended_at)
    shown = used.upcoming(tenant.id, november)
    assert shown is not None
    assert shown.total.minor == 400  # one hour was left
    usage.end_attempt(
        attempt_ref="att_1",
        reason="node_lost",
        fault="provider",
        billed=False,
        message="",
        ended_at=first.ended_at,
        now=november,
    )
    invoice = closing.close(organisation_id=tenant.id, month="2026-11", now=datetime(2026, 12, 5, tzinfo=UTC)).invoice
    assert invoice is not None
    by_grant = {line.qty_us: line for line in invoice.lines.filter(grant_ref=grant.public_id)}
    assert -2 * hour in by_grant  # October's two hours come back, as a correction of 0
    assert invoices.verify(invoice).ok, invoices.verify(invoice).wire()


@pytest.mark.django_db(transaction=True)
def test_late_usage_is_corrected_once_whoever_closes_and_how_often():
    """P3 P8: late data of October, eight workers that close November, and three more calls: one correction line at October's price."""
    tenant = a_tenant()
    first = a_fact(tenant, seconds=3600)
    usage.record(fact=first, now=first.ended_at)
    october = closing.close(organisation_id=tenant.id, month="2026-10", now=AFTER_OCTOBER).invoice
    assert october is not None
    late = a_fact(tenant, attempt_ref="att_2", started_at=START, seconds=900)
    for _ in range(2):  # sent twice
        usage.record(fact=late, now=datetime(2026, 11, 10, tzinfo=UTC))
    december = datetime(2026, 12, 5, tzinfo=UTC)

    def close(_):
        return closing.close(organisation_id=tenant.id, month="2026-11", now=december).invoice.sha256

    assert len({*in_threads(8, close), close(0), close(0), close(0)}) == 1
    november = closing.close(organisation_id=tenant.id, month="2026-11", now=december).invoice
    assert november is not None
    (line,) = november.lines.all()
    assert (line.correction_of, line.amount_minor, line.price_micro) == ("2026-10", 100, 4_000_000)
    october.refresh_from_db()
    assert invoices.verify(october).ok
    assert invoices.verify(november).ok
