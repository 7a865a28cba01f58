"""The decision engine as a process runs it: what it keeps in memory, and what is thrown away of what it no longer needs."""

from datetime import datetime, timedelta

from scheduling.models import MarketChange

CHANGES_KEPT = timedelta(hours=1)
"""Processes read everything anew long before (`selectors.kept.WHOLE_EVERY`)."""


def expire(*, now: datetime) -> int:
    """Forget old notes of changes; how many."""
    gone, _ = MarketChange.objects.filter(at__lt=now - CHANGES_KEPT).delete()
    return gone
