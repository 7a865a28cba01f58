"""What the soft store knows of the capacity map (`scheduling.gateways.capacity` writes it): missing means unknown."""

import json
from typing import Any

from portal import softstate
from portal.softstate import Script

_ZONES = Script("return {redis.call('GET', KEYS[1]) or '', redis.call('HGETALL', KEYS[2])}")
_NODES = Script("return redis.call('HGETALL', KEYS[1] .. ARGV[1])")


def zones() -> dict[str, Any] | None:
    """Entries of all zones; None = the map is not known."""
    try:
        stamp, found = _ZONES(keys=["map:stamp", "map:zones"])
    except softstate.SoftstateDown:
        return None
    if not stamp:
        return None
    entries: dict[str, Any] = {}
    for figure, text in zip(found[::2], found[1::2], strict=True):
        zone, _, name = str(figure).rpartition("|")
        entries.setdefault(zone, {})[name] = json.loads(text)
    return entries


def nodes(zone: str) -> dict[str, str]:
    """Texts of the nodes of one zone (``region/zone``); the others are not known."""
    try:
        found = _NODES(keys=["map:nodes:"], args=[zone])
    except softstate.SoftstateDown:
        return {}
    return {str(name): str(text) for name, text in zip(found[::2], found[1::2], strict=True)}
