"""The committed cases of tests/cases/billing.yaml, each through the services on PostgreSQL.

Here: a1–a3 a5 b1 b2 b5–b14 c1–c4 d1–d3 f1 g1 g2 i1 o1 o2 q1 q2 tier1–6.

(h: wallets, l: credit notes, n: payouts, e: webhooks come with the money issue; j1, k1, m1, a3: test_periods, test_ledger, test_invoices.)
"""

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import pytest

from billing.domain import metering, periods, rail, rating, tax, tiers
from billing.models import BillingPeriod, LineRecord, UsageAnomaly, UsageHour, UsageRecord
from billing.selectors import usage as used
from billing.services import invoices, months, usage
from billing.services import periods as closing
from portal.kit.money import Exact, Money, UnitPrice, currency, half_up, split
from portal.kit.quantities import hours, hours_text
from tests.billing.books import AFTER_OCTOBER, a_fact, a_tenant, case, moment, october, rated

pytestmark = pytest.mark.django_db


def facts_of(tenant, given):
    return [
        a_fact(
            tenant,
            seq=row["seq"],
            started_at=moment(row["start"]),
            ended_at=moment(row["end"]),
            count_milli=given["count_milli"],
        )
        for row in given["records"]
    ]


def rolled_up(tenant, resource="card"):
    rows = UsageHour.objects.filter(organisation_id=tenant.id, resource=resource)
    return int(sum(row.qty_us for row in rows))


@pytest.mark.parametrize("seed", range(100))
def test_a1_any_order_any_number_of_deliveries_gives_the_same(seed):
    given, expected = case("bill-a1")
    tenant, shuffled = a_tenant(), random.Random(seed)
    deliveries = facts_of(tenant, given) * given["deliveries_of_each"]
    shuffled.shuffle(deliveries)
    answers = []
    while deliveries:
        batch, deliveries = deliveries[: (size := shuffled.randint(1, 4))], deliveries[size:]
        now = moment("2026-10-05T00:10:00Z") + timedelta(minutes=len(answers))
        answers += [said.answer for said in usage.record_many(facts=batch, now=now)]
    assert rolled_up(tenant) == expected["qty_us"]
    assert UsageRecord.objects.filter(organisation_id=tenant.id).count() == expected["stored_records"]
    assert answers.count("duplicate") == expected["duplicates_ignored"]
    assert UsageAnomaly.objects.count() == expected["anomalies"]


def test_a2_another_month_under_the_same_key_is_a_conflict():
    given, expected = case("bill-a2")
    tenant = a_tenant()
    first, second = facts_of(tenant, given)
    assert usage.record(fact=first, now=first.ended_at).answer == "stored"
    assert usage.record(fact=second, now=second.ended_at).answer == expected["second_reply"]
    assert usage.record(fact=second, now=second.ended_at).answer == expected["second_reply"]
    assert UsageRecord.objects.count() == expected["stored_records"]
    assert UsageAnomaly.objects.count() == expected["anomalies"]
    assert rolled_up(tenant) == expected["qty_us_by_month"]["2026-10"]


