"""The market at one moment, as the rules want it: offers, free capacity and soft state → columns; links → paths.

Outside a transaction a process reads the market once and then only what changed (``kept``); the caller gets columns of its
own to write into. Inside a transaction everything is read anew, so that one's own changes are seen and nothing of them is
kept should they be rolled back.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from marketplace.selectors.offers import LiveRow
from scheduling.domain.columns import Table
from scheduling.domain.fairness import Held
from scheduling.domain.request import Path, Paths
from scheduling.domain.summaries import Summaries
from scheduling.models import Link
from scheduling.selectors import kept
from scheduling.selectors.rows import held_devices


@dataclass
class Market:
    """A snapshot. `live` has the offer of each node, with its prices and where they come from."""

    table: Table
    tiers: Summaries
    paths: Paths
    live: Mapping[str, LiveRow]
    now: datetime
    capacity: Held
    """All that there is."""


def load(*, now: datetime) -> Market:
    """Everything a cycle or a quote looks at, at one moment."""
    found = kept.fresh(now=now) if connection.in_atomic_block else kept.current(now=now)
    return Market(found.table, found.tiers, paths(), found.live, now, found.capacity)


def paths() -> Paths:
    """All configured links."""
    return Paths(
        {
            (link.source, link.target): Path(link.rtt_us, link.bandwidth_mbps, link.price_micro_per_gb)
            for link in Link.objects.all()
        }
    )


def devices_free(*, row: LiveRow, model: str, virtual: bool) -> list[str]:
    """The cards of that model which no lease holds, in a stable order."""
    held = held_devices([row.node_id]).get(row.node_id, frozenset())
    return [
        device
        for cards in row.cards
        if cards.model == model and cards.virtual == virtual
        for device in cards.local_ids
        if device not in held
    ]
