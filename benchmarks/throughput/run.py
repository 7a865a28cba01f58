"""Placements a second through the running product: PostgreSQL, Celery, 10,000 nodes, 15,000 jobs of 30 queues.

    .venv/bin/python benchmarks/throughput/run.py [--quick] [--json] [--nodes N] [--jobs N] [--rate N]

It starts Idlewild privately (`manage.py up`: PostgreSQL, Valkey, web, workers, beat, in a temporary state folder), writes the market and the load as
rows, and reads from outside when each placement is there. Nothing is left running. See README.md beside this file.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.start.run import Failed, called, commit, machine, product  # noqa: E402 the tree is not installed

SEED = 20_261_130
NODES, JOBS, RATE = 10_000, 15_000, 220
QUICK_NODES, QUICK_JOBS, QUICK_RATE = 2_000, 1_500, 150
PLAIN_JOBS, QUICK_PLAIN = 300, 100
WARM = 300
KILLS, QUICK_KILLS, TAKEOVER_S = 10, 2, 8.0
PER_S, AIM_PER_S, P95_S, FASTER = 200.0, 300.0, 1.0, 2.0
KUEUE_PER_S = 43
LIMIT_S = 900
LONG = json.dumps({name: {"accept_ms": 7_200_000} for name in ("fast", "standard", "tolerant")})
"""Nobody accepts what is assigned here (there are no agents), and nothing is to be taken back for that."""


def python(words: list[str], environment: Mapping[str, str]) -> dict[str, Any]:
    return dict(json.loads(called(["-m", *words], environment).splitlines()[-1]))


def loaded(jobs: int, rate: int, environment: Mapping[str, str]) -> dict[str, Any]:
    """Submit `jobs`, `rate` a second (0 = at once), and watch until all are placed."""
    watcher = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.throughput.watch", str(jobs), str(LIMIT_S)],
        cwd=ROOT, env=dict(environment), stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        if watcher.stdout is None or watcher.stdout.readline().strip() != "ready":
            raise Failed("the watcher did not start")
        python(["benchmarks.throughput.market", "submit", str(jobs), str(rate)], environment)
        found = dict(json.loads(watcher.communicate(timeout=LIMIT_S)[0].splitlines()[-1]))
    finally:
        watcher.kill()
        watcher.wait()
    if found["placed"] != jobs:
        raise Failed(f"only {found['placed']} of {jobs} jobs were placed in {LIMIT_S} s")
    return found


def measured(options: argparse.Namespace) -> dict[str, Any]:
    here = machine()
    folder = Path(tempfile.mkdtemp(prefix="idlewild-bench-"))
    folder.chmod(0o711)  # as root, the database's account passes through
    (folder / "state").mkdir()
    try:
        if find_spec("numba"):  # as at a deployment: compiled once, loaded by the workers that start afterwards
            with product(folder / "state", folder / "warm.log") as environment:
                called(["manage.py", "warm"], environment)
        with product(folder / "state", folder / "up.log", {"IDLEWILD_LEASE_CLASSES": LONG}) as environment:
            python(["benchmarks.throughput.market", "nodes", str(options.nodes), str(SEED)], environment)
            loaded(WARM, 0, environment)  # every worker has read the market whole
            load = loaded(options.jobs, options.rate, environment)
            burst = loaded(options.jobs // 5, 0, environment)
            plain = _plain(options.plain, environment)
            takeover = python(["benchmarks.throughput.takeover", str(options.kills)], environment)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {
        "claims": claims_of(load, burst, plain, takeover, options),
        "load": load,
        "burst": burst,
        "takeover": takeover,
        "baselines": {"one_job_one_transaction": plain, "kueue_published_per_s": KUEUE_PER_S},
        "nodes": options.nodes,
        "jobs": options.jobs,
        "offered_per_s": options.rate,
        "seed": SEED,
        "commit": commit(),
        "machine": here,
    }


def _plain(jobs: int, environment: Mapping[str, str]) -> dict[str, Any]:
    """The plain loop on the same nodes and jobs of the same shape, while the engine stands aside."""
    return python(["benchmarks.throughput.baseline", str(jobs)], environment)


def claims_of(
    load: Mapping[str, Any],
    burst: Mapping[str, Any],
    plain: Mapping[str, Any],
    takeover: Mapping[str, Any],
    options: argparse.Namespace,
) -> list[dict[str, Any]]:
    mark = ".quick" if options.quick else ""
    per_s = QUICK_RATE * 0.9 if options.quick else PER_S
    at = f"{options.nodes:,} nodes, {options.jobs:,} jobs of 30 queues"
    faster = round(burst["per_s"] / plain["per_s"], 2) if plain["per_s"] else 0.0
    rows = [
        ("throughput.sustained", f"placements a second, {at}, offered {options.rate}/s", load["per_s"], "1/s", ">=", per_s),
        ("throughput.burst", f"placements a second of a backlog of {burst['placed']:,}", burst["per_s"], "1/s", ">=", per_s),
        ("throughput.decision.p95", "submit → decision of the load's first half, p95", load["first_half_p95_s"], "s", "<=", P95_S),
        ("throughput.vs_plain", "burst ÷ one job, one transaction", faster, "×", ">=", FASTER),
        ("throughput.takeover", f"leader killed → the next leads, slowest of {options.kills}", takeover["slowest"], "s", "<=", TAKEOVER_S),
    ]  # fmt: skip
    return [
        {
            "id": name + mark,
            "what": what,
            "value": value,
            "unit": unit,
            "target": f"{sign} {target:g}",
            "ok": value >= target if sign == ">=" else value <= target,
        }
        for name, what, value, unit, sign, target in rows
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_NODES:,} nodes, {QUICK_JOBS:,} jobs")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--nodes", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=0)
    parser.add_argument("--rate", type=int, default=0, help="jobs a second")
    options = parser.parse_args()
    options.nodes = options.nodes or (QUICK_NODES if options.quick else NODES)
    options.jobs = options.jobs or (QUICK_JOBS if options.quick else JOBS)
    options.rate = options.rate or (QUICK_RATE if options.quick else RATE)
    options.kills = QUICK_KILLS if options.quick else KILLS
    options.plain = QUICK_PLAIN if options.quick else PLAIN_JOBS
    try:
        result = measured(options)
    except (Failed, subprocess.SubprocessError) as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    if options.json:
        print(json.dumps(result, indent=1))
    else:
        for claim in result["claims"]:
            print(
                f"{'ok ' if claim['ok'] else 'NOT'} {claim['what']}: {claim['value']} {claim['unit']} ({claim['target']})"
            )
        for name in ("load", "burst", "takeover", "baselines"):
            print(f"    {name}: {result[name]}")
    return 0 if all(claim["ok"] for claim in result["claims"]) else 1


if __name__ == "__main__":
    sys.exit(main())
