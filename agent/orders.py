"""What the portal asks of a node between jobs, and how a node empties itself."""

from __future__ import annotations

import asyncio
import contextlib
import time

from . import clocks, machine, probe, selftest
from . import protocol as wire
from .hands import log
from .onboarding import Onboarding
from .protocol import Reason
from .transport import Refused, Unreachable

OWN_JOBS_GRACE_MS = 1500
GOODBYE_S = 1.0
EXIT_SUPERSEDED = 3


class Orders(Onboarding):
    # ── orders ────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _order_loop(self) -> None:
        await self.ready.wait()
        while True:
            order = await self.orders.get()
            log.info("order %s: %s", order.id, order.kind.value)
            try:
                await self._carry_out(order)
            except Exception:  # one bad order must not stop the others
                log.exception("order %s failed", order.id)

    async def _carry_out(self, order: wire.Order) -> None:
        kind = order.kind
        if kind is wire.OrderKind.SELF_TEST:
            assert self.ground is not None  # noqa: S101
            secrets = [self.config.identity_file, self.config.journal_file]
            self.self_test = await selftest.run(self.ground, secrets)
            await self._send_inventory(self_test=self.self_test)
        elif kind is wire.OrderKind.FINGERPRINT:
            await self._measure(order.nonce, order.soak_s)
        elif kind is wire.OrderKind.INVENTORY:
            await self._send_inventory(runtime=await asyncio.to_thread(probe.runtime))
        elif kind is wire.OrderKind.UNDRAIN:
            self.drain_order = ""
        else:
            self.drain_order = order.id
            self._spawn(self._drain(order.deadline_ms, leave=kind is wire.OrderKind.RETIRE), "drain")

    async def _drain(self, deadline_ms: int | None, *, leave: bool) -> None:
        """No new work; what still runs at the deadline is stopped."""
        self.wake.set()
        until = clocks.boot_ms() + deadline_ms if deadline_ms is not None else None
        while self.live and self._closed():
            if until is not None and clocks.boot_ms() >= until:
                for attempt in list(self.live):
                    self.feed(attempt, machine.Cancelled(Reason.NODE_DRAINED, 30_000))
                until = None
            await asyncio.sleep(0.1)
        if leave:
            self.stopping.set()

    async def _stop_own_jobs(self) -> None:
        """--own-jobs: nothing survives this agent. Each attempt is told as drained, so that it is placed again at once."""
        self.draining = True
        if self.connected.is_set() and self.exit_code != EXIT_SUPERSEDED:
            # Without this word the portal would go on placing work here until our silence shows.
            goodbye = wire.DrainRequest(**self._from_agent(), deadline_ms=0)
            with contextlib.suppress(Unreachable, Refused):
                await self.portal.post(wire.DRAIN, goodbye, wire.Stored, timeout_s=GOODBYE_S)
        for attempt in list(self.live):
            self.feed(attempt, machine.Cancelled(Reason.NODE_DRAINED, OWN_JOBS_GRACE_MS))
        until = time.monotonic() + OWN_JOBS_GRACE_MS / 1000 + 4
        while self.live and time.monotonic() < until:
            await asyncio.sleep(0.05)
        for live in list(self.live.values()):
            await self._kill(live)
