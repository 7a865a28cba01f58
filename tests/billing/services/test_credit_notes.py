"""Credit notes: an issued invoice is corrected by a mirror of itself, never by an edit; to the cent, and never by more than it has."""

import random
from datetime import UTC, datetime

import psycopg
import pytest
from django.db import IntegrityError, connection, transaction

from billing.domain.credit import TooMuch
from billing.domain.ledger import AccountKind
from billing.models import CreditNote, Invoice
from billing.selectors import balances
from billing.selectors import credit_notes as stored
from billing.services import credit_notes, grants, invoices, wallets
from portal.kit.errors import Conflict, InvalidInput
from portal.kit.money import Money
from portal.outbox.models import OutboxMessage
from tests.billing.books import a_tenant, case, october, rated
from tests.billing.services.test_periods import in_threads
from tests.billing.services.test_wallets import a_prepaid, account, in_account, proved, used, yuan

NOW = datetime(2026, 11, 10, tzinfo=UTC)
pytestmark = pytest.mark.django_db


def credit(invoice, minor, reference="ref", **more):
    return credit_notes.issue(
        invoice=invoice,
        total=Money(minor, invoice.currency),
        reason="too slow",
        reference=reference,
        by="usr_staff",
        now=NOW,
        **more,
    )


def pay(invoice, minor, reference="bank 1"):
    return invoices.record_payment(
        invoice=invoice, amount=Money(minor, invoice.currency), reference=reference, by="usr_staff", now=NOW
    )


def test_l1_a_note_never_takes_more_than_the_invoice_has():
    given, expected = case("bill-l1")
    tenant = a_tenant()
    invoice = rated(tenant, (3_600_000_000, given["invoice_total_minor"] * 10_000))
    pay(invoice, given["paid_minor"])
    invoice.refresh_from_db()
    assert stored.standing(invoice).creditable_minor == expected["creditable_minor"]
    results = []
    for number, minor in enumerate(given["credit_notes_minor"]):
        try:
            credit(invoice, minor, f"note {number}")
            results.append("accepted")
        except TooMuch:
            results.append("rejected")
    assert results == expected["results"]
    invoice.refresh_from_db()
    assert (invoice.state, invoice.credited_minor) == ("paid", 6000)
    assert stored.standing(invoice).creditable_minor == expected["creditable_after_minor"]
    assert invoice.paid_minor == expected["refundable_minor"]
    assert account(tenant, AccountKind.TENANT_RECEIVABLE) == "0.00"
    proved(tenant)


def test_l2_the_last_note_takes_exactly_the_tax_that_is_left(settings):
    given, expected = case("bill-l2")
    settings.IDLEWILD_TAX_PPM = given["rate_ppm"]
    tenant = a_tenant()
    invoice = rated(tenant, (3_600_000_000, given["invoice_net_minor"] * 10_000))
    taxes, total = [], 0
    for number, net in enumerate(given["credit_nets_minor"]):
        note = credit_notes.issue(
            invoice=invoice,
            lines={1: Money(net, "CNY")},
            reason="x",
            reference=f"note {number}",
            by="usr_staff",
            now=NOW,
        )
        taxes.append(note.tax_minor)
        total += note.total_minor
    assert taxes == expected["tax_minor"]
    assert total == expected["sum_with_tax_minor"]
    for kind in (AccountKind.PLATFORM_FEE, AccountKind.TAX_PAYABLE):
        assert balances.of("platform", kind, "CNY") == 0
    assert balances.of("org_seller", AccountKind.ACCRUED, "CNY") == 0
    assert in_account(tenant) == ("0.00", "0.00", "0.00")
    proved(tenant)


def test_what_was_paid_becomes_a_credit_that_the_next_invoice_uses():
    tenant = a_tenant()
    invoice = rated(tenant, (3_600_000_000, 10_000_000))
    pay(invoice, 1000)
    note = credit(invoice, 400)
    assert (note.off_open_minor, note.to_credit_minor) == (0, 400)
    invoice.refresh_from_db()
    assert (invoice.state, invoice.credited_minor) == ("paid", 0)
    assert account(tenant, AccountKind.CREDIT) == "4.00"
    assert balances.balance(organisation_id=tenant.id).available == yuan("504.00")
    assert OutboxMessage.objects.filter(topic="mail", key=f"credit_note:{note.public_id}").count() == 1
    proved(tenant)


