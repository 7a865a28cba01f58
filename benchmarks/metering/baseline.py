"""What the same machine does without us: one plain INSERT per usage record, into a table of the same columns without keys, indexes or guards."""

import time
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import sql


def plain_inserts(*, database: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> float:
    """Rows per second of one INSERT statement per row, all in one transaction. `database`: a connection that may make tables."""
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE metering_baseline (LIKE billing_usagerecord)")
        connection.execute("ALTER TABLE metering_baseline ALTER COLUMN id DROP NOT NULL")
        connection.commit()
        statement = sql.SQL("INSERT INTO metering_baseline ({}) VALUES ({})").format(
            sql.SQL(", ").join(map(sql.Identifier, columns)), sql.SQL(", ").join([sql.Placeholder()] * len(columns))
        )
        began = time.perf_counter()
        with connection.cursor() as cursor:
            for row in rows:
                cursor.execute(statement, row)
        connection.commit()
        took = time.perf_counter() - began
        connection.execute("DROP TABLE metering_baseline")
    return len(rows) / took
