"""The market at one moment, as the rules want it: offers, free capacity and soft state → columns; links → paths.

Outside a transaction a process reads the market once and then only what changed (``kept``); the caller gets columns of its
own to write into. Inside a transaction everything is read anew, so that one's own changes are seen and nothing of them is
kept should they be rolled back.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db import connection
from django.db.models import Max

from marketplace.selectors.offers import LiveRow
from scheduling.domain import linkstate
from scheduling.domain.attempt import AttemptState, Phase
from scheduling.domain.columns import Table
from scheduling.domain.fairness import Held
from scheduling.domain.request import Path, Paths
from scheduling.domain.summaries import Summaries
from scheduling.models import Attempt, Link
from scheduling.selectors import beliefs, kept
from scheduling.selectors.rows import held_devices

STAGING = ("", Phase.PULLING, Phase.STAGING)
"""Phases in which an attempt may still bring its inputs."""


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
    return Market(found.table, found.tiers, paths(now=now), found.live, now, found.capacity)


def paths(*, now: datetime) -> Paths:
    """All links: configured price, and what is believed of the way now, else the configured figures."""
    made = {
        (link.source, link.target): Path(link.rtt_us, link.bandwidth_mbps, link.price_micro_per_gb)
        for link in Link.objects.all()
    }
    prices = [path.price_micro_per_gb for path in made.values()]
    now_ms = int(now.timestamp() * 1000)
    for ends, belief in beliefs.everything().items():
        configured = made.get(ends) or Path(None, None, max(prices, default=0))
        made[ends] = configured.believed(linkstate.effective(belief, now_ms=now_ms))
    return Paths(made, pending=_pending())


def dearest_gb() -> int:
    """The dearest configured price of a gigabyte, in micro-currency: what an unknown link counts with."""
    found: int | None = Link.objects.aggregate(most=Max("price_micro_per_gb"))["most"]
    return found or 0


def _pending() -> dict[tuple[str, str], int]:
    """Bytes that attempts which have not begun to run are still bringing over each link."""
    moving: dict[tuple[str, str], int] = {}
    rows = Attempt.objects.filter(state__in=[AttemptState.ASSIGNED, AttemptState.LEASED], phase__in=STAGING)
    rows = rows.exclude(task__spec__inputs=[])
    for inputs, region in rows.values_list("task__spec__inputs", "node__zone__region__slug"):
        for item in inputs or ():
            if item.get("size_bytes") and item.get("region") not in ("", region, None):
                ends = item["region"], region
                moving[ends] = moving.get(ends, 0) + int(item["size_bytes"])
    return moving


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