def test_the_fee_given_back_is_what_remains_subtracted(settings):
    """P7: three notes of a third; fee and share add up to the line, and at the end nothing is left of either."""
    settings.IDLEWILD_PLATFORM_FEE_PPM = 125_000
    tenant = a_tenant()
    invoice = rated(tenant, (3_600_000_000, 3_330_000))  # 3.33: fee 0.42, share 2.91
    fees = [credit(invoice, 111, f"note {n}").lines.get().fee_minor for n in range(3)]
    assert (fees, sum(fees)) == ([14, 14, 14], 42)
    assert balances.of("platform", AccountKind.PLATFORM_FEE, "CNY") == 0
    proved(tenant)


def test_a_share_that_is_no_longer_there_becomes_the_providers_debt():
    tenant = a_tenant()
    invoice = rated(tenant, (3_600_000_000, 10_000_000))
    from billing.domain import ledger as entries
    from billing.services import ledger

    paid_out = entries.moved(
        "CNY", amount_minor=900, out_of=("org_seller", AccountKind.ACCRUED), into=("platform", AccountKind.CASH)
    )
    ledger.post(kind="payout", key="payout:1", posting=paid_out, reference="x", now=NOW)
    pay(invoice, 1000)
    credit(invoice, 1000)
    assert balances.of("org_seller", AccountKind.PROVIDER_RECEIVABLE, "CNY") == -900
    assert account(tenant, AccountKind.CREDIT) == "10.00"
    proved(tenant)


def test_the_same_reference_is_the_same_note_and_other_currencies_are_refused():
    invoice = rated(a_tenant(), (3_600_000_000, 10_000_000))
    first = credit(invoice, 300)
    assert credit(invoice, 300).id == first.id
    assert CreditNote.objects.count() == 1
    with pytest.raises(Conflict) as used_before:
        credit(rated(a_tenant(), (3_600_000_000, 10_000_000)), 300)
    assert used_before.value.code == "reference_used"
    for wrong, code in (
        ({"total": Money(300, "USD")}, "currency_differs"),
        ({"total": Money(0, "CNY")}, "bad_amount"),
        ({"lines": {9: Money(1, "CNY")}}, "bad_line"),
        ({"lines": {1: Money(701, "CNY")}}, "credit_exceeds_invoice"),
        ({}, "bad_amount"),
    ):
        with pytest.raises(Conflict) as refused:
            credit_notes.issue(
                invoice=invoice, reason="x", reference=f"other {wrong}", by="usr_staff", now=NOW, **wrong
            )
        assert refused.value.code == code


def test_a_void_invoice_has_nothing_to_credit_and_a_credited_one_is_not_voided():
    tenant = a_tenant()
    invoice = rated(tenant, (3_600_000_000, 10_000_000))
    credit(invoice, 300)
    with pytest.raises(Conflict) as refused:
        invoices.void(invoice=invoice, by="usr_staff", reason="x", now=NOW)
    assert refused.value.code == "invoice_has_payments"
    other = rated(a_tenant(), (3_600_000_000, 10_000_000))
    invoices.void(invoice=other, by="usr_staff", reason="x", now=NOW)
    with pytest.raises(Conflict) as refused:
        credit(other, 300, "other")
    assert refused.value.code == "invoice_not_creditable"


