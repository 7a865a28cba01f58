"""A backbone in user space: one address per region before its beacon, with delay, loss and a limit of bandwidth.

Runs in a thread of its own with its own loop. `loss` of a region may be changed at any time.
"""

import asyncio
import random
import threading
from typing import Any

DELAY_S = 0.02
"""One way; so a round trip takes twice as long."""
BYTES_PER_S = 300e6 / 8


class Relay:
    """Relays `port` on `front` to the same port on 127.0.0.1, UDP and TCP."""

    def __init__(self, fronts: dict[str, tuple[str, int]], seed: int) -> None:
        self.fronts = fronts
        self.loss = dict.fromkeys(fronts, 0.0)
        self.chance = random.Random(seed)
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)

    def __enter__(self) -> "Relay":
        self.thread.start()
        asyncio.run_coroutine_threadsafe(self._open(), self.loop).result(10)
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(5)

    async def _open(self) -> None:
        for region, (host, port) in self.fronts.items():
            await self.loop.create_datagram_endpoint(
                lambda r=region, p=port: _Packets(self, r, p), local_addr=(host, port)
            )  # type: ignore[misc]
            await asyncio.start_server(lambda reader, writer, p=port: self._stream(reader, writer, p), host, port)  # type: ignore[misc]

    def drops(self, region: str) -> bool:
        """Is this packet lost?"""
        return self.chance.random() < self.loss[region]

    async def _stream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
        try:
            back, forth = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(self._pump(reader, forth), self._pump(back, writer), return_exceptions=True)

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        """Bytes after the delay, at no more than the bandwidth."""
        free_at = self.loop.time()
        try:
            while data := await source.read(1 << 14):
                free_at = max(free_at, self.loop.time()) + len(data) / BYTES_PER_S
                self.loop.call_at(free_at + DELAY_S, target.write, data)
                if free_at - self.loop.time() > 0.05:
                    await asyncio.sleep(free_at - self.loop.time())
        finally:
            self.loop.call_at(free_at + DELAY_S + 0.05, target.close)


class _Packets(asyncio.DatagramProtocol):
    """One socket to the outside, one to the beacon per caller."""

    def __init__(self, relay: Relay, region: str, port: int) -> None:
        self.relay, self.region, self.port = relay, region, port
        self.callers: dict[Any, asyncio.DatagramTransport] = {}
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, address: Any) -> None:
        if not self.relay.drops(self.region):
            self.relay.loop.call_later(DELAY_S, lambda: self.relay.loop.create_task(self._forth(data, address)))

    async def _forth(self, data: bytes, caller: Any) -> None:
        if caller not in self.callers:
            answers, _ = await self.relay.loop.create_datagram_endpoint(
                lambda: _Answers(self, caller), remote_addr=("127.0.0.1", self.port)
            )
            self.callers[caller] = answers
        self.callers[caller].sendto(data)


class _Answers(asyncio.DatagramProtocol):
    def __init__(self, packets: _Packets, caller: Any) -> None:
        self.packets, self.caller = packets, caller

    def datagram_received(self, data: bytes, address: Any) -> None:
        self.packets.relay.loop.call_later(DELAY_S, self.packets.transport.sendto, data, self.caller)

    def error_received(self, exc: Exception) -> None:
        """A beacon that is not there: the packet is lost."""