@pytest.mark.parametrize("variant", ["provider", "tenant"])
def test_a5_a_lost_attempt_is_metered_but_billed_only_when_the_tenant_is_at_fault(variant):
    given, expected = case("bill-a5")
    tenant, start = a_tenant(), datetime(2026, 10, 5, tzinfo=UTC)
    for attempt in given["attempts"]:
        fact = a_fact(
            tenant,
            attempt_ref=f"att_{attempt['n']}",
            started_at=start,
            seconds=attempt["proven_s"],
            unit_price_micro=given["price_micro_per_hour"],
        )
        usage.record(fact=fact, now=fact.ended_at)
        start += timedelta(hours=1)
    now = start + timedelta(hours=1)
    ending = {
        "provider": {"reason": "node_lost", "fault": "provider", "billed": False},
        "tenant": {"reason": "out_of_memory", "fault": "tenant", "billed": True},
    }[variant]
    usage.end_attempt(attempt_ref="att_1", message="", ended_at=now, now=now, **ending)
    usage.end_attempt(
        attempt_ref="att_2", reason="finished", fault="none", billed=True, message="", ended_at=now, now=now
    )
    want = expected[f"fault_{variant}"]
    cost = used.job_cost("job_1")
    billed = sum(line.qty_us for line in cost.lines if not line.unbilled_reason) // 10**6
    zero = sum(line.qty_us for line in cost.lines if line.unbilled_reason) // 10**6
    assert (billed, zero, cost.total.minor) == (want["billed_s"], want["zero_line_s"], want["amount_minor"])
    metered = sum(used.metered_us(attempt_ref=f"att_{n}", resource="card") for n in (1, 2)) // 10**6
    assert metered == expected["metered_s"]
    if variant == "provider":
        line = next(line for line in cost.lines if line.unbilled_reason)
        assert (line.unbilled_reason, line.node_ref, line.amount.minor) == ("node_lost", "nod_1", 0)
        more = a_fact(
            tenant,
            attempt_ref="att_3",
            started_at=now,
            seconds=given["retry_of_other_task_adds_s"],
            unit_price_micro=given["price_micro_per_hour"],
        )
        usage.record(fact=more, now=more.ended_at)
        after, cost = expected["after_retry_fault_provider"], used.job_cost("job_1")
        assert cost.total.minor == after["amount_minor"]
        assert sum(line.qty_us for line in cost.lines if not line.unbilled_reason) == after["billed_s"] * 10**6
        assert sum(line.qty_us for line in cost.lines) == after["metered_s"] * 10**6
    invoice = october(tenant)
    assert invoice.subtotal_minor == cost.total.minor
    assert invoices.verify(invoice).ok


@pytest.mark.parametrize("name", ["bill-b1", "bill-b13"])
def test_b1_b13_a_line_is_rounded_once_from_the_exact_product(name):
    given, expected = case(name)
    invoice = rated(a_tenant(), *[(line["qty_us"], line["price_micro_per_hour"]) for line in given["lines"]])
    lines = list(invoice.lines.order_by("position"))
    assert [line.amount_minor for line in lines] == expected["lines_minor"]
    assert invoice.subtotal_minor == expected.get("subtotal_minor", sum(expected["lines_minor"]))
    if "amount_micro" in expected:
        assert lines[0].amount_micro == expected["amount_micro"]


@pytest.mark.parametrize("name", ["bill-b2", "bill-b3"])
def test_b2_b3_tax_is_rounded_once_on_the_subtotal(name, settings):
    given, expected = case(name)
    settings.IDLEWILD_TAX_PPM = given["rate_ppm"]
    invoice = rated(a_tenant(), *[(3_600_000_000, minor * 10_000) for minor in given["lines_minor"]])
    assert (invoice.subtotal_minor, invoice.tax_minor, invoice.total_minor) == (
        expected["subtotal_minor"],
        expected["tax_minor"],
        expected["total_minor"],
    )


def test_b4_a_price_that_includes_tax():
    given, expected = case("bill-b4")
    assert tax.included(given["gross_minor"], given["rate_ppm"]) == (expected["net_minor"], expected["tax_minor"])


def test_b5_events_are_summed_first_and_rated_once():
    given, expected = case("bill-b5")
    tenant, start = a_tenant(), datetime(2026, 10, 5, tzinfo=UTC)
    facts = [
        a_fact(
            tenant,
            seq=n,
            started_at=start + timedelta(seconds=n),
            seconds=1,
            qty_us=given["event_qty_us"],
            unit_price_micro=given["price_micro_per_hour"],
        )
        for n in range(given["events"])
    ]
    usage.record_many(facts=facts, now=facts[-1].ended_at)
    (line,) = october(tenant).lines.all()
    assert (line.qty_us, line.amount_micro, line.amount_minor) == (
        expected["qty_us"],
        expected["amount_micro"],
        expected["amount_minor"],
    )
    alone = rating.estimate_micro(given["event_qty_us"], given["price_micro_per_hour"], "CNY")
    assert alone == expected["one_event_alone_micro"]


