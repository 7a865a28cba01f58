"""A fingerprint from end to end: the suite, then the runs that the portal orders and times, the way to it, and one report.

The suite and the runs are processes of their own (BLAS reads its thread count when it is loaded); this module carries messages
between them and the portal. A job that comes meanwhile goes first: what was begun is thrown away and made again later.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from . import benchmark
from . import protocol as wire
from .hands import log
from .transport import Portal, Refused, Unreachable

BENCHMARK_TURN = "idlewild-benchmark"
RUNS, SHORT_RUNS = 3, 1
ROUND_TRIPS = 20
FIRST_STREAM_GB_S = 0.002
STREAM_TRIES = 3
LINE = 8 << 20
CALL_S = 60.0
PAUSES_S = (1, 5, 20)
FAMILY = {wire.RunKind.GEMM: ("checked_gemm", "gflops"), wire.RunKind.MEMORY: ("checked_memory", "gb_s")}


class Interrupted(Exception):
    """A job came: measure later."""


class Measuring:
    """One measurement of this node."""

    def __init__(self, portal: Portal, sender: dict[str, Any], *, cores_milli: int, short: bool, folder: Path) -> None:
        self.portal, self.sender, self.short, self.folder = portal, sender, short, folder
        self.cores_milli = cores_milli
        self.threads = max(1, cores_milli // 1000)
        self.share = min(1.0, cores_milli / (self.threads * 1000))
        self.runs: list[str] = []

    async def report(self, soak_s: int) -> wire.FingerprintReport | None:
        """None when this node cannot measure; the log says why."""
        suite = await self._suite(soak_s)
        if suite is None:
            return None
        checked = await self._checked(suite)
        steady = all(m.cv_ppm < benchmark.CV_MOST_PPM for m in checked if m.name.startswith("checked_"))
        metrics = (*suite.metrics, *checked)
        return replace(suite, stable=suite.stable and (self.short or steady), metrics=metrics, runs=tuple(self.runs))

    async def _suite(self, soak_s: int) -> wire.FingerprintReport | None:
        async with self._process("benchmark", "--cores-milli", str(self.cores_milli), *self._more(soak_s)) as process:
            out, err = await process.communicate()
        if process.returncode != 0:
            log.error("the benchmark failed: %s", err.decode(errors="replace")[-500:])
            return None
        return wire.FingerprintReport.from_wire(json.loads(out))

    def _more(self, soak_s: int) -> list[str]:
        return [
            "--folder",
            str(self.folder),
            *(["--short"] if self.short else []),
            *(["--soak", str(soak_s)] * bool(soak_s)),
        ]

    async def _checked(self, suite: wire.FingerprintReport) -> list[wire.Metric]:
        """The runs that the portal times. Where it knows none, or cannot be reached for long, the report goes without."""
        for pause in PAUSES_S:
            self.runs = []
            try:
                return await self._all_runs(suite)
            except Refused as error:
                log.warning("the portal times no run of this node: %s", error)
                return []
            except Unreachable as error:
                log.info("checked runs begin anew: %s", error)
                await asyncio.sleep(pause)
        return []

    async def _all_runs(self, suite: wire.FingerprintReport) -> list[wire.Metric]:
        own = {metric.name: metric.value for metric in suite.metrics}
        expected = {wire.RunKind.GEMM: own["gemm_2048"] / self.share, wire.RunKind.MEMORY: own["triad"]}
        found: list[wire.Metric] = []
        async with self._process("challenge") as process:
            await _hear(process)
            for kind, (name, unit) in FAMILY.items():
                part = self.share if kind is wire.RunKind.GEMM else 1.0
                values, took = [], []
                for _ in range(SHORT_RUNS if self.short else RUNS):
                    value, seconds = await self._run(process, kind, expected[kind])
                    values.append(value * part)
                    took.append(seconds)
                found.append(figure(name, unit, values, took))
        return [*found, await self._stream(), await self._round_trips()]

    async def _run(
        self, process: asyncio.subprocess.Process, kind: wire.RunKind, expected: float
    ) -> tuple[float, float]:
        """One run: (speed by our own clock, seconds)."""
        asked = wire.BeginRun(**self.sender, kind=kind, expected=expected, short=self.short)
        order = await self.portal.post(wire.BEGIN_RUN, asked, wire.RunOrder, timeout_s=CALL_S)
        began = time.monotonic()
        await _say(process, {"kind": kind.value, "nonce": order.nonce, "size": order.size, "parts": order.parts})
        root = (await _hear(process))["root"]
        seconds = time.monotonic() - began
        promise = wire.CommitRun(**self.sender, run=order.run, root=root)
        leaves = await self.portal.post(wire.COMMIT_RUN, promise, wire.RunLeaves, timeout_s=CALL_S)
        await _say(process, {"open": list(leaves.leaves)})
        opened = tuple(wire.OpenedLeaf.from_wire(one) for one in (await _hear(process))["opened"])
        shown = wire.ShowRun(**self.sender, run=order.run, opened=opened)
        self._note(order, await self.portal.post(wire.SHOW_RUN, shown, wire.RunResult, timeout_s=CALL_S))
        return claimed(order, seconds), seconds

    async def _stream(self) -> wire.Metric:
        """Bytes from the portal: a few first, then about a second's worth."""
        speed, took = FIRST_STREAM_GB_S, 0.0
        for _ in range(1 if self.short else STREAM_TRIES):
            asked = wire.BeginRun(**self.sender, kind=wire.RunKind.STREAM, expected=speed, short=self.short)
            order = await self.portal.post(wire.BEGIN_RUN, asked, wire.RunOrder, timeout_s=CALL_S)
            began, digest = time.monotonic(), hashlib.sha256()
            async for chunk in self.portal.signed_bytes(wire.stream_path(order.run)):
                digest.update(chunk)
            took = time.monotonic() - began
            promise = wire.CommitRun(**self.sender, run=order.run, root=digest.hexdigest())
            judged = await self.portal.post(wire.COMMIT_RUN, promise, wire.RunLeaves, timeout_s=CALL_S)
            if judged.result is None:
                raise Unreachable("the portal did not judge a stream")
            last = order, judged.result
            speed = judged.result.measured
            if took > 0.5:
                break
        self._note(*last)
        return figure("stream_server", "gb_s", [speed], [took])

    async def _round_trips(self) -> wire.Metric:
        """How long it takes to reach the portal: a TCP handshake."""
        url = urlsplit(self.portal.url)
        port = url.port or (443 if url.scheme == "https" else 80)
        took = []
        for _ in range(ROUND_TRIPS):
            began = time.monotonic()
            try:
                _, writer = await asyncio.wait_for(asyncio.open_connection(url.hostname, port), 5)
            except (OSError, asyncio.TimeoutError) as error:
                raise Unreachable(f"{type(error).__name__}: {error}") from error
            took.append(time.monotonic() - began)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        return figure("rtt_server", "ms", [1000 * each for each in took], took, least_is_best=True)

    def _note(self, order: wire.RunOrder, result: wire.RunResult) -> None:
        if result.passed:
            self.runs.append(order.run)
        else:
            log.error("the portal does not accept a %s run: %s", order.kind.value, result.reason)

    @contextlib.asynccontextmanager
    async def _process(self, module: str, *more: str) -> AsyncIterator[asyncio.subprocess.Process]:
        command = [sys.executable, "-m", f"{__package__}.{module}", "--threads", str(self.threads)]
        kept = {name: value for name, value in os.environ.items() if name not in benchmark.DISTORTING}
        process = await asyncio.create_subprocess_exec(
            *command,
            "--turn",
            BENCHMARK_TURN,
            *more,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=LINE,
            cwd=str(Path(__file__).resolve().parent.parent),
            env={**kept, **benchmark.environment(self.threads)},
        )
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def _say(process: asyncio.subprocess.Process, message: dict[str, Any]) -> None:
    if process.stdin is None:
        raise RuntimeError("the process has no input")
    process.stdin.write(json.dumps(message).encode() + b"\n")
    await process.stdin.drain()


