"""What the database itself refuses, whoever asks: append-only tables keep their rows, from the app and from the tables' owner.

The app may not TRUNCATE at all; the owner could, so triggers refuse that too. A statement trigger fires without rows, so empty tables show it.
"""

import os

import psycopg
import pytest
from django.db import connection

from portal.stack import embedded

# Never changed, never deleted: corrections are new rows.
APPEND_ONLY = (
    "audit_auditevent",
    "billing_entry",
    "billing_txn",
    "billing_usagerecord",
    "billing_invoiceline",
    "billing_linerecord",
    "marketplace_fingerprint",
)
# Changed along their states only, never deleted.
KEPT = ("billing_invoice", "marketplace_priceversion")


def refused(user: str, statement: str) -> str:
    """The SQLSTATE with which the database refuses; fails when it does not."""
    settings = connection.settings_dict
    where = f"host={settings['HOST']} dbname={settings['NAME']} user={user}"
    if settings.get("PORT"):
        where += f" port={settings['PORT']}"
    with psycopg.connect(where) as other:
        try:
            other.execute(statement)
        except psycopg.Error as error:
            other.rollback()
            return error.sqlstate or ""
        other.rollback()
    pytest.fail(f"{user} may {statement}")


def first_column(table: str) -> str:
    with connection.cursor() as cursor:
        return str(connection.introspection.get_table_description(cursor, table)[0].name)


@pytest.mark.django_db
@pytest.mark.parametrize("table", [*APPEND_ONLY, *KEPT])
@pytest.mark.parametrize("user", [embedded.APP, embedded.OWNER])
def test_rows_are_not_deleted(table: str, user: str) -> None:
    for statement in (f"DELETE FROM {table}", f"TRUNCATE {table} CASCADE"):
        assert refused(user, statement) in {"42501", "23514", "P0001", "55000"}


@pytest.mark.django_db
@pytest.mark.parametrize("table", APPEND_ONLY)
@pytest.mark.parametrize("user", [embedded.APP, embedded.OWNER])
def test_rows_are_not_changed(table: str, user: str) -> None:
    column = first_column(table)
    assert refused(user, f"UPDATE {table} SET {column} = {column}") in {"42501", "23514", "P0001", "55000"}


@pytest.mark.django_db
@pytest.mark.parametrize("user", [embedded.APP, embedded.OWNER])
def test_nobody_of_ours_puts_the_guards_to_sleep(user: str) -> None:
    assert refused(user, "SET session_replication_role = replica") == "42501"


@pytest.mark.django_db
def test_the_app_makes_no_tables() -> None:
    assert refused(embedded.APP, "CREATE TABLE mine ()") == "42501"
    assert refused(embedded.APP, "ALTER TABLE accounts_user ADD COLUMN mine int") == "42501"


@pytest.mark.django_db
def test_every_foreign_key_of_billing_stays_in_billing_or_below() -> None:
    """Invoices outlive jobs, nodes and offers: billing refers to its neighbours by text only."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT conrelid::regclass::text, confrelid::regclass::text FROM pg_constraint WHERE contype = 'f' AND conrelid::regclass::text LIKE 'billing%'"
        )
        strangers = [row for row in cursor.fetchall() if row[1].split("_")[0] in {"marketplace", "scheduling"}]
    assert strangers == []


@pytest.mark.django_db
def test_the_database_of_a_test_is_its_own() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_user, current_database()")
        user, name = cursor.fetchone()
    assert user == embedded.APP
    assert os.environ.get("PYTEST_XDIST_WORKER", "main") in name
