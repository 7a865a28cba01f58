"""What ends by itself: offers whose `until` has come, tokens nobody used; and what is due: measuring again."""

from datetime import datetime, timedelta

from marketplace.services import challenges, fingerprints, nodes, offers

EVERY = timedelta(minutes=1)
"""How often the timetable asks."""


def expire(*, now: datetime) -> dict[str, int]:
    """How many of each."""
    return {
        "offers": offers.expire(now=now),
        "nodes": nodes.expire(now=now),
        "fingerprints": fingerprints.request_due(now=now, since=now - EVERY),
        "runs": challenges.forget(now=now),
    }