@pytest.mark.parametrize("name", ["bill-b6", "bill-b14"])
def test_b6_b14_large_products_are_multiplied_exactly(name):
    given, expected = case(name)
    (line,) = rated(a_tenant(), (given["qty_us"], given["price_micro_per_hour"])).lines.all()
    assert (line.amount_micro, line.amount_minor) == (expected["amount_micro"], expected["amount_minor"])
    product = given["qty_us"] * given["price_micro_per_hour"]
    assert expected.get("product", product) == product
    assert expected.get("product_exceeds_int64", product > 2**63 - 1) == (product > 2**63 - 1)


@pytest.mark.parametrize("name", ["bill-b7", "bill-b8", "bill-b9"])
def test_b7_b8_b9_splits_lose_no_cent(name):
    given, expected = case(name)
    assert split(given["total_minor"], given["weights"]) == expected["parts_minor"]


def test_b10_fee_and_share_make_the_line(settings):
    given, expected = case("bill-b10")
    settings.IDLEWILD_PLATFORM_FEE_PPM = given["rate_ppm"]
    found = []
    for minor in given["net_minor"]:
        (line,) = rated(a_tenant(), (3_600_000_000, minor * 10_000)).lines.all()
        found.append((line.fee_minor, line.seller_minor))
    assert found == list(zip(expected["fee_minor"], expected["seller_minor"], strict=True))


def test_b11_half_up_away_from_zero():
    given, expected = case("bill-b11")
    assert [half_up(Fraction(value) * 100) for value in given["values"]] == expected["minor"]
    positive = [(value, minor) for value, minor in zip(given["values"], expected["minor"], strict=True) if minor > 0]
    invoice = rated(a_tenant(), *[(3_600_000_000, int(Decimal(value) * 10**6)) for value, _ in positive])
    assert [line.amount_minor for line in invoice.lines.order_by("position")] == [minor for _, minor in positive]


def test_b12_estimates_telescope_to_the_final_line():
    given, expected = case("bill-b12")
    price = given["price_micro_per_hour"]
    amounts = [rating.estimate_micro(seconds * 10**6, price, "CNY") for seconds in given["cumulative_s"]]
    deltas = [now - before for before, now in zip([0, *amounts], amounts, strict=False)]
    assert (amounts, deltas, sum(deltas)) == (
        expected["amount_micro"],
        expected["delta_micro"],
        expected["sum_of_deltas_micro"],
    )
    tenant, before, readings = a_tenant(), 0, []
    for seq, seconds in enumerate(given["cumulative_s"], start=1):
        start = datetime(2026, 10, 5, tzinfo=UTC) + timedelta(seconds=before)
        fact = a_fact(tenant, seq=seq, started_at=start, seconds=seconds - before, unit_price_micro=price)
        usage.record(fact=fact, now=fact.ended_at)
        readings.append(used.job_cost("job_1").lines[0].amount_micro)
        before = seconds
    assert readings == expected["amount_micro"]


