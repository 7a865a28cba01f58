"""What ends by itself: offers whose `until` has come, tokens nobody used; and what is due: measuring again."""

from datetime import datetime

from marketplace.services import fingerprints, nodes, offers


def expire(*, now: datetime) -> dict[str, int]:
    """How many of each."""
    return {
        "offers": offers.expire(now=now),
        "nodes": nodes.expire(now=now),
        "fingerprints": fingerprints.request_due(now=now),
    }
