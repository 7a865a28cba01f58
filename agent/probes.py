"""Links between regions, as this node sees them: round trip, loss and throughput, to beacons of other regions.

A **beacon** (`--probe-listen HOST:PORT`) answers on one UDP and one TCP port. It sends back a datagram as it came, and only one
that carries a code made with the beacon's key, which the portal hands to nodes of other regions alone: nobody can use it to
throw traffic at others, as no answer is longer than its question. On TCP it swallows up to 16 MiB and says when half and when
all of it is there: the second half is free of the slow start, so its time gives the throughput.

Any agent **probes** when the portal names it targets (a few agents of each region do): every round 40 datagrams to each beacon,
every minute one transfer. It reports every period, and at once when a link changed by more than a fifth.

What is measured is soft: a report that gets lost is replaced by the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import logging
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import clocks
from . import protocol as wire
from .transport import Portal, Refused, Unreachable

log = logging.getLogger("idlewild.agent.links")

HEAD = struct.Struct("!4sIQ")
MAGIC = b"idlp"
CODE_BYTES = 16
PACKET_BYTES = HEAD.size + CODE_BYTES
PACKETS, SPACING_S, PATIENCE_S = 40, 0.015, 1.0
TRANSFER_LEAST, TRANSFER_MOST = 256 * 1024, 16 * 1024 * 1024
TRANSFER_EVERY_MS, TRANSFER_S, TRANSFER_LONG_ENOUGH_S = 60_000, 15.0, 0.15
TRANSFERS_AT_ONCE = 4
LOST_RTT_US = 1_000_000
URGENT = 0.2
LOSS_WEIGHS = 0.01
IDLE_S = 60.0


def code(key: bytes, head: bytes) -> bytes:
    """What proves that the sender was given this beacon's key."""
    return hmac.new(key, head, hashlib.sha256).digest()[:CODE_BYTES]


# ── the beacon ────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Echo(asyncio.DatagramProtocol):
    def __init__(self, key: bytes) -> None:
        self.key = key
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, address: Any) -> None:
        if len(data) == PACKET_BYTES and hmac.compare_digest(data[HEAD.size :], code(self.key, data[: HEAD.size])):
            self.transport.sendto(data, address)


