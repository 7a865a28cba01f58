"""A tenant's books and its roll-up under advisory locks that end with the transaction.

==========  ==========================  ==================================  =========================================
lock        who shares it               who has it alone                    whoever shares it
==========  ==========================  ==================================  =========================================
books       usage that is written,      the close of a month (up to a       never waits: it writes a note that the
            attempts that end           minute)                             next close looks at (``LateChange``)
roll-up     usage that is written       a repair of the roll-up (rare)      waits
==========  ==========================  ==================================  =========================================

So a long close delays no report and no failover.
"""

from collections.abc import Iterable

from django.db import connection

BOOKS = 0x42494C4C << 32
ROLL_UP = 0x42494C4D << 32
"""Apart from each other, and from every other advisory lock of the house."""


def share_books(organisation_ids: Iterable[int]) -> bool:
    """Share the books of these tenants, without waiting; False if a close has one of them (or waits for it)."""
    with connection.cursor() as cursor:
        for organisation_id in sorted(set(organisation_ids)):
            cursor.execute("SELECT pg_try_advisory_xact_lock_shared(%s)", [BOOKS + organisation_id])
            if not cursor.fetchone()[0]:
                return False
    return True


def own_books(organisation_id: int) -> None:
    """A month of this tenant is being closed."""
    _take("pg_advisory_xact_lock", [BOOKS + organisation_id])


def share_roll_up(organisation_ids: Iterable[int]) -> None:
    """Amounts are being added to the roll-up of these tenants."""
    _take(
        "pg_advisory_xact_lock_shared", [ROLL_UP + organisation_id for organisation_id in sorted(set(organisation_ids))]
    )


def own_roll_up(organisation_id: int) -> None:
    """The roll-up of this tenant is being made again."""
    _take("pg_advisory_xact_lock", [ROLL_UP + organisation_id])


def _take(function: str, keys: list[int]) -> None:
    with connection.cursor() as cursor:
        for key in keys:
            cursor.execute(f"SELECT {function}(%s)", [key])
