"""How many nodes one web process and one worker can hear, and how long a sync takes beyond its hold.

    .venv/bin/python benchmarks/agents/run.py [--quick] [--json] [--nodes N] [--leases N] [--seconds S]

It starts Idlewild privately (`manage.py up`: one web process), makes rows of N nodes with L running attempts each, and lets N simulated agents speak the real
wire. Nothing is left running. See README.md beside this file.
"""

import argparse
import asyncio
import json
import os
import shutil
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.agents import fleet  # noqa: E402 the tree is not installed
from benchmarks.start.run import Failed, called, commit, machine, percentile, product, started, wait_for  # noqa: E402

NODES, LEASES, SECONDS = 1_000, 5, 600.0
QUICK = (100, 5, 15.0)
LEASE_CLASS, RENEW_MS, HOLD_SHARE = "standard", 3_000, 60
P95_S = 0.250
GROWTH = 1.25
"""The web process's memory at the end over what it was after the first tenth."""


def web_process(port: int) -> psutil.Process:
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if "uvicorn" in words and str(port) in words:
            return process
    raise Failed("the web process is not there")


async def watched(process: psutil.Process, seconds: float) -> list[tuple[float, int]]:
    """Memory of the web process in bytes, each second."""
    seen, began = [], time.monotonic()
    while time.monotonic() - began < seconds:
        seen.append((time.monotonic() - began, process.memory_info().rss))
        await asyncio.sleep(1)
    return seen


async def spoken(
    url: str, market: dict[str, Any], seconds: float, process: psutil.Process
) -> tuple[fleet.Measured, list[tuple[float, int]]]:
    there = urlsplit(url)
    hold_ms = RENEW_MS * HOLD_SHARE // 100
    run = fleet.run(
        host=str(there.hostname), port=int(there.port or 80), secret=market["secret"], fleet=market["fleet"], hold_ms=hold_ms, seconds=seconds,
        spread_s=min(hold_ms / 1000, seconds / 4),
    )  # fmt: skip
    measured, memory = await asyncio.gather(run, watched(process, seconds))
    return measured, memory


def measured(nodes: int, leases: int, seconds: float, *, quick: bool) -> dict[str, Any]:
    here = machine()
    folder = Path(tempfile.mkdtemp(prefix="idlewild-bench-"))
    folder.chmod(0o711)
    state = folder / "state"
    state.mkdir()
    try:
        with product(state, folder / "up.log") as environment:
            market = json.loads(
                called(
                    ["-m", "benchmarks.agents.market", str(nodes), str(leases), LEASE_CLASS], environment
                ).splitlines()[-1]
            )
            url = environment["IDLEWILD_URL"]
            web = web_process(urlsplit(url).port or 80)
            cpu = sum(web.cpu_times()[:2])
            found, memory = asyncio.run(spoken(url, market, seconds, web))
            cpu = sum(web.cpu_times()[:2]) - cpu
            time.sleep(1)
            states = json.loads(called(["-m", "benchmarks.agents.market", "ended"], environment).splitlines()[-1])
        floor = bare(folder, market, min(seconds, 10.0))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {
        "claims": claims(found, memory, states, quick=quick),
        "load": {
            "nodes": nodes, "leases": nodes * leases, "seconds": seconds, "syncs": len(found.over), "syncs_per_s": round(len(found.over) / seconds, 1),
            "renewals": found.renewals, "errors": found.errors, "attempts": states, "web_cpu_ms_per_sync": round(1000 * cpu / max(1, len(found.over)), 2),
        },
        "baselines": {"bare_server": floor},
        "seed": None, "commit": commit(), "machine": here,
    }  # fmt: skip


def bare(folder: Path, market: dict[str, Any], seconds: float) -> dict[str, Any]:
    """The same fleet against a server that only waits."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [
        "-m",
        "uvicorn",
        "benchmarks.agents.baseline:answer",
        "--port",
        str(port),
        "--log-level",
        "warning",
        "--lifespan",
        "off",
    ]
    with started(words, os.environ, folder / "bare.log"):
        wait_for(lambda: _listens(port), 30, "the bare server", folder / "bare.log")
        hold_ms = RENEW_MS * HOLD_SHARE // 100
        found = asyncio.run(
            fleet.run(
                host="127.0.0.1",
                port=port,
                secret="none",
                fleet=market["fleet"],
                hold_ms=hold_ms,
                seconds=seconds,
                spread_s=min(hold_ms / 1000, seconds / 4),
            )
        )
    return {
        "p50_s": round(percentile(found.over, 0.5), 4),
        "p95_s": round(percentile(found.over, 0.95), 4),
        "syncs_per_s": round(len(found.over) / seconds, 1),
    }


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def claims(
    found: fleet.Measured, memory: list[tuple[float, int]], states: dict[str, int], *, quick: bool
) -> list[dict[str, Any]]:
    mark = ".quick" if quick else ""
    settled = [rss for _, rss in memory[len(memory) // 10 :]]
    growth = settled[-1] / settled[0]
    lost = sum(count for state, count in states.items() if state != "running") + found.fenced
    p95, broken = percentile(found.over, 0.95), sum(found.errors.values())
    rows = [
        ("agents.sync.p95", "time of a sync beyond its hold, 95th percentile", round(p95, 4), "s", P95_S),
        ("agents.lapses", "leases lost, or renewed after the agent's deadline", lost + found.late, "leases", 0),
        (
            "agents.memory",
            "the web's memory at the end over that after a tenth of the time",
            round(growth, 3),
            "x",
            GROWTH,
        ),
        ("agents.errors", "syncs that were refused or broken", broken, "syncs", 0),
    ]
    return [
        {"id": name + mark, "what": what, "value": value, "unit": unit, "target": f"<= {most:g}", "ok": value <= most}
        for name, what, value, unit, most in rows
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer nodes for a shorter time")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--nodes", type=int, default=0)
    parser.add_argument("--leases", type=int, default=-1)
    parser.add_argument("--seconds", type=float, default=0)
    options = parser.parse_args()
    nodes, leases, seconds = QUICK if options.quick else (NODES, LEASES, SECONDS)
    try:
        result = measured(
            options.nodes or nodes,
            leases if options.leases < 0 else options.leases,
            options.seconds or seconds,
            quick=options.quick,
        )
    except Failed as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    if options.json:
        print(json.dumps(result, indent=1))
    else:
        for claim in result["claims"]:
            print(
                f"{'ok ' if claim['ok'] else 'NOT'} {claim['what']}: {claim['value']} {claim['unit']} (target {claim['target']})"
            )
        print(f"    {result['load']}\n    {result['baselines']}")
    return 0 if all(claim["ok"] for claim in result["claims"]) else 1


if __name__ == "__main__":
    sys.exit(main())
