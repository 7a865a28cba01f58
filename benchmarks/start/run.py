"""How long from submitting a job to its placement, and to its process running, on the running product.

    .venv/bin/python benchmarks/start/run.py [--quick] [--json] [--jobs N]

It starts Idlewild privately (`manage.py up`: PostgreSQL, Valkey, web, workers, beat, in a temporary state folder) and one agent, waits until
its node is for sale, and submits jobs one after the other by the SDK. Nothing is left running. See README.md beside this file.
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
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from agent.executors.found import find_bwrap  # noqa: E402
from benchmarks.start import baseline  # noqa: E402 the tree is not installed
from client.api import Idlewild  # noqa: E402
from client.errors import ClientError  # noqa: E402
from client.http import Http  # noqa: E402
from portal.stack import places  # noqa: E402

JOBS, QUICK_JOBS = 110, 8
BASELINES, QUICK_BASELINES = 100, 20
WARM_UP = 2
DECISION_P50_S, RUNNING_P95_S = 1.0, 2.0
UP_S, MARKET_S, JOB_S, STOP_S = 120.0, 300.0, 60.0, 40.0
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
def product(state: Path, log: Path, more: Mapping[str, str] | None = None) -> Iterator[dict[str, str]]:
    """Idlewild without its demo, with these settings `more`; the environment to talk to it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    ours = ("IDLEWILD_", "DATABASE_", "REDIS_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    environment |= {"IDLEWILD_STATE_DIR": str(state), "IDLEWILD_PORT": port, "IDLEWILD_RATE_LIMITS": NO_LIMITS}
    environment |= more or {}
    with started(["manage.py", "up", "--port", port, "--empty"], environment, log):
        url = f"http://127.0.0.1:{port}"
        wait_for(lambda: healthy(url), UP_S, "the product", log)
        yield {**environment, "IDLEWILD_URL": url}


@contextmanager
def started(words: Sequence[str], environment: Mapping[str, str], log: Path) -> Iterator[None]:
    """A Python program with its output in a file; ended by Ctrl-C, at last with its group."""
    with log.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, *words],
            cwd=ROOT,
            env=dict(environment),
            stdout=out,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    try:
        yield
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_for(there: Callable[[], bool], seconds: float, what: str, log: Path) -> None:
    until = time.monotonic() + seconds
    while not there():
        if time.monotonic() > until:
            raise Failed(f"{what} was not there after {seconds:.0f} s\n{log.read_text()[-3000:]}")
        time.sleep(0.3)


def healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/healthz", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def called(words: Sequence[str], environment: Mapping[str, str]) -> str:
    """The output of a program that must succeed."""
    done = subprocess.run(
        [sys.executable, *words], cwd=ROOT, env=dict(environment), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise Failed(f"{' '.join(words)} failed: {done.stderr[-2000:]}{done.stdout[-500:]}")
    return done.stdout


@contextmanager
def agent(token: str, environment: Mapping[str, str], folder: Path) -> Iterator[Path]:
    """One node that joined; its log."""
    state, log = folder / "agent", folder / "agent.log"
    state.mkdir()
    state.chmod(0o711)  # jobs run as users of their own and pass through
    place = ["--state-dir", str(state)]
    called(["-m", "agent", "enroll", token, "--url", environment["IDLEWILD_URL"], *place], environment)
    with started(["-m", "agent", "up", "--own-jobs", "--short-suite", "--cores", "1", *place], environment, log):
        yield log


def for_sale(portal: Idlewild) -> int:
    try:
        return len(portal.market.offers().get("items") or [])
    except ClientError:
        return 0


@dataclass(frozen=True)
class Times:
    """Seconds from the submit to each step of one job."""

    answered: float
    decided: float
    accepted: float
    running: float
    """The job's own first instruction, by its own clock."""


def one_job(portal: Idlewild) -> Times:
    sent = time.time()
    job = portal.jobs.submit(SPEC).id
    answered = time.time()
    until = time.monotonic() + JOB_S
    while not (found := portal.jobs.get(job)).state.is_terminal:
        if time.monotonic() > until:
            raise Failed(f"{job} is {found.state.value} after {JOB_S:.0f} s: {portal.jobs.explain(job)}")
        time.sleep(0.1)
    if found.state.value != "done":
        raise Failed(f"{job} ended as {found.state.value}: {found.reason}")
    attempt = portal.jobs.attempts(job)[-1]
    decided = min(moment(row["decided"]) for row in portal.jobs.decisions(job))
    printed = float(str(portal.jobs.logs(job, attempt=attempt["id"], stream="stdout").get("text")).split()[0])
    return Times(answered - sent, decided - sent, moment(attempt["accepted_at"]) - sent, printed - sent)


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
    here = machine()
    folder = Path(tempfile.mkdtemp(prefix="idlewild-bench-"))
    folder.chmod(0o711)  # as root, the database's account passes through
    state = folder / "state"
    state.mkdir()
    try:
        with product(state, folder / "up.log") as environment:
            market = json.loads(called(["-m", "benchmarks.start.market"], environment).splitlines()[-1])
            http = Http(url=environment["IDLEWILD_URL"], key=market["key"], patience_s=30)
            with Idlewild(http=http) as portal, agent(market["token"], environment, folder) as log:
                wait_for(lambda: for_sale(portal) > 0, MARKET_S, "a node for sale", log)
                for _ in range(WARM_UP):
                    one_job(portal)
                times = [one_job(portal) for _ in range(jobs)]
                isolation = str(portal.jobs.attempts(str(portal.jobs.find(limit=1)[0]["id"]))[-1].get("isolation"))
            bare = {**celery_baseline(state, baselines), **bwrap_baseline(folder, baselines)}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {
        "claims": claims_of([one.decided for one in times], [one.running for one in times], quick=quick),
        "steps": {
            "submit_answered": figures([one.answered for one in times]),
            "assignment_accepted": figures([one.accepted for one in times]),
        },
        "baselines": bare,
        "seed": None,
        "commit": commit(),
        "machine": {**here, "isolation": isolation},
    }


def celery_baseline(state: Path, times: int) -> dict[str, Any]:
    """Through the product's own Valkey, in databases of its own."""
    where = places.valkey_socket(state)
    took = baseline.celery_round_trips(
        broker=f"redis+socket://{where}?virtual_host=14", backend=f"redis+socket://{where}?virtual_host=15", times=times
    )
    return {"celery_round_trip": figures(took)}


def bwrap_baseline(folder: Path, times: int) -> dict[str, Any]:
    """With the program that the agent uses."""
    program, why = find_bwrap(folder)
    if not program:
        return {"bwrap_start": {"skipped": why}}
    try:
        return {"bwrap_start": figures(baseline.bwrap_starts(program=program, times=times))}
    except subprocess.CalledProcessError as refused:
        return {"bwrap_start": {"skipped": f"the kernel refuses sandboxes: {refused.stderr.decode()[-200:]}"}}


def figures(took: Sequence[float]) -> dict[str, Any]:
    return {"p50_s": round(percentile(took, 0.5), 4), "p95_s": round(percentile(took, 0.95), 4), "n": len(took)}


def commit() -> str:
    found = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or "unknown"


def machine() -> dict[str, Any]:
    """Where it was measured; `load` is what else ran there before."""
    system = f"{platform.system()} {platform.release().split('-')[0]}"
    load = round(os.getloadavg()[0], 1)
    return {"cores": os.cpu_count(), "system": system, "python": platform.python_version(), "load": load}


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
        for name, row in {**result["steps"], **result["baselines"]}.items():
            print(f"    {name}: {row}")
    return 0 if all(claim["ok"] for claim in result["claims"]) else 1


if __name__ == "__main__":
    sys.exit(main())
