"""`flush` for tests: empties every table that has rows, as a superuser with the guards asleep.

Append-only tables refuse TRUNCATE from the app and from their owner (SQLSTATE 42501), so Django's own flush cannot end a transactional test. Neither of
those roles may switch the guards off; only the superuser of a test server can. Content types and permissions stay, so nothing is made anew.
"""

import os
from typing import Any

import psycopg
from django.core.management.base import BaseCommand, CommandParser
from django.db import connections
from psycopg import sql

KEPT = {"django_migrations", "django_content_type", "auth_permission"}

_EMPTY = """
DO $$
DECLARE
    name text;
    filled boolean;
    all_filled text := '';
BEGIN
    FOR name IN SELECT format('%I', tablename) FROM pg_tables WHERE schemaname = 'public' AND tablename <> ALL ({kept}) LOOP
        EXECUTE 'SELECT EXISTS (SELECT 1 FROM ' || name || ')' INTO filled;
        IF filled THEN
            all_filled := all_filled || ', ' || name;
        END IF;
    END LOOP;
    IF all_filled <> '' THEN
        EXECUTE 'TRUNCATE ' || substr(all_filled, 3) || ' RESTART IDENTITY CASCADE';
    END IF;
END $$
"""


class Command(BaseCommand):
    help = "Empties the test database."
    stealth_options = (
        "reset_sequences",
        "allow_cascade",
        "inhibit_post_migrate",
    )  # what Django's test cases pass to its own flush

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--database", default="default")
        parser.add_argument("--noinput", "--no-input", action="store_false", dest="interactive")

    def handle(self, **options: Any) -> None:
        name = connections[options["database"]].settings_dict["NAME"]
        with psycopg.connect(os.environ["IDLEWILD_TEST_ADMIN_URL"], dbname=name, autocommit=True) as admin:
            admin.execute("SET session_replication_role = replica")
            admin.execute(sql.SQL(_EMPTY).format(kept=sql.Literal(sorted(KEPT))))
