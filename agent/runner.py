"""The agent at work: performs the machine's instructions, feeds the results back, and keeps in touch with the portal.

    portal ─ sync, answers ─▶ machine.step ─ instructions ─▶ perform ─ facts ─▶ machine.step …

One asyncio loop in the main thread (supervisors must be started there). Loops, each of which survives the failure of any
other: *sync* (heartbeat, renewals, orders), *usage*, one *watch* per supervisor, one *logs* per attempt, *onboarding*
(self-test, inventory, fingerprint). Here: sync and the life of the whole; the rest stands in the modules that `hands`
lists. Only this module reads the wall clock and draws randomness.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from . import clocks, folders, machine, probes
from . import protocol as wire
from .config import save_identity
from .hands import Live, log
from .journal import Record
from .machine import Instruction
from .orders import EXIT_SUPERSEDED, Orders
from .transport import Refused, Unreachable, pause_s

IDLE_HOLD_MS = 20_000
HOLD_SHARE_PPM = 600_000  # of the fastest renew period
TOTAL_SHARE = 1.25
BLOCKING_CALLS = 64


class Runner(Orders):
    # ── life ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── life ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def run(self) -> int:
        """Until SIGTERM, `down`, or the portal says that another agent has taken over."""
        self.journal.purge(self._wall_s())
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(BLOCKING_CALLS))  # silent supervisors must not use it up
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stopping.set)
        self._adopt()  # before the first sync: it must name every lease, and renewals must reach their supervisors
        server = await asyncio.start_unix_server(self._control, path=self._control_path())
        self._spawn(self._sync_loop(), "sync")
        self._spawn(self._onboard(), "onboarding")
        self._spawn(self._usage_loop(), "usage")
        self._spawn(self._order_loop(), "orders")
        self._spawn(self._link_loop(), "links")
        await self.stopping.wait()
        server.close()
        if self.config.own_jobs or self.exit_code == EXIT_SUPERSEDED:
            await self._stop_own_jobs()
        for task in list(self._tasks) + [task for live in self.live.values() for task in live.tasks]:
            task.cancel()
        await self.portal.close()
        self._leave()
        return self.exit_code

    def _control_path(self) -> str:
        """The socket's path, through the current folder: socket paths are short, state folders may be long."""
        os.chdir(self.config.state)
        self.config.control_socket.unlink(missing_ok=True)
        return self.config.control_socket.name

    def _leave(self) -> None:
        self.config.control_socket.unlink(missing_ok=True)
        self.journal.close()
        if self.ground is not None and self.ground.layout is not None and not self.live:
            self.ground.layout.remove()
        if self.folder.parent != self.config.state and not self.live:
            folders.remove(self.folder.parent)

    def _wall_s(self) -> int:
        return int(time.time())

    def _pause(self, failures: int, asked: float | None = None) -> float:
        held = [live for live in self.live.values() if live.attempt.holds_lease]
        frozen = any(live.attempt.frozen for live in held)
        return pause_s(failures, busy=bool(held), frozen=frozen, draw=random.random(), asked=asked)  # noqa: S311 - jitter

    # ── the machine ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _perform(self, live: Live, instruction: Instruction) -> None:
        if isinstance(instruction, machine.Accept):
            self._spawn(self._accept(live, instruction.within_ms), "accept", live)
        elif isinstance(instruction, machine.Stage):
            self._spawn(self._stage(live), "stage", live)
        elif isinstance(instruction, machine.Launch):
            self._spawn(self._launch(live), "launch", live)
        elif isinstance(instruction, machine.Renew):
            self._spawn(self._renew(live), "renew", live)
        elif isinstance(instruction, machine.Stop):
            self._spawn(self._stop(live, instruction.reason, instruction.grace_ms), "stop", live)
        elif isinstance(instruction, machine.Kill):
            self._spawn(self._kill(live), "kill", live)
        elif isinstance(instruction, machine.Abort):
            for task in list(live.tasks):
                if task is not asyncio.current_task():
                    task.cancel()
        elif isinstance(instruction, machine.Report):
            self._report(live, instruction.phase, instruction.frozen)
        elif isinstance(instruction, machine.Upload):
            self._spawn(self._upload(live), "upload", live)
        elif isinstance(instruction, machine.Save):
            self._spawn(self._save_last(live), "save", live)
        elif isinstance(instruction, machine.Finish):
            self._spawn(self._finish(live), "finish", live)
        else:
            self._spawn(self._forget(live, instruction.tell), "forget")

    # ── sync ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── sync ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _fastest_ms(self) -> int | None:
        return min((live.renew_ms for live in self.live.values() if live.attempt.holds_lease), default=None)

    def _sync_request(self) -> tuple[wire.SyncRequest, float]:
        fastest = self._fastest_ms()
        if fastest is None:
            hold_ms, total_s = IDLE_HOLD_MS, IDLE_HOLD_MS / 1000 + 10
        else:
            hold_ms, total_s = fastest * HOLD_SHARE_PPM // 1_000_000, fastest / 1000 * TOTAL_SHARE
        if not self.connected.is_set() or self.wake.is_set():
            hold_ms = 0
        self.wake.clear()
        self.seq += 1
        held = tuple(
            wire.HeldLease(live.attempt.id, live.attempt.fence, live.attempt.phase, live.attempt.frozen)
            for live in self.live.values()
            if live.attempt.holds_lease
        )
        request = wire.SyncRequest(
            boot_id=self.boot_id,
            incarnation=self.portal.incarnation or None,
            seq=self.seq,
            acknowledges=self.acknowledged,
            hold_ms=hold_ms,
            leases=held,
            draining=self.draining or self.outdated,
            load=self._load(len(held)),
        )
        return request, total_s

    def _load(self, attempts: int) -> wire.Load:
        return wire.Load(
            cpu_ppm=int(os.getloadavg()[0] * 1_000_000),
            memory_used_mib=sum(int(live.facts.get("mem_peak_bytes", 0)) for live in self.live.values()) >> 20,
            disk_free_gib=shutil.disk_usage(self.config.state).free >> 30,
            attempts=attempts,
        )

    async def _sync_loop(self) -> None:
        failures = 0
        while not self.stopping.is_set():
            try:
                next_ms = await self._sync_once()
                failures = 0
            except Unreachable as error:
                failures += 1
                if failures in (1, 10) or failures % 100 == 0:
                    log.warning("sync: %s (%d in a row)", error, failures)
                next_ms = int(1000 * self._pause(failures, error.retry_after_s))
            except Refused as error:
                failures += 1
                next_ms = self._sync_refused(error, failures)
            if next_ms:
                await self._sleep_or(self.wake, next_ms / 1000)

    async def _sync_once(self) -> int:
        request, total_s = self._sync_request()
        sent_ms = clocks.boot_ms()
        answer = await self._held(request, total_s)
        if answer is None:
            return 0
        self.acknowledged = request.seq
        if not self.connected.is_set():
            self.portal.incarnation = answer.incarnation
            self.connected.set()
            log.info("connected to %s as %s, incarnation %d", self.portal.url, self.portal.node, answer.incarnation)
        self._take(answer, sent_ms)
        return answer.next_sync_ms

    async def _held(self, request: wire.SyncRequest, total_s: float) -> wire.SyncAnswer | None:
        """The answer; None when a hold without leases was cut short, because there is a lease to be renewed now.

        A sync that names leases is never cut: its answer may renew them, and a lost answer costs the next renewal.
        """
        call = asyncio.ensure_future(self.portal.post(wire.SYNC, request, wire.SyncAnswer, timeout_s=total_s))
        waits: list[asyncio.Future[Any]] = [call]
        if not request.leases:
            waits.append(asyncio.ensure_future(self.wake.wait()))
        waits.append(asyncio.ensure_future(self.stopping.wait()))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            return await call if call.done() else None
        finally:
            for wait in waits:
                wait.cancel()
            with contextlib.suppress(asyncio.CancelledError, Unreachable, Refused):
                await call

    def _take(self, answer: wire.SyncAnswer, sent_ms: int) -> None:
        known = {id: live.attempt for id, live in self.live.items()}
        for renewal in answer.renewals:
            if renewal.attempt in self.live:
                self.live[renewal.attempt].renew_ms = renewal.renew_ms
        facts = machine.read_sync(known, answer, sent_ms, clocks.boot_ms())
        for attempt, event in facts.events:
            self.feed(attempt, event)
        for offer, instructions in facts.offers:
            if self._closed() or self.journal.get(offer.id) is not None:
                continue
            live = Live(Record(offer, self.boot_id))
            self.live[offer.id] = live
            for instruction in instructions:
                self._perform(live, instruction)
        self._take_orders(answer.orders)
        if answer.node_secret is not None:
            self.identity = replace(self.identity, secret=answer.node_secret)
            save_identity(self.config.identity_file, self.identity)
            self.portal.secret = answer.node_secret

    def _take_orders(self, orders: tuple[wire.Order, ...]) -> None:
        named = {order.id for order in orders}
        if self.drain_order and self.drain_order not in named:
            self.drain_order = ""
        for order in orders:
            if order.id not in self._orders_seen:
                self.orders.put_nowait(order)
        self._orders_seen = named

    def _sync_refused(self, error: Refused, failures: int) -> int:
        if error.superseded:
            log.error("another agent speaks for %s: this one stops its jobs and ends", self.portal.node)
            self.exit_code = EXIT_SUPERSEDED
            for attempt in list(self.live):
                self.feed(attempt, machine.FencedOff())
            self.stopping.set()
            return 100
        if error.status == wire.STATUS_WIRE_VERSION and not self.outdated:
            self.outdated = True
            log.error("this agent is too old for the portal: it finishes its jobs and takes no more")
        if failures in (1, 10) or failures % 100 == 0:
            log.error("sync refused: %s", error)
        return int(1000 * max(0.5, self._pause(failures)))

    async def _link_loop(self) -> None:
        """Probes of links between regions (probes.py), once the portal knows us."""
        await self.connected.wait()
        beacon = probes.Beacon(*probes.address(self.config.probe_listen)) if self.config.probe_listen else None
        await probes.Links(self.portal, self._from_agent, beacon, self.config.probe_address).run()

    # ── the local door ────────────────────────────────────────────────────────────────────────────────────────────────

    async def _control(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """`status`, `down`, `self-test` of the command line; only root (or our own user) reaches this socket."""
        try:
            request = json.loads(await asyncio.wait_for(reader.readline(), 5))
            answer = await self._answer(request)
        except (ValueError, KeyError, asyncio.TimeoutError) as error:
            answer = {"error": str(error)}
        with contextlib.suppress(OSError):
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        writer.close()

    async def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        if request["do"] == "down":
            deadline_ms = int(request["deadline_ms"])
            drain = (
                wire.DrainRequest(**self._from_agent(), deadline_ms=deadline_ms) if self.connected.is_set() else None
            )
            self.draining = True
            if drain is not None:
                with contextlib.suppress(Unreachable, Refused):
                    await self.portal.post(wire.DRAIN, drain, wire.Stored)
            self._spawn(self._drain(deadline_ms, leave=True), "drain")
            return {"draining": True, "attempts": list(self.live)}
        if request["do"] == "status":
            return self.status()
        raise ValueError(f"unknown request {request['do']}")

    def status(self) -> dict[str, Any]:
        return {
            "node": self.portal.node,
            "name": self.identity.name,
            "url": self.portal.url,
            "pid": os.getpid(),
            "connected": self.connected.is_set(),
            "incarnation": self.portal.incarnation,
            "enrolment": self.enrolment,
            "draining": self._closed(),
            "isolation": self.self_test.isolation.value if self.self_test else None,
            "executor": self.self_test.executor if self.self_test else None,
            "cgroups": self.self_test.cgroups if self.self_test else None,
            "failed_checks": [c.name for c in self.self_test.checks if not c.ok] if self.self_test else [],
            "attempts": [
                {
                    "attempt": live.attempt.id,
                    "fence": live.attempt.fence,
                    "state": live.attempt.state.value,
                    "phase": live.attempt.phase.value,
                    "supervisor": live.record.supervisor_pid,
                    "ran_us": int(live.facts.get("ran_us", 0)),
                }
                for live in self.live.values()
            ],
        }
