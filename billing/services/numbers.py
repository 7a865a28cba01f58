"""Numbers of documents: without a gap, unique in their series, dates never fall.

The counter's row is held until the transaction ends, so a roll-back gives its number back.
"""

from datetime import date

from django.db import connection

from billing.domain import invoicing
from billing.models import DocumentCounter


def following(name: str, *, today: date) -> tuple[str, date]:
    """The next number of a series in the year of `today`, and its date: ``following("IW", today=…)`` → ``IW-2026-000327``."""
    series = f"{name}-{today.year}"
    DocumentCounter.objects.bulk_create(
        [DocumentCounter(series=series, last=0, last_date=today)], ignore_conflicts=True
    )
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE billing_documentcounter SET last = last + 1, last_date = greatest(last_date, %s) WHERE series = %s"
            " RETURNING last, last_date",
            [today, series],
        )
        count, dated = cursor.fetchone()
    return invoicing.number(series, count), dated
