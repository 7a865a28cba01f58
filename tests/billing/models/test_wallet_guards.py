"""Attacks by raw SQL on grants, credit notes, bank transfers, reminders and rates, as the application and as the owner of the tables."""

from datetime import UTC, datetime

import pytest

from billing.models import BankTransfer, CreditGrant, Invoice
from billing.services import bank_transfers, credit_notes, grants, rates, reminders
from portal.kit.money import Money
from tests.billing.books import a_tenant, rated
from tests.billing.models.test_guards import attack

__all__ = ["attack"]  # a fixture

pytestmark = pytest.mark.django_db(transaction=True)
OCTOBER = datetime(2026, 10, 1, tzinfo=UTC)
NOW = datetime(2026, 11, 20, tzinfo=UTC)


@pytest.fixture
def money():
    """A row in every guarded table: a used grant, granted hours, a credit note, a matched and a waiting transfer, a reminder, a rate."""
    tenant = a_tenant()
    grants.give_credit(
        organisation_id=tenant.id, amount=Money(300, "CNY"), reason="x", reference="g", by="usr_staff", now=OCTOBER
    )
    grants.give_hours(
        organisation_id=tenant.id,
        giver_id=a_tenant().id,
        resource="core",
        qty_us=1,
        reason="x",
        by="usr_staff",
        now=OCTOBER,
    )
    invoice = rated(tenant, (3_600_000_000, 10_000_000))
    credit_notes.issue(invoice=invoice, total=Money(100, "CNY"), reason="x", reference="c", by="usr_staff", now=NOW)
    text = f"date,amount,text,bank_reference\n2026-11-11,1.00,{invoice.number},B1\n2026-11-11,2.00,hello,B2\n"
    bank_transfers.import_statement(name="x", data=text.encode(), by="usr_staff", now=NOW)
    assert reminders.send_due(now=NOW) == 1
    rates.enter(day=NOW.date(), base="USD", quote="CNY", rate="7.1", source="x", by="usr_staff", now=NOW)
    return invoice


TABLES = {
    "creditnote": "reason", "creditnoteline": "amount_minor", "credituse": "amount_minor", "reminder": "step", "bankstatement": "name",
    "exchangerate": "rate_nano", "hourgrant": "qty_us",
}  # fmt: skip


@pytest.mark.parametrize("table", sorted(TABLES))
def test_what_was_given_noted_or_said_is_append_only(money, attack, table):
    column = TABLES[table]
    assert attack(f"UPDATE billing_{table} SET {column} = {column}") == "42501"
    assert attack(f"DELETE FROM billing_{table}") == "42501"
    assert attack(f"TRUNCATE billing_{table} CASCADE") == "42501"


@pytest.mark.parametrize("table", ["creditgrant", "banktransfer"])
def test_grants_and_transfers_are_not_deleted(money, attack, table):
    assert attack(f"DELETE FROM billing_{table}") == "42501"
    assert attack(f"TRUNCATE billing_{table} CASCADE") == "42501"


def test_a_grant_keeps_its_terms_and_never_grows(money, attack):
    assert CreditGrant.objects.get().left_minor == 0
    for change in (
        "amount_minor = 500",
        "left_minor = 1",
        "expires_at = now()",
        "priority = 0",
        "organisation_id = organisation_id + 1",
    ):
        assert attack(f"UPDATE billing_creditgrant SET {change}") == "42501"


def test_a_transfer_says_what_the_bank_said_and_is_settled_once(money, attack):
    for change in ("amount_minor = 9", "currency = 'USD'", "text = 'mine'", "bank_reference = 'B9'"):
        assert attack(f"UPDATE billing_banktransfer SET {change} WHERE state = 'unmatched'") == "42501"
    assert attack("UPDATE billing_banktransfer SET state = 'unmatched' WHERE state = 'matched'") == "42501"
    assert (
        attack("UPDATE billing_banktransfer SET state = 'matched' WHERE state = 'unmatched'") == "23514"
    )  # nobody's, nothing paid
    assert set(BankTransfer.objects.values_list("state", flat=True)) == {"matched", "unmatched"}


def test_what_notes_took_off_an_invoice_stays_off(money, attack):
    invoice = Invoice.objects.get(id=money.id)
    assert (invoice.credited_minor, invoice.paid_minor) == (100, 100)
    assert attack("UPDATE billing_invoice SET credited_minor = 0") == "42501"
    assert attack("UPDATE billing_invoice SET credited_minor = 601") == "23514"  # more than was open


def test_notes_add_up_and_never_exceed_their_invoice(money, attack):
    columns = (
        "currency, tax_minor, reason, written_by, issued_at, issue_date, content, sha256, organisation_id, invoice_id"
    )
    note = (
        "INSERT INTO billing_creditnote (public_id, number, reference, net_minor, total_minor, off_open_minor, to_credit_minor, {columns})"
        " SELECT 'cnt_x', 'CN-x', 'x', {net}, {net}, 0, {net}, {columns} FROM billing_creditnote LIMIT 1"
    )
    line = (
        "INSERT INTO billing_creditnoteline (note_id, position, line_id, amount_minor, fee_minor, seller_minor)"
        " SELECT n.id, 1, l.line_id, {net}, 0, {net} FROM billing_creditnote n, billing_creditnoteline l WHERE n.number = 'CN-x' LIMIT 1"
    )
    assert attack(note.format(net=5, columns=columns)) == "23514"  # without lines
    assert attack(note.format(net=5, columns=columns), line.format(net=4)) == "23514"
    assert attack(note.format(net=901, columns=columns), line.format(net=901)) == "23514"  # 1.00 and 9.01 of 10.00
    columns = "note_id, position, line_id, amount_minor, fee_minor, seller_minor"
    later = f"INSERT INTO billing_creditnoteline ({columns}) SELECT note_id, 2, line_id + 1, 1, 0, 1 FROM billing_creditnoteline"
    assert attack(later) in {"23514", "23503"}
