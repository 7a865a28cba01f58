"""An attempt's life on this node: accept, stage, launch, watch, renew, stop, kill, upload, forget; adoption after a restart.

Traps:
- The deadline counts from **sending** the request whose answer granted it, on CLOCK_BOOTTIME.
- A supervisor that is stopped itself cannot freeze its job: the watch does it through the control group.
- One silent supervisor must not delay the renewals of the others: each renewal is a task of its own, with a short time-out.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from . import checkpoints, clocks, folders, machine, staging
from . import protocol as wire
from .executors import tree
from .hands import SUPERVISED, Live, log
from .journal import Record
from .launching import SupervisorSilent, ask, from_spec, make_folder, read_facts, start_supervisor
from .machine import Event, Instruction, State
from .protocol import AssignmentSpec, Phase, Reason
from .reporting import Reporting
from .transport import Refused, Unreachable

WATCH_FAST_S, WATCH_S = 0.05, 0.25
SLOTS = 90  # of a range of 100 user ids; the last ten belong to the self-test
TOO_DEEP = "its folders are nested too deeply"
CHECKPOINT_TICK_S = 0.2
LAST_CHECKPOINT_MS = 60_000
STOP_TOLD_WITHIN_MS = 42_000  # the portal's patience is 45 s
GUARD_MS = 150  # how long after the deadline the supervisor has to have frozen its tree


UNDELIVERED: dict[State, Instruction] = {
    State.UPLOADING: machine.Upload(),
    State.SAVING: machine.Save(),
    State.FINISHING: machine.Finish(),
}
"""What an agent that was killed after its job's end had still to do."""


class Attempts(Reporting):
    # ── it begins ──────────────────────────────────────────────────────────────────────────────────────────────────────

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

    async def _stage(self, live: Live) -> None:
        await self.ready.wait()
        assert self.ground is not None and live.spec is not None  # noqa: S101, PT018
        try:
            folder = self._folder(live)
            if folder.exists():  # left by an agent that died while staging
                await asyncio.to_thread(folders.remove, folder)
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
            if live.spec.checkpoint is not None and live.spec.checkpoint.kept:
                self._report(live, Phase.RESTORING, frozen=False)
                await self.connected.wait()
                live.resumed = bool(await checkpoints.restore(live.spec, job, self.portal, uid))
        except staging.StagingError as error:
            self.feed(live.attempt.id, machine.StagingFailed(error.reason, error.message))
        except Refused as error:
            log.info("%s: %s", live.attempt.id, error)
            self.feed(live.attempt.id, machine.FencedOff())
        except OSError as error:
            self.feed(live.attempt.id, machine.StagingFailed(Reason.START_FAILED, f"the node cannot stage: {error}"))
        except RecursionError:
            self.feed(live.attempt.id, machine.StagingFailed(Reason.INPUT_UNREADABLE, TOO_DEEP))
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
        order = from_spec(
            self.ground, live.spec, live.record.slot, live.attempt.deadline_ms, attachment, resumed=live.resumed
        )
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
        if live.spec is not None and live.spec.checkpoint is not None:
            self._spawn(self._checkpoint_loop(live, live.spec), "checkpoints", live)

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

    async def _renew(self, live: Live) -> None:
        for _ in range(3):
            try:
                live.facts = await ask(self._folder(live), do="renew", deadline_ms=live.attempt.deadline_ms)
                return
            except SupervisorSilent:
                await asyncio.sleep(0.05)

    async def _checkpoint_loop(self, live: Live, spec: AssignmentSpec) -> None:
        """Store the job's state so often that never more than one interval of work is lost. A frozen job writes nothing."""
        assert spec.checkpoint is not None  # noqa: S101
        interval_ms = spec.checkpoint.interval_ms
        due_ms = clocks.boot_ms() + interval_ms
        while live.attempt.state in SUPERVISED:
            await asyncio.sleep(CHECKPOINT_TICK_S)
            if live.attempt.state is not State.RUNNING or clocks.boot_ms() < due_ms:
                continue
            begun_ms = clocks.boot_ms()
            await self._save_checkpoint(live, spec)
            took_ms = clocks.boot_ms() - begun_ms
            due_ms = checkpoints.next_ms(begun_ms=begun_ms, took_ms=took_ms, interval_ms=interval_ms)

    async def _save_checkpoint(self, live: Live, spec: AssignmentSpec) -> None:
        assert spec.checkpoint is not None  # noqa: S101
        folder, most = self._folder(live) / "job", spec.resources.disk_mib << 20
        async with live.saving:
            try:
                shot = await asyncio.to_thread(checkpoints.take, folder, spec.checkpoint.path, most, live.saved)
            except (OSError, checkpoints.TooLarge, RecursionError) as error:
                log.warning("%s: no checkpoint: %s", live.attempt.id, error)
                return
            if shot is None:
                return
            with shot.file:
                try:
                    stored = await checkpoints.send(spec, shot.begun_ms, shot, self.portal)
                except Refused:
                    self.feed(live.attempt.id, machine.FencedOff())
                    return
            if stored:
                live.saved = shot.manifest
            size = shot.whole.size
            log.info("%s: checkpoint of %d bytes %s", live.attempt.id, size, "stored" if stored else "not taken")

    async def _save_last(self, live: Live) -> None:
        """The last one. The portal takes an unconfirmed stop for lost 45 s after it asked, so there is not much time."""
        await self.connected.wait()
        if live.spec is not None:
            by_ms = clocks.boot_ms() + LAST_CHECKPOINT_MS
            if live.stop_by_ms is not None:
                by_ms = min(by_ms, live.stop_by_ms)
            left_s = max(1.0, (by_ms - clocks.boot_ms()) / 1000)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._save_checkpoint(live, live.spec), left_s)
        self.feed(live.attempt.id, machine.Saved())

    async def _stop(self, live: Live, reason: Reason, grace_ms: int) -> None:
        if grace_ms:
            live.stop_by_ms = clocks.boot_ms() + STOP_TOLD_WITHIN_MS
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

    # ── it ends ────────────────────────────────────────────────────────────────────────────────────────────────────────

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
        except RecursionError:
            self.feed(live.attempt.id, machine.UploadFailed(Reason.OUTPUT_REFUSED, TOO_DEEP))
        else:
            self.feed(live.attempt.id, machine.Uploaded(outputs))

    async def _forget(self, live: Live, tell: str) -> None:
        if tell:
            log.info("%s dropped: %s", live.attempt.id, tell)
        for task in list(live.tasks):
            task.cancel()
        await self._clear_group(live)
        if self.ground is not None:
            await asyncio.to_thread(folders.remove, self._folder(live))
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
        elif state in UNDELIVERED:
            self._perform(live, UNDELIVERED[state])
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
                folders.remove(folder)
        if self.ground.layout is None:
            return
        for name in self.ground.layout.names() - set(self.live):
            group = self.ground.layout.group(name)
            with contextlib.suppress(OSError):
                group.kill()
                group.remove()
