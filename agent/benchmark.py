"""The CPU operator suite behind a node's fingerprint; run as a process of its own, one at a time on a machine.

    python -m agent.benchmark --threads N [--short] [--turn NAME] [--folder DIR] [--soak S]     prints a FingerprintReport as JSON

Operators: SGEMM 256 512 1024 2048; im2col convolution, batch 1 8 32; a transformer block forward and backward, batch 1 8 32;
copy and triad over large arrays; writing and reading a file in --folder. Each is repeated for its share of a pass; an iteration is
*clean* when thread time / wall time > 0.97 (with several threads: process time). The value is the median of the clean iterations
of all passes; beside it stand p95 and p99 of the speed, and p50, p95 and p99 of how long an iteration took.

--soak: minutes under load afterwards. `soak_keep` is the speed of the last fifth over that of the first: a machine that grows hot
shows it. What the portal times itself is in :mod:`.challenge`; a noisy machine (pressure of /proc above 5 %) is waited for.

Full suite: three passes of 10-15 s, stable when the coefficient of variation of every operator is below 10 %. Short suite (the
demo): one pass of 3 s, no such limit, marked "short". Traps: OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE would make another machine
of this one and are removed; beside busy neighbours the spread was 20-47 %, so only an idle node measures.
"""

from __future__ import annotations

import argparse
import errno
import hashlib
import json
import os
import platform
import socket
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

try:
    import numpy
except ImportError:  # without the extra `fingerprint` a node has no fingerprint, and says so
    numpy = None  # type: ignore[assignment]

CLEAN = 0.97
CV_MOST_PPM = 100_000
FULL_PASSES, FULL_PASS_S = 3, 12.0
SHORT_PASSES, SHORT_PASS_S = 1, 3.0
STREAM_BYTES, SHORT_STREAM_BYTES = 256 << 20, 64 << 20
FILE_BYTES, SHORT_FILE_BYTES = 64 << 20, 4 << 20
TURN_S = 0.2
NOISY_PERCENT = 5.0
QUIET_WITHIN_S = 60.0
OUTSIDE = ("disk_", "soak_")
SUITE = "cpu-1"
DISTORTING = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")


@dataclass(frozen=True)
class Operator:
    """`work` in units of 10^9 per iteration (operations or bytes); value = work / seconds."""

    name: str
    unit: str
    work: float
    run: Callable[[], object]


@dataclass
class Timings:
    clean: list[float] = field(default_factory=list)
    all: list[float] = field(default_factory=list)


def operators(stream_bytes: int) -> list[Operator]:
    """The suite, with its arrays filled. Random content would only cost time: speed does not depend on it."""
    made = [_gemm(n) for n in (256, 512, 1024, 2048)]
    made += [_convolution(batch) for batch in (1, 8, 32)]
    made += [_block(batch) for batch in (1, 8, 32)]
    return made + _stream(stream_bytes)


def _filled(*shape: int) -> Any:
    size = 1
    for side in shape:
        size *= side
    return (numpy.arange(size, dtype=numpy.float32) % 17 - 8).reshape(shape) / 8


def _gemm(n: int) -> Operator:
    a, b, c = _filled(n, n), _filled(n, n), numpy.empty((n, n), numpy.float32)
    return Operator(f"gemm_{n}", "gflops", 2 * n**3 / 1e9, lambda: numpy.matmul(a, b, out=c))


def _convolution(batch: int) -> Operator:
    """3 × 3 over 28 × 28 with 32 → 64 channels, unrolled to one product, as frameworks do it on CPUs."""
    channels, out, side, k = 32, 64, 28, 3
    images = _filled(batch, channels, side + 2, side + 2)
    weights = _filled(out, channels * k * k)

    def run() -> object:
        windows = numpy.lib.stride_tricks.sliding_window_view(images, (k, k), axis=(2, 3))
        columns = windows.transpose(0, 2, 3, 1, 4, 5).reshape(batch * side * side, channels * k * k)
        return columns @ weights.T

    return Operator(f"conv_{batch}", "gflops", 2 * batch * side * side * out * channels * k * k / 1e9, run)


