"""Wallets: money that is paid in before it is used, held for jobs, and spent by invoices; never below zero, never made, never lost."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from billing.domain.ledger import AccountKind
from billing.models import Entry, Hold, Txn
from billing.selectors import balances
from billing.services import holds, invoices, usage, wallets
from portal.audit.models import AuditEvent
from portal.kit.errors import Conflict, InvalidInput, SpendingRefused
from portal.kit.money import Money
from portal.outbox.models import OutboxMessage
from tests.billing.books import a_fact, a_tenant, case, october
from tests.billing.services.test_periods import in_threads

NOW = datetime(2026, 10, 6, tzinfo=UTC)
pytestmark = pytest.mark.django_db


def yuan(text):
    return Money.parse(text, "CNY")


def a_prepaid(text="0.00", **values):
    """A tenant that pays before, with so much in its wallet."""
    tenant = a_tenant(**values)
    wallets.set_terms(organisation_id=tenant.id, mode="prepaid", by="usr_staff", now=NOW)
    if yuan(text).minor:
        wallets.top_up(organisation_id=tenant.id, amount=yuan(text), reference=f"pay_{tenant.id}", now=NOW)
    return tenant


def account(tenant, kind):
    return Money(balances.of(tenant.public_id, kind, tenant.currency), tenant.currency).text()


def in_account(tenant):
    """(wallet, hold, what the tenant owes)"""
    kinds = (AccountKind.WALLET, AccountKind.HOLD, AccountKind.TENANT_RECEIVABLE)
    return tuple(account(tenant, kind) for kind in kinds)


def proved(tenant):
    """L2, L7, and what the hold account says is what the holds say."""
    assert set(balances.trial().values()) <= {0}
    for kind in AccountKind:
        entries = Entry.objects.filter(account__owner=tenant.public_id, account__kind=kind)
        assert sum(entry.amount_minor for entry in entries) == balances.of(tenant.public_id, kind, tenant.currency)
    funded = sum(Hold.objects.filter(organisation=tenant).values_list("funded_minor", flat=True))
    assert funded == balances.of(tenant.public_id, AccountKind.HOLD, tenant.currency)


def used(tenant, *, job="job_1", seconds=3600, price="4.00", start=NOW, attempt=None, **values):
    """One card for so long; the default is an hour at 4.00."""
    fact = a_fact(
        tenant, job_ref=job, attempt_ref=attempt or f"att_{job}", started_at=start, seconds=seconds,
        unit_price_micro=yuan(price).minor * 10_000, **values,
    )  # fmt: skip
    assert usage.record(fact=fact, now=fact.ended_at).answer == "stored"
    return fact.ended_at


def test_a_top_up_is_in_the_wallet_once():
    tenant = a_prepaid()
    first = {"organisation_id": tenant.id, "amount": yuan("30.00"), "reference": "pay_1", "now": NOW}
    assert wallets.top_up(**first) is True
    assert wallets.top_up(**first) is False
    with pytest.raises(Conflict) as other:
        wallets.top_up(**{**first, "amount": yuan("31.00")})
    assert other.value.code == "posting_mismatch"
    assert in_account(tenant) == ("30.00", "0.00", "0.00")
    assert AuditEvent.objects.filter(deed="wallet.topup").count() == 1
    assert OutboxMessage.objects.filter(topic="cycle.wanted").count() == 1
    proved(tenant)


@pytest.mark.parametrize("code", ["USD", "EUR", "JPY", "KWD"])
def test_money_of_another_currency_is_never_credited(code):
    tenant = a_prepaid()
    with pytest.raises(Conflict) as refused:
        wallets.top_up(organisation_id=tenant.id, amount=Money(1000, code), reference="pay_1", now=NOW)
    assert refused.value.code == "currency_differs"
    assert not Txn.objects.exists()


def test_nothing_and_less_are_no_top_up():
    tenant = a_prepaid()
    for minor in (0, -1):
        with pytest.raises(Conflict):
            wallets.top_up(organisation_id=tenant.id, amount=Money(minor, "CNY"), reference="pay_1", now=NOW)


@pytest.mark.django_db(transaction=True)
def test_h1_320_debits_at_once_never_overdraw_a_wallet():
    given, expected = case("bill-h1")
    tenant = a_prepaid(Money(given["balance_minor"], "CNY").text())

    def debits(thread):
        said = []
        for k in range(given["debits_per_thread"]):
            key = f"d{thread % 4}-{k}-{thread // 4 if k % 5 else 0}"
            try:
                done = wallets.take_out(
                    organisation_id=tenant.id, amount=Money(given["debit_minor"], "CNY"), reference=key, now=NOW
                )
                said.append("done" if done else "duplicate")
            except SpendingRefused:
                said.append("rejected")
        return said

    said = [word for words in in_threads(given["threads"], debits) for word in words]
    assert said.count("done") == expected["succeeded"]
    assert said.count("rejected") + said.count("duplicate") == expected["rejected_plus_duplicates"]
    assert said.count("duplicate") <= expected["duplicates_at_most"]
    assert balances.of(tenant.public_id, AccountKind.WALLET, "CNY") == expected["end_balance_minor"]
    assert Txn.objects.filter(kind="takeout").count() == expected["succeeded"]  # a rejected debit leaves no key
    proved(tenant)


def test_a_prepaid_hold_moves_its_money_and_gives_back_what_was_not_used():
    tenant = a_prepaid("10.00")
    holds.reserve(organisation_id=tenant.id, reference="job_1", amount=yuan("6.00"), now=NOW)
    assert in_account(tenant) == ("4.00", "6.00", "0.00")
    holds.reserve(organisation_id=tenant.id, reference="job_1", amount=yuan("5.00"), now=NOW)
    assert in_account(tenant) == ("5.00", "5.00", "0.00")
    with pytest.raises(SpendingRefused) as refused:
        holds.reserve(organisation_id=tenant.id, reference="job_2", amount=yuan("5.01"), now=NOW)
    assert refused.value.extra["refused_by"] == "balance"
    assert "top up" in refused.value.detail
    now = used(tenant, seconds=1800)  # 2.00 of 5.00
    assert balances.balance(organisation_id=tenant.id).available == yuan("5.00")
    assert holds.release(reference="job_1", now=now) is True
    hold = Hold.objects.get(reference="job_1")
    assert (hold.state, hold.captured_minor, hold.funded_minor) == ("captured", 200, 200)
    assert in_account(tenant) == ("8.00", "2.00", "0.00")
    assert balances.balance(organisation_id=tenant.id).available == yuan("8.00")
    proved(tenant)


def test_a_job_that_never_ran_costs_nothing():
    tenant = a_prepaid("10.00")
    holds.reserve(organisation_id=tenant.id, reference="job_1", amount=yuan("6.00"), now=NOW)
    holds.release(reference="job_1", now=NOW)
    assert Hold.objects.get().state == "released"
    assert in_account(tenant) == ("10.00", "0.00", "0.00")
    holds.reserve(organisation_id=tenant.id, reference="job_2", amount=yuan("6.00"), now=NOW, expires_at=NOW)
    assert holds.expire_due(now=NOW) == 1
    assert in_account(tenant) == ("10.00", "0.00", "0.00")
    proved(tenant)


def test_the_invoice_is_paid_from_what_the_jobs_kept(settings):
    settings.IDLEWILD_TAX_PPM = 60_000
    tenant = a_prepaid("20.00")
    for job in ("job_1", "job_2"):
        holds.reserve(organisation_id=tenant.id, reference=job, amount=yuan("5.00"), now=NOW)
        holds.release(reference=job, now=used(tenant, job=job))
    assert in_account(tenant) == ("11.52", "8.48", "0.00")
    invoice = october(tenant)
    assert (invoice.state, invoice.total_minor, invoice.paid_minor) == ("paid", 848, 848)
    assert in_account(tenant) == ("11.52", "0.00", "0.00")
    assert not OutboxMessage.objects.filter(topic="stripe.collect").exists()
    assert invoices.verify(invoice).ok
    proved(tenant)


def test_what_the_estimate_was_off_goes_back_or_comes_from_the_wallet():
    tenant = a_prepaid("20.00")
    for n in range(3):  # three jobs of 0.335 each: 0.34 each when they end, 1.01 (1.005) on one line
        holds.reserve(organisation_id=tenant.id, reference=f"job_{n}", amount=yuan("1.00"), now=NOW)
        start = NOW + timedelta(hours=n)
        holds.release(reference=f"job_{n}", now=used(tenant, job=f"job_{n}", seconds=1206, price="1.00", start=start))
    assert in_account(tenant) == ("18.98", "1.02", "0.00")
    late = a_fact(tenant, attempt_ref="att_late", job_ref="job_9", started_at=NOW, seconds=3600)
    usage.record(fact=late, now=NOW + timedelta(days=1))
    assert october(tenant).state == "paid"
    assert in_account(tenant) == ("14.99", "0.00", "0.00")
    proved(tenant)


def test_a_job_over_the_end_of_the_month_pays_each_invoice_its_part():
    tenant = a_prepaid("100.00")
    start = datetime(2026, 10, 31, 22, tzinfo=UTC)
    holds.reserve(organisation_id=tenant.id, reference="job_1", amount=yuan("40.00"), now=start)
    used(tenant, seconds=4 * 3600, start=start)  # two hours in each month
    invoice = october(tenant)
    assert (invoice.state, invoice.total_minor) == ("paid", 800)
    hold = Hold.objects.get()
    assert (hold.state, hold.amount_minor, hold.funded_minor) == ("active", 3200, 3200)
    holds.release(reference="job_1", now=start + timedelta(days=4))
    assert in_account(tenant) == ("84.00", "8.00", "0.00")
    proved(tenant)


def test_an_invoice_that_the_wallet_cannot_pay_whole_stays_open():
    tenant = a_prepaid("3.00")
    used(tenant)
    invoice = october(tenant)
    assert (invoice.state, invoice.payable_minor, invoice.paid_minor) == ("partially_paid", 400, 300)
    assert OutboxMessage.objects.get(topic="stripe.collect").payload["amount_minor"] == 100
    assert in_account(tenant) == ("0.00", "0.00", "-1.00")
    assert balances.balance(organisation_id=tenant.id).available == yuan("0.00")
    proved(tenant)


def test_a_postpaid_tenant_may_have_a_wallet_too():
    tenant = a_tenant(credit_limit_minor=1000)
    wallets.top_up(organisation_id=tenant.id, amount=yuan("5.00"), reference="pay_1", now=NOW)
    assert balances.balance(organisation_id=tenant.id).available == yuan("15.00")
    holds.reserve(organisation_id=tenant.id, reference="job_1", amount=yuan("12.00"), now=NOW)
    assert in_account(tenant) == ("5.00", "0.00", "0.00")  # its holds only count
    holds.release(reference="job_1", now=used(tenant))
    assert october(tenant).state == "paid"
    assert in_account(tenant) == ("1.00", "0.00", "0.00")


@pytest.mark.django_db(transaction=True)
def test_twenty_submits_and_top_ups_at_once_stay_within_the_wallet():
    tenant = a_prepaid("100.00")

    def submit(number):
        try:
            if number % 5 == 4:
                wallets.top_up(organisation_id=tenant.id, amount=yuan("20.00"), reference=f"more_{number}", now=NOW)
                return "more"
            holds.reserve(organisation_id=tenant.id, reference=f"job_{number}", amount=yuan("15.00"), now=NOW)
        except SpendingRefused as refused:
            return refused.extra["refused_by"]
        return "held"

    said = in_threads(20, submit)
    held = said.count("held")
    assert (said.count("more"), held + said.count("balance")) == (4, 16)
    assert 6 <= held <= 12  # 100 without, 180 with every top-up
    assert in_account(tenant)[1] == Money(held * 1500, "CNY").text()
    proved(tenant)


def test_terms_are_agreed_and_checked():
    tenant = a_tenant()
    for wrong in ({"mode": "later"}, {"payment_days": 121}, {"discount_ppm": -1}, {"low_minor": -1}):
        with pytest.raises(InvalidInput):
            wallets.set_terms(organisation_id=tenant.id, by="usr_staff", now=NOW, **wrong)
    wallets.set_terms(organisation_id=tenant.id, by="usr_staff", now=NOW, payment_days=30)
    wallets.set_terms(organisation_id=tenant.id, by="usr_staff", now=NOW, payment_days=30)
    assert AuditEvent.objects.filter(deed="terms.set").count() == 1
    used(tenant)
    invoice = october(tenant)
    assert invoice.due_at - invoice.issued_at == timedelta(days=30)


@pytest.mark.parametrize("seed", range(12))
def test_no_order_of_deeds_makes_or_loses_money(seed):
    """L1 L2 L5 L7: random top-ups, holds, renewals, usage, ends and a close; after each the books are proved."""
    chance, tenant, now = random.Random(seed), a_prepaid("25.00"), NOW
    jobs, running = 0, []
    for _ in range(14):
        deed = chance.choice(["top up", "take out", "submit", "submit", "use", "use", "end"])
        now += timedelta(minutes=chance.randint(61, 90))
        try:
            if deed == "top up":
                wallets.top_up(
                    organisation_id=tenant.id, amount=Money(chance.randint(1, 900), "CNY"), reference=f"{now}", now=now
                )
            elif deed == "take out":
                wallets.take_out(
                    organisation_id=tenant.id, amount=Money(chance.randint(1, 900), "CNY"), reference=f"{now}", now=now
                )
            elif deed == "submit":
                jobs += 1
                amount = Money(chance.randint(0, 1200), "CNY")
                holds.reserve(organisation_id=tenant.id, reference=f"job_{jobs}", amount=amount, now=now)
                running.append(f"job_{jobs}")
            elif deed == "use" and running:
                job = chance.choice(running)
                used(
                    tenant,
                    job=job,
                    seconds=chance.randint(1, 3600),
                    start=now - timedelta(hours=1),
                    attempt=f"att_{now}",
                )
                holds.renew(reference=job, hour_micro=4_000_000, left=timedelta(hours=9), hours={}, now=now)
            elif running:
                holds.release(reference=running.pop(chance.randrange(len(running))), now=now)
        except SpendingRefused:
            pass
        proved(tenant)
    for job in running:
        holds.release(reference=job, now=now)
    paid = Entry.objects.filter(account__owner="platform", account__kind="cash")
    if Hold.objects.filter(funded_minor__gt=0).exists() or balances.used_by_job(
        organisation_id=tenant.id, currency="CNY"
    ):
        invoice = october(tenant)
        assert invoice.state == "paid" or in_account(tenant)[0] == "0.00"
    proved(tenant)
    assert in_account(tenant)[1] == "0.00"
    owed = balances.of(tenant.public_id, AccountKind.TENANT_RECEIVABLE, "CNY")
    seller = balances.of("org_seller", AccountKind.ACCRUED, "CNY") + balances.of(
        "platform", AccountKind.PLATFORM_FEE, "CNY"
    )
    wallet = balances.of(tenant.public_id, AccountKind.WALLET, "CNY")
    assert -sum(entry.amount_minor for entry in paid) == wallet + seller + owed