def test_c1_month_bounds_are_local():
    given, expected = case("bill-c1")
    tenant = a_tenant(period_timezone=given["timezone"])
    usage.record(fact=(fact := a_fact(tenant)), now=fact.ended_at)
    period = BillingPeriod.objects.get(organisation=tenant, month=given["month"])
    assert (period.starts_at, period.ends_at) == (moment(expected["start"]), moment(expected["end"]))
    assert str((period.ends_at - period.starts_at) // timedelta(hours=1)) == expected["hours"]


def test_c2_one_card_all_month_bills_the_hours_of_the_month():
    given, expected = case("bill-c2")
    tenant = a_tenant(period_timezone=given["timezone"])
    fact = a_fact(tenant, started_at=moment(expected["start"]), ended_at=moment(expected["end"]))
    usage.record(fact=fact, now=fact.ended_at)
    closed = closing.close(organisation_id=tenant.id, month=given["month"], now=fact.ended_at + timedelta(hours=72))
    (line,) = closed.invoice.lines.all()
    assert line.qty_us == expected["qty_us"]
    assert str(hours(int(line.qty_us))) == expected["card_hours"] == expected["hours"]


@pytest.mark.parametrize(
    ("zone", "month", "card_hours"),
    [("Europe/Berlin", "2026-10", 745), ("America/New_York", "2026-03", 743), ("America/New_York", "2026-11", 721)],
)
def test_p34_one_card_all_month_through_a_clock_change(zone, month, card_hours):
    tenant = a_tenant(period_timezone=zone)
    start, end = periods.first_instant(month, zone), periods.first_instant(periods.after(month), zone)
    usage.record(fact=a_fact(tenant, started_at=start, ended_at=end), now=end)
    invoice = closing.close(organisation_id=tenant.id, month=month, now=end + timedelta(hours=72)).invoice
    (line,) = invoices.stored.lines(invoice)
    assert (line.quantity, line.amount.minor) == (f"{card_hours}.0000", card_hours * 400)


def test_c3_a_record_over_the_cut_stays_one_and_makes_two_lines():
    given, expected = case("bill-c3")
    tenant = a_tenant(period_timezone=given["timezone"])
    fact = a_fact(tenant, started_at=moment(given["start"]), ended_at=moment(given["end"]))
    usage.record(fact=fact, now=fact.ended_at)
    assert UsageRecord.objects.count() == expected["usage_records"]
    found = {}
    for month, now in (("2026-10", "2026-11-04T00:00:00Z"), ("2026-11", "2026-12-04T00:00:00Z")):
        invoice = closing.close(organisation_id=tenant.id, month=month, now=moment(now)).invoice
        (line,) = invoice.lines.all()
        found[month] = line.qty_us
        assert invoices.verify(invoice).ok
    assert found == expected["qty_us_by_month"]
    assert (len(found), sum(found.values())) == (expected["lines"], expected["sum_qty_us"])
    hours_found = UsageHour.objects.order_by("bucket_at").values_list("bucket_at", "qty_us")
    assert [(at.isoformat(), qty) for at, qty in hours_found] == [
        ("2026-10-31T15:00:00+00:00", 1800000000),
        ("2026-10-31T16:00:00+00:00", 1800000000),
    ]


def test_c4_a_change_of_zone_takes_effect_with_the_next_period():
    given, expected = case("bill-c4")
    tenant = a_tenant(period_timezone=given["timezone"])
    usage.record(fact=(fact := a_fact(tenant)), now=fact.ended_at)
    tenant.period_timezone = given["change"]["to"]
    tenant.save(update_fields=["period_timezone"])
    months.ensure({tenant.id: (fact.ended_at, moment("2026-12-15T00:00:00Z"))})
    found = BillingPeriod.objects.filter(organisation=tenant).order_by("starts_at")
    assert [(p.month, p.starts_at, p.ends_at, str((p.ends_at - p.starts_at) // timedelta(hours=1))) for p in found] == [
        (p["month"], moment(p["start"]), moment(p["end"]), p["hours"]) for p in expected["periods"]
    ]


def test_d1_what_comes_within_the_grace_is_in_its_own_month():
    given, expected = case("bill-d1")
    tenant, row = a_tenant(period_timezone=given["timezone"]), given["record"]
    fact = a_fact(tenant, started_at=moment(row["start"]), ended_at=moment(row["end"]))
    assert timedelta(hours=given["grace_h"]) == periods.GRACE
    usage.record(fact=fact, now=moment(given["received_at"]))
    closed = closing.close(
        organisation_id=tenant.id, month=expected["invoice_month"], now=moment("2026-11-03T16:00:00Z")
    )
    (line,) = closed.invoice.lines.all()
    assert (line.qty_us, line.correction_of) == (expected["qty_us"], "")


def test_d2_late_usage_is_a_correction_at_the_old_price_and_october_does_not_change():
    given, expected = case("bill-d2")
    tenant, row = a_tenant(period_timezone=given["timezone"]), given["record"]
    early = a_fact(tenant, unit_price_micro=given["price_micro_october"])
    usage.record(fact=early, now=early.ended_at)
    first = october(tenant)
    documents = dict(first.documents.values_list("format", "sha256"))
    late = a_fact(
        tenant,
        attempt_ref="att_2",
        started_at=moment(row["start"]),
        ended_at=moment(row["end"]),
        unit_price_micro=given["price_micro_october"],
    )
    usage.record(fact=late, now=moment(given["received_at"]))
    new = a_fact(
        tenant,
        attempt_ref="att_3",
        price_version_ref="prv_2",
        started_at=moment("2026-11-11T00:00:00Z"),
        seconds=900,
        unit_price_micro=given["price_micro_november"],
    )
    usage.record(fact=new, now=new.ended_at)
    invoice = closing.close(
        organisation_id=tenant.id, month=expected["invoice_month"], now=moment("2026-12-04T00:00:00Z")
    ).invoice
    line = invoice.lines.get(correction_of=expected["correction_of"])
    assert (line.qty_us, line.price_micro, line.amount_minor) == (
        expected["qty_us"],
        expected["price_micro_used"],
        expected["amount_minor"],
    )
    document = invoices.stored.lines(invoice)[line.position - 1]
    assert document.label == expected["label"]
    assert invoice.subtotal_minor == 100 + 125
    first.refresh_from_db()
    assert dict(first.documents.values_list("format", "sha256")) == documents
    assert first.lines.count() == 1
    assert invoices.verify(invoice).ok
    assert invoices.verify(first).ok


def test_d3_too_old_or_in_the_future_is_kept_in_quarantine():
    given, expected = case("bill-d3")
    tenant, now = a_tenant(), moment(given["received_at"])
    said = []
    for number, row in enumerate(given["records"]):
        end = moment(row["end"])
        fact = a_fact(tenant, attempt_ref=f"att_{number}", started_at=end - timedelta(minutes=10), ended_at=end)
        answer = usage.record(fact=fact, now=now).answer
        stored = UsageRecord.objects.get(attempt_ref=f"att_{number}")
        if answer == "stored":
            said.append("accepted" if stored.ended_at == end else "accepted, end clamped to received_at")
            assert stored.ended_at == min(end, now)
        else:
            said.append(str(answer))
    assert said == expected["results"]
    assert used.records(tenant.id, state="quarantined").count() == expected["quarantined"]
    assert rolled_up(tenant) == 600_000_000 + 300_000_000


def test_f1_a_negative_invoice_becomes_a_credit_balance():
    _given, expected = case("bill-f1")
    tenant = a_tenant()
    lost = a_fact(tenant, attempt_ref="att_lost", seconds=3600, unit_price_micro=7_000_000)
    usage.record(fact=lost, now=lost.ended_at)
    assert october(tenant).total_minor == 700
    now = moment("2026-11-10T00:00:00Z")
    usage.end_attempt(
        attempt_ref="att_lost", reason="device_error", fault="provider", billed=False, message="", ended_at=now, now=now
    )
    fact = a_fact(tenant, attempt_ref="att_2", started_at=now, seconds=3600, unit_price_micro=5_000_000)
    usage.record(fact=fact, now=fact.ended_at)
    invoice = closing.close(organisation_id=tenant.id, month="2026-11", now=moment("2026-12-04T00:00:00Z")).invoice
    assert sorted(invoice.lines.values_list("amount_minor", flat=True)) == [-700, 0, 500]
    assert invoice.subtotal_minor == expected["net_minor"]
    assert (invoice.total_minor, invoice.to_credit_minor) == (
        expected["invoice_total_minor"],
        expected["credit_balance_minor"],
    )
    assert invoice.state == "paid"
    assert invoices.verify(invoice).ok, invoices.verify(invoice).wire()
    december = a_fact(tenant, attempt_ref="att_4", started_at=moment("2026-12-05T00:00:00Z"), seconds=3600)
    usage.record(fact=december, now=december.ended_at)
    last = closing.close(organisation_id=tenant.id, month="2026-12", now=moment("2027-01-04T00:00:00Z")).invoice
    assert (last.total_minor, last.credit_used_minor, last.payable_minor) == (400, 200, 200)
    assert invoices.verify(last).ok


@pytest.mark.parametrize("name", ["bill-g1", "bill-g2"])
def test_g1_g2_minor_units(name):
    given, expected = case(name)
    money = Exact(Fraction(given["exact"]), given["currency"]).to_money()
    assert currency(given["currency"]).exponent == expected["exponent"]
    assert (money.minor, money.text()) == (expected["minor"], expected["printed"])
    assert rail.chargeable(money).minor == expected["rail_amount"]
    tenant = a_tenant(currency=given["currency"])
    micro = int(Decimal(given["exact"]) * 10**6)
    invoice = rated(tenant, (3_600_000_000, micro), currency=given["currency"])
    assert (invoice.total_minor, invoices.stored.lines(invoice)[0].amount.text()) == (
        expected["minor"],
        expected["printed"],
    )


def test_g3_every_currency_round_trips():
    given, expected = case("bill-g3")
    for (code, text), exponent, minor in zip(given["samples"], expected["exponents"], expected["minor"], strict=True):
        money = Money.parse(text, code)
        assert (currency(code).exponent, money.minor) == (exponent, minor)
        assert Money.parse(money.text(), code) == money
        assert UnitPrice.parse(text, code).text() in {text, f"{text}.00", text.rstrip("0").ljust(4, "0")}


def test_i1_i2_proration_telescopes():
    given, expected = case("bill-i1")
    (nothing,) = rating.prorate(Money(given["price_minor"], "CNY"), [given["days_used"]], given["days_in_month"])
    assert nothing.minor == expected["amount_minor"]
    given, expected = case("bill-i2")
    parts = rating.prorate(Money(given["price_minor"], "CNY"), given["parts_days"], given["days_in_month"])
    assert [part.minor for part in parts] == expected["parts_minor"]
    assert sum(part.minor for part in parts) == expected["sum_minor"]


def test_i1_a_fact_of_no_length_costs_nothing():
    tenant = a_tenant()
    fact = a_fact(tenant, ended_at=datetime(2026, 10, 5, tzinfo=UTC))
    assert usage.record(fact=fact, now=fact.ended_at).answer == "stored"
    assert closing.close(organisation_id=tenant.id, month="2026-10", now=AFTER_OCTOBER).invoice is None


def test_o1_a_changing_count_is_metered_piece_by_piece():
    given, expected = case("bill-o1")
    tenant, start = a_tenant(), datetime(2026, 10, 5, tzinfo=UTC)
    spans = [(row["count_milli"], row["minutes"] * 60 * 10**6) for row in given["intervals"]]
    assert metering.cumulative_qty(spans) == expected["qty_us"]
    for seq, row in enumerate(given["intervals"], start=1):
        fact = a_fact(tenant, seq=seq, started_at=start, seconds=row["minutes"] * 60, count_milli=row["count_milli"])
        usage.record(fact=fact, now=fact.ended_at)
        start = fact.ended_at
    assert rolled_up(tenant) == expected["qty_us"]
    assert hours_text(rolled_up(tenant)) == expected["card_hours_2dp"]
    assert used.job_cost("job_1").lines[0].quantity == "2.3333"


def test_o2_a_lost_node_is_metered_to_its_last_proven_second():
    given, expected = case("bill-o2")
    tenant, start = a_tenant(), datetime(2026, 10, 5, tzinfo=UTC)
    fact = a_fact(tenant, seconds=given["last_stored_interval_end_s"], count_milli=given["count_milli"])
    usage.record(fact=fact, now=fact.ended_at)
    lapse = start + timedelta(seconds=given["lease_end_s"])
    usage.end_attempt(
        attempt_ref="att_1", reason="node_lost", fault="provider", billed=False, message="", ended_at=lapse, now=lapse
    )
    late = replace(
        fact,
        seq=2,
        started_at=fact.ended_at,
        ended_at=lapse,
        qty_us=(given["lease_end_s"] - given["last_stored_interval_end_s"]) * 10**6,
    )
    assert usage.record(fact=late, now=lapse).answer == "rejected_stale"
    metered = used.metered_us(attempt_ref="att_1", resource="card") // 10**6
    assert metered == expected["metered_s"] + expected["seconds_added_by_lease_expiry"]


def test_q1_one_report_two_resources():
    given, expected = case("bill-q1")
    tenant, report = a_tenant(), given["reports"][0]
    times = {"seq": report["seq"], "started_at": moment(report["start"]), "ended_at": moment(report["end"])}
    facts = [
        a_fact(tenant, resource=resource, count_milli=report[resource]["count_milli"], **times)
        for resource in ("core", "card")
    ]
    answers = []
    for _ in range(given["deliveries_of_each"]):
        answers += [said.answer for said in usage.record_many(facts=facts, now=times["ended_at"])]
    assert answers.count("duplicate") == expected["duplicates_ignored"]
    then = given["then"]
    other = a_fact(
        tenant,
        resource=then["resource"],
        seq=then["seq"],
        count_milli=then["count_milli"],
        started_at=moment(then["start"]),
        ended_at=moment(then["end"]),
    )
    assert usage.record(fact=other, now=times["ended_at"]).answer == expected["second_reply"]
    assert {resource: rolled_up(tenant, resource) for resource in ("core", "card")} == expected["qty_us"]
    assert UsageRecord.objects.count() == expected["stored_records"]
    assert UsageAnomaly.objects.count() == expected["anomalies"]


def test_q2_the_floor_is_taken_on_the_cumulative_counter():
    given, expected = case("bill-q2")
    readings = given["cumulative_unfrozen_us"]
    cumulative = [metering.cumulative_qty([(given["count_milli"], reading)]) for reading in readings]
    assert cumulative == expected["cumulative_qty_us"]
    assert metering.growth(cumulative) == expected["fact_qty_us"]
    tenant, start, before = a_tenant(), datetime(2026, 10, 5, tzinfo=UTC), 0
    for seq, (reading, quantity) in enumerate(zip(readings, metering.growth(cumulative), strict=True), start=1):
        fact = a_fact(
            tenant,
            resource=given["resource"],
            seq=seq,
            count_milli=given["count_milli"],
            qty_us=quantity,
            started_at=start + timedelta(microseconds=before),
            ended_at=start + timedelta(microseconds=reading),
        )
        assert usage.record(fact=fact, now=fact.ended_at).answer == "stored"
        before = reading
    assert rolled_up(tenant, "core") == expected["sum_qty_us"]
    assert not UsageAnomaly.objects.exists()


@pytest.mark.parametrize("number", range(1, 7))
def test_tiers_are_graduated(number):
    """bill-tier1 bill-tier2 bill-tier3 bill-tier4 bill-tier5 bill-tier6: the services close each, lines and total."""
    given, expected = case(f"bill-tier{number}")
    steps = tiers.parse(given["tiers"])
    texts = given["hours"] if isinstance(given["hours"], list) else [given["hours"]]
    totals = []
    for text in texts:
        tenant, quantity = a_tenant(), int(Decimal(text) * 3600 * 10**6)
        start = datetime(2026, 10, 1, tzinfo=UTC)
        halves = [quantity // 2, quantity - quantity // 2]
        for index, part in enumerate(halves):  # two providers: the place in the tiers goes across them
            fact = a_fact(
                tenant,
                attempt_ref=f"att_{tenant.id}_{index}",
                started_at=start + timedelta(days=index),
                seconds=24 * 3600,
                count_milli=20_000,
                qty_us=part,
                tiers=steps,
            )
            usage.record(fact=fact, now=fact.ended_at)
        closed = closing.close(organisation_id=tenant.id, month="2026-10", now=AFTER_OCTOBER)
        lines = list(closed.invoice.lines.order_by("tier")) if closed.invoice else []
        totals.append(sum(line.amount_minor for line in lines))
        if "lines_minor" in expected:
            assert [line.amount_minor for line in lines] == expected["lines_minor"]
            assert [line.qty_us for line in lines] == expected["line_qty_us"]
        if closed.invoice:
            assert invoices.verify(closed.invoice).ok, invoices.verify(closed.invoice).wire()
            assert LineRecord.objects.filter(line__invoice=closed.invoice).count() >= 2
    assert totals == expected.get("graduated_minor", [expected.get("total_minor")])
    if "volume_would_give_minor" in expected:
        assert totals[1] > totals[0]
        assert totals != expected["volume_would_give_minor"]