def _block(batch: int) -> Operator:
    """Attention and feed-forward of width 256 over 64 positions, forward and the backward products."""
    length, width, hidden = 64, 256, 1024
    rows = batch * length
    x = _filled(rows, width)
    square, up, down = _filled(width, width), _filled(width, hidden), _filled(hidden, width)

    def run() -> object:
        q, k, v = x @ square, x @ square, x @ square
        q3, k3, v3 = (m.reshape(batch, length, width) for m in (q, k, v))
        scores = q3 @ k3.transpose(0, 2, 1) / 16.0
        scores = numpy.exp(scores - scores.max(axis=-1, keepdims=True))
        scores /= scores.sum(axis=-1, keepdims=True)
        mixed = (scores @ v3).reshape(rows, width) @ square
        inner = numpy.maximum(mixed @ up, 0)
        result = inner @ down
        back = (result @ down.T) * (inner > 0)
        return (back @ up.T) @ square.T, inner.T @ result, mixed.T @ back

    forward = 2 * rows * width * (4 * width + 2 * hidden) + 4 * batch * length * length * width
    backward = 2 * rows * width * (4 * hidden + width)
    return Operator(f"block_{batch}", "gflops", (forward + backward) / 1e9, run)


def _stream(size: int) -> list[Operator]:
    n = size // 8
    a, b, c = numpy.zeros(n), numpy.ones(n), numpy.ones(n)

    def triad() -> object:
        numpy.multiply(c, 3.0, out=a)
        return numpy.add(a, b, out=a)

    return [
        Operator("copy", "gb_s", 2 * 8 * n / 1e9, lambda: numpy.copyto(a, b)),
        Operator("triad", "gb_s", 5 * 8 * n / 1e9, triad),  # two passes: 2 + 3 arrays
    ]


def _disk(folder: Path, size: int) -> list[Operator]:
    """Written through to the device; read back after its pages were given up."""
    path = folder / "disk-speed.tmp"
    block = os.urandom(1 << 20)

    def write() -> None:
        with open(path, "wb", buffering=0) as file:
            for _ in range(size >> 20):
                file.write(block)
            os.fsync(file.fileno())

    def read() -> None:
        with open(path, "rb", buffering=0) as file:
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            while file.read(1 << 20):
                pass

    return [Operator("disk_write", "gb_s", size / 1e9, write), Operator("disk_read", "gb_s", size / 1e9, read)]


def pressure() -> float:
    """Percent of the last ten seconds in which something waited for a processor; 0 where the kernel does not tell."""
    try:
        first = Path("/proc/pressure/cpu").read_text().split("\n", 1)[0]
        return float(first.partition("avg10=")[2].split()[0])
    except (OSError, ValueError, IndexError):
        return 0.0


def await_quiet() -> bool:
    """Wait for a quiet machine; False if it stays noisy."""
    until = time.monotonic() + QUIET_WITHIN_S
    while pressure() > NOISY_PERCENT:
        if time.monotonic() > until:
            return False
        time.sleep(1)
    return True


