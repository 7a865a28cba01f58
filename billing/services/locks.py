"""A tenant's books under a lock: ingest shares it, the close of a month has it alone. Both end with the transaction."""

from collections.abc import Iterable

from django.db import connection

SPACE = 0x42494C4C << 32
"""Apart from every other advisory lock of the house."""


def share(organisation_ids: Iterable[int]) -> None:
    """Usage of these tenants is being written: no close of theirs may begin before this transaction ends."""
    with connection.cursor() as cursor:
        for organisation_id in sorted(set(organisation_ids)):
            cursor.execute("SELECT pg_advisory_xact_lock_shared(%s)", [SPACE + organisation_id])


def own(organisation_id: int) -> None:
    """A month of this tenant is being closed: usage waits until this transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [SPACE + organisation_id])
