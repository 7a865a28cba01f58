"""Attacks on the books by raw SQL, as the application and as the owner of the tables: each is refused by the database itself."""

from datetime import UTC, datetime

import psycopg
import pytest
from django.conf import settings
from django.db import connection

from billing.domain.ledger import AccountKind
from billing.models import Account, Entry, Invoice, Txn
from billing.selectors import balances
from billing.services import ledger, usage
from portal.stack import embedded
from tests.billing.books import a_fact, a_tenant, case, october

pytestmark = pytest.mark.django_db(transaction=True)
NOW = datetime(2026, 11, 4, tzinfo=UTC)

APPEND_ONLY = [
    "usagekey", "usagerecord", "usageanomaly", "attemptending", "invoiceline", "linerecord", "taxline", "invoicedocument", "txn", "entry",
]  # fmt: skip
UNDELETABLE = ["account", "invoice", "billingperiod", "documentcounter"]
COLUMN = {
    "usagekey": "content_hash",
    "attemptending": "message",
    "invoiceline": "sku",
    "invoicedocument": "sha256",
    "txn": "kind",
}


def _as(role):
    here = settings.DATABASES["default"]
    place = {"host": here.get("HOST"), "port": here.get("PORT") or None, "dbname": here["NAME"], "user": role}
    return {name: value for name, value in place.items() if value}


@pytest.fixture(params=[embedded.APP, embedded.OWNER])
def attack(request):
    """Run one statement (or several) as that role in a transaction of its own; the SQLSTATE of the refusal, or "" if it passed."""
    with psycopg.connect(**_as(request.param)) as link:

        def run(*statements):
            try:
                with link.transaction():
                    for sql in statements:
                        link.execute(sql)
            except psycopg.Error as refusal:
                return refusal.sqlstate
            return ""

        yield run


@pytest.fixture
def books(settings):
    """A tenant with an issued invoice: rows in every table that is guarded."""
    settings.IDLEWILD_TAX_PPM = 60_000
    tenant = a_tenant()
    fact = a_fact(tenant, seconds=3600)
    usage.record(fact=fact, now=fact.ended_at)
    odd = a_fact(tenant, seconds=3600, qty_us=1)
    assert usage.record(fact=odd, now=fact.ended_at).answer == "conflict"
    usage.end_attempt(
        attempt_ref="att_1",
        reason="finished",
        fault="none",
        billed=True,
        message="",
        ended_at=fact.ended_at,
        now=fact.ended_at,
    )
    return october(tenant)


@pytest.mark.parametrize("table", APPEND_ONLY)
def test_append_only_tables_refuse_every_change(books, attack, table):
    column = COLUMN.get(table) or {
        "usagerecord": "sku", "usageanomaly": "kind", "linerecord": "qty_us", "taxline": "tax_minor", "entry": "amount_minor",
    }[table]  # fmt: skip
    assert attack(f"UPDATE billing_{table} SET {column} = {column}") == "42501"
    assert attack(f"DELETE FROM billing_{table}") == "42501"
    assert attack(f"DELETE FROM billing_{table} WHERE false") == "42501"
    assert attack(f"TRUNCATE billing_{table} CASCADE") == "42501"


@pytest.mark.parametrize("table", UNDELETABLE)
def test_accounts_invoices_periods_and_counters_cannot_be_deleted(books, attack, table):
    assert attack(f"DELETE FROM billing_{table}") == "42501"
    assert attack(f"TRUNCATE billing_{table} CASCADE") == "42501"


@pytest.mark.parametrize(
    "change",
    [
        "total_minor = 1",
        "payable_minor = 0",
        "number = 'IW-2026-999999'",
        "sha256 = ''",
        "issued_at = now()",
        "currency = 'USD'",
        "state = 'draft'",
        "fee_ppm = 0",
    ],
)
def test_an_issued_invoice_is_frozen(books, attack, change):
    assert attack(f"UPDATE billing_invoice SET {change}") == "42501"


def test_an_invoice_only_goes_forward(books, attack):
    assert attack("UPDATE billing_invoice SET state = 'past_due'") == ""
    assert attack("UPDATE billing_invoice SET state = 'open'") == "42501"
    assert attack(f"UPDATE billing_invoice SET state = 'paid', paid_minor = {books.payable_minor}") == ""
    for state in ("open", "past_due", "void"):
        assert attack(f"UPDATE billing_invoice SET state = '{state}'") == "42501"
    assert attack("UPDATE billing_invoice SET paid_minor = 0") == "42501"


