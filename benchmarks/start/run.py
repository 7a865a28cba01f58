"""How long from submitting a job to its placement, and to its process running, on the running product.

    .venv/bin/python benchmarks/start/run.py [--quick] [--json] [--jobs N]

It starts Idlewild privately (`manage.py up`: PostgreSQL, Valkey, web, workers, beat, four agents, in a temporary state folder), waits until
nodes are for sale, and submits jobs one after the other by the SDK. Nothing is left running. See README.md beside this file.
"""

import argparse
import json
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.start import baseline  # noqa: E402 the tree is not installed
from client.api import Idlewild  # noqa: E402
from client.errors import ClientError  # noqa: E402
from client.http import Http  # noqa: E402
from portal.stack import places  # noqa: E402

JOBS, QUICK_JOBS = 110, 8
BASELINES, QUICK_BASELINES = 100, 20
WARM_UP = 2
DECISION_P50_S, RUNNING_P95_S = 1.0, 2.0
UP_S, MARKET_S, JOB_S = 120.0, 300.0, 60.0
SPEC = {
    "name": "start-bench",
    "run": "date +%s.%N",
    "max_price": "1000",
    "max_duration": "2m",
    "resources": {"cpus": "0.5", "memory": "256MiB", "disk_size": "1"},
}
NO_LIMITS = json.dumps({what: {"count": 1_000_000} for what in ("read", "write", "quote", "submit", "agent", "enroll")})


class Failed(Exception):
    """The measurement could not be made."""


@contextmanager
def product(state: Path, log: Path) -> Iterator[dict[str, str]]:
    """Idlewild with its demo market, without the main job; the environment to talk to it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    (state / "demo").mkdir(parents=True)
    (state / "demo" / "ran").touch()  # the main job is not wanted here
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("IDLEWILD_", "DATABASE_", "REDIS_"))
    }
    environment |= {"IDLEWILD_STATE_DIR": str(state), "IDLEWILD_PORT": port, "IDLEWILD_RATE_LIMITS": NO_LIMITS}
    with log.open("w") as out:
        up = subprocess.Popen(
            [sys.executable, "manage.py", "up", "--port", port],
            cwd=ROOT,
            env=environment,
            stdout=out,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    try:
        yield environment
    finally:
        up.send_signal(signal.SIGINT)
        try:
            up.wait(40)
        except subprocess.TimeoutExpired:
            os.killpg(up.pid, signal.SIGKILL)
            up.wait()


def connected(environment: Mapping[str, str], log: Path) -> Idlewild:
    """The SDK with a key of the demo tenant, once there is one."""
    until = time.monotonic() + UP_S
    while True:
        made = subprocess.run(
            [sys.executable, "manage.py", "demo_key"],
            cwd=ROOT,
            env=dict(environment),
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode == 0:
            key = json.loads(made.stdout.splitlines()[-1])["key"]
            return Idlewild(http=Http(url=f"http://127.0.0.1:{environment['IDLEWILD_PORT']}", key=key, patience_s=30))
        if time.monotonic() > until:
            raise Failed(f"the product did not start: {made.stderr[-400:]}\n{log.read_text()[-3000:]}")
        time.sleep(1)


def wait_for_market(portal: Idlewild, log: Path) -> int:
    """At least one node is for sale; how many."""
    until = time.monotonic() + MARKET_S
    while True:
        try:
            there = len(portal.market.offers(filter="virtual=true").get("items") or [])
        except ClientError:
            there = 0
        if there:
            return there
        if time.monotonic() > until:
            raise Failed(f"no node was for sale after {MARKET_S:.0f} s\n{log.read_text()[-3000:]}")
        time.sleep(0.5)


def one_job(portal: Idlewild) -> tuple[float, float]:
    """Seconds from the submit to the decision, and to the job's own first instruction."""
    sent = time.time()
    job = portal.jobs.submit(SPEC).id
    until = time.monotonic() + JOB_S
    while not (found := portal.jobs.get(job)).state.is_terminal:
        if time.monotonic() > until:
            raise Failed(f"{job} is {found.state.value} after {JOB_S:.0f} s: {portal.jobs.explain(job)}")
        time.sleep(0.1)
    if found.state.value != "done":
        raise Failed(f"{job} ended as {found.state.value}: {found.reason}")
    attempt = portal.jobs.attempts(job)[-1]["id"]
    decided = min(moment(row["decided"]) for row in portal.jobs.decisions(job))
    printed = float(str(portal.jobs.logs(job, attempt=attempt, stream="stdout").get("text")).split()[0])
    return decided - sent, printed - sent


