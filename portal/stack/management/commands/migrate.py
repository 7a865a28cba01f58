"""`migrate` as the owner of the tables (IDLEWILD_MIGRATE_DATABASE_URL), one at a time, never waiting long for a lock that running work holds."""

from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.core.management.commands.migrate import Command as DjangoMigrate
from django.db import connections

from portal.stack import addresses

ADVISORY_KEY = 0x1D1E  # one migration at a time, also from two machines
LOCK_TIMEOUT_MS = 5_000


class Command(DjangoMigrate):
    requires_system_checks: list[str] = []  # with the database away, they would only wait for it

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.IDLEWILD_MIGRATE_DATABASE_URL:
            raise CommandError(
                "IDLEWILD_MIGRATE_DATABASE_URL is not set; for example postgresql://idlewild_owner:…@db.internal/idlewild "
                "(the role that owns the tables; only `migrate` gets it)"
            )
        entry = addresses.database(settings.IDLEWILD_MIGRATE_DATABASE_URL)
        connection = connections[options["database"]]
        connection.close()
        entry["OPTIONS"]["options"] = f"-c lock_timeout={LOCK_TIMEOUT_MS}"
        connection.settings_dict.update({"USER": "", "PASSWORD": "", "HOST": "", "PORT": "", **entry})
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = 0")
            cursor.execute("SELECT pg_advisory_lock(%s)", [ADVISORY_KEY])
            cursor.execute(f"SET lock_timeout = {LOCK_TIMEOUT_MS}")
        options["skip_checks"] = True
        try:
            super().handle(*args, **options)
        finally:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [ADVISORY_KEY])
            connection.close()
