"""What the node is and can prove: self-test, inventory, fingerprint; at the start, daily, and when the portal orders it."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

from . import benchmark, clocks, probe, selftest
from . import protocol as wire
from .attempts import Attempts
from .config import VERSION
from .executors.found import reachable_folder
from .hands import SUPERVISED, log
from .launching import Ground
from .measuring import Interrupted, Measuring
from .protocol import SelfTest
from .transport import Refused, Unreachable

DAY_S = 24 * 3600


class Onboarding(Attempts):
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

    async def _measure(self, nonce: str, soak_s: int = 0) -> None:
        """Fingerprint, when idle. A job that starts meanwhile goes first: measured is again when it is over."""
        asked_ms = clocks.boot_ms()
        async with self._measuring:
            if not nonce and self._measured_ms >= asked_ms:
                return  # asked for while one was being made
            report = None
            while report is None:
                while self._works():
                    await asyncio.sleep(1)
                try:
                    report = await self._undisturbed(self._gauge(soak_s))
                except Interrupted:
                    continue
                if report is None:
                    return
            if await self._send_inventory(fingerprint=replace(report, nonce=nonce)):
                self.journal.note("fingerprint", self._fingerprint_key())
                self._measured_ms = clocks.boot_ms()

    def _works(self) -> bool:
        return any(live.attempt.state in SUPERVISED for live in self.live.values())

    async def _gauge(self, soak_s: int) -> wire.FingerprintReport | None:
        folder = self.config.state
        cores, short = self.hardware().cores_milli, self.config.short_suite
        return await Measuring(self.portal, self._from_agent(), cores_milli=cores, short=short, folder=folder).report(
            soak_s
        )

    async def _undisturbed(
        self, work: Coroutine[Any, Any, wire.FingerprintReport | None]
    ) -> wire.FingerprintReport | None:
        """The result of `work`; Interrupted, and its processes gone, as soon as a job runs here."""
        task = asyncio.create_task(work)
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=0.2)
                if self._works() and not task.done():
                    raise Interrupted
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