@pytest.mark.parametrize("seed", range(8))
def test_p7_any_notes_and_payments_leave_the_books_balanced(seed, settings):
    """P7: Σ notes ≤ invoice, whatever is paid and credited in whatever order; nothing is left when all is credited."""
    chance = random.Random(seed)
    settings.IDLEWILD_TAX_PPM, settings.IDLEWILD_PLATFORM_FEE_PPM = chance.choice([0, 60_000, 130_000]), 125_000
    tenant = a_tenant()
    lines = [(3_600_000_000, chance.randint(1, 999) * 10_000) for _ in range(chance.randint(1, 4))]
    invoice = rated(tenant, *lines)
    whole, smallest = invoice.total_minor, set()
    for number in range(30):
        invoice.refresh_from_db()
        left = stored.standing(invoice)
        if left.creditable_minor == 0:
            break
        if left.open_minor > 1 and chance.random() < 0.3:
            pay(invoice, chance.randint(1, left.open_minor - 1), f"bank {number}")
        else:
            asked = chance.randint(1, left.creditable_minor) if number < 20 else left.creditable_minor
            try:
                note = credit(invoice, asked, f"note {number}")
                assert asked - 1 <= note.total_minor <= asked
            except TooMuch:  # one fen, of which a net and its tax would make two
                smallest.add(asked)
        proved(tenant)
    invoice.refresh_from_db()
    assert sum(CreditNote.objects.values_list("total_minor", flat=True)) == whole
    assert (invoice.state, smallest <= {1}) == ("paid", True)
    assert balances.of(tenant.public_id, AccountKind.CREDIT, "CNY") == invoice.paid_minor
    assert balances.of("org_seller", AccountKind.ACCRUED, "CNY") == 0
    assert balances.of("platform", AccountKind.PLATFORM_FEE, "CNY") == 0
    assert balances.of("platform", AccountKind.TAX_PAYABLE, "CNY") == 0


@pytest.mark.django_db(transaction=True)
def test_eight_notes_at_once_never_take_more_than_there_is():
    invoice = rated(a_tenant(), (3_600_000_000, 10_000_000))

    def write(number):
        try:
            credit(invoice, 300, f"note {number}")
        except Conflict as refused:
            return refused.code
        return "written"

    said = in_threads(8, write)
    assert (said.count("written"), said.count("credit_exceeds_invoice")) == (3, 5)
    assert sorted(CreditNote.objects.values_list("number", flat=True)) == [f"CN-2026-00000{n}" for n in (1, 2, 3)]


