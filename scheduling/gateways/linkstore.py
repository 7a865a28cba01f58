"""Links in the soft store: reports of agents, addresses of beacons, and what is believed. All of it may vanish.

Three hashes: `links:reports` (node → its newest report), `links:beacons` (node → where it answers probes), `links:beliefs`
(``source→target`` → belief). An older report never replaces a newer one: the script compares sequence numbers, so the
order of arrival is no matter. Without the store all is unknown, and placement counts with the configured figures.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from portal import softstate
from scheduling.domain.linkstate import Belief, Measured, Report

KEPT_MS = 600_000

# KEYS: reports, beacons. ARGV: node, sequence, report, beacon ('' = none), kept for.
_TELL = softstate.Script(
    """
local held = redis.call('HGET', KEYS[1], ARGV[1])
local known = held and tonumber(string.match(held, '^(%d+)|')) or -1
if tonumber(ARGV[2]) > known then
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. '|' .. ARGV[3])
  if ARGV[4] == '' then redis.call('HDEL', KEYS[2], ARGV[1]) else redis.call('HSET', KEYS[2], ARGV[1], ARGV[4]) end
end
redis.call('PEXPIRE', KEYS[1], ARGV[5])
redis.call('PEXPIRE', KEYS[2], ARGV[5])
return {held or '', redis.call('HGETALL', KEYS[2])}
"""
)

# KEYS: one hash. Answers it whole.
_ALL = softstate.Script("return redis.call('HGETALL', KEYS[1])")

# KEYS: one hash. ARGV: kept for, number of names to drop, these, then name, value, …
_PUT = softstate.Script(
    """
local drop = tonumber(ARGV[2])
for i = 3, 2 + drop do redis.call('HDEL', KEYS[1], ARGV[i]) end
for i = 3 + drop, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1
"""
)

REPORTS, BEACONS, BELIEFS = "links:reports", "links:beacons", "links:beliefs"
"""The last is read by `scheduling.selectors.beliefs`."""


@dataclass(frozen=True)
class Beacon:
    """Where a node answers probes, and to which key (hex); `seen_ms`: when it last said so."""

    node: str
    region: str
    host: str
    port: int
    key: str
    seen_ms: int

    def form(self) -> list[Any]:
        return [self.region, self.host, self.port, self.key, self.seen_ms]


def tell(report: Report, beacon: Beacon | None) -> tuple[Report | None, list[Beacon]] | None:
    """Keep a report if it is newer; (the report before it, all beacons), or None without a store."""
    place = "" if beacon is None else json.dumps(beacon.form())
    try:
        held, beacons = _TELL(
            keys=[REPORTS, BEACONS],
            args=[report.origin, report.sequence, json.dumps(_form(report)), place, KEPT_MS],
        )
    except softstate.SoftstateDown:
        return None
    before = _report(report.origin, held)
    found = [Beacon(node, *json.loads(text)) for node, text in _pairs(beacons)]
    return before, sorted(found, key=lambda one: one.node)


def database() -> dict[str, Report]:
    """All reports by origin; empty without a store."""
    made = {}
    for origin, text in _pairs(_whole(REPORTS)):
        report = _report(origin, text)
        if report is not None:
            made[origin] = report
    return made


def believe(new: Mapping[tuple[str, str], Belief], *, forget: list[tuple[str, str]]) -> None:
    """Write beliefs, and drop those of links that nobody measures any more."""
    dropped = [f"{source}→{target}" for source, target in forget]
    written = [part for (a, b), one in new.items() for part in (f"{a}→{b}", json.dumps(one.form()))]
    if not dropped and not written:
        return
    try:
        _PUT(keys=[BELIEFS], args=[KEPT_MS, len(dropped), *dropped, *written])
    except softstate.SoftstateDown:
        return


def drop_reports(origins: list[str]) -> None:
    """Forget the reports of nodes that fell silent long ago."""
    if origins:
        try:
            _PUT(keys=[REPORTS], args=[KEPT_MS, len(origins), *origins])
            _PUT(keys=[BEACONS], args=[KEPT_MS, len(origins), *origins])
        except softstate.SoftstateDown:
            return


def _whole(name: str) -> list[str]:
    try:
        found: list[str] = _ALL(keys=[name])
    except softstate.SoftstateDown:
        return []
    return found


def _pairs(flat: list[str]) -> list[tuple[str, str]]:
    return list(zip(flat[::2], flat[1::2], strict=True))


def _form(report: Report) -> list[Any]:
    return [report.source, report.received_ms, [[t, m.rtt_us, m.loss_ppm, m.mbps] for t, m in report.links]]


def _report(origin: str, text: str) -> Report | None:
    if not text:
        return None
    sequence, _, body = text.partition("|")
    source, received_ms, links = json.loads(body)
    seen = tuple((target, Measured(rtt, loss, mbps)) for target, rtt, loss, mbps in links)
    return Report(origin, source, int(sequence), seen, received_ms)