def test_nothing_is_added_to_an_issued_invoice(books, attack):
    columns = "position, correction_of, project_ref, project_name, department, provider_ref, provider_name, resource, sku, hardware_model,"
    columns += "region, zone, virtual, demo, price_version_ref, price_micro, tier, discount_ppm, qty_us, amount_micro, list_minor,"
    columns += "amount_minor, tax_rate_ppm, fee_minor, seller_minor, unbilled_reason, node_ref, attempt_ref, green_known_ppm, first_at, last_at"
    copied = columns.replace("position", "position + 100", 1)
    assert (
        attack(
            f"INSERT INTO billing_invoiceline (invoice_id, {columns}) SELECT invoice_id, {copied} FROM billing_invoiceline"
        )
        == "42501"
    )
    assert (
        attack(
            "INSERT INTO billing_taxline (invoice_id, rate_ppm, taxable_minor, tax_minor) SELECT invoice_id, 1, 1, 1 FROM billing_taxline"
        )
        == "42501"
    )
    assert (
        attack(
            "INSERT INTO billing_usagekey VALUES ('att_x', 'card', 9, 'x')",
            'INSERT INTO billing_usagerecord SELECT * FROM (SELECT (jsonb_populate_record(r, \'{"id": 999999, "seq": 9}\')).*'
            " FROM billing_usagerecord r LIMIT 1) x",
            "INSERT INTO billing_linerecord (line_id, record_id, started_at, ended_at, qty_us)"
            " SELECT line_id, 999999, started_at, ended_at, qty_us FROM billing_linerecord",
        )
        == "42501"
    )
    assert (
        attack(
            'INSERT INTO billing_invoice SELECT (jsonb_populate_record(i, \'{"id": 9, "state": "open"}\')).* FROM billing_invoice i'
        )
        == "42501"
    )


def test_a_closed_period_and_the_bounds_of_any_period_are_fixed(books, attack):
    assert attack("UPDATE billing_billingperiod SET state = 'open' WHERE month = '2026-10'") == "42501"
    assert attack("UPDATE billing_billingperiod SET closed_at = now() WHERE month = '2026-10'") == "42501"
    assert (
        attack("UPDATE billing_billingperiod SET ends_at = ends_at + interval '1 hour' WHERE month = '2026-11'")
        == "42501"
    )


def test_document_numbers_grow_by_one(books, attack):
    for change in ("last = last + 2", "last = 0", "series = 'X'", "last = last + 1, last_date = '2020-01-01'"):
        assert attack(f"UPDATE billing_documentcounter SET {change}") == "42501"
    assert attack("INSERT INTO billing_documentcounter VALUES ('Y', 7, '2026-11-04')") == "42501"


# --- the ledger ---------------------------------------------------------------------------------------------------------


def posting(*legs, currency="CNY", key="attack"):
    """SQL of a posting with these (account id, amount) legs."""
    txn = (
        "INSERT INTO billing_txn (kind, idem_key, body_hash, currency, reference, at)"
        f" VALUES ('attack', '{key}', 'x', '{currency}', 'x', now())"
    )
    entries = [
        "INSERT INTO billing_entry (txn_id, account_id, currency, amount_minor)"
        f" SELECT id, {account}, '{currency}', {amount} FROM billing_txn WHERE idem_key = '{key}'"
        for account, amount in legs
    ]
    return [txn, *entries]


@pytest.fixture
def accounts():
    """The platform's cash, a tenant's receivable and credit, in CNY; and its cash in USD."""
    owner = a_tenant().public_id
    return {
        "cash": ledger.account(owner="platform", kind=AccountKind.CASH, currency="CNY").id,
        "receivable": ledger.account(owner=owner, kind=AccountKind.TENANT_RECEIVABLE, currency="CNY").id,
        "credit": ledger.account(owner=owner, kind=AccountKind.CREDIT, currency="CNY").id,
        "dollars": ledger.account(owner="platform", kind=AccountKind.CASH, currency="USD").id,
    }


