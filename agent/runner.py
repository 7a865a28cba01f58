"""The agent at work: performs the machine's instructions, feeds the results back, and keeps in touch with the portal.

    portal ─ sync, answers ─▶ machine.step ─ instructions ─▶ perform ─ facts ─▶ machine.step …

One asyncio loop in the main thread (supervisors must be started there). Loops, each of which survives the failure of any
other: *sync* (heartbeat, renewals, orders), *usage*, one *watch* per supervisor, one *logs* per attempt, *onboarding*
(self-test, inventory, fingerprint). Only this module reads the wall clock and draws randomness.

Traps:
- The deadline counts from **sending** the request whose answer granted it, on CLOCK_BOOTTIME.
- A supervisor that is stopped itself cannot freeze its job: the watch does it through the control group.
- One silent supervisor must not delay the renewals of the others: each renewal is a task of its own, with a short time-out.
- A usage report gets its number before it is sent, and a failed one is never sent again under the same number: counters
  are cumulative, the next report says it all.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from . import benchmark, clocks, machine, meter, probe, selftest, staging
from . import protocol as wire
from .config import VERSION, Config, Identity, save_identity
from .devices.found import Devices
from .executors import cgroups, tree
from .executors.found import reachable_folder
from .executors.groups import Group
from .journal import Journal, Record
from .launching import (
    Ground,
    SupervisorSilent,
    ask,
    from_spec,
    make_folder,
    read_facts,
    start_supervisor,
)
from .machine import Attempt, Event, Instruction, InvalidTransition, State
from .protocol import AssignmentSpec, Phase, Reason, SelfTest, Stream
from .transport import Portal, Refused, Sender, Unreachable, pause_s

log = logging.getLogger("idlewild.agent")

IDLE_HOLD_MS = 20_000
HOLD_SHARE_PPM = 600_000  # of the fastest renew period
TOTAL_SHARE = 1.25
WATCH_FAST_S, WATCH_S = 0.05, 0.25
USAGE_TICK_S = 0.25
USAGE_AGAIN_MS = 3000
LOGS_S = 0.25
LAST_LOGS_S = 60.0
DAY_S = 24 * 3600
SLOTS = 90  # of a range of 100 user ids; the last ten belong to the self-test
OWN_JOBS_GRACE_MS = 1500
GOODBYE_S = 1.0
GUARD_MS = 150  # how long after the deadline the supervisor has to have frozen its tree
SUPERVISED = (State.STARTING, State.RUNNING, State.FROZEN, State.STOPPING, State.KILLING)
EXIT_SUPERSEDED = 3
BLOCKING_CALLS = 64
BENCHMARK_TURN = "idlewild-benchmark"


@dataclass
class Live:
    """An attempt at hand: its journaled record and what only this process knows."""

    record: Record
    spec: AssignmentSpec | None = None
    renew_ms: int = 15_000
    process: Any = None
    facts: dict[str, Any] = field(default_factory=dict)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    shipping: asyncio.Task[None] | None = None
    shipped: dict[Stream, int] = field(default_factory=lambda: {Stream.STDOUT: 0, Stream.STDERR: 0})
    closed: set[Stream] = field(default_factory=set)  # streams that the portal takes no more of
    reported: tuple[Phase, bool] | None = None
    to_report: tuple[Phase, bool] | None = None
    reporting: asyncio.Task[None] | None = None
    usage_due_ms: int = 0

    @property
    def attempt(self) -> Attempt:
        return self.record.attempt

    @property
    def sender(self) -> Sender:
        if self.spec is None:
            raise RuntimeError(f"{self.attempt.id} has not been accepted")
        return Sender(self.spec.lease_secret, self.attempt.fence)


class Runner:
    def __init__(self, config: Config, identity: Identity, *, devices: Devices | None = None) -> None:
        self.config = config
        self.identity = identity
        self.devices = devices or Devices()
        self.boot_id = clocks.boot_id()
        self.portal = Portal(identity.url, identity.node, identity.secret)
        self.portal.boot_id = self.boot_id
        self.journal = Journal(config.journal_file)
        self.folder = self._work_folder()  # of all attempts
        self.live: dict[str, Live] = {}
        self.ground: Ground | None = None
        self.self_test: SelfTest | None = None
        self.ready = asyncio.Event()  # the ground is settled: attempts may start
        self.connected = asyncio.Event()  # the portal gave an incarnation
        self.stopping = asyncio.Event()
        self.wake = asyncio.Event()  # a local change that the portal should hear of at once
        self.draining = False  # by our own provider (down, stop): the portal is told
        self.drain_order = ""  # by the portal, which knows; over when it no longer names this order
        self.outdated = False  # 426: finish the jobs, take no more
        # Each start counts on from a higher number than the one before: else a restart within seconds would look to the
        # portal like the old start's first sync, come twice, and get its number.
        self.seq = self.acknowledged = clocks.boot_ms()
        self.enrolment = ""
        self.exit_code = 0
        self._disk_gib: int | None = None
        self._measuring = asyncio.Lock()
        self._measured_ms = 0
        self.orders: asyncio.Queue[wire.Order] = asyncio.Queue()
        self._orders_seen: set[str] = (
            set()
        )  # named by the last answer: an order stands in every answer until it is served
        self._tasks: set[asyncio.Task[None]] = set()

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
            shutil.rmtree(self.folder.parent, ignore_errors=True)

    def _spawn(self, work: Coroutine[Any, Any, None], name: str, live: Live | None = None) -> asyncio.Task[None]:
        task = asyncio.create_task(self._guarded(work, name), name=name)
        tasks = live.tasks if live is not None else self._tasks
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        return task

    async def _guarded(self, work: Coroutine[Any, Any, None], name: str) -> None:
        try:
            await work
        except asyncio.CancelledError:
            raise
        except Exception:  # a defect in one task must not take the heartbeat with it
            log.exception("task %s failed", name)

    def _wall_s(self) -> int:
        return int(time.time())

    def _save(self, live: Live) -> None:
        self.journal.save(live.record, self._wall_s())

    # ── the machine ───────────────────────────────────────────────────────────────────────────────────────────────────

    def feed(self, attempt: str, event: Event) -> None:
        live = self.live.get(attempt)
        if live is None:
            return
        try:
            after, instructions = machine.step(live.attempt, event)
        except InvalidTransition as error:
            log.warning("ignored: %s", error)
            return
        if after != live.attempt:
            if after.state is not live.attempt.state:
                log.info("%s: %s → %s", attempt, live.attempt.state.value, after.state.value)
            live.record = live.record.with_attempt(after)
            self._save(live)
        for instruction in instructions:
            self._perform(live, instruction)

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
        elif isinstance(instruction, machine.Finish):
            self._spawn(self._finish(live), "finish", live)
        else:
            self._spawn(self._forget(live, instruction.tell), "forget")

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

    def _pause(self, failures: int, asked: float | None = None) -> float:
        held = [live for live in self.live.values() if live.attempt.holds_lease]
        frozen = any(live.attempt.frozen for live in held)
        return pause_s(failures, busy=bool(held), frozen=frozen, draw=random.random(), asked=asked)  # noqa: S311 - jitter

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

    def _closed(self) -> bool:
        return self.draining or self.outdated or bool(self.drain_order)

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

    async def _sleep_or(self, event: asyncio.Event, seconds: float) -> None:
        waits = [asyncio.ensure_future(event.wait()), asyncio.ensure_future(self.stopping.wait())]
        try:
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    # ── an attempt begins ─────────────────────────────────────────────────────────────────────────────────────────────

    def _from_agent(self) -> dict[str, Any]:
        return {"boot_id": self.boot_id, "incarnation": self.portal.incarnation}

    async def _accept(self, live: Live, within_ms: int) -> None:
        until = clocks.boot_ms() + within_ms
        request = wire.AcceptRequest(**self._from_agent(), fence=live.attempt.fence)
        path = wire.accept_path(live.attempt.id)
        await self._sleep_or(self.ready, within_ms / 1000)
        if not self.ready.is_set():
            # Not refused: the next sync offers it again, if the portal has not given it to another by then.
            log.info("%s waits: the self-test is not done", live.attempt.id)
            self.live.pop(live.attempt.id, None)
            return
        while True:
            sent_ms = clocks.boot_ms()
            left_s = (until - sent_ms) / 1000
            if left_s <= 0:
                self.feed(live.attempt.id, machine.Refused("no answer to accept in time"))
                return
            try:
                spec = await self.portal.post(path, request, AssignmentSpec, timeout_s=max(0.2, left_s))
                break
            except Unreachable:
                await asyncio.sleep(0.1)
            except Refused as error:
                self.feed(live.attempt.id, machine.Refused(str(error)))
                return
        live.spec = spec
        live.renew_ms = spec.renew_ms
        self.wake.set()  # the heartbeat must now be as fast as this lease wants it
        self.feed(live.attempt.id, machine.Accepted(spec, sent_ms + spec.deadline_ms))

    def _free_slot(self) -> int:
        used = {live.record.slot for live in self.live.values()}
        free = next((slot for slot in range(1, SLOTS) if slot not in used), None)
        if free is None:
            raise OSError("no free slot on this node")
        return free

    def _folder(self, live: Live) -> Path:
        return self.folder / live.attempt.id

    async def _stage(self, live: Live) -> None:
        await self.ready.wait()
        assert self.ground is not None and live.spec is not None  # noqa: S101, PT018
        try:
            folder = self._folder(live)
            if folder.exists():  # left by an agent that died while staging
                await asyncio.to_thread(shutil.rmtree, folder)
            if live.record.slot == 0:
                live.record = replace(live.record, slot=self._free_slot())
            live.record = replace(live.record, group=self.ground.group(live.attempt.id))
            self._save(live)
            uid = self.ground.uid(live.record.slot)
            job = make_folder(folder, uid)
            self._write_spec(folder, live.spec)
            if live.spec.inputs:
                self._report(live, Phase.STAGING, frozen=False)
                await self.connected.wait()
                await staging.bring_inputs(live.spec, job, self.portal, uid)
        except staging.StagingError as error:
            self.feed(live.attempt.id, machine.StagingFailed(error.reason, error.message))
        except Refused as error:
            log.info("%s: %s", live.attempt.id, error)
            self.feed(live.attempt.id, machine.FencedOff())
        except OSError as error:
            self.feed(live.attempt.id, machine.StagingFailed(Reason.START_FAILED, f"the node cannot stage: {error}"))
        else:
            self.feed(live.attempt.id, machine.Staged(clocks.boot_ms()))

    def _write_spec(self, folder: Path, spec: AssignmentSpec) -> None:
        fd = os.open(folder / "spec.json", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(fd, "w") as file:
            json.dump(spec.to_wire(), file)

    async def _launch(self, live: Live) -> None:
        assert self.ground is not None and live.spec is not None  # noqa: S101, PT018
        try:
            attachment = self.devices.attach(live.spec.resources.devices)
        except OSError as error:
            self.feed(live.attempt.id, machine.SupervisorLost(Reason.DEVICE_ERROR, str(error)))
            return
        order = from_spec(self.ground, live.spec, live.record.slot, live.attempt.deadline_ms, attachment)
        try:
            process = await start_supervisor(self._folder(live), order)
        except OSError as error:
            self.feed(live.attempt.id, machine.SupervisorLost(Reason.START_FAILED, f"cannot start: {error}"))
            return
        live.process = process
        live.record = replace(live.record, supervisor_pid=process.pid, supervisor_start=tree.start_time(process.pid))
        self._save(live)
        self._attend(live)

    def _attend(self, live: Live) -> None:
        """Watch the supervisor and carry its logs: after a launch, and after an adoption."""
        self._spawn(self._watch(live), "watch", live)
        live.shipping = self._spawn(self._ship_logs(live), "logs", live)

    # ── while it runs ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def _watch(self, live: Live) -> None:
        """Facts from the supervisor to the machine, until the supervisor is gone."""
        gone = asyncio.Event()
        close = self._on_exit(live, gone.set)
        try:
            while not gone.is_set():
                await self._look(live)
                pause = WATCH_S if live.attempt.started else WATCH_FAST_S
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(gone.wait(), pause)
        finally:
            close()
        if live.process is not None:
            await live.process.wait()
        await self._supervisor_gone(live)

    def _on_exit(self, live: Live, tell: Callable[[], None]) -> Callable[[], None]:
        """Call `tell` when the supervisor ends, adopted or not; returns what ends the watching."""
        pid = live.record.supervisor_pid
        try:
            if pid is None or tree.start_time(pid) != live.record.supervisor_start:
                raise ProcessLookupError
            fd = os.pidfd_open(pid)
        except OSError:
            tell()
            return lambda: None
        loop = asyncio.get_running_loop()
        loop.add_reader(fd, tell)

        def close() -> None:
            loop.remove_reader(fd)
            os.close(fd)

        return close

    async def _look(self, live: Live) -> None:
        try:
            facts = await ask(self._folder(live), do="status")
        except SupervisorSilent:
            await self._guard(live)
            return
        live.facts = facts
        if facts["started"]:
            phase = Phase(facts["phase"])
            if not live.attempt.started or phase is not live.attempt.phase:
                self.feed(live.attempt.id, machine.Started(phase))
        if facts["frozen"] and not live.attempt.frozen:
            self.feed(live.attempt.id, machine.Froze())
            self.wake.set()
        elif not facts["frozen"] and live.attempt.frozen:
            self.feed(live.attempt.id, machine.Thawed())

    async def _guard(self, live: Live) -> None:
        """The supervisor doesn't answer. Past the deadline its job must stand still all the same."""
        if clocks.boot_ms() < live.attempt.deadline_ms + GUARD_MS or live.attempt.state not in SUPERVISED:
            return
        group = self._group(live)
        if group is not None and group.exclusive and not await asyncio.to_thread(group.frozen):
            log.warning("%s: its supervisor is silent past the deadline; the agent freezes the job", live.attempt.id)
            with contextlib.suppress(OSError):
                await asyncio.to_thread(group.freeze)

    def _group(self, live: Live) -> Group | None:
        data = live.record.group
        if data is None:
            return None
        if data["kind"] == "tree":
            pid = live.record.supervisor_pid
            return tree.TreeGroup(pid or 0, live.attempt.id, live.record.supervisor_start or 0)
        return cgroups.from_json(data)

    async def _renew(self, live: Live) -> None:
        for _ in range(3):
            try:
                live.facts = await ask(self._folder(live), do="renew", deadline_ms=live.attempt.deadline_ms)
                return
            except SupervisorSilent:
                await asyncio.sleep(0.05)

    async def _stop(self, live: Live, reason: Reason, grace_ms: int) -> None:
        for _ in range(20):
            try:
                await ask(self._folder(live), do="stop", reason=reason.value, grace_ms=grace_ms)
                return
            except SupervisorSilent:
                if live.attempt.state is not State.STOPPING:
                    return
                await asyncio.sleep(0.1)
        log.warning("%s: its supervisor takes no orders; the job is killed", live.attempt.id)
        await self._kill(live)

    async def _kill(self, live: Live) -> None:
        """The groups first: that needs nobody's cooperation. Then the supervisor, which has nothing left to do."""
        group = self._group(live)
        if group is not None:
            with contextlib.suppress(OSError):
                await asyncio.to_thread(group.kill)
        with contextlib.suppress(SupervisorSilent):
            await ask(self._folder(live), do="stop", reason=Reason.PLATFORM_FAULT.value, grace_ms=0)
            return
        pid = live.record.supervisor_pid
        if pid is not None and tree.start_time(pid) == live.record.supervisor_start:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    async def _supervisor_gone(self, live: Live) -> None:
        exit_facts = read_facts(self._folder(live), "exit.json")
        facts = exit_facts or read_facts(self._folder(live), "last.json") or live.facts
        live.facts = facts
        live.record = replace(live.record, facts=facts, ended_ms=int(facts.get("at_ms", clocks.boot_ms())))
        self._save(live)
        if exit_facts is not None:
            event: Event = machine.Ended(
                Reason(exit_facts["reason"]), exit_facts["started"], exit_facts["exit_code"], exit_facts["message"]
            )
        else:
            await self._clear_group(live)
            event = machine.SupervisorLost(Reason.PLATFORM_FAULT, "the supervisor of the job was killed")
        self.feed(live.attempt.id, event)

    async def _clear_group(self, live: Live) -> None:
        group = self._group(live)
        if group is not None:
            with contextlib.suppress(OSError):
                await asyncio.to_thread(group.kill)
                await asyncio.to_thread(group.remove)

    # ── reports ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _report(self, live: Live, phase: Phase, frozen: bool) -> None:
        """Only the newest phase matters: one sender per attempt, which sends whatever is current."""
        live.to_report = (phase, frozen)
        if live.reporting is None or live.reporting.done():
            live.reporting = self._spawn(self._send_reports(live), "report", live)

    async def _send_reports(self, live: Live) -> None:
        await self.connected.wait()
        while live.to_report is not None and live.to_report != live.reported:
            wanted = live.to_report
            live.record = replace(live.record, report_seq=live.record.report_seq + 1)
            self._save(live)
            report = wire.PhaseReport(
                **self._from_agent(),
                fence=live.attempt.fence,
                seq=live.record.report_seq,
                phase=wanted[0],
                frozen=wanted[1],
            )
            failures = 0
            while live.to_report == wanted:
                try:
                    path = wire.report_path(live.attempt.id)
                    await self.portal.post(path, report, wire.Stored, sender=live.sender)
                except Unreachable:
                    failures += 1
                    await asyncio.sleep(self._pause(failures))
                    continue
                except Refused as error:
                    if error.fenced:
                        self.feed(live.attempt.id, machine.FencedOff())
                        return
                    log.warning("%s: report %s refused: %s", live.attempt.id, wanted[0].value, error)
                live.reported = wanted
                break

    async def _usage_loop(self) -> None:
        while not self.stopping.is_set():
            await asyncio.sleep(USAGE_TICK_S)
            due = [live for live in self.live.values() if self._usage_is_due(live)]
            if due and self.connected.is_set():
                await self._send_usage(due)

    def _usage_is_due(self, live: Live) -> bool:
        if live.attempt.state not in (State.RUNNING, State.FROZEN, State.STOPPING) or not live.facts.get("started"):
            return False
        return clocks.boot_ms() >= live.usage_due_ms

    async def _send_usage(self, due: list[Live]) -> None:
        rows: list[wire.UsageRow] = []
        for live in due:
            if live.spec is None:
                continue
            live.usage_due_ms = clocks.boot_ms() + live.spec.usage_every_ms
            live.record = replace(live.record, usage_seq=live.record.usage_seq + 1)
            self._save(live)
            rows.extend(self._usage_rows(live, live.spec))
        batch = wire.UsageBatch(**self._from_agent(), rows=tuple(rows))
        try:
            answer = await self.portal.post(wire.USAGE, batch, wire.UsageAnswer)
        except Unreachable as error:
            log.info("usage not sent: %s", error)
            soon_ms = clocks.boot_ms() + USAGE_AGAIN_MS
            for live in due:
                live.usage_due_ms = min(live.usage_due_ms, soon_ms)
        except Refused as error:
            log.warning("usage refused: %s", error)
        else:
            for result in answer.results:
                if result.verdict not in (wire.UsageVerdict.STORED, wire.UsageVerdict.DUPLICATE):
                    log.warning("usage of %s: %s", result.attempt, result.verdict.value)

    def _usage_rows(self, live: Live, spec: AssignmentSpec) -> list[wire.UsageRow]:
        age_ms = max(0, clocks.boot_ms() - int(live.facts["at_ms"]))
        return [
            wire.UsageRow(
                live.attempt.id,
                live.attempt.fence,
                counter.resource,
                live.record.usage_seq,
                age_ms,
                counter.count_milli,
                counter.qty_us,
            )
            for counter in meter.counters(spec.resources, int(live.facts["ran_us"]))
        ]

    # ── logs ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _ship_logs(self, live: Live) -> None:
        await self.connected.wait()
        while live.attempt.state in SUPERVISED and live.attempt.state is not State.KILLING:
            sent = await self._ship_some(live)
            if not sent:
                await asyncio.sleep(LOGS_S)

    async def _ship_some(self, live: Live) -> bool:
        """One chunk of each stream; False when there was nothing to send or nobody to take it."""
        moved = False
        for stream in Stream:
            if stream in live.closed:
                continue
            data = await asyncio.to_thread(self._log_piece, live, stream)
            if data:
                moved = await self._ship(live, stream, data) or moved
        return moved

    def _log_piece(self, live: Live, stream: Stream) -> bytes:
        try:
            with open(self._folder(live) / f"{stream.value}.log", "rb") as file:
                file.seek(live.shipped[stream])
                return file.read(wire.LOG_CHUNK)
        except OSError:
            return b""

    async def _ship(self, live: Live, stream: Stream, data: bytes) -> bool:
        try:
            got = await self.portal.put_log(live.attempt.id, stream, live.shipped[stream], data, live.sender)
        except Unreachable:
            return False
        except Refused as error:
            offset = error.problem.offset
            if error.fenced:
                self.feed(live.attempt.id, machine.FencedOff())
            elif error.problem.code == wire.Code.GAP.value and offset is not None and offset != live.shipped[stream]:
                live.shipped[stream] = offset
                return True
            elif error.superseded:
                return False
            else:
                log.warning("%s: %s not taken: %s", live.attempt.id, stream.value, error)
            live.closed.add(stream)
            return False
        live.shipped[stream] = got.offset
        return True

    async def _last_logs(self, live: Live) -> None:
        """Everything that is spooled, before the finish report: the portal keeps logs when the node is gone."""
        until = time.monotonic() + LAST_LOGS_S
        failures = 0
        while any(stream not in live.closed and self._log_piece(live, stream) for stream in Stream):
            if await self._ship_some(live):
                failures = 0
                continue
            failures += 1
            if time.monotonic() > until or live.attempt.state is not State.FINISHING:
                return
            await asyncio.sleep(self._pause(failures))

    # ── an attempt ends ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _upload(self, live: Live) -> None:
        assert live.spec is not None  # noqa: S101
        await self.connected.wait()
        try:
            outputs = await staging.take_outputs(live.spec, self._folder(live) / "job", self.portal)
        except staging.StagingError as error:
            self.feed(live.attempt.id, machine.UploadFailed(error.reason, error.message))
        except Refused:
            self.feed(live.attempt.id, machine.FencedOff())
        except OSError as error:
            self.feed(live.attempt.id, machine.UploadFailed(Reason.UPLOAD_FAILED, str(error)))
        else:
            self.feed(live.attempt.id, machine.Uploaded(outputs))

    def _finish_report(self, live: Live) -> wire.FinishReport:
        attempt, facts, spec = live.attempt, live.record.facts, live.spec
        ran_us = int(facts.get("ran_us", 0)) if attempt.started else 0
        ended_ms = live.record.ended_ms
        same_boot = live.record.boot_id == self.boot_id and ended_ms is not None
        age_ms = max(0, clocks.boot_ms() - (ended_ms if same_boot and ended_ms is not None else clocks.boot_ms()))
        return wire.FinishReport(
            **self._from_agent(),
            fence=attempt.fence,
            seq=live.record.report_seq + 1,
            reason=attempt.reason or Reason.PLATFORM_FAULT,
            started=attempt.started,
            age_ms=age_ms,
            usage_seq=live.record.usage_seq + 1,
            counters=meter.counters(spec.resources, ran_us) if spec and attempt.started else (),
            exit_code=attempt.exit_code,
            message=attempt.message[:2000],
            ran_us=ran_us,
            frozen_us=int(facts.get("frozen_us", 0)),
            cpu_us=int(facts.get("cpu_us", 0)),
            mem_peak_bytes=int(facts.get("mem_peak_bytes", 0)),
            stdout_bytes=facts["sent"][Stream.STDOUT.value],
            stderr_bytes=facts["sent"][Stream.STDERR.value],
            outputs=attempt.outputs,
        )

    def _settle_report(self, live: Live) -> None:
        """What the report says is written down before the first try: each repetition must say the same."""
        if "sent" in live.record.facts:
            return
        sent = {stream.value: live.shipped[stream] for stream in Stream}
        ended_ms = live.record.ended_ms if live.record.ended_ms is not None else clocks.boot_ms()
        live.record = replace(live.record, facts={**live.record.facts, "sent": sent}, ended_ms=ended_ms)
        self._save(live)

    async def _finish(self, live: Live) -> None:
        for task in (live.shipping, live.reporting):
            if task is not None:
                task.cancel()  # from here on only one sender per stream, and no report under another number
        if live.spec is None:
            self.feed(live.attempt.id, machine.Undeliverable("its assignment is lost"))
            return
        await self.connected.wait()
        await self._last_logs(live)
        self._settle_report(live)
        until = clocks.boot_ms() + wire.FINISH_RETRIED_FOR_MS
        failures = 0
        while live.attempt.state is State.FINISHING:
            try:
                report = self._finish_report(live)
                await self.portal.post(wire.finish_path(live.attempt.id), report, wire.Stored, sender=live.sender)
            except Unreachable:
                failures += 1
                if clocks.boot_ms() > until:
                    self.feed(live.attempt.id, machine.Undeliverable("nobody took it for 24 hours"))
                    return
                await asyncio.sleep(self._pause(failures))
            except Refused as error:
                if error.status == 401 or error.superseded:  # the sync loop finds out what that means
                    await asyncio.sleep(1)
                    continue
                log.log(logging.INFO if error.fenced else logging.ERROR, "%s: finish: %s", live.attempt.id, error)
                self.feed(live.attempt.id, machine.FencedOff() if error.fenced else machine.Undeliverable(str(error)))
                return
            else:
                self.feed(live.attempt.id, machine.Delivered())
                return

    async def _forget(self, live: Live, tell: str) -> None:
        if tell:
            log.info("%s dropped: %s", live.attempt.id, tell)
        for task in list(live.tasks):
            task.cancel()
        await self._clear_group(live)
        if self.ground is not None:
            await asyncio.to_thread(shutil.rmtree, self._folder(live), ignore_errors=True)
        self.live.pop(live.attempt.id, None)
        self.wake.set()

    # ── the start: what an earlier agent left ─────────────────────────────────────────────────────────────────────────

    def _adopt(self) -> None:
        """Every unfinished attempt of the journal: adopt its supervisor, or say what became of it."""
        for record in self.journal.unfinished():
            live = Live(record)
            self.live[record.attempt.id] = live
            live.spec = self._read_spec(live)
            if live.spec is not None:
                live.renew_ms = live.spec.renew_ms
            self._pick_up(live, same_boot=record.boot_id == self.boot_id)

    def _read_spec(self, live: Live) -> AssignmentSpec | None:
        data = read_facts(self._folder(live), "spec.json")
        try:
            return AssignmentSpec.from_wire(data)
        except wire.BadMessage:
            return None

    def _pick_up(self, live: Live, *, same_boot: bool) -> None:
        state, id = live.attempt.state, live.attempt.id
        if state is State.OFFERED or live.spec is None:
            self._lose(live)
        elif state in (State.UPLOADING, State.FINISHING):
            self._perform(live, machine.Upload() if state is State.UPLOADING else machine.Finish())
        elif state in (State.STAGING, State.READY):
            if same_boot:
                live.record = live.record.with_attempt(replace(live.attempt, state=State.STAGING))
                self._perform(live, machine.Stage())
            else:
                self.feed(id, machine.Cancelled(Reason.NODE_REBOOTED, 0))
        elif same_boot and self._supervisor_lives(live.record):
            log.info("%s: adopted, supervisor %s", id, live.record.supervisor_pid)
            if state is State.KILLING:
                self._perform(live, machine.Kill())
            self._attend(live)
        elif same_boot or read_facts(self._folder(live), "exit.json") is not None:
            self._spawn(self._supervisor_gone(live), "gone", live)
        else:
            facts = read_facts(self._folder(live), "last.json") or {}
            live.record = replace(live.record, facts=facts)
            self.feed(id, machine.SupervisorLost(Reason.NODE_REBOOTED, "the node was started anew"))

    def _lose(self, live: Live) -> None:
        """An offer that was never accepted, or an attempt whose assignment is gone: nothing can be said about it."""
        live.record = live.record.with_attempt(replace(live.attempt, state=State.DONE))
        self._save(live)
        self._spawn(self._kill_and_forget(live), "forget")

    async def _kill_and_forget(self, live: Live) -> None:
        await self._kill(live)
        await self._forget(live, "nothing is known about it any more")

    def _supervisor_lives(self, record: Record) -> bool:
        pid = record.supervisor_pid
        return pid is not None and tree.start_time(pid) == record.supervisor_start

    def _clear_strangers(self) -> None:
        """Groups of this node that no attempt at hand owns: left by an agent that was killed at a bad moment."""
        if self.ground is None:
            return
        for folder in self.folder.iterdir():
            if folder.name not in self.live:
                shutil.rmtree(folder, ignore_errors=True)
        if self.ground.layout is None:
            return
        for name in self.ground.layout.names() - set(self.live):
            group = self.ground.layout.group(name)
            with contextlib.suppress(OSError):
                group.kill()
                group.remove()

    # ── onboarding: what the node is and can prove ────────────────────────────────────────────────────────────────────

    def _work_folder(self) -> Path:
        """Where jobs live: in the state folder, or apart from it when a slot's user couldn't reach that."""
        self.config.state.mkdir(parents=True, exist_ok=True)
        base = self.config.state
        if os.geteuid() == 0 and not reachable_folder(base):
            base = Path("/var/lib") / f"idlewild-jobs-{self.identity.node}"
            base.mkdir(mode=0o711, exist_ok=True)
            base.chmod(0o711)
        folder = base / "attempts"
        folder.mkdir(exist_ok=True)
        folder.chmod(0o711)
        return folder

    async def _onboard(self) -> None:
        self._stand_on_proven_ground()
        await self._prove(self.folder)
        self._clear_strangers()
        self.ready.set()
        await self.connected.wait()
        await self._send_inventory(runtime=await asyncio.to_thread(probe.runtime), self_test=self.self_test)
        if self.config.benchmark and self.journal.noted("fingerprint") != self._fingerprint_key():
            await self._measure("")
        while True:
            await asyncio.sleep(DAY_S)
            for kind in (wire.OrderKind.SELF_TEST, wire.OrderKind.INVENTORY):
                self.orders.put_nowait(wire.Order("daily", kind))

    async def _prove(self, folder: Path) -> None:
        ground, result = await selftest.settle(
            node=self.portal.node,
            folder=folder,
            slot_uid_base=self.config.slot_uid_base,
            own_jobs=self.config.own_jobs,
            executor=self.config.executor,
            secrets=[self.config.identity_file, self.config.journal_file],
            tools=folder.parent / "tools",
        )
        self.ground, self.self_test = ground, result
        proved = result.isolation is wire.Isolation.FULL
        self.journal.note("proved", self._proof(ground) if proved else "")
        log.info("isolation %s (%s, cgroups %s)", result.isolation.value, result.executor, result.cgroups)
        for check in result.checks:
            if not check.ok:
                log.warning("self-test %s: %s; fix: %s", check.name, check.detail, check.fix)

    def _proof(self, ground: Ground) -> str:
        """What must be the same for an earlier proof to hold: the boot, this program, the sandbox and the groups."""
        kind = ground.layout.kind if ground.layout else "none"
        return json.dumps([self.boot_id, VERSION, ground.executor, ground.bwrap, kind, ground.slot_uid_base])

    def _stand_on_proven_ground(self) -> None:
        """An agent that is restarted need not turn work away while it proves again what it proved on this boot."""
        noted = self.journal.noted("proved")
        if noted is None:
            return
        ground = selftest.lay(
            node=self.portal.node or self.identity.node,
            folder=self.folder,
            slot_uid_base=self.config.slot_uid_base,
            own_jobs=self.config.own_jobs,
            executor=self.config.executor,
            tools=self.folder.parent / "tools",
        )[0]
        if noted == self._proof(ground):
            self.ground = ground
            self.ready.set()

    def _fingerprint_key(self) -> str:
        return f"{benchmark.SUITE} {benchmark.hardware_hash()} {self.config.cores_milli}"

    def hardware(self) -> wire.Hardware:
        """The disk for sale is what was free at the start: what jobs use of it since is counted by the portal."""
        now = probe.hardware(self.config.cores_milli, self.config.state, self.devices.probe())
        if self._disk_gib is None:
            self._disk_gib = now.disk_gib
        return replace(now, disk_gib=self._disk_gib)

    async def _send_inventory(
        self,
        *,
        runtime: dict[str, str] | None = None,
        self_test: SelfTest | None = None,
        fingerprint: wire.FingerprintReport | None = None,
    ) -> bool:
        """True when the portal has it. Retried until then."""
        failures = 0
        while not self.stopping.is_set():
            report = wire.InventoryReport(
                **self._from_agent(),
                hardware=self.hardware(),
                agent_version=VERSION,
                runtime=runtime,
                self_test=self_test,
                fingerprint=fingerprint,
            )
            try:
                answer = await self.portal.post(wire.INVENTORY, report, wire.InventoryAnswer)
            except Unreachable as error:
                failures += 1
                await asyncio.sleep(min(10.0, self._pause(failures, error.retry_after_s)))
                continue
            except Refused as error:
                log.error("the portal refused the node's inventory: %s", error)
                return False
            self.enrolment = answer.state
            log.info("enrolment: %s", answer.state)
            for check in answer.missing:
                log.info("still missing: %s: %s %s", check.name, check.detail, check.fix)
            return True
        return False

    async def _measure(self, nonce: str) -> None:
        """Fingerprint, when idle; a job that starts meanwhile makes it unstable, which the portal sees by its spread."""
        asked_ms = clocks.boot_ms()
        async with self._measuring:
            if not nonce and self._measured_ms >= asked_ms:
                return  # asked for while one was being made
            while any(live.attempt.state in SUPERVISED for live in self.live.values()):
                await asyncio.sleep(1)
            report = await self._benchmark()
            if report is not None and await self._send_inventory(fingerprint=replace(report, nonce=nonce)):
                self.journal.note("fingerprint", self._fingerprint_key())
                self._measured_ms = clocks.boot_ms()

    async def _benchmark(self) -> wire.FingerprintReport | None:
        cores = self.hardware().cores_milli
        threads = max(1, cores // 1000)
        command = [sys.executable, "-m", f"{__package__}.benchmark", "--threads", str(threads)]
        command += ["--cores-milli", str(cores), "--turn", BENCHMARK_TURN]
        if self.config.short_suite:
            command.append("--short")
        kept = {name: value for name, value in os.environ.items() if name not in benchmark.DISTORTING}
        process = await asyncio.create_subprocess_exec(
            *command,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=str(Path(__file__).resolve().parent.parent),
            env={**kept, **benchmark.environment(threads)},
        )
        try:
            out, err = await process.communicate()
        except asyncio.CancelledError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            raise
        if process.returncode != 0:
            log.error("the benchmark failed: %s", err.decode(errors="replace")[-500:])
            return None
        return wire.FingerprintReport.from_wire(json.loads(out))

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
            await self._measure(order.nonce)
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
