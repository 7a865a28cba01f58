"""How much time and money does it save to plan the stages of a pipeline over regions, on public prices and links?

    .venv/bin/python benchmarks/pipeline/run.py [--quick] [--json]

The planner is the product's rule (`scheduling.domain.pipeline`); no job runs. Needs the reference data; see README.md.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.pipeline import baseline, worlds  # noqa: E402 the tree is not installed
from benchmarks.pipeline.worlds import Public  # noqa: E402
from scheduling.domain import pipeline  # noqa: E402
from scheduling.domain.pipeline import Plan  # noqa: E402

WEIGHT = 0.35
"""Of time; chosen on seeds 1–60."""
WEIGHTS = (0.15, 0.25, 0.35, 0.5, 0.75)
FIRST_SEED, WORLDS, QUICK_WORLDS = 1_000, 300, 60
CHECKED, QUICK_CHECKED = 20, 5


def compared(known: Public, seeds: range, *, market: bool, widths: tuple[float, ...] = worlds.NARROW) -> dict[str, Any]:
    """Totals over all worlds: our plan at each weight against home and against the best single region."""
    ours = {w: [] for w in WEIGHTS}  # type: dict[float, list[Plan]]
    single = {w: [] for w in WEIGHTS}  # type: dict[float, list[Plan]]
    home: list[Plan] = []
    took = []
    for seed in seeds:
        made = worlds.world(known, seed, market=market, widths=widths)
        began = time.perf_counter()
        plans = pipeline.front(made.stages, known.links)
        took.append((time.perf_counter() - began) * 1_000)
        home.append(baseline.at_home(made, known.links))
        for w in WEIGHTS:
            ours[w].append(pipeline.pick(plans, w))
            single[w].append(baseline.best_region(made, known.links, w))
    rows = {
        f"weight of time {w}": {
            "against home": _gain(ours[w], home),
            "against the best single region": _gain(ours[w], single[w]),
        }
        for w in WEIGHTS
    }
    rows["planning, ms"] = {"p50": round(float(np.median(took)), 1), "p99": round(float(np.percentile(took, 99)), 1)}
    return rows


def _gain(ours: Sequence[Plan], theirs: Sequence[Plan]) -> dict[str, float]:
    seconds = sum(p.seconds for p in ours) / sum(p.seconds for p in theirs)
    cost = sum(p.cost for p in ours) / sum(p.cost for p in theirs)
    worse = sum(a.seconds > b.seconds * 1.0001 and a.cost > b.cost * 1.0001 for a, b in zip(ours, theirs, strict=True))
    return {"time_%": round(100 * (seconds - 1), 1), "cost_%": round(100 * (cost - 1), 1), "worse_in_both": worse}


def checked(known: Public, seeds: range) -> int:
    """In how many worlds the planner differs from trying everything (a third of the options of each stage, so that it ends)."""
    wrong = 0
    for seed in seeds:
        made = worlds.world(known, seed, market=True)
        stages = tuple(
            replace(stage, options=stage.options[:: max(1, len(stage.options) // 14)]) for stage in made.stages
        )
        small = replace(made, stages=stages)
        ours = [(plan.seconds, plan.cost) for plan in pipeline.front(stages, known.links)]
        tried = baseline.everything(small, known.links)
        same = len(ours) == len(tried) and np.allclose(np.array(ours), np.array(tried), rtol=1e-12)
        wrong += int(not same)
    return wrong


def measure(quick: bool, say: Any) -> dict[str, Any]:
    known = worlds.public(worlds.folder())
    suffix = ".quick" if quick else ""
    seeds = range(FIRST_SEED, FIRST_SEED + (QUICK_WORLDS if quick else WORLDS))
    say(f"{len(known.regions)} regions, {len(known.others)} providers; the market …")
    market = compared(known, seeds, market=True)
    say("one cloud …")
    cloud = compared(known, seeds, market=False)
    say("the market, wide stages …")
    wide = compared(known, seeds, market=True, widths=worlds.WIDE)
    say("against trying everything …")
    count = QUICK_CHECKED if quick else CHECKED
    wrong = checked(known, range(FIRST_SEED, FIRST_SEED + count))
    found = market[f"weight of time {WEIGHT}"]["against home"]
    claims = [
        claim(
            "pipeline.time" + suffix,
            f"less time than all stages at home, public market, weight {WEIGHT}",
            -found["time_%"],
            "%",
            ">= 23",
        ),
        claim("pipeline.cost" + suffix, "less cost in the same plans", -found["cost_%"], "%", ">= 18"),
        claim(
            "pipeline.exact" + suffix,
            f"worlds of {count} in which trying everything finds another front",
            wrong,
            "",
            "<= 0",
        ),
    ]
    return {
        "claims": claims,
        "baselines": {
            "public market, several providers": market,
            "one cloud": cloud,
            "public market, stages of up to 32 cards": wide,
        },
        "seed": [seeds.start, seeds.stop - 1],
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
    return {"id": name, "what": what, "value": round(value, 4), "unit": unit, "target": target, "ok": bool(ok)}


def commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="60 worlds instead of 300; own claim ids")
    parser.add_argument("--json", action="store_true", help="print the result as JSON only")
    given = parser.parse_args(words)
    try:
        result = measure(given.quick, (lambda _: None) if given.json else print)
    except worlds.Missing as missing:
        sys.stderr.write(f"{missing}\n")
        return 2
    if given.json:
        print(json.dumps(result, indent=1, ensure_ascii=False))
    else:
        for name, table in result["baselines"].items():
            print(f"\n{name}")
            for row, figures in table.items():
                print(f"  {row}: {json.dumps(figures)}")
        for row in result["claims"]:
            print(f"{'ok ' if row['ok'] else 'BAD'} {row['id']}: {row['value']} {row['unit']} (target {row['target']})")
    return 0 if all(row["ok"] for row in result["claims"]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
