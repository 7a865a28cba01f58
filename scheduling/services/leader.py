"""Which process runs cycles: one row in PostgreSQL, taken and kept by a conditional UPDATE.

It saves work and guards nothing: two engines that both believe to lead place each task once and never over-book, because every booking is guarded
(`services.booking`). No connection-bound lock, which a pooler would break; the database's clock judges, so no two machines' clocks are compared.

| moment | what happens |
|---|---|
| each cycle, and each commit of a long one | the holder moves `until` to now + 5 s |
| another process asks meanwhile | it is told no, and does nothing |
| the holder dies | after at most 5 s the next that asks takes over; beat asks every second, so within 8 s |
"""

from datetime import datetime, timedelta
from functools import cache

from django.db.models import Case, F, Q, Value, When

from portal import ids
from scheduling.models import EngineLeader

HOLDS_FOR = timedelta(seconds=5)


@cache
def myself(process: int) -> str:
    """The name of this process (of its fork: `process` is its id)."""
    return f"{process}.{ids.token(12)}"


def lead(*, holder: str, now: datetime) -> bool:
    """Take or keep the lead until `now` + 5 s; False while another holds it."""
    EngineLeader.objects.bulk_create([EngineLeader(id=1)], ignore_conflicts=True)
    mine, free = Q(holder=holder), Q(until=None) | Q(until__lte=now) | Q(holder="")
    updated = EngineLeader.objects.filter(mine | free, id=1).update(
        since=Case(When(mine, then=F("since")), default=Value(now)),
        takeovers=F("takeovers") + Case(When(mine, then=Value(0)), default=Value(1)),
        holder=holder,
        until=now + HOLDS_FOR,
    )
    return updated == 1  # 0: another leads


def resign(*, holder: str) -> None:
    """Let another lead at once (a worker that shuts down)."""
    EngineLeader.objects.filter(id=1, holder=holder).update(holder="", until=None)


def seen() -> EngineLeader | None:
    """Who leads, as written."""
    return EngineLeader.objects.filter(id=1).first()
