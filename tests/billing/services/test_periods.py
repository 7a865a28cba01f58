"""Months close once, in order and never early; one tenant's error never stops the others."""

import itertools
import multiprocessing
import os
import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection, transaction

from billing.domain.periods import PeriodState
from billing.models import BillingPeriod, DocumentCounter, Invoice, InvoiceDocument, LateChange, Txn, UsageHour
from billing.services import invoices, locks, months, periods, rollup, usage
from portal.kit.errors import Conflict, InvalidInput, NotFound
from portal.outbox.models import OutboxMessage
from tests.billing.books import AFTER_OCTOBER, a_fact, a_tenant, case, moment, october

together = pytest.mark.django_db(transaction=True)


def in_threads(count, function):
    """Run function(number) in that many threads, each with a connection of its own."""

    def run(number):
        try:
            return function(number)
        finally:
            connection.close()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


@together
def test_a3_p32_eight_threads_and_three_more_calls_close_once():
    given, expected = case("bill-a3")
    tenant = a_tenant()
    start = datetime(2026, 10, 5, tzinfo=UTC)
    facts = [a_fact(tenant, seq=n, started_at=start + timedelta(minutes=n)) for n in range(1000)]
    usage.record_many(facts=facts, now=facts[-1].ended_at)

    def close(_):
        return periods.close(organisation_id=tenant.id, month="2026-10", now=AFTER_OCTOBER).invoice.sha256

    hashes = set(in_threads(given["threads"], close)) | {close(0) for _ in range(given["later_calls"])}
    assert len(hashes) == 1
    assert Invoice.objects.count() == expected["invoices"]
    assert DocumentCounter.objects.get().last == expected["numbers_used"]
    assert Txn.objects.filter(kind="invoice").count() == expected["ledger_txns_of_kind_invoice"]
    for topic in ("stripe.collect", "mail", "invoice.pdf"):
        assert OutboxMessage.objects.filter(topic=topic).count() == expected["outbox_rows_per_kind"]