def moment(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of all do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * round(share * 100) // 100) - 1)]


def claims_of(decisions: Sequence[float], starts: Sequence[float], *, quick: bool) -> list[dict[str, Any]]:
    mark = ".quick" if quick else ""
    n = len(starts)
    rows = [
        ("start.decision.p50", f"submit → decision, median of {n} jobs", percentile(decisions, 0.5), DECISION_P50_S),
        (
            "start.decision.p95",
            f"submit → decision, 95th percentile of {n} jobs",
            percentile(decisions, 0.95),
            RUNNING_P95_S,
        ),
        ("start.running.p50", f"submit → process running, median of {n} jobs", percentile(starts, 0.5), DECISION_P50_S),
        (
            "start.running.p95",
            f"submit → process running, 95th percentile of {n} jobs",
            percentile(starts, 0.95),
            RUNNING_P95_S,
        ),
    ]
    return [
        {
            "id": name + mark,
            "what": what,
            "value": round(value, 4),
            "unit": "s",
            "target": f"<= {target:g}",
            "ok": value <= target,
        }
        for name, what, value, target in rows
    ]


def measured(*, jobs: int, baselines: int, quick: bool) -> dict[str, Any]:
    folder = Path(tempfile.mkdtemp(prefix="idlewild-bench-"))
    state, log = folder / "state", folder / "up.log"
    state.mkdir()
    try:
        with product(state, log) as environment:
            portal = connected(environment, log)
            with portal:
                nodes = wait_for_market(portal, log)
                for _ in range(WARM_UP):
                    one_job(portal)
                times = [one_job(portal) for _ in range(jobs)]
            bare = {**celery_baseline(state, baselines), **bwrap_baseline(baselines)}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {
        "claims": claims_of([decided for decided, _ in times], [started for _, started in times], quick=quick),
        "baselines": bare,
        "seed": None,
        "commit": commit(),
        "machine": {**machine(), "nodes_for_sale": nodes},
    }


def celery_baseline(state: Path, times: int) -> dict[str, Any]:
    """Through the product's own Valkey, in databases of its own."""
    where = places.valkey_socket(state)
    took = baseline.celery_round_trips(
        broker=f"redis+socket://{where}?virtual_host=14", backend=f"redis+socket://{where}?virtual_host=15", times=times
    )
    return {"celery_round_trip": figures(took)}


def bwrap_baseline(times: int) -> dict[str, Any]:
    program = bwrap()
    if program is None:
        return {"bwrap_start": {"skipped": "no bwrap here"}}
    try:
        return {"bwrap_start": figures(baseline.bwrap_starts(program=program, times=times))}
    except subprocess.CalledProcessError as refused:
        return {"bwrap_start": {"skipped": f"the kernel refuses sandboxes: {refused.stderr.decode()[-200:]}"}}


def bwrap() -> str | None:
    """The program of the wheel that the agent uses, else the system's."""
    beside = Path(sys.executable).parent / "bwrap"
    return str(beside) if beside.exists() else shutil.which("bwrap")


def figures(took: Sequence[float]) -> dict[str, Any]:
    return {"p50_s": round(percentile(took, 0.5), 4), "p95_s": round(percentile(took, 0.95), 4), "n": len(took)}


def commit() -> str:
    found = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or "unknown"


def machine() -> dict[str, Any]:
    return {"cores": os.cpu_count(), "system": platform.system(), "python": platform.python_version()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_JOBS} jobs")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--jobs", type=int, default=0, help=f"how many jobs ({JOBS})")
    options = parser.parse_args()
    jobs = options.jobs or (QUICK_JOBS if options.quick else JOBS)
    try:
        result = measured(jobs=jobs, baselines=QUICK_BASELINES if options.quick else BASELINES, quick=options.quick)
    except (Failed, ClientError) as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    if options.json:
        print(json.dumps(result, indent=1))
    else:
        for claim in result["claims"]:
            print(
                f"{'ok ' if claim['ok'] else 'NOT'} {claim['what']}: {claim['value']:.3f} s (target {claim['target']} s)"
            )
        for name, row in result["baselines"].items():
            print(f"    {name}: {row}")
    return 0 if all(claim["ok"] for claim in result["claims"]) else 1


if __name__ == "__main__":
    sys.exit(main())
