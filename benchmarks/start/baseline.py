"""What the same machine does without us, measured in the same run: a bare Celery task round trip, and a bare `bwrap` start.

python -m celery -A benchmarks.start.baseline worker     (started by `run.py`, with BENCH_BROKER set)
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from celery import Celery

ROOT = Path(__file__).resolve().parents[2]
BROKER = os.environ.get("BENCH_BROKER", "memory://")
READY_S = 30.0

app = Celery("baseline", broker=BROKER, backend=os.environ.get("BENCH_BACKEND"))
app.conf.update(broker_connection_retry_on_startup=True, task_default_queue="baseline", worker_hijack_root_logger=False)


@app.task(name="baseline.nothing")
def nothing() -> int:
    return 1


def celery_round_trips(*, broker: str, backend: str, times: int) -> list[float]:
    """Seconds from `delay()` to its result, one after the other, with one waiting worker process."""
    environment = {**os.environ, "BENCH_BROKER": broker, "BENCH_BACKEND": backend}
    command = [sys.executable, "-W", "ignore", "-m", "celery", "-q", "-A", "benchmarks.start.baseline", "worker"]
    command += ["-Q", "baseline", "-c", "1", "-l", "error", "--without-gossip", "--without-mingle", "-n", "baseline@%h"]
    sender = Celery("sender", broker=broker, backend=backend)
    sender.conf.task_default_queue = "baseline"
    worker = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        sender.send_task("baseline.nothing", queue="baseline").get(timeout=READY_S)
        return [
            timed(lambda: sender.send_task("baseline.nothing", queue="baseline").get(timeout=READY_S))
            for _ in range(times)
        ]
    finally:
        worker.terminate()
        worker.wait(20)
        sender.close()


def bwrap_starts(*, program: str, times: int) -> list[float]:
    """Seconds from starting `bwrap` to the end of a program that does nothing, with namespaces as a job has them."""
    command = [program, "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]  # noqa: S108
    command += ["--unshare-all", "--die-with-parent", "/bin/true"]
    return [timed(lambda: subprocess.run(command, check=True, capture_output=True)) for _ in range(times)]


def timed(do: Callable[[], object]) -> float:
    began = time.perf_counter()
    do()
    return time.perf_counter() - began
