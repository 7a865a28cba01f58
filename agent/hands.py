"""What all parts of a running agent share: the attempts at hand, the way from an event to instructions, folders and groups.

The agent is one object in four files, each of which adds what it does to the one before:

    Hands      (here)          state, feed, folders, groups
    Reporting  reporting.py    phases, usage, logs, the finish report: what the portal is told
    Attempts   attempts.py     an attempt's life: accept, stage, launch, watch, stop, end; adoption after a restart
    Onboarding onboarding.py   what the node is and can prove: self-test, inventory, fingerprint
    Orders     orders.py       what the portal asks of a node between jobs; drain
    Runner     runner.py       sync, the local door, the life of the whole; alone reads the wall clock and draws randomness
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import clocks, machine
from . import protocol as wire
from .config import Config, Identity
from .devices.found import Devices
from .executors import cgroups, tree
from .executors.groups import Group
from .journal import Journal, Record
from .launching import Ground
from .machine import Attempt, Event, Instruction, InvalidTransition, State
from .protocol import AssignmentSpec, Phase, SelfTest, Stream
from .transport import Portal, Sender

log = logging.getLogger("idlewild.agent")

SUPERVISED = (State.STARTING, State.RUNNING, State.FROZEN, State.STOPPING, State.KILLING)


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
    samples: list[dict[str, int]] = field(default_factory=list)  # taken, not yet sent
    sampled_ms: int = 0
    resumed: bool = False  # it begins with a checkpoint
    saving: asyncio.Lock = field(default_factory=asyncio.Lock)  # one checkpoint at a time
    saved: str = ""  # manifest of the last one stored
    stop_by_ms: int | None = None  # a stop was asked for: the portal waits for its end until then

    @property
    def attempt(self) -> Attempt:
        return self.record.attempt

    @property
    def sender(self) -> Sender:
        if self.spec is None:
            raise RuntimeError(f"{self.attempt.id} has not been accepted")
        return Sender(self.spec.lease_secret, self.attempt.fence)


class Hands:
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

    def _work_folder(self) -> Path:
        raise NotImplementedError

    def _wall_s(self) -> int:
        raise NotImplementedError

    def _pause(self, failures: int, asked: float | None = None) -> float:
        raise NotImplementedError

    def _perform(self, live: Live, instruction: Instruction) -> None:
        raise NotImplementedError

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

    def _save(self, live: Live) -> None:
        self.journal.save(live.record, self._wall_s())

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

    def _closed(self) -> bool:
        return self.draining or self.outdated or bool(self.drain_order)

    async def _sleep_or(self, event: asyncio.Event, seconds: float) -> None:
        waits = [asyncio.ensure_future(event.wait()), asyncio.ensure_future(self.stopping.wait())]
        try:
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    def _from_agent(self) -> dict[str, Any]:
        return {"boot_id": self.boot_id, "incarnation": self.portal.incarnation}

    def _folder(self, live: Live) -> Path:
        return self.folder / live.attempt.id

    def _group(self, live: Live) -> Group | None:
        data = live.record.group
        if data is None:
            return None
        if data["kind"] == "tree":
            pid = live.record.supervisor_pid
            return tree.TreeGroup(pid or 0, live.attempt.id, live.record.supervisor_start or 0)
        return cgroups.from_json(data)

    async def _clear_group(self, live: Live) -> None:
        group = self._group(live)
        if group is not None:
            with contextlib.suppress(OSError):
                await asyncio.to_thread(group.kill)
                await asyncio.to_thread(group.remove)
