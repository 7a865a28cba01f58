"""The capacity map in the soft store: one hash of the figures of all zones (``region/zone|figure``), one hash of nodes per
zone, all with one time to live.

Only what changed is sent; everything is renewed by the same message, so a map that nobody publishes any more vanishes as a
whole and is *unknown*, never old. The stamp names who published last and how often: whoever finds another stamp than the
one it left sends the whole map.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from portal import ids, softstate
from portal.softstate import Script

TTL_MS = 15_000
_PUBLISH = Script(
    """
    local stamp = redis.call('GET', KEYS[1])
    if ARGV[1] ~= 'whole' and stamp ~= ARGV[1] then return 0 end
    local function zone_of(field) return string.match(field, '^(.*)|nodes$') end
    if ARGV[1] == 'whole' then
        for _, field in ipairs(redis.call('HKEYS', KEYS[2])) do
            if zone_of(field) then redis.call('DEL', KEYS[3] .. zone_of(field)) end
        end
        redis.call('DEL', KEYS[2])
    end
    local at = 5
    for _ = 1, tonumber(ARGV[4]) do
        local kind, where, name, value = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
        at = at + 4
        if kind == 'z' then redis.call('HSET', KEYS[2], where, value)
        elseif kind == 'n' then redis.call('HSET', KEYS[3] .. where, name, value)
        elseif kind == 'y' then
            redis.call('HDEL', KEYS[2], where)
            if zone_of(where) then redis.call('DEL', KEYS[3] .. zone_of(where)) end
        else redis.call('HDEL', KEYS[3] .. where, name) end
    end
    for _, field in ipairs(redis.call('HKEYS', KEYS[2])) do
        if zone_of(field) then redis.call('PEXPIRE', KEYS[3] .. zone_of(field), ARGV[3]) end
    end
    redis.call('PEXPIRE', KEYS[2], ARGV[3])
    redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
    return 1
    """
)
_KEYS = ["map:stamp", "map:zones", "map:nodes:"]


@dataclass(frozen=True)
class Message:
    """What changed since the last one: figures of zones by ``region/zone|figure``, nodes by ``region/zone/node``; what is gone."""

    zones: Mapping[str, Any]
    gone_zones: Sequence[str]
    nodes: Mapping[str, str]
    gone_nodes: Sequence[str]

    @property
    def size(self) -> int:
        """Bytes on the way."""
        return sum(len(word.encode()) for word in self.words())

    def words(self) -> list[str]:
        """As the script takes it."""
        made: list[str] = []
        for figure, value in self.zones.items():
            made += ["z", figure, "", json.dumps(value, separators=(",", ":"))]
        for name, text in self.nodes.items():
            zone, _, node = name.rpartition("/")
            made += ["n", zone, node, text]
        for name in self.gone_nodes:
            zone, _, node = name.rpartition("/")
            made += ["m", zone, node, ""]
        for figure in self.gone_zones:
            made += ["y", figure, "", ""]
        return made


def publish(message: Message, *, stamp: str | None) -> tuple[str | None, int]:
    """Send it; (the new stamp, bytes sent). None: another has published meanwhile, or the store is away: send the whole
    map next time. `stamp` None = this is the whole map.
    """
    words, new = message.words(), ids.token(12)
    try:
        taken = _PUBLISH(keys=_KEYS, args=[stamp or "whole", new, TTL_MS, len(words) // 4, *words])
    except softstate.SoftstateDown:
        return None, 0
    return (new if taken else None), message.size