def _close_and_die(organisation_id, before_commit):
    """In a process of its own: close October and die by SIGKILL, before or after the commit."""
    connection.close()
    with transaction.atomic():
        periods.close(organisation_id=organisation_id, month="2026-10", now=AFTER_OCTOBER)
        if before_commit:
            os.kill(os.getpid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


@together
@pytest.mark.parametrize("before_commit", [True, False])
def test_a_close_that_is_killed_leaves_all_or_nothing(before_commit):
    tenant = a_tenant()
    usage.record(fact=(fact := a_fact(tenant, seconds=3600)), now=fact.ended_at)
    connection.close()
    process = multiprocessing.get_context("fork").Process(target=_close_and_die, args=(tenant.id, before_commit))
    process.start()
    process.join(30)
    assert process.exitcode == -signal.SIGKILL
    assert Invoice.objects.count() == (0 if before_commit else 1)
    october(tenant)
    assert Invoice.objects.count() == DocumentCounter.objects.get().last == Txn.objects.count() == 1
    assert OutboxMessage.objects.filter(topic="stripe.collect").count() == 1


@together
def test_k1_numbers_have_no_gap_under_threads_that_roll_back():
    given, expected = case("bill-k1")
    tenants = [a_tenant() for _ in range(given["threads"])]
    drafts = {}
    for tenant in tenants:
        wanted = (moment("2020-01-15T00:00:00Z"), moment("2024-02-15T00:00:00Z"))
        with transaction.atomic():
            chain = months.ensure({tenant.id: wanted})[tenant.id][: given["per_thread"]]
        drafts[tenant.id] = [
            Invoice.objects.create(
                organisation=tenant, period=period, currency="CNY", fee_ppm=0, subtotal_minor=0, tax_minor=0, total_minor=0,
                payable_minor=0, created_at=AFTER_OCTOBER,
            )
            for period in chain
        ]  # fmt: skip

    class RolledBack(Exception):
        pass

    def issue(number):
        chance = random.Random(given["seeds"][number])
        for draft in drafts[tenants[number].id]:
            back = chance.random() < float(given["rollback_probability"])
            try:
                with transaction.atomic():
                    invoices.issue(invoice=draft, now=AFTER_OCTOBER)
                    if back:
                        raise RolledBack
            except RolledBack:
                pass

    in_threads(given["threads"], issue)
    numbers = sorted(int(n[-6:]) for n in Invoice.objects.exclude(number=None).values_list("number", flat=True))
    assert len(numbers) == expected["invoices"]
    assert numbers == list(range(expected["first"], expected["last"] + 1))


@together
def test_usage_that_arrives_while_a_month_closes_is_in_it_or_a_correction():
    tenant = a_tenant()
    usage.record(fact=(fact := a_fact(tenant)), now=fact.ended_at)

    def do(number):
        if number == 0:
            periods.close(organisation_id=tenant.id, month="2026-10", now=AFTER_OCTOBER)
            return
        for seq in range(5):
            late = a_fact(
                tenant, attempt_ref=f"att_late_{number}", seq=seq, started_at=fact.started_at + timedelta(minutes=seq)
            )
            usage.record(fact=late, now=AFTER_OCTOBER)

    in_threads(6, do)
    first = Invoice.objects.get()
    second = periods.close(organisation_id=tenant.id, month="2026-11", now=moment("2026-12-04T00:00:00Z")).invoice
    billed = sum(int(line.qty_us) for invoice in (first, second) if invoice for line in invoice.lines.all())
    assert billed == 26 * 60_000_000


@pytest.mark.django_db
def test_no_month_closes_early_or_in_its_grace_or_before_the_one_before():
    tenant = a_tenant(period_timezone="Asia/Shanghai")
    usage.record(fact=(fact := a_fact(tenant)), now=fact.ended_at)
    with pytest.raises(Conflict) as refused:
        periods.close(organisation_id=tenant.id, month="2026-10", now=moment("2026-10-31T15:59:59Z"))
    assert refused.value.code == "period_open"
    with pytest.raises(Conflict) as refused:
        periods.close(organisation_id=tenant.id, month="2026-10", now=moment("2026-11-03T15:59:59Z"))
    assert refused.value.code == "period_in_grace"
    november = a_fact(tenant, attempt_ref="att_2", started_at=moment("2026-11-05T00:00:00Z"))
    usage.record(fact=november, now=november.ended_at)
    with pytest.raises(Conflict) as refused:
        periods.close(organisation_id=tenant.id, month="2026-11", now=moment("2026-12-10T00:00:00Z"))
    assert refused.value.code == "earlier_period_open"
    assert not Invoice.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize("month", ["2026-13", "october", "2026-1", "", "9999-01", "２０２６-10"])
def test_a_month_that_is_none_is_a_finding(month):
    with pytest.raises(InvalidInput):
        periods.close(organisation_id=a_tenant().id, month=month, now=AFTER_OCTOBER)


@pytest.mark.django_db
def test_a_month_without_a_period_is_not_found():
    with pytest.raises(NotFound):
        periods.close(organisation_id=a_tenant().id, month="2026-10", now=AFTER_OCTOBER)


@pytest.mark.django_db
def test_what_is_due_closes_oldest_first_and_an_error_of_one_tenant_stops_no_other(settings, caplog):
    good, bad = a_tenant(), a_tenant()
    for tenant in (bad, good):
        for number, month in enumerate((9, 10)):
            start = datetime(2026, month, 5, tzinfo=UTC)
            fact = a_fact(tenant, attempt_ref=f"att_{tenant.id}_{month}", started_at=start, seq=number)
            usage.record(fact=fact, now=fact.ended_at)
    # what no service can write: the September of `bad` has an invoice already, so its close meets the unique constraint
    september = BillingPeriod.objects.get(organisation=bad, month="2026-09")
    Invoice.objects.create(
        organisation=bad, period=september, currency="CNY", fee_ppm=0, subtotal_minor=0, tax_minor=0, total_minor=0, payable_minor=0,
        created_at=AFTER_OCTOBER,
    )  # fmt: skip
    closed = periods.close_due(now=AFTER_OCTOBER)
    assert [(each.period.organisation_id, each.period.month) for each in closed] == [
        (good.id, "2026-09"),
        (good.id, "2026-10"),
    ]
    assert set(BillingPeriod.objects.filter(organisation=bad).values_list("state", flat=True)) == {
        PeriodState.OPEN.value,
        PeriodState.GRACE.value,
    }
    assert "did not close" in caplog.text
    assert periods.close_due(now=AFTER_OCTOBER) == []


@pytest.mark.django_db
def test_the_current_month_opens_and_an_ended_one_waits_in_its_grace():
    tenant = a_tenant()
    usage.record(fact=(fact := a_fact(tenant)), now=fact.ended_at)
    periods.close_due(now=moment("2026-11-01T00:30:00Z"))
    assert dict(BillingPeriod.objects.filter(organisation=tenant).values_list("month", "state")) == {
        "2026-10": PeriodState.GRACE.value,
        "2026-11": PeriodState.OPEN.value,
    }


@pytest.mark.django_db
def test_history_that_is_entered_later_opens_the_months_before():
    tenant = a_tenant()
    usage.record(fact=(fact := a_fact(tenant)), now=fact.ended_at)
    old = a_fact(tenant, attempt_ref="att_old", started_at=moment("2026-08-20T00:00:00Z"), demo=True)
    usage.record(fact=old, now=old.ended_at)
    found = BillingPeriod.objects.filter(organisation=tenant).order_by("starts_at")
    assert [period.month for period in found] == ["2026-08", "2026-09", "2026-10"]
    assert all(a.ends_at == b.starts_at for a, b in itertools.pairwise(found))


@pytest.mark.django_db
def test_demo_history_has_a_series_of_its_own_and_says_so():
    tenant = a_tenant()
    fact = a_fact(tenant, demo=True)
    usage.record(fact=fact, now=fact.ended_at)
    invoice = october(tenant)
    assert (invoice.demo, invoice.number) == (True, "DEMO-2026-000001")
    assert not OutboxMessage.objects.filter(topic__in=["mail", "stripe.collect"]).exists()
    real = a_fact(a_tenant(), attempt_ref="att_real")
    usage.record(fact=real, now=real.ended_at)
    assert (
        periods.close(organisation_id=real.organisation_id, month="2026-10", now=AFTER_OCTOBER).invoice.number
        == "IW-2026-000001"
    )
    assert b"Demo history" in bytes(InvoiceDocument.objects.get(invoice=invoice, format="csv", language="en").content)


@pytest.mark.django_db
def test_two_currencies_make_two_invoices():
    tenant = a_tenant()
    for code in ("CNY", "USD"):
        fact = a_fact(tenant, attempt_ref=f"att_{code}", currency=code)
        usage.record(fact=fact, now=fact.ended_at)
    closed = periods.close(organisation_id=tenant.id, month="2026-10", now=AFTER_OCTOBER)
    assert [(each.currency, each.total_minor) for each in closed.invoices] == [("CNY", 7), ("USD", 7)]


@pytest.mark.django_db
def test_a_roll_up_that_lost_something_is_made_again_by_the_close_and_by_the_daily_proof():
    tenant = a_tenant()
    usage.record(fact=(fact := a_fact(tenant, seconds=7300)), now=fact.ended_at)
    whole = list(UsageHour.objects.order_by("bucket_at").values_list("bucket_at", "qty_us"))
    assert len(whole) == 3
    UsageHour.objects.filter(bucket_at=whole[1][0]).delete()
    assert len(rollup.prove(now=fact.ended_at)) == 1
    assert list(UsageHour.objects.order_by("bucket_at").values_list("bucket_at", "qty_us")) == whole
    UsageHour.objects.all().update(qty_us=1)
    october(tenant)
    assert list(UsageHour.objects.order_by("bucket_at").values_list("bucket_at", "qty_us")) == whole
    assert rollup.prove(now=fact.ended_at) == []


@together
def test_a_long_close_delays_no_report_and_no_ending_and_the_next_one_settles_both():
    """While October is being closed (its transaction is held open): a fact of October and an unbilled ending are taken at once."""
    tenant = a_tenant()
    billed = a_fact(tenant, attempt_ref="att_lost", seconds=3600)
    usage.record(fact=billed, now=billed.ended_at)
    rated, told = threading.Event(), threading.Event()

    def do(number):
        if number == 0:
            with transaction.atomic():
                october(tenant)
                rated.set()
                assert told.wait(20)
            return None
        assert rated.wait(20)
        began = time.monotonic()
        late = a_fact(tenant, attempt_ref="att_late", seconds=1800)
        said = usage.record(fact=late, now=AFTER_OCTOBER)
        usage.end_attempt(
            attempt_ref="att_lost",
            reason="node_lost",
            fault="provider",
            billed=False,
            message="",
            ended_at=AFTER_OCTOBER,
            now=AFTER_OCTOBER,
        )
        took = time.monotonic() - began
        told.set()
        return said.answer, took

    _, (answer, took) = in_threads(2, do)
    assert answer == "stored"
    assert took < 5
    first = Invoice.objects.get()
    assert first.total_minor == 400
    second = periods.close(organisation_id=tenant.id, month="2026-11", now=moment("2026-12-04T00:00:00Z")).invoice
    found = {(line.unbilled_reason, line.amount_minor) for line in second.lines.all()}
    assert found == {("", 200), ("", -400), ("node_lost", 0)}
    assert invoices.verify(second).ok
    third = a_fact(tenant, attempt_ref="att_3", started_at=moment("2026-12-06T00:00:00Z"))
    usage.record(fact=third, now=third.ended_at)
    last = periods.close(organisation_id=tenant.id, month="2026-12", now=moment("2027-01-05T00:00:00Z")).invoice
    assert last.lines.count() == 1, "each correction is made once"


@together
def test_what_a_close_had_seen_is_no_correction_although_it_was_noted():
    """The note is only a question: here the record was committed before the close read its month."""
    tenant = a_tenant()

    def do(number):
        if number == 0:
            with transaction.atomic():
                locks.own_books(tenant.id)
                locked.set()
                assert told.wait(20)
            return
        assert locked.wait(20)
        usage.record(fact=a_fact(tenant, seconds=3600), now=AFTER_OCTOBER)
        told.set()

    locked, told = threading.Event(), threading.Event()
    in_threads(2, do)
    assert LateChange.objects.count() == 1
    assert october(tenant).total_minor == 400
    again = periods.close(organisation_id=tenant.id, month="2026-11", now=moment("2026-12-04T00:00:00Z"))
    assert again.invoices == ()
    assert LateChange.objects.get().settled_at is not None