class Beacon:
    """Answers probes on one address; `port` is the real one after :meth:`start` (0 = any free one)."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self.key = os.urandom(16)
        self._server: asyncio.AbstractServer | None = None
        self._echo: Any = None
        self._transfers = asyncio.Semaphore(TRANSFERS_AT_ONCE)

    async def start(self) -> None:
        """Listen; OSError when the address is taken."""
        self._server = await asyncio.start_server(self._swallow, self.host, self.port, limit=1 << 20)
        self.port = self._server.sockets[0].getsockname()[1]
        loop = asyncio.get_running_loop()
        try:
            self._echo, _ = await loop.create_datagram_endpoint(lambda: _Echo(self.key), (self.host, self.port))
        except OSError:
            self._server.close()
            raise

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        if self._echo is not None:
            self._echo.close()

    async def _swallow(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with self._transfers:
                await asyncio.wait_for(self._take(reader, writer), TRANSFER_S)
        except (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError):
            pass
        finally:
            writer.close()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        packet = await reader.readexactly(PACKET_BYTES)
        magic, size, _ = HEAD.unpack(packet[: HEAD.size])
        proved = hmac.compare_digest(packet[HEAD.size :], code(self.key, packet[: HEAD.size]))
        if magic != MAGIC or not proved or size > TRANSFER_MOST:
            return
        for part in (size // 2, size - size // 2):
            left = part
            while left:
                got = len(await reader.read(min(left, 1 << 16)))
                if not got:
                    return
                left -= got
            writer.write(b"+")
            await writer.drain()


# ── the probe ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Answers(asyncio.DatagramProtocol):
    def __init__(self) -> None:
        self.came_us: dict[int, int] = {}

    def datagram_received(self, data: bytes, address: Any) -> None:
        if len(data) == PACKET_BYTES:
            self.came_us.setdefault(HEAD.unpack(data[: HEAD.size])[1], clocks.monotonic_us())

    def error_received(self, exc: Exception) -> None:
        """A refused port: the packets count as lost."""


@dataclass(frozen=True)
class Round:
    """One round of datagrams: how many were sent, and the round trips of those that came back, microseconds."""

    sent: int
    came_us: tuple[int, ...]


async def ping(host: str, port: int, key: bytes, *, packets: int = PACKETS, spacing_s: float = SPACING_S) -> Round:
    """Send `packets` datagrams and wait a second for the last of them. OSError for an address that does not exist."""
    loop = asyncio.get_running_loop()
    transport, answers = await loop.create_datagram_endpoint(_Answers, remote_addr=(host, port))
    sent_us: dict[int, int] = {}
    try:
        for number in range(packets):
            head = HEAD.pack(MAGIC, number, clocks.monotonic_us())
            sent_us[number] = clocks.monotonic_us()
            transport.sendto(head + code(key, head))
            await asyncio.sleep(spacing_s)
        until = loop.time() + PATIENCE_S
        while len(answers.came_us) < packets and loop.time() < until:
            await asyncio.sleep(0.02)
    finally:
        transport.close()
    return Round(packets, tuple(answers.came_us[n] - sent_us[n] for n in sorted(answers.came_us) if n in sent_us))


async def transfer(host: str, port: int, key: bytes, size: int) -> float | None:
    """Seconds that the second half of `size` bytes took; None when the beacon did not take them."""
    try:
        return await asyncio.wait_for(_transfer(host, port, key, size), TRANSFER_S)
    except (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError):
        return None


async def _transfer(host: str, port: int, key: bytes, size: int) -> float:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        head = HEAD.pack(MAGIC, size, clocks.monotonic_us())
        writer.write(head + code(key, head))
        feeding = asyncio.ensure_future(_feed(writer, size))
        try:
            await reader.readexactly(1)
            half = clocks.monotonic_us()
            await reader.readexactly(1)
            took = clocks.monotonic_us() - half
        finally:
            feeding.cancel()
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await feeding
        return max(took, 1) / 1e6
    finally:
        writer.close()


async def _feed(writer: asyncio.StreamWriter, size: int) -> None:
    block = bytes(1 << 16)
    left = size
    while left:
        part = min(left, len(block))
        writer.write(block[:part])
        await writer.drain()
        left -= part


class Seen:
    """What is known of the way to one region: the last two rounds, and the last throughput."""

    def __init__(self) -> None:
        self.rounds: list[Round] = []
        self.mbps: int | None = None
        self.size = TRANSFER_LEAST
        self.transfer_due_ms = 0

    def add(self, made: Round) -> None:
        self.rounds = [*self.rounds[-1:], made]

    def link(self, region: str) -> wire.LinkSeen | None:
        """The figures of a report; None before the first round. A region that does not answer lost everything."""
        if not self.rounds:
            return None
        sent = sum(made.sent for made in self.rounds)
        came = sorted(us for made in self.rounds for us in made.came_us)
        rtt = came[len(came) // 2] if came else LOST_RTT_US
        loss = (sent - len(came)) * 1_000_000 // sent
        return wire.LinkSeen(region, max(1, rtt), loss, self.mbps if came else None)


def weight(link: wire.LinkSeen) -> float:
    """What decides which of two ways is better: the round trip, doubled by each percent of loss."""
    return link.rtt_us * (1 + link.loss_ppm / 1e6 / LOSS_WEIGHS)


def is_urgent(before: wire.LinkSeen | None, now: wire.LinkSeen) -> bool:
    """Changed by more than a fifth since it was last reported."""
    if before is None:
        return True
    ratio = max(weight(now), 1.0) / max(weight(before), 1.0)
    return not 1 / (1 + URGENT) < ratio < 1 + URGENT


class Links:
    """The loop of an agent: measure what the portal names, report, take the next targets."""

    def __init__(
        self,
        portal: Portal,
        from_agent: Callable[[], dict[str, Any]],
        beacon: Beacon | None,
        advertised: str = "",
    ) -> None:
        self.portal, self.from_agent, self.beacon, self.advertised = portal, from_agent, beacon, advertised
        self.targets: tuple[wire.LinkTarget, ...] = ()
        self.seen: dict[tuple[str, str, int], Seen] = {}
        self.reported: dict[str, wire.LinkSeen] = {}
        self.sequence = 0
        self.period_s = IDLE_S

    async def run(self) -> None:
        """Until cancelled."""
        if self.beacon is not None:
            await self.beacon.start()
            log.info("probes of other regions are answered on %s port %d", self.beacon.host, self.beacon.port)
        try:
            while True:
                await self._one_period()
        finally:
            if self.beacon is not None:
                self.beacon.close()

    async def _one_period(self) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await self.report()
        while (left := began + self.period_s - loop.time()) > 0:
            await asyncio.sleep(min(left, self.period_s / 2))
            await self.measure()
            found = self.links()
            if any(is_urgent(self.reported.get(link.region), link) for link in found):
                return

    async def measure(self) -> None:
        """One round to every target, all at once."""
        await asyncio.gather(*[self._measure(target) for target in self.targets])

    async def _measure(self, target: wire.LinkTarget) -> None:
        way = (target.region, target.host, target.port)
        seen = self.seen.setdefault(way, Seen())
        key = bytes.fromhex(target.key)
        try:
            seen.add(await ping(target.host, target.port, key))
        except OSError as error:
            log.info("no way to %s port %d: %s", target.host, target.port, error)
            seen.add(Round(PACKETS, ()))
        if seen.rounds[-1].came_us and clocks.boot_ms() >= seen.transfer_due_ms:
            await self._throughput(target, seen, key)

    async def _throughput(self, target: wire.LinkTarget, seen: Seen, key: bytes) -> None:
        seen.transfer_due_ms = clocks.boot_ms() + TRANSFER_EVERY_MS
        while True:
            took = await transfer(target.host, target.port, key, seen.size)
            if took is None:
                return
            seen.mbps = max(1, int(seen.size / 2 * 8 / took / 1e6))
            if took >= TRANSFER_LONG_ENOUGH_S or seen.size >= TRANSFER_MOST:
                return
            seen.size = min(seen.size * 4, TRANSFER_MOST)

    def links(self) -> tuple[wire.LinkSeen, ...]:
        """The better way to each region."""
        best: dict[str, wire.LinkSeen] = {}
        for target in self.targets:
            link = (
                self.seen[target.region, target.host, target.port].link(target.region) if self._knows(target) else None
            )
            if link is not None and (target.region not in best or weight(link) < weight(best[target.region])):
                best[target.region] = link
        return tuple(best[region] for region in sorted(best))

    def _knows(self, target: wire.LinkTarget) -> bool:
        return (target.region, target.host, target.port) in self.seen

    async def report(self) -> None:
        """Tell the portal; it answers with what to probe next."""
        self.sequence += 1
        found = self.links()
        beacon = self.beacon
        message = wire.LinkReport(
            **self.from_agent(),
            sequence=self.sequence,
            links=found,
            beacon_host=self.advertised,
            beacon_port=beacon.port if beacon is not None else None,
            beacon_key=beacon.key.hex() if beacon is not None else "",
        )
        try:
            plan = await self.portal.post(wire.LINKS, message, wire.LinkPlan)
        except (Unreachable, Refused) as error:
            log.info("links not reported: %s", error)
            return
        self.reported = {link.region: link for link in found}
        self.targets = plan.targets
        self.period_s = plan.period_ms / 1000
        known = {(target.region, target.host, target.port) for target in plan.targets}
        self.seen = {way: seen for way, seen in self.seen.items() if way in known}


def address(text: str) -> tuple[str, int]:
    """``HOST:PORT``, ``[v6]:PORT`` or ``:PORT`` (all addresses). ValueError says what is wrong."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise ValueError(f"{text!r} is no address: write HOST:PORT, for example 203.0.113.7:7070")
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104 - asked for by leaving the host out
