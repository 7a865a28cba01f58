"""The whole of `./dev up` is killed with SIGKILL while a job runs: nothing lives on, no job is lost, no second is billed twice."""

import itertools
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import psycopg
import pytest

from portal.stack import embedded, places
from tests.portal.stack.running import Up, alive, clean_environment, open_folder, wait_until
from tests.sources import ROOT

pytestmark = [pytest.mark.stack, pytest.mark.timeout(420)]

RUNS_S = 20
LEASES = {"standard": {"usage_ms": 2_000}}  # the real table, but usage is on record soon


@pytest.fixture
def state() -> Iterator[Path]:
    with open_folder() as base:
        folder = base / "state"
        (folder / "demo").mkdir(parents=True)
        (folder / "demo" / "ran").touch()  # the market and a node, but not the main job
        yield folder


def started(state: Path) -> Up:
    return Up(state, IDLEWILD_DEMO_NODES="1", IDLEWILD_LEASE_CLASSES=json.dumps(LEASES))


@pytest.fixture
def ups(state: Path) -> Iterator[list[Up]]:
    running: list[Up] = []
    yield running
    for up in running:
        if up.process.poll() is None:
            up.stop(60)
        print("\n".join(up.lines[-60:]))  # shown when the test fails


class Tenant:
    """The demo's tenant, by REST."""

    def __init__(self, up: Up) -> None:
        done = subprocess.run(
            [sys.executable, "manage.py", "demo_key"],
            cwd=ROOT,
            env=clean_environment(up.state),
            capture_output=True,
            text=True,
            check=True,
        )
        self.key = json.loads(done.stdout)["key"]

    def call(self, up: Up, method: str, path: str, **words: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.key}", **words.pop("headers", {})}
        answer = httpx.request(method, f"http://127.0.0.1:{up.port}/api/v1{path}", headers=headers, timeout=20, **words)
        assert answer.status_code < 300, answer.text
        return answer.json()


def usage_of(up: Up, job: str) -> list[tuple[str, str, Any, Any]]:
    """What is on record for the job: attempt, resource, from, to."""
    with psycopg.connect(
        f"host={places.postgres_socket_dir(up.state)} dbname={embedded.DATABASE} user={embedded.APP}"
    ) as connection:
        return connection.execute(
            "SELECT attempt_ref, resource, started_at, ended_at FROM billing_usagerecord WHERE job_ref = %s AND state = 'ok' ORDER BY resource, started_at",
            [job],
        ).fetchall()


def agents_processes(state: Path) -> list[psutil.Process]:
    mark = str(state / "agents")
    found = []
    for process in psutil.process_iter():
        try:
            if mark in " ".join(process.cmdline()):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def test_a_job_survives_the_death_of_everything(state: Path, ups: list[Up]) -> None:
    first = started(state)
    ups.append(first)
    first.wait_for("all nodes are listed", 240)
    tenant = Tenant(first)
    spec = {
        "name": "survivor",
        "run": f"i=0; while [ $i -lt {RUNS_S} ]; do sleep 1; i=$((i+1)); echo tick $i; done",
        "resources": {"cpus": "0.2", "memory": "128MiB", "disk_size": "1"},
        "max_duration": "5m",
        "max_price": "100",
    }
    job = tenant.call(first, "POST", "/jobs", json={"spec": spec}, headers={"Idempotency-Key": "survivor"})["id"]
    wait_until(lambda: len(agents_processes(state)) >= 2, 90, "the agent and the supervisor of the job")
    wait_until(lambda: len(usage_of(first, job)) > 0, 60, "the first reported second")
    family = first.family()
    jobs_own = agents_processes(state)
    assert len(jobs_own) >= 2, "the job still runs"

    first.kill()
    wait_until(lambda: not alive(jobs_own), 10, "the end of the agent, its supervisor and its job")
    wait_until(
        lambda: not alive(family),
        20,
        "the end of every other process: PostgreSQL writes its last page, web ends its held requests",
    )
    time.sleep(1)

    second = started(state)
    ups.append(second)
    second.wait_for("Idlewild: http", 120)
    wait_until(lambda: tenant.call(second, "GET", f"/jobs/{job}")["state"] == "done", 150, "the job's end")

    records = usage_of(second, job)
    attempts = list(dict.fromkeys(row[0] for row in records))
    assert len(attempts) == 2, "the first attempt is lost, the second finished"
    for resource in {row[1] for row in records} - {"network_byte"}:
        spans = [row for row in records if row[1] == resource]
        for earlier, later in itertools.pairwise(spans):
            assert earlier[3] <= later[2], f"a second of {resource} is on record twice"
    assert second.stop(60) == 0
