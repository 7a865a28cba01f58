"""The clock: the only place of the server that reads the time of day.

Doors (views, Celery tasks, commands) call :func:`now` once and pass the value on; rules and services take ``now`` as
an argument, so a test or a
replay decides what time it is.
"""

from datetime import UTC, datetime


def now() -> datetime:
    """The present moment, aware, in UTC."""
    return datetime.now(UTC)