async def _hear(process: asyncio.subprocess.Process) -> dict[str, Any]:
    if process.stdout is None or process.stderr is None:
        raise RuntimeError("the process has no output")
    line = await process.stdout.readline()
    if not line:
        why = (await process.stderr.read())[-500:].decode(errors="replace")
        raise Unreachable(f"the process of checked runs ended: {why}")
    heard: dict[str, Any] = json.loads(line)
    return heard


def claimed(order: wire.RunOrder, seconds: float) -> float:
    """The speed of a run by our own clock: GFLOPS or GB/s."""
    work = 2.0 * order.size**3 * order.parts**2 if order.kind is wire.RunKind.GEMM else 40.0 * order.size * order.parts
    return work / 1e9 / max(seconds, 1e-6)


def figure(name: str, unit: str, values: list[float], took: list[float], *, least_is_best: bool = False) -> wire.Metric:
    """A metric of a few values: median, the worse tails, spread."""
    ordered = sorted(values, reverse=not least_is_best)
    last = len(ordered) - 1
    median = statistics.median(values)
    spread = statistics.pstdev(values) / median if len(values) > 1 and median else 0.0
    tail = {p: round(ordered[min(last, len(ordered) * p // 100)], 6) for p in (95, 99)}
    waits = sorted(took)
    ms = {p: round(1000 * waits[min(last, len(waits) * p // 100)], 4) for p in (50, 95, 99)}
    return wire.Metric(
        name,
        unit,
        round(median, 6),
        tail[95],
        tail[99],
        int(spread * 1_000_000),
        1_000_000,
        len(values),
        ms[50],
        ms[95],
        ms[99],
    )
