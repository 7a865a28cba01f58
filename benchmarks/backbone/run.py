"""How soon does new work leave a link that turned bad, on the running product?

    .venv/bin/python benchmarks/backbone/run.py [--quick] [--json] [--runs N]

It starts Idlewild privately with four agents in four regions behind a user-space relay, and lets the loss of one region's links go from 0 to
5 % under a steady load. Nothing is left running. See README.md beside this file.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.backbone import baseline  # noqa: E402 the tree is not installed
from benchmarks.backbone.relay import Relay  # noqa: E402
from benchmarks.start.run import (  # noqa: E402
    MARKET_S,
    Failed,
    called,
    commit,
    for_sale,
    machine,
    moment,
    product,
    started,
    wait_for,
)
from client.api import Idlewild  # noqa: E402
from client.errors import ClientError  # noqa: E402
from client.http import Http  # noqa: E402
from portal.stack import places  # noqa: E402

RUNS, QUICK_RUNS, OFF_RUNS = 20, 1, 1
BEFORE_S, AFTER_S, QUICK_AFTER_S = 6.0, 30.0, 22.0
EVERY_S = 1.0
CALM_S = 180.0
LOSS = 0.05
LIMIT_S, MOST_WAIT = 20.0, 8.0
MOST_ELSEWHERE = 20.0
"""Percent: else the run would show nothing."""
SEED = 17
SPEC: dict[str, Any] = {
    "name": "backbone",
    "run": "true",
    "max_price": "10",
    "max_duration": "2m",
    "resources": {"cpus": "0.1", "memory": "128MiB", "disk_size": "1"},
    "inputs": [{"content": "x", "path": "x", "size_bytes": 2_000_000_000, "region": "east"}],
    "placement": {"pick": "weights", "weights": {"cost": 0.5, "time": 0.5}, "regions": ["north", "west", "south"]},
}
BAD = "north"


@dataclass(frozen=True)
class Seen:
    """One run: share of jobs that went over the link before it turned bad, seconds after that at which the last one did
    (None = none did), mean wait, jobs that did not end well.
    """

    before: float
    last_s: float | None
    wait_s: float
    not_done: int
    jobs: int


@contextmanager
def agents(tokens: Mapping[str, str], environment: Mapping[str, str], folder: Path) -> Iterator[Relay]:
    """Four nodes that joined, each behind its front on the backbone."""
    fronts = {name: (f"127.0.1.{number}", port_of(number)) for number, name in enumerate(sorted(tokens), start=1)}
    with ExitStack() as stack:
        relay = stack.enter_context(Relay(fronts, SEED))
        for number, name in enumerate(sorted(tokens), start=1):
            state = folder / name
            state.mkdir()
            state.chmod(0o711)
            where = ["--state-dir", str(state)]
            called(["-m", "agent", "enroll", tokens[name], "--url", environment["IDLEWILD_URL"], *where], environment)
            host, port = fronts[name]
            words = ["-m", "agent", "up", "--own-jobs", "--short-suite", "--cores", "1", *where]
            words += ["--slot-uid-base", str(20_001 + 100 * number)]
            words += ["--probe-listen", f"127.0.0.1:{port}", "--probe-address", host]
            stack.enter_context(started(words, environment, folder / f"{name}.log"))
        yield relay


def port_of(number: int) -> int:
    """A port of its own for each beacon of this process."""
    return 20_000 + os.getpid() % 10_000 + number


class Store:
    """The soft store of the private product, to begin each run with nothing known of links."""

    def __init__(self, state: Path) -> None:
        self.client = redis.Redis(unix_socket_path=str(places.valkey_socket(state)))

    def reset(self) -> None:
        if found := list(self.client.scan_iter(match="*links:*")):
            self.client.delete(*found)

    def knows(self, portal: Idlewild) -> bool:
        """Are the ways from east to all three others measured?"""
        for key in self.client.scan_iter(match="*links:beliefs"):
            names = {name.decode() for name in self.client.hkeys(key)}
            return {f"east→{name}" for name in ("north", "west", "south")} <= names
        return False


def one_run(portal: Idlewild, relay: Relay, store: Store, *, fault: bool, off: bool, after_s: float, log: Path) -> Seen:
    relay.loss[BAD] = 0.0
    store.reset()
    if not off:
        calm(portal, store, log)
    with ExitStack() as stack:
        if off:
            stack.enter_context(baseline.forgetting(store.reset))
        jobs: list[tuple[str, float]] = []
        began = time.time()
        broken: float | None = None
        while (now := time.time()) - began < BEFORE_S + after_s:
            if fault and broken is None and now - began >= BEFORE_S:
                relay.loss[BAD] = LOSS
                broken = time.time()
            jobs.append((portal.jobs.submit(SPEC).id, time.time()))
            time.sleep(max(0.0, began + len(jobs) * EVERY_S - time.time()))
        return settled(portal, jobs, broken)


def calm(portal: Idlewild, store: Store, log: Path) -> None:
    """Wait until all links are measured and work goes over the one that will turn bad.

    A busy machine may measure it badly at first, which is believed at once and forgiven slowly: then all is forgotten again.
    """
    until = time.monotonic() + CALM_S
    while time.monotonic() < until:
        wait_for(lambda: store.knows(portal), 120.0, "a measurement of all links", log)
        time.sleep(3)
        name = portal.jobs.submit(SPEC).id
        settled_by = time.monotonic() + 60
        while not portal.jobs.get(name).state.is_terminal and time.monotonic() < settled_by:
            time.sleep(0.2)
        if portal.jobs.decisions(name)[-1]["choice"]["region"] == BAD:
            return
        store.reset()
    raise Failed(f"no work went over the link to {BAD} within {CALM_S:.0f} s: the machine is too busy to measure links")


def settled(portal: Idlewild, jobs: Sequence[tuple[str, float]], broken: float | None) -> Seen:
    """Wait for the jobs, and read where and when each was placed."""
    last: float | None = None
    waits, not_done = [], 0
    early: list[bool] = []
    until = time.monotonic() + 120
    for name, sent in jobs:
        while not portal.jobs.get(name).state.is_terminal and time.monotonic() < until:
            time.sleep(0.2)
        not_done += portal.jobs.get(name).state.value != "done"
        row = portal.jobs.decisions(name)[-1]
        decided = moment(row["decided"])
        waits.append(max(0.0, decided - sent))
        through = row["choice"]["region"]
        if broken is None or decided < broken:
            early.append(through == BAD)
        elif through == BAD:
            last = max(last or 0.0, decided - broken)
    return Seen(sum(early) / max(1, len(early)), last, sum(waits) / len(waits), not_done, len(jobs))


def measured(runs: int, quick: bool) -> dict[str, Any]:
    here = machine()
    folder = Path(tempfile.mkdtemp(prefix="idlewild-bench-"))
    folder.chmod(0o711)
    state = folder / "state"
    state.mkdir()
    after_s = QUICK_AFTER_S if quick else AFTER_S
    try:
        with product(state, folder / "up.log") as environment:
            market = json.loads(called(["-m", "benchmarks.backbone.market"], environment).splitlines()[-1])
            http = Http(url=environment["IDLEWILD_URL"], key=market["key"], patience_s=30)
            with Idlewild(http=http) as portal, agents(market["tokens"], environment, folder) as relay:
                log = folder / "east.log"
                wait_for(lambda: for_sale(portal) >= 4, MARKET_S, "four nodes for sale", log)
                store = Store(state)
                calm = one_run(portal, relay, store, fault=False, off=False, after_s=after_s, log=log)
                on = [
                    one_run(portal, relay, store, fault=True, off=False, after_s=after_s, log=log) for _ in range(runs)
                ]
                count = 1 if quick else OFF_RUNS
                off = [
                    one_run(portal, relay, store, fault=True, off=True, after_s=after_s, log=log) for _ in range(count)
                ]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return result(calm, on, off, after_s, quick, here)


def result(
    calm: Seen, on: Sequence[Seen], off: Sequence[Seen], after_s: float, quick: bool, here: Any
) -> dict[str, Any]:
    mark = ".quick" if quick else ""
    slowest = max((run.last_s or 0.0) for run in on)
    wait = 100 * (sum(run.wait_s for run in on) / len(on) / calm.wait_s - 1)
    rows = [
        (
            "backbone.leaves",
            f"last new placement through the bad link, slowest of {len(on)} runs",
            slowest,
            "s",
            LIMIT_S,
        ),
        ("backbone.wait", "mean waiting time against no fault", wait, "%", MOST_WAIT),
        (
            "backbone.elsewhere",
            "jobs before the fault that did not go over the link, most of all runs",
            100 * (1 - min(run.before for run in on)),
            "%",
            MOST_ELSEWHERE,
        ),
        ("backbone.ended", "jobs that did not end well", sum(run.not_done for run in on), "", 0),
    ]
    return {
        "claims": [
            {
                "id": name + mark,
                "what": what,
                "value": round(value, 3),
                "unit": unit,
                "target": f"<= {target:g}",
                "ok": value <= target,
            }
            for name, what, value, unit, target in rows
        ],
        "runs": {
            "last_s": [None if run.last_s is None else round(run.last_s, 1) for run in on],
            "wait_s": [round(run.wait_s, 3) for run in on],
            "calm_wait_s": round(calm.wait_s, 3),
            "jobs_each": on[0].jobs,
        },
        "baselines": {
            "routing off": {
                "last_s": [None if run.last_s is None else round(run.last_s, 1) for run in off],
                "wait_s": [round(run.wait_s, 3) for run in off],
                "watched_s": after_s,
            }
        },
        "seed": SEED,
        "commit": commit(),
        "machine": here,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="one run of each kind; own claim ids")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--runs", type=int, default=0, help=f"how many runs with a fault ({RUNS})")
    options = parser.parse_args()
    try:
        made = measured(options.runs or (QUICK_RUNS if options.quick else RUNS), options.quick)
    except (Failed, ClientError) as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    if options.json:
        print(json.dumps(made, indent=1))
    else:
        print(json.dumps({"runs": made["runs"], **made["baselines"]}, indent=1))
        for claim in made["claims"]:
            print(
                f"{'ok ' if claim['ok'] else 'NOT'} {claim['id']}: {claim['value']} {claim['unit']} (target {claim['target']})"
            )
    return 0 if all(claim["ok"] for claim in made["claims"]) else 1


if __name__ == "__main__":
    sys.exit(main())