@pytest.mark.django_db(transaction=True)
def test_notes_closes_payments_and_top_ups_at_once_never_wait_in_a_ring():
    """Everything that moves money, over shared accounts, in threads: no deadlock, and the books are balanced."""
    tenants = [a_tenant() for _ in range(6)]
    billed = [rated(tenant, (3_600_000_000, 10_000_000), (3_600_000_000, 5_000_000)) for tenant in tenants]
    waiting = [a_tenant() for _ in range(3)]
    for tenant in waiting:
        used(tenant, attempt=f"att_waiting_{tenant.id}")

    def deed(number):
        invoice = billed[number % 6]
        if number % 4 == 0:
            credit(invoice, 100, f"note {number}")
        elif number % 4 == 1:
            pay(invoice, 100, f"bank {number}")
        elif number % 4 == 2:
            wallets.top_up(
                organisation_id=tenants[number % 6].id, amount=yuan("1.00"), reference=f"pay {number}", now=NOW
            )
        elif number < 12:
            october(waiting[number // 4])
        return "done"

    assert in_threads(24, deed) == ["done"] * 24
    for tenant in [*tenants, *waiting]:
        proved(tenant)


@pytest.mark.django_db(transaction=True)
def test_the_database_refuses_what_does_not_add_up():
    invoice = rated(a_tenant(), (3_600_000_000, 10_000_000))
    note = credit(invoice, 300)
    columns = "currency, tax_minor, off_open_minor, to_credit_minor, reason, written_by, issued_at, issue_date, content, sha256, organisation_id"
    copy = (
        f"INSERT INTO billing_creditnote (public_id, number, invoice_id, net_minor, total_minor, reference, {columns})"
        f" SELECT 'cnt_x', 'CN-x', invoice_id, net_minor, total_minor, 'x', {columns} FROM billing_creditnote"
    )
    line = "INSERT INTO billing_creditnoteline (note_id, position, line_id, amount_minor, fee_minor, seller_minor) VALUES (%s, 9, %s, 1, 0, 1)"
    for statement, values in ((copy, []), (line, [note.id, rated(a_tenant(), (3_600_000_000, 10_000)).lines.get().id])):
        with pytest.raises(IntegrityError) as refused, transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement, values)
        assert isinstance(refused.value.__cause__, psycopg.errors.CheckViolation)


def test_a_credited_prepaid_invoice_puts_its_money_in_the_credit_balance():
    tenant = a_prepaid("10.00")
    used(tenant)
    invoice = october(tenant)
    credit(invoice, 150)
    assert in_account(tenant) == ("6.00", "0.00", "0.00")
    assert account(tenant, AccountKind.CREDIT) == "1.50"
    assert balances.balance(organisation_id=tenant.id).available == yuan("7.50")


# -- credit grants -------------------------------------------------------------------------------------------------------------------
def give(tenant, minor, reference, **more):
    return grants.give_credit(
        organisation_id=tenant.id, amount=Money(minor, "CNY"), reason="welcome", reference=reference, by="usr_staff",
        now=datetime(2026, 10, 1, tzinfo=UTC), **more,
    )  # fmt: skip


def test_credits_go_by_priority_then_expiry_then_age_and_never_after_their_time():
    tenant = a_tenant()
    late = give(tenant, 500, "late", expires_at=datetime(2027, 1, 1, tzinfo=UTC))
    soon = give(tenant, 300, "soon", expires_at=datetime(2026, 12, 1, tzinfo=UTC))
    last = give(tenant, 900, "last", priority=90)
    gone = give(tenant, 700, "gone", priority=1, expires_at=datetime(2026, 10, 20, tzinfo=UTC))
    assert give(tenant, 500, "late", expires_at=datetime(2027, 1, 1, tzinfo=UTC)).id == late.id
    with pytest.raises(Conflict):
        give(tenant, 501, "late")
    assert balances.of("platform", AccountKind.PROMO_COST, "CNY") == -2400
    invoice = rated(tenant, (3_600_000_000, 10_000_000))  # 10.00
    assert (invoice.credit_used_minor, invoice.payable_minor, invoice.state) == (1000, 0, "paid")
    for grant, left in ((soon, 0), (late, 0), (last, 700), (gone, 0)):
        grant.refresh_from_db()
        assert grant.left_minor == left
    assert not gone.uses.exists()
    assert balances.of("platform", AccountKind.PROMO_COST, "CNY") == -1700
    assert account(tenant, AccountKind.CREDIT) == "7.00"
    proved(tenant)


def test_what_is_no_grant_is_refused():
    tenant = a_tenant()
    with pytest.raises(InvalidInput):
        give(tenant, 0, "nothing")
    with pytest.raises(InvalidInput):
        give(tenant, 1, "late", expires_at=datetime(2026, 10, 1, tzinfo=UTC))
    with pytest.raises(InvalidInput):
        give(tenant, 1, "first", priority=101)
    hours = {"organisation_id": tenant.id, "giver_id": tenant.id, "reason": "x", "by": "usr_staff", "now": NOW}
    for resource, quantity in (("network_byte", 1), ("core", 0)):
        with pytest.raises(InvalidInput):
            grants.give_hours(**hours, resource=resource, qty_us=quantity)
    assert grants.expire(now=NOW) == 0
    give(tenant, 100, "soon", expires_at=NOW)
    assert (grants.expire(now=NOW), grants.expire(now=NOW)) == (1, 0)
    assert account(tenant, AccountKind.CREDIT) == "0.00"
    proved(tenant)


def test_credit_is_money_for_a_prepaid_tenant_too():
    tenant = a_prepaid()
    give(tenant, 500, "welcome")
    from billing.services import holds

    holds.reserve(organisation_id=tenant.id, reference="job_1", amount=yuan("4.00"), now=NOW)
    assert in_account(tenant) == ("0.00", "0.00", "0.00")
    assert balances.balance(organisation_id=tenant.id).available == yuan("1.00")
    assert wallets.lock(tenant) is None
    assert Invoice.objects.count() == 0
