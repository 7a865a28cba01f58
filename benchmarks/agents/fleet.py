"""Many agents in one process: the real wire over one kept connection each, no processes behind it.

Each agent syncs as the real one does: it names its leases, acknowledges the last answer, asks to be held, and syncs again as soon as it is answered. What is
measured is the time of a sync beyond the hold that it was given.
"""

import asyncio
import contextlib
import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from agent import protocol as wire

IDLE_MS = 25_000
GIVE_UP_S = 60.0


@dataclass
class Measured:
    """Of all agents together. Seconds."""

    over: list[float] = field(default_factory=list)
    errors: dict[str, int] = field(default_factory=dict)
    renewals: int = 0
    fenced: int = 0
    late: int = 0  # leases whose renewal came after the agent's own deadline

    def miss(self, why: str) -> None:
        self.errors[why] = self.errors.get(why, 0) + 1


class Simulated:
    """One agent."""

    def __init__(
        self,
        host: str,
        port: int,
        node: str,
        secret: str,
        leases: Sequence[tuple[str, int]],
        hold_ms: int,
        measured: Measured,
    ) -> None:
        self.host, self.port, self.node, self.secret = host, port, node, secret
        self.leases = {attempt: fence for attempt, fence in leases}
        self.hold_ms, self.measured = hold_ms, measured
        self.seq = self.acknowledged = 0
        self.deadlines: dict[str, float] = {}
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def live(self, until: float, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        try:
            while time.monotonic() < until:
                await self._sync()
        finally:
            if self.streams:
                self.streams[1].close()

    async def _sync(self) -> None:
        self.seq += 1
        held = tuple(wire.HeldLease(attempt, fence, wire.Phase.RUN) for attempt, fence in self.leases.items())
        request = wire.SyncRequest("boot", 1, self.seq, self.acknowledged, self.hold_ms, held)
        began = time.monotonic()
        try:
            status, body = await asyncio.wait_for(
                self._post("/agent/v1/sync", json.dumps(request.to_wire()).encode()), GIVE_UP_S
            )
        except (TimeoutError, OSError, EOFError) as problem:
            self.measured.miss(type(problem).__name__)
            self._forget()
            await asyncio.sleep(random.random())
            return
        took = time.monotonic() - began
        if status != 200:
            self.measured.miss(str(status))
            await asyncio.sleep(0.5 + random.random())
            return
        answer = wire.SyncAnswer.from_wire(json.loads(body))
        self.acknowledged = self.seq
        self.measured.over.append(max(0.0, took - self._given_hold_s()))
        self._take(answer, began)

    def _given_hold_s(self) -> float:
        return self.hold_ms / 1000

    def _take(self, answer: wire.SyncAnswer, began: float) -> None:
        for renewal in answer.renewals:
            now = time.monotonic()
            if now > self.deadlines.get(renewal.attempt, now):
                self.measured.late += 1
            self.deadlines[renewal.attempt] = began + renewal.deadline_ms / 1000
            self.measured.renewals += 1
        for fenced in answer.fenced:
            self.measured.fenced += 1
            self.leases.pop(fenced.attempt, None)

    async def _post(self, path: str, body: bytes) -> tuple[int, bytes]:
        if self.streams is None:
            self.streams = await asyncio.open_connection(self.host, self.port)
        reader, writer = self.streams
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            f"Authorization: {wire.authorization(self.node, self.secret)}\r\n{wire.HEADER_WIRE}: {wire.VERSION}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        await writer.drain()
        said = await reader.readuntil(b"\r\n\r\n")
        status = int(said.split(b" ", 2)[1])
        length = next(
            (int(line.split(b":")[1]) for line in said.split(b"\r\n") if line.lower().startswith(b"content-length")), 0
        )
        return status, await reader.readexactly(length)

    def _forget(self) -> None:
        if self.streams:
            with contextlib.suppress(OSError):
                self.streams[1].close()
        self.streams = None


async def run(
    *,
    host: str,
    port: int,
    secret: str,
    fleet: Sequence[dict[str, object]],
    hold_ms: int,
    seconds: float,
    spread_s: float,
) -> Measured:
    """All agents for `seconds`; their first syncs are spread over `spread_s`."""
    measured = Measured()
    until = time.monotonic() + seconds
    agents = [
        Simulated(host, port, str(row["node"]), secret, [tuple(pair) for pair in row["leases"]], hold_ms, measured)  # type: ignore[attr-defined, misc]
        for row in fleet
    ]
    await asyncio.gather(*(agent.live(until, spread_s * n / len(agents)) for n, agent in enumerate(agents)))
    return measured
