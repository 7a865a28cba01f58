"""What becomes of idle machines when eight institutions share them through the market, owner first?

    .venv/bin/python benchmarks/reuse/run.py [--quick] [--json]

Real work: the users of a parallel machine (NASA iPSC/860, 1993) and jobs of a cloud (PAI, 2020), dealt into eight institutions. Needs the
reference data; see README.md.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.reuse import baseline, pool  # noqa: E402 the tree is not installed

SEEDS, QUICK_SEEDS = (21, 22, 23), (21,)
HEADROOM = 0.15
"""Share of the pool that guests leave free; chosen with seed 1."""
ASKED = 0.9
"""What others ask of the market, as a share of the pool."""
PAI_JOBS = 4_000
LEAST = 65.0


def one(work: Sequence[pool.Job], seed: int) -> dict[str, Any]:
    horizon = max(job.arrives for job in work)
    sizes = baseline.silos(work)
    total = sum(sizes)
    share, waits = baseline.alone(work, sizes, horizon)
    guests = pool.guests(work, seed, ASKED, horizon, total)
    out = pool.Pool(total, int(HEADROOM * total), horizon).run([*work, *guests])
    pooled = [out.p95(owner) for owner in sorted(out.waits)]
    enough = baseline.smallest(work, sizes, waits, horizon)
    return {
        "machines": sizes,
        "alone %": round(100 * share, 1),
        "pooled %": round(100 * out.used / (total * horizon), 1),
        "p95 wait alone s": [round(wait, 1) for wait in waits],
        "p95 wait pooled s": [round(wait, 1) for wait in pooled],
        "guests interrupted": out.interrupted,
        "lost to interruptions %": round(100 * out.lost / (total * horizon), 3),
        "machines that would do without guests": enough,
        "of them used %": round(100 * share * total / enough, 1),
        "worse": sum(after > before + 1e-6 for before, after in zip(waits, pooled, strict=True)),
    }


def measure(quick: bool, say: Callable[[str], object]) -> dict[str, Any]:
    base = pool.folder()
    suffix = ".quick" if quick else ""
    traces: dict[str, Callable[[int], list[pool.Job]]] = {
        "nasa": lambda seed: pool.nasa(base, seed),
        "pai": lambda seed: pool.pai(base, seed, PAI_JOBS),
    }
    claims, tables = [], {}
    for name, trace in traces.items():
        rows = []
        for seed in QUICK_SEEDS if quick else SEEDS:
            rows.append(one(trace(seed), seed))
            say(f"{name}, seed {seed}: {rows[-1]}")
        tables[name] = rows
        least = min(row["pooled %"] for row in rows)
        claims.append(claim(f"reuse.{name}.use{suffix}", f"{name}: machines in use, pooled", least, "%", f">= {LEAST}"))
        worse = sum(row["worse"] for row in rows)
        what = f"{name}: institutions whose own p95 waiting time is worse than alone"
        claims.append(claim(f"reuse.{name}.wait{suffix}", what, worse, "institutions", "<= 0"))
        gain = min(row["pooled %"] / row["alone %"] for row in rows)
        claims.append(claim(f"reuse.{name}.gain{suffix}", f"{name}: use, pooled ÷ alone", gain, "×", ">= 2"))
    return {
        "claims": claims,
        "baselines": tables,
        "seed": list(QUICK_SEEDS if quick else SEEDS),
        "commit": commit(),
        "machine": {
            "cores": os.cpu_count(),
            "system": platform.platform(terse=True),
            "python": platform.python_version(),
        },
    }


def claim(name: str, what: str, value: float, unit: str, target: str) -> dict[str, Any]:
    sign, _, limit = target.partition(" ")
    ok = value <= float(limit) if sign == "<=" else value >= float(limit)
    return {"id": name, "what": what, "value": round(value, 3), "unit": unit, "target": target, "ok": bool(ok)}


def commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="one seed instead of three; own claim ids")
    parser.add_argument("--json", action="store_true", help="print the result as JSON only")
    given = parser.parse_args(words)
    try:
        result = measure(given.quick, (lambda _: None) if given.json else print)
    except pool.Missing as missing:
        sys.stderr.write(f"{missing}\n")
        return 2
    if given.json:
        print(json.dumps(result, indent=1, ensure_ascii=False))
    else:
        for row in result["claims"]:
            print(
                f"{'ok ' if row['ok'] else 'NO '} {row['what']}: {row['value']} {row['unit']} (target {row['target']})"
            )
    return 0 if all(row["ok"] for row in result["claims"]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
