"""Publishing the capacity map: every few seconds what changed since the last time, as soft state (``gateways.capacity``).

The market that the process keeps is caught up first, so the map is that of PostgreSQL and of who is heard, whichever worker
publishes it. A worker that did not publish last sends the whole map once, then only changes.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from scheduling.domain import capacity_map
from scheduling.gateways import capacity
from scheduling.gateways.capacity import Message
from scheduling.selectors import snapshot


@dataclass
class Sent:
    """What one publication sent."""

    whole: bool
    figures: int  # of zones
    nodes: int
    size: int  # bytes


@dataclass
class _Last:
    """What this process published last; without a stamp the next one is whole."""

    stamp: str | None = None
    zones: dict[str, Any] = field(default_factory=dict)
    nodes: dict[str, str] = field(default_factory=dict)


_LAST = _Last()


def publish(*, now: datetime) -> Sent:
    """Publish what changed."""
    table = snapshot.load(now=now).table
    zones, nodes = capacity_map.figures(capacity_map.zones(table)), capacity_map.nodes(table)
    sent = _send(zones, nodes)
    if _LAST.stamp is None and not sent.whole:  # another published meanwhile
        sent = _send(zones, nodes)
    return sent


def _send(zones: dict[str, Any], nodes: dict[str, str]) -> Sent:
    whole = _LAST.stamp is None
    before_zones, before_nodes = ({}, {}) if whole else (_LAST.zones, _LAST.nodes)
    new_zones, gone_zones = capacity_map.changed(before_zones, zones)
    new_nodes, gone_nodes = capacity_map.changed(before_nodes, nodes)
    message = Message(new_zones, gone_zones, new_nodes, gone_nodes)
    _LAST.stamp, size = capacity.publish(message, stamp=_LAST.stamp)
    _LAST.zones, _LAST.nodes = zones, nodes
    return Sent(whole, len(new_zones) + len(gone_zones), len(new_nodes) + len(gone_nodes), size)


def forget() -> None:
    """The next publication is whole."""
    _LAST.stamp = None
