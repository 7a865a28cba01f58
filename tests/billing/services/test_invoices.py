"""Invoices: issued whole or not at all, voided by a counter-entry, paid, corrected, verified from the records."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from billing.domain.ledger import AccountKind, balanced
from billing.models import Account, Entry, Invoice, InvoiceLine, LateChange, Txn
from billing.selectors import balances, earnings
from billing.selectors import invoices as stored
from billing.selectors.usage import upcoming
from billing.services import invoices, ledger, periods, usage
from portal.audit.models import AuditEvent
from portal.kit.errors import Conflict, NotFound
from portal.kit.money import Money
from portal.outbox.models import OutboxMessage
from tests.billing.books import AFTER_OCTOBER, a_fact, a_tenant, moment, october, rated

pytestmark = pytest.mark.django_db
AFTER_NOVEMBER = moment("2026-12-04T00:00:00Z")


def yuan(text):
    return Money.parse(text, "CNY")


def november(tenant):
    return periods.close(organisation_id=tenant.id, month="2026-11", now=AFTER_NOVEMBER).invoice


def lose(attempt, now):
    return usage.end_attempt(
        attempt_ref=attempt, reason="node_lost", fault="provider", billed=False, message="silent", ended_at=now, now=now
    )


# --- issue -------------------------------------------------------------------------------------------------------------


def test_an_issued_invoice_is_posted_shared_promised_and_audited(settings):
    settings.IDLEWILD_TAX_PPM = 60_000
    tenant = a_tenant()
    invoice = rated(tenant, (3_600_000_000, 10_000_000), provider_ref="org_s")
    assert (invoice.state, invoice.number, invoice.total_minor, invoice.payable_minor) == (
        "open",
        "IW-2026-000001",
        1060,
        1060,
    )
    assert invoice.due_at - invoice.issued_at == timedelta(days=14)
    found = {
        (account.owner, account.kind): account.balance_minor for account in Account.objects.exclude(balance_minor=0)
    }
    assert found == {
        (tenant.public_id, "tenant_receivable"): -1060,
        ("org_s", "accrued"): 900,
        ("platform", "platform_fee"): 100,
        ("platform", "tax_payable"): 60,
    }
    promise = OutboxMessage.objects.get(topic="stripe.collect")
    assert promise.payload == {"invoice": invoice.public_id, "amount_minor": 1060, "currency": "CNY"}
    assert OutboxMessage.objects.filter(topic="invoice.pdf", key=invoice.public_id).exists()
    assert AuditEvent.objects.get(deed="invoice.issue").target == invoice.public_id


def test_an_invoice_is_issued_once():
    invoice = rated(a_tenant(), (3_600_000_000, 10_000_000))
    with pytest.raises(Conflict):
        invoices.issue(invoice=invoice, now=AFTER_OCTOBER)
    assert Invoice.objects.get().number == invoice.number


def test_an_invoice_of_nothing_is_paid_at_once_and_asks_nobody():
    tenant = a_tenant()
    usage.record(fact=(fact := a_fact(tenant)), now=fact.ended_at)
    lose("att_1", fact.ended_at)
    invoice = october(tenant)
    (line,) = stored.lines(invoice)
    assert (line.amount, line.unbilled_reason, line.node_ref, line.qty_us) == (
        yuan("0.00"),
        "node_lost",
        "nod_1",
        60_000_000,
    )
    assert invoice.state == "paid"
    assert not OutboxMessage.objects.filter(topic="stripe.collect").exists()
    assert invoices.verify(invoice).ok


def test_the_mail_goes_to_the_owner(ada):
    usage.record(fact=(fact := a_fact(ada.organisation)), now=fact.ended_at)
    october(ada.organisation, now=moment("2026-11-04T00:00:00Z"))
    assert OutboxMessage.objects.get(topic="mail", key__startswith="invoice:").payload["to"] == ["ada@example.org"]


def test_dates_of_a_series_never_fall():
    first = rated(a_tenant(), (3_600_000_000, 10_000_000))
    tenant = a_tenant(period_timezone="Asia/Shanghai")
    usage.record(fact=(fact := a_fact(tenant)), now=fact.ended_at)
    earlier = october(tenant, now=moment("2026-11-03T16:00:00Z"))
    assert (earlier.number, earlier.issue_date) == ("IW-2026-000002", first.issue_date)


# --- void, payment -----------------------------------------------------------------------------------------------------


def test_a_void_keeps_its_number_and_mirrors_its_postings():
    tenant = a_tenant()
    invoice = rated(tenant, (3_600_000_000, 10_000_000))
    voided = invoices.void(invoice=invoice, by="usr_staff", reason="wrong party", now=AFTER_OCTOBER)
    assert (voided.state, voided.number) == ("void", invoice.number)
    assert set(Account.objects.values_list("balance_minor", flat=True)) == {0}
    assert AuditEvent.objects.get(deed="invoice.void").data["reason"] == "wrong party"
    with pytest.raises(Conflict):
        invoices.void(invoice=invoice, by="usr_staff", reason="again", now=AFTER_OCTOBER)
    assert balances.balance(organisation_id=tenant.id).available == yuan("500.00")


def test_an_invoice_is_paid_in_parts_never_twice_never_too_much_never_in_another_currency():
    tenant = a_tenant()
    invoice = rated(tenant, (3_600_000_000, 10_000_000))

    def pay(text, reference, code="CNY"):
        amount = Money.parse(text, code)
        return invoices.record_payment(
            invoice=invoice, amount=amount, reference=reference, by="usr_staff", now=AFTER_OCTOBER
        )

    assert pay("4.00", "bank 1").state == "partially_paid"
    assert pay("4.00", "bank 1").paid_minor == 400, "the same transfer again"
    for text, reference, code in (
        ("6.01", "bank 2", "CNY"),
        ("0.00", "bank 3", "CNY"),
        ("6.00", "bank 4", "USD"),
        ("5.00", "bank 1", "CNY"),
    ):
        with pytest.raises(Conflict):
            pay(text, reference, code)
    with pytest.raises(Conflict, match="credit note"):
        invoices.void(invoice=invoice, by="usr_staff", reason="too late", now=AFTER_OCTOBER)
    done = pay("6.00", "bank 5")
    assert (done.state, done.paid_minor, done.settled_at) == ("paid", 1000, AFTER_OCTOBER)
    assert balances.of(tenant.public_id, AccountKind.TENANT_RECEIVABLE, "CNY") == 0
    assert balances.of("platform", AccountKind.CASH, "CNY") == -1000


def test_what_the_rail_cannot_collect_never_becomes_past_due():
    rated(a_tenant(), (3_600_000_000, 490_000))
    assert invoices.mark_past_due(now=AFTER_NOVEMBER) == 0
    assert not OutboxMessage.objects.filter(topic="stripe.collect").exists()


# --- corrections -------------------------------------------------------------------------------------------------------


def test_billed_time_that_turns_out_unbillable_is_taken_back_with_a_line_of_nothing():
    tenant = a_tenant()
    tiers = ((1, 4_000_000), (None, 2_000_000))
    kept = a_fact(tenant, attempt_ref="att_kept", seconds=1800, tiers=tiers)
    lost = a_fact(
        tenant,
        attempt_ref="att_lost",
        started_at=kept.ended_at,
        seconds=3600,
        tiers=tiers,
        ended_at=kept.ended_at + timedelta(hours=1),
    )
    usage.record_many(facts=[kept, lost], now=lost.ended_at)
    first = october(tenant)
    assert [line.amount.text() for line in stored.lines(first)] == ["4.00", "1.00"]
    before = earnings.standing(provider_ref="org_seller")["CNY"]["accrued"]
    now = moment("2026-11-10T00:00:00Z")
    lose("att_lost", now)
    lose("att_lost", now)
    assert LateChange.objects.count() == 2, "one per billed share, however often it is said"
    announced = upcoming(tenant.id, now)
    assert announced is not None
    assert announced.subtotal == yuan("-3.00"), "the coming invoice shows it already"
    second = november(tenant)
    assert [line.wire() for line in stored.lines(second)] == [line.wire() for line in announced.lines]
    found = sorted(
        (line.correction_of, line.qty_us, line.amount.text(), line.unbilled_reason) for line in stored.lines(second)
    )
    half = 1_800_000_000
    assert found == [
        ("2026-10", -half, "-1.00", ""),
        ("2026-10", -half, "-2.00", ""),
        ("2026-10", 2 * half, "0.00", "node_lost"),
    ]
    assert (second.total_minor, second.to_credit_minor) == (0, 300)
    assert invoices.verify(first).ok
    assert invoices.verify(second).ok, invoices.verify(second).wire()
    assert balances.of(tenant.public_id, AccountKind.CREDIT, "CNY") == 300
    after = earnings.standing(provider_ref="org_seller")["CNY"]["accrued"]
    assert before - after == yuan("2.70"), "the provider is paid only what was billed"
    assert set(balances.trial().values()) == {0}
    december = a_fact(tenant, attempt_ref="att_3", started_at=moment("2026-12-06T00:00:00Z"))
    usage.record(fact=december, now=december.ended_at)
    third = periods.close(organisation_id=tenant.id, month="2026-12", now=moment("2027-01-05T00:00:00Z")).invoice
    assert not third.lines.exclude(correction_of="").exists(), "a correction is made once"


def test_late_usage_goes_behind_what_october_had_used_of_its_tiers():
    tenant = a_tenant()
    tiers = ((1, 4_000_000), (None, 2_000_000))
    early = a_fact(tenant, seconds=1800, tiers=tiers)
    usage.record(fact=early, now=early.ended_at)
    october(tenant)
    late = a_fact(tenant, attempt_ref="att_2", started_at=early.ended_at, seconds=3600, tiers=tiers)
    usage.record(fact=late, now=AFTER_OCTOBER + timedelta(hours=1))
    lines = stored.lines(november(tenant))
    assert [(line.tier, line.amount.text(), line.label) for line in lines] == [
        (1, "2.00", "Correction Oct"),
        (2, "1.00", "Correction Oct"),
    ]


def test_late_usage_of_a_lost_attempt_is_a_line_of_nothing():
    tenant = a_tenant()
    usage.record(fact=(fact := a_fact(tenant, seconds=3600)), now=fact.ended_at)
    now = AFTER_OCTOBER + timedelta(days=1)
    october(tenant)
    usage.end_attempt(
        attempt_ref="att_2", reason="device_error", fault="provider", billed=False, message="", ended_at=now, now=now
    )
    usage.record(fact=a_fact(tenant, attempt_ref="att_2", seconds=600), now=now)
    (line,) = stored.lines(november(tenant))
    assert (line.correction_of, line.unbilled_reason, line.amount) == ("2026-10", "device_error", yuan("0.00"))


# --- verify ------------------------------------------------------------------------------------------------------------


def sabotage(sql):
    """What no role of ours can do: change an issued document with the guards asleep."""
    import os

    import psycopg
    from django.conf import settings

    with psycopg.connect(
        os.environ["IDLEWILD_TEST_ADMIN_URL"], dbname=settings.DATABASES["default"]["NAME"], autocommit=True
    ) as admin:
        admin.execute("SET session_replication_role = replica")
        admin.execute(sql)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("sql", "what"),
    [
        (
            "UPDATE billing_invoiceline SET amount_minor = amount_minor + 1, seller_minor = seller_minor + 1 WHERE position = 1",
            "amounts",
        ),
        ("UPDATE billing_invoiceline SET qty_us = qty_us + 1 WHERE position = 1", "add up"),
        ("UPDATE billing_invoiceline SET price_micro = 5000000 WHERE position = 1", "another price"),
        ("UPDATE billing_usagerecord SET qty_us = qty_us * 2", "in the lines with"),
        ("UPDATE billing_linerecord SET qty_us = qty_us * 2", "in the lines with"),
        ("UPDATE billing_invoice SET total_minor = total_minor + 1", "other amounts"),
        ("UPDATE billing_invoice SET tax_minor = 9", "tax differ"),
        ("UPDATE billing_invoicedocument SET content = '{}' WHERE format = 'json'", "not the one"),
        ("DELETE FROM billing_invoicedocument", "missing"),
    ],
)
def test_verify_finds_whatever_was_changed_behind_the_guards(sql, what):
    invoice = rated(a_tenant(), (3_600_000_000, 10_000_000), (7_200_000_000, 10_000_000))
    assert invoices.verify(invoice).ok
    sabotage(sql)
    found = invoices.verify(Invoice.objects.get(id=invoice.id))
    assert not found.ok
    said = " ".join([*found.problems, *(text for line in found.lines for text in line.problems)])
    assert what in said, said


def test_a_foreign_invoice_is_not_found_and_an_own_one_by_id_or_number():
    mine, other = a_tenant(), a_tenant()
    invoice = rated(mine, (3_600_000_000, 10_000_000))
    for name in (invoice.public_id, invoice.number):
        assert stored.one(organisation_id=mine.id, public_id=name) == invoice
        with pytest.raises(NotFound):
            stored.one(organisation_id=other.id, public_id=name)
    with pytest.raises(NotFound):
        stored.line_records(invoice, 2)
    (share,) = stored.line_records(invoice, 1)
    assert (share.qty_us, share.record_qty_us, share.wire()["quantity"]) == (3_600_000_000, 3_600_000_000, "1.000000")
    assert list(stored.everyone(state="open")) == [invoice]
    assert list(stored.for_organisation(organisation_id=other.id)) == []


# --- ledger ------------------------------------------------------------------------------------------------------------


def test_l6_the_same_key_is_one_posting_and_another_body_a_conflict():
    five = balanced("CNY", [("platform", AccountKind.CASH, -5), ("t", AccountKind.WALLET, 5)])
    six = balanced("CNY", [("platform", AccountKind.CASH, -6), ("t", AccountKind.WALLET, 6)])
    posted = [ledger.post(kind="top_up", key="k1", posting=five, reference="r", now=AFTER_OCTOBER) for _ in range(2)]
    assert posted[0] == posted[1]
    with pytest.raises(Conflict) as refused:
        ledger.post(kind="top_up", key="k1", posting=six, reference="r", now=AFTER_OCTOBER)
    assert refused.value.code == "posting_mismatch"
    with pytest.raises(Conflict):
        ledger.known(key="k1", posting=six)
    assert (Txn.objects.count(), Entry.objects.count()) == (1, 2)
    nothing = balanced("CNY", [])
    assert ledger.post(kind="void", key="k2", posting=nothing, reference="r", now=AFTER_OCTOBER) is None


kinds = st.sampled_from(["top_up", "hold", "release", "invoice", "pay"])


@hypothesis_settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(kinds, st.integers(1, 500), st.sampled_from(["CNY", "USD"]), st.integers(0, 3)), max_size=15))
def test_l2_l7_balances_are_sums_and_the_trial_is_zero_after_any_operations(db, operations):
    from django.db import IntegrityError, transaction

    moves = {
        "top_up": [("platform", AccountKind.CASH, -1), ("t", AccountKind.WALLET, 1)],
        "hold": [("t", AccountKind.WALLET, -1), ("t", AccountKind.HOLD, 1)],
        "release": [("t", AccountKind.HOLD, -1), ("t", AccountKind.WALLET, 1)],
        "invoice": [("t", AccountKind.TENANT_RECEIVABLE, -1), ("s", AccountKind.ACCRUED, 1)],
        "pay": [("platform", AccountKind.CASH, -1), ("t", AccountKind.TENANT_RECEIVABLE, 1)],
    }
    with transaction.atomic():
        for number, (kind, amount, code, key) in enumerate(operations):
            legs = [(owner, account, sign * amount) for owner, account, sign in moves[kind]]
            try:
                with transaction.atomic():
                    name = f"{kind}-{key}" if key else f"{number}"
                    ledger.post(kind=kind, key=name, posting=balanced(code, legs), reference="r", now=AFTER_OCTOBER)
            except (IntegrityError, Conflict):
                continue  # a wallet would fall below zero, or the key was used for another body
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            cursor.execute(
                "SELECT count(*) FROM billing_account a WHERE balance_minor <>"
                " coalesce((SELECT sum(amount_minor) FROM billing_entry e WHERE e.account_id = a.id), 0)"
            )
            assert cursor.fetchone() == (0,)
            cursor.execute("SET CONSTRAINTS ALL DEFERRED")
        assert set(balances.trial().values()) <= {0}
        assert not Account.objects.filter(kind__in=["wallet", "hold", "accrued"], balance_minor__lt=0).exists()
        transaction.set_rollback(True)


def test_fee_plus_share_is_the_line_by_line_and_in_the_ledger(settings):
    settings.IDLEWILD_PLATFORM_FEE_PPM = 125_000
    tenant = a_tenant()
    start = datetime(2026, 10, 5, tzinfo=UTC)
    facts = [
        a_fact(
            tenant,
            attempt_ref=f"att_{n}",
            project_ref=f"prj_{n}",
            provider_ref=f"org_{n % 3}",
            started_at=start,
            seconds=7 * n + 1,
        )
        for n in range(40)
    ]
    usage.record_many(facts=facts, now=start + timedelta(hours=1))
    invoice = october(tenant)
    lines = InvoiceLine.objects.filter(invoice=invoice)
    assert all(line.fee_minor + line.seller_minor == line.amount_minor for line in lines)
    for number in range(3):
        owner = f"org_{number}"
        share = sum(line.seller_minor for line in lines if line.provider_ref == owner)
        assert earnings.standing(provider_ref=owner)["CNY"]["accrued"].minor == share
        (row,) = earnings.months(provider_ref=owner)
        assert (row.share.minor, row.fee.minor + row.share.minor) == (share, row.billed.minor)
