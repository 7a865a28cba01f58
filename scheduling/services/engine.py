"""The decision engine as a process runs it: it leads or stays out of the way, what it keeps in memory, and what is thrown away of what it no longer needs."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from os import getpid

from portal import softstate
from scheduling.domain.asleep import Asleep
from scheduling.models import MarketChange
from scheduling.selectors import asking
from scheduling.services import cycle, leader
from scheduling.services.cycle import CycleResult

CHANGES_KEPT = timedelta(hours=1)
"""Processes read everything anew long before (`selectors.kept.WHOLE_EVERY`)."""
MOST_CYCLES = 20
"""Then the celery task ends and the next one goes on, so that a worker can be stopped."""
ASKED_FOR = timedelta(seconds=5)


@dataclass
class _Known:
    asked: asking.Asked | None
    at: datetime


_ASLEEP = Asleep()
_KNOWN = _Known(None, datetime.min.replace(tzinfo=UTC))


def turn(*, clock: Callable[[], datetime]) -> list[CycleResult]:
    """Cycles until nothing more can be placed; none while another process leads."""
    results: list[CycleResult] = []
    while len(results) < MOST_CYCLES:
        softstate.forget(cycle.WANTED)  # what is asked from now on is asked of the next cycle
        now = clock()
        if not leader.lead(holder=leader.myself(getpid()), now=now):
            break
        results.append(cycle.run(now=now, clock=_leading(clock), asleep=_ASLEEP, asked=_asked(now)))
        if not results[-1].full:
            break
    return results


def _leading(clock: Callable[[], datetime]) -> Callable[[], datetime]:
    """The clock of a cycle, which is read at each commit: a long cycle goes on leading."""

    def read() -> datetime:
        now = clock()
        leader.lead(holder=leader.myself(getpid()), now=now)
        return now

    return read


def _asked(now: datetime) -> asking.Asked:
    """Who is past due and how long runs take is asked anew every few seconds, the rest in every cycle."""
    if _KNOWN.asked is None or not _KNOWN.at <= now < _KNOWN.at + ASKED_FOR:
        _KNOWN.asked, _KNOWN.at = asking.Asked(), now
    _KNOWN.asked.renew()
    return _KNOWN.asked


def expire(*, now: datetime) -> int:
    """Forget old notes of changes; how many."""
    gone, _ = MarketChange.objects.filter(at__lt=now - CHANGES_KEPT).delete()
    return gone