def test_a_balanced_posting_passes_and_moves_the_balances(attack, accounts):
    assert attack(*posting((accounts["cash"], -500), (accounts["receivable"], 500))) == ""
    assert Account.objects.get(id=accounts["cash"]).balance_minor == -500
    assert Entry.objects.count() == 2


def test_an_unbalanced_an_empty_and_a_one_sided_posting_are_refused(attack, accounts):
    assert attack(*posting((accounts["cash"], -500), (accounts["receivable"], 499))) == "23514"
    assert attack(*posting()) == "23514"
    assert attack(*posting((accounts["cash"], 1))) == "23514"
    assert attack(*posting((accounts["cash"], 0), (accounts["receivable"], 0))) == "23514"
    assert not Txn.objects.exists()


def test_j1_an_entry_has_the_currency_of_its_account_and_of_its_posting(attack, accounts):
    expected = case("bill-j1")[1]["sqlstate"]
    assert attack(*posting((accounts["dollars"], -5), (accounts["dollars"], 5), currency="CNY")) == expected
    wrong = posting((accounts["cash"], -5), (accounts["receivable"], 5), currency="USD")
    assert attack(*wrong) == expected
    mixed = posting((accounts["cash"], -5))
    mixed.append(
        mixed[1].replace(str(accounts["cash"]), str(accounts["dollars"])).replace("'CNY'", "'USD'").replace("-5", "5")
    )
    assert attack(*mixed) == expected


def test_a_balanced_pair_cannot_be_added_to_an_old_posting(attack, accounts):
    txn, *legs = posting((accounts["cash"], -500), (accounts["receivable"], 500))
    assert attack(txn, *legs) == ""
    assert attack(*legs) == "42501"
    assert attack("INSERT INTO billing_txn (kind, idem_key, body_hash, currency, reference, at, made_in)"
                  " VALUES ('attack', 'old', 'x', 'CNY', 'x', now(), '5')") == "42501"  # fmt: skip


def test_a_balance_changes_only_by_an_entry(attack, accounts):
    assert attack("UPDATE billing_account SET balance_minor = 1000000") == "42501"
    assert attack("UPDATE billing_account SET balance_minor = balance_minor") == "42501"
    assert attack("UPDATE billing_account SET owner = 'org_mine'") == "42501"
    assert attack("UPDATE billing_account SET allow_negative = true") == "42501"
    opened = "INSERT INTO billing_account (owner, kind, currency, allow_negative, balance_minor) VALUES ('x', '{}', 'CNY', {}, {})"
    assert attack(opened.format("cash", "true", 5)) == "42501"
    assert attack(opened.format("wallet", "true", 0)) == "23514"
    assert attack(opened.format("gold", "true", 0)) == "23514"


def test_the_app_has_no_temporary_tables_whose_triggers_could_reach_a_balance():
    with psycopg.connect(**_as(embedded.APP)) as link, pytest.raises(psycopg.errors.InsufficientPrivilege):
        link.execute("CREATE TEMPORARY TABLE lever (x int)")


def test_wallets_and_accruals_never_fall_below_zero(attack, accounts):
    assert attack(*posting((accounts["credit"], -1), (accounts["receivable"], 1))) == "23514"


def test_the_same_key_twice_is_refused(attack, accounts):
    legs = ((accounts["cash"], -500), (accounts["receivable"], 500))
    assert attack(*posting(*legs)) == ""
    assert attack(*posting(*legs)) == "23505"
    assert attack(*posting((accounts["cash"], -7), (accounts["receivable"], 8), key="rejected")) == "23514"
    assert attack(*posting(*legs, key="rejected")) == "", "a rejected posting leaves no key behind"


def test_the_trial_balance_is_zero_and_cached_balances_are_the_sums(books):
    assert set(balances.trial().values()) == {0}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM billing_account a WHERE balance_minor <>"
            " coalesce((SELECT sum(amount_minor) FROM billing_entry e WHERE e.account_id = a.id), 0)"
        )
        assert cursor.fetchone() == (0,)
    assert Invoice.objects.get().total_minor == 424


def test_p37_bad_prices_are_refused_by_raw_sql(books, attack):
    for price in (-1, 10**12 + 1):
        copied = f'jsonb_populate_record(r, \'{{"id": 7, "seq": 7, "unit_price_micro": {price}}}\')'
        assert attack(f"INSERT INTO billing_usagerecord SELECT ({copied}).* FROM billing_usagerecord r") == "23514"