def soak(operator: Operator, seconds: float) -> dict[str, Any]:
    """Under load for `seconds`: what is left of the speed at the end."""
    took: list[float] = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until or len(took) < 5:
        began = time.perf_counter()
        operator.run()
        took.append(time.perf_counter() - began)
    fifth = max(1, len(took) // 5)
    keep = statistics.median(took[:fifth]) / statistics.median(took[-fifth:])
    timings = Timings(clean=[1.0], all=[1.0])
    return metric(Operator("soak_keep", "share", keep, operator.run), timings, 1, 1.0)


def measure(operator: Operator, seconds: float, into: Timings, threads: int) -> None:
    until = time.perf_counter() + seconds
    while True:
        cpu, wall = time.process_time(), time.perf_counter()
        operator.run()
        took = time.perf_counter() - wall
        used = (time.process_time() - cpu) / max(took, 1e-9)
        into.all.append(took)
        if used > CLEAN or (threads > 1 and used > 1.0):
            into.clean.append(took)
        if time.perf_counter() > until:
            return


def metric(operator: Operator, timings: Timings, passes: int, share: float) -> dict[str, Any]:
    used = timings.clean or timings.all
    values = sorted(operator.work / took for took in used)
    median = statistics.median(values)
    spread = statistics.pstdev(values) / median if len(values) > 1 else 0.0
    factor = share if operator.unit == "gflops" else 1.0
    low = values[max(0, int(len(values) * 0.05) - 1)]
    lowest = values[max(0, int(len(values) * 0.01) - 1)]
    return {
        "name": operator.name,
        "unit": operator.unit,
        "value": round(median * factor, 4),
        "p95": round(low * factor, 4),
        "p99": round(lowest * factor, 4),
        "cv_ppm": int(spread * 1_000_000),
        "clean_ppm": int(len(timings.clean) * 1_000_000 / len(timings.all)),
        "passes": passes,
        **_latency(sorted(used)),
    }


def _latency(took: list[float]) -> dict[str, float]:
    """p50, p95, p99 of one iteration in milliseconds."""
    last = len(took) - 1
    return {f"p{p}_ms": round(took[min(last, len(took) * p // 100)] * 1000, 4) for p in (50, 95, 99)}


def hardware_hash() -> str:
    """Changes when processor, core count or memory do."""
    parts = [platform.machine(), str(os.cpu_count())]
    for path, key in (("/proc/cpuinfo", "model name"), ("/proc/meminfo", "MemTotal")):
        try:
            lines = Path(path).read_text(errors="replace").splitlines()
        except OSError:
            continue
        parts.append(next((line.partition(":")[2].strip() for line in lines if line.startswith(key)), ""))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _library() -> str:
    blas = numpy.show_config(mode="dicts").get("Build Dependencies", {}).get("blas", {})
    return f"{blas.get('name', '')} {blas.get('version', '')}".strip()


def suite(
    *, threads: int, cores_milli: int, short: bool, folder: Path | None = None, soak_s: float = 0.0
) -> dict[str, Any]:
    passes, pass_s = (SHORT_PASSES, SHORT_PASS_S) if short else (FULL_PASSES, FULL_PASS_S)
    quiet = short or await_quiet()
    started = time.perf_counter()
    made = operators(SHORT_STREAM_BYTES if short else STREAM_BYTES)
    gemm = made[3]
    made += _disk(folder, SHORT_FILE_BYTES if short else FILE_BYTES) if folder else []
    timings = {operator.name: Timings() for operator in made}
    for _ in range(passes):
        for operator in made:
            operator.run()  # warm caches and pages
            measure(operator, pass_s / len(made), timings[operator.name], threads)
    share = min(1.0, cores_milli / (threads * 1000))
    metrics = [metric(operator, timings[operator.name], passes, share) for operator in made]
    if folder:
        (folder / "disk-speed.tmp").unlink(missing_ok=True)
    if soak_s:
        metrics.append(soak(gemm, soak_s))
    steady = all(m["cv_ppm"] < CV_MOST_PPM for m in metrics if not m["name"].startswith(OUTSIDE))
    return {
        "suite": SUITE,
        "short": short,
        "stable": short or (quiet and steady),
        "took_ms": int((time.perf_counter() - started) * 1000),
        "hardware_hash": hardware_hash(),
        "threads": threads,
        "kernel_library": _library()[:200],
        "versions": {"numpy": numpy.__version__, "python": platform.python_version()},
        "metrics": metrics,
        "nonce": "",
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="agent.benchmark")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cores-milli", type=int, default=1000)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--turn", default="", help="a name; processes with the same one measure one after the other")
    parser.add_argument("--folder", type=Path, default=None, help="where jobs will lie: its disk is measured")
    parser.add_argument("--soak", type=float, default=0.0, help="seconds under load after the suite")
    wanted = parser.parse_args(arguments)
    if numpy is None:
        sys.exit("numpy is missing (pip install 'idlewild-agent[fingerprint]')")
    surroundings = environment(wanted.threads)
    if any(os.environ.get(name) != value for name, value in surroundings.items()):
        # BLAS reads its thread count when it is loaded, which has happened: start again with the right surroundings.
        kept = {name: value for name, value in os.environ.items() if name not in DISTORTING}
        again = getattr(sys, "orig_argv", ["", "-m", f"{__package__}.benchmark", *sys.argv[1:]])[1:]
        os.execve(sys.executable, [sys.executable, *again], {**kept, **surroundings})  # noqa: S606
    turn = take_turn(wanted.turn) if wanted.turn else None
    made = suite(
        threads=wanted.threads,
        cores_milli=wanted.cores_milli,
        short=wanted.short,
        folder=wanted.folder,
        soak_s=wanted.soak,
    )
    sys.stdout.write(json.dumps(made))
    if turn is not None:
        turn.close()


def take_turn(name: str) -> socket.socket:
    """Wait until no other process of this machine holds the name. It is no file: nothing to clean up, gone with its holder."""
    holder = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    while True:
        try:
            holder.bind("\0" + name)
            return holder
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            time.sleep(TURN_S)


def environment(threads: int) -> dict[str, str]:
    return dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))


if __name__ == "__main__":
    main()
