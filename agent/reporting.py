"""What the portal is told about attempts: phases, usage, logs, and the finish report, each until it is taken.

- A usage report gets its number before it is sent, and a failed one is never sent again under the same number: counters
  are cumulative, the next report says it all.
- Only the newest phase matters: one sender per attempt, which sends whatever is current.
- Once the finish report is being delivered nobody else speaks about the attempt.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace

from . import clocks, machine, meter
from . import protocol as wire
from .hands import SUPERVISED, Hands, Live, log
from .machine import State
from .protocol import AssignmentSpec, Phase, Reason, Stream
from .transport import Refused, Unreachable

USAGE_TICK_S = 0.25
USAGE_AGAIN_MS = 3000
SAMPLE_MS, SAMPLES_TOGETHER, MOST_SAMPLES = 10_000, 3, 60
LOGS_S = 0.25
LAST_LOGS_S = 60.0


class Reporting(Hands):
    # ── phases ─────────────────────────────────────────────────────────────────────────────────────────────────────────

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
            for live in list(self.live.values()):
                self._sample(live)

    def _sample(self, live: Live) -> None:
        """What the job uses now, for people to see; a few samples go together."""
        if live.attempt.state not in (State.RUNNING, State.FROZEN, State.STOPPING) or live.spec is None:
            return
        every_ms = min(SAMPLE_MS, live.spec.usage_every_ms // 2)
        if not live.facts.get("started") or clocks.boot_ms() - live.sampled_ms < every_ms:
            return
        live.sampled_ms = clocks.boot_ms()
        named = ("at_ms", "ran_us", "cpu_us", "mem_now_bytes", "network_bytes")
        live.samples.append({name: int(live.facts.get(name) or 0) for name in named})
        if len(live.samples) >= SAMPLES_TOGETHER and self.connected.is_set():
            self._spawn(self._send_samples(live), "metrics", live)

    async def _send_samples(self, live: Live) -> None:
        taken, live.samples = live.samples, []
        now_ms = clocks.boot_ms()
        samples = tuple(
            wire.Sample(
                max(0, now_ms - one["at_ms"]), one["ran_us"], one["cpu_us"], one["mem_now_bytes"], one["network_bytes"]
            )
            for one in taken
        )
        batch = wire.MetricBatch(**self._from_agent(), fence=live.attempt.fence, samples=samples)
        try:
            await self.portal.post(wire.metrics_path(live.attempt.id), batch, wire.Stored, sender=live.sender)
        except Unreachable:
            live.samples = [*taken, *live.samples][-MOST_SAMPLES:]
        except Refused as error:
            log.info("%s: metrics not taken: %s", live.attempt.id, error)

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
            for counter in meter.counters(spec.resources, int(live.facts["ran_us"]), live.facts.get("network_bytes"))
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

    # ── the end ────────────────────────────────────────────────────────────────────────────────────────────────────────

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
            counters=meter.counters(spec.resources, ran_us, facts.get("network_bytes"))
            if spec and attempt.started
            else (),
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
