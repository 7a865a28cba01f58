"""Beacons answer only who was given their key; probes see delay, loss and throughput; the loop reports and follows the portal."""

import asyncio
from typing import Any

import pytest

from agent import probes
from agent import protocol as wire
from agent.probes import Beacon, Links, Round, Seen


class Portal:
    """The portal's side of the loop: gives a plan, keeps what it is told."""

    def __init__(self, plan: wire.LinkPlan) -> None:
        self.plan, self.told = plan, []

    async def post(self, path: str, message: wire.LinkReport, answer: Any) -> Any:
        assert (path, answer) == (wire.LINKS, wire.LinkPlan)
        self.told.append(wire.LinkReport.from_wire(message.to_wire()))
        return self.plan


class Lossy(asyncio.DatagramProtocol):
    """A relay that drops each n-th datagram of one direction."""

    def __init__(self, port: int, each: int) -> None:
        self.to, self.each, self.seen, self.transport, self.back = ("127.0.0.1", port), each, 0, None, None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, address: Any) -> None:
        if address == self.to:
            self.transport.sendto(data, self.back)
            return
        self.back = address
        self.seen += 1
        if self.each == 0 or self.seen % self.each:
            self.transport.sendto(data, self.to)


async def a_beacon() -> Beacon:
    beacon = Beacon("127.0.0.1", 0)
    await beacon.start()
    return beacon


def test_a_probe_sees_the_round_trip_and_no_loss() -> None:
    async def run() -> Round:
        beacon = await a_beacon()
        try:
            return await probes.ping("127.0.0.1", beacon.port, beacon.key, packets=20, spacing_s=0.002)
        finally:
            beacon.close()

    made = asyncio.run(run())
    assert (made.sent, len(made.came_us)) == (20, 20)
    assert all(0 < us < 500_000 for us in made.came_us)


def test_a_beacon_is_silent_to_who_has_no_key() -> None:
    async def run() -> tuple[Round, Any]:
        beacon = await a_beacon()
        try:
            stranger = await probes.ping("127.0.0.1", beacon.port, bytes(16), packets=5, spacing_s=0.001)
            return stranger, await probes.transfer("127.0.0.1", beacon.port, bytes(16), 1_000)
        finally:
            beacon.close()

    made, took = asyncio.run(run())
    assert made.came_us == ()
    assert took is None


def test_lost_packets_are_counted() -> None:
    async def run() -> Round:
        beacon = await a_beacon()
        loop = asyncio.get_running_loop()
        relay, _ = await loop.create_datagram_endpoint(lambda: Lossy(beacon.port, 4), local_addr=("127.0.0.1", 0))
        try:
            port = relay.get_extra_info("sockname")[1]
            return await probes.ping("127.0.0.1", port, beacon.key, packets=40, spacing_s=0.001)
        finally:
            relay.close()
            beacon.close()

    made = asyncio.run(run())
    seen = Seen()
    seen.add(made)
    link = seen.link("west")
    assert link is not None
    assert link.loss_ppm == 250_000


def test_a_transfer_takes_time_and_a_dead_beacon_none() -> None:
    async def run() -> tuple[Any, Any]:
        beacon = await a_beacon()
        took = await probes.transfer("127.0.0.1", beacon.port, beacon.key, 1 << 20)
        too_much = await probes.transfer("127.0.0.1", beacon.port, beacon.key, probes.TRANSFER_MOST + 1)
        beacon.close()
        return took, too_much

    took, too_much = asyncio.run(run())
    assert took is not None
    assert 0 < took < 10
    assert too_much is None


def test_a_region_that_does_not_answer_lost_everything() -> None:
    seen = Seen()
    assert seen.link("west") is None
    seen.mbps = 900
    seen.add(Round(40, ()))
    assert seen.link("west") == wire.LinkSeen("west", probes.LOST_RTT_US, 1_000_000, None)
    seen.add(Round(40, tuple(range(1_000, 1_040))))
    assert seen.link("west") == wire.LinkSeen("west", 1_020, 500_000, 900)
    seen.add(Round(40, tuple(range(1_000, 1_040))))
    assert seen.link("west").loss_ppm == 0  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("before", "now", "urgent"),
    [
        (None, (10_000, 0), True),
        ((10_000, 0), (11_000, 0), False),
        ((10_000, 0), (13_000, 0), True),
        ((10_000, 0), (10_000, 5_000), True),
        ((13_000, 0), (10_000, 0), True),
    ],
)
def test_what_is_told_at_once(before: Any, now: Any, urgent: bool) -> None:
    held = None if before is None else wire.LinkSeen("west", *before)
    assert probes.is_urgent(held, wire.LinkSeen("west", *now)) is urgent


def test_the_loop_measures_what_the_portal_names_and_reports_it_at_once() -> None:
    async def run() -> Portal:
        beacon = await a_beacon()
        dead = wire.LinkTarget("west", "127.0.0.1", 9, "00" * 16)
        good = wire.LinkTarget("west", "127.0.0.1", beacon.port, beacon.key.hex())
        portal = Portal(wire.LinkPlan((dead, good), 1_000))
        mine = Beacon("127.0.0.1", 0)
        links = Links(portal, lambda: {"boot_id": "b", "incarnation": 3}, mine, "edge.example")  # type: ignore[arg-type]
        loop = asyncio.create_task(links.run())
        try:
            async with asyncio.timeout(20):
                while len(portal.told) < 2:
                    await asyncio.sleep(0.05)
        finally:
            loop.cancel()
            await asyncio.gather(loop, return_exceptions=True)
            beacon.close()
        return portal

    told = asyncio.run(run()).told
    assert [message.sequence for message in told] == [1, 2]
    assert told[0].links == ()
    assert (told[0].beacon_host, told[0].incarnation) == ("edge.example", 3)
    assert told[0].beacon_port
    link = told[1].links[0]
    assert (link.region, link.loss_ppm) == ("west", 0)  # the better of two ways
    assert link.mbps is not None


@pytest.mark.parametrize(
    ("text", "found"),
    [("10.0.0.1:70", ("10.0.0.1", 70)), (":7070", ("0.0.0.0", 7070)), ("[::1]:7", ("::1", 7))],  # noqa: S104
)
def test_addresses(text: str, found: tuple[str, int]) -> None:
    assert probes.address(text) == found


@pytest.mark.parametrize("text", ["7070", "host:", "host:x", "host:99999", ""])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no address"):
        probes.address(text)
