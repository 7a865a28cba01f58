"""Does the routing converge, and does it keep still?

    .venv/bin/python benchmarks/routing/run.py [--quick] [--json]

The rules are the product's (`scheduling.domain.linkstate`, `.routing`); the network is simulated. See README.md.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.routing import baseline, simulation, worlds  # noqa: E402 the tree is not installed
from benchmarks.routing.simulation import OURS, POLICIES, Policy  # noqa: E402
from benchmarks.routing.worlds import World  # noqa: E402
from scheduling.domain import routing  # noqa: E402

SEEDS, QUICK_SEEDS = (201, 202, 203, 204), (201, 202)
FAULT_AT, PERIODS, SETTLED = 5, 45, 20
FLAP_ON = 2
CLOUDS = ("aws", "gcp")
WRONG = Policy("ours, wrong cost model", wrong_model=True)
SYMMETRIC = Policy("symmetric recovery", symmetric=True)


@dataclass(frozen=True)
class Fault:
    """One run with a step fault."""

    periods: int  # until within 5 %; -1 = never
    steady: float
    worst: float
    flips: int


def step_fault(world: World, policy: Policy, seed: int, noise: float = 0.03) -> Fault:
    """All links of the busiest region turn bad and stay so."""
    bad = world.broken
    if policy.wrong_model:
        optima = {
            id(w): baseline.least(w.elements(), w.strategies, w.demand, baseline.bpr_delay, baseline.bpr_marginal)
            for w in (world, bad)
        }
    else:
        optima = {id(world): world.optimum.cost, id(bad): bad.optimum.cost}
    trace = simulation.run(
        world,
        lambda period: bad if period >= FAULT_AT else world,
        policy,
        periods=PERIODS,
        seed=seed,
        noise=noise,
        optima=optima,
    )
    late = trace.excess[SETTLED:]
    after = sum(trace.flips[FAULT_AT:])
    return Fault(simulation.periods_until(trace, FAULT_AT, 0.05), float(np.median(late)), max(late), after)


def flapping(world: World, policy: Policy, seed: int) -> tuple[int, float]:
    """(path changes, mean excess after the first surprise) with the busiest link two periods bad, two good, again and again."""
    bad = world.pinched
    optima = {id(world): world.optimum.cost, id(bad): bad.optimum.cost}
    trace = simulation.run(
        world,
        lambda period: bad if period >= FAULT_AT and (period - FAULT_AT) // FLAP_ON % 2 == 0 else world,
        policy,
        periods=PERIODS,
        seed=seed,
        optima=optima,
    )
    return sum(trace.flips[FAULT_AT:]), float(np.mean(trace.excess[FAULT_AT + 2 * FLAP_ON :]))


def price_rise(world: World) -> tuple[int, float]:
    """(periods until 90 % has moved, the most that moves in one period ÷ all of it) when the dearest region's price rises."""
    demand, strategies = world.demand, world.strategies
    links = len(world.rtt_us)
    before = routing.split(world.elements(), strategies, demand, steps=400).share
    used = routing.loads(world.elements(), strategies, before * demand[strategies.source])[links:] * world.machines
    dear = int(np.argmax(used))
    served = (strategies.crosses == links + dear).any(axis=1)
    extra = np.where(served, 10 * worlds.MACHINE_US, 0.0)
    priced = routing.Strategies(strategies.source, strategies.crosses, strategies.sources, extra)
    wanted = routing.split(world.elements(), priced, demand, start=before, steps=400).share
    whole = _moved(before, wanted, world)
    held, most = before, 0.0
    for period in range(1, 61):
        new = routing.stepped(held, wanted)
        most = max(most, _moved(held, new, world) / whole)
        held = new
        if _moved(before, held, world) >= 0.9 * whole:
            return period, most
    return -1, most


def _moved(one: Any, two: Any, world: World) -> float:
    return float((np.abs(two - one) * world.demand[world.strategies.source]).sum()) / 2


def data_folder() -> Path | None:
    named = os.environ.get("IDLEWILD_REFERENCE_DIR")
    folder = Path(named) if named else ROOT.parent / "shared" / "data"
    return folder if (folder / "links").is_dir() else None


class Claims:
    """The claims of one run; those of a `--quick` run have names of their own."""

    def __init__(self, quick: bool) -> None:
        self.suffix = ".quick" if quick else ""
        self.rows: list[dict[str, Any]] = []

    def add(self, name: str, what: str, value: float, unit: str, target: str) -> None:
        sign, _, limit = target.partition(" ")
        ok = value <= float(limit) if sign == "<=" else value >= float(limit)
        shown = round(value, 4)
        self.rows.append(
            {"id": name + self.suffix, "what": what, "value": shown, "unit": unit, "target": target, "ok": bool(ok)}
        )


def fault_claims(claims: Claims, name: str, what: str, runs: Sequence[Fault]) -> None:
    slowest = max(run.periods if run.periods >= 0 else 999 for run in runs)
    claims.add(
        f"routing.{name}.periods", f"{what}: periods to within 5 % of the optimum, slowest run", slowest, "", "<= 2"
    )
    steady = max(run.steady for run in runs) * 100
    claims.add(f"routing.{name}.steady", f"{what}: steady deviation from the optimum, worst run", steady, "%", "<= 1")


def measure(quick: bool, say: Any) -> dict[str, Any]:
    seeds = QUICK_SEEDS if quick else SEEDS
    claims, tables = Claims(quick), {}
    say("invented networks …")
    made = {seed: worlds.invented(seed) for seed in seeds}
    table: dict[str, list[Fault]] = {}
    for policy in (*POLICIES, WRONG):
        table[policy.name] = [step_fault(made[seed], policy, seed) for seed in seeds]
    table["ours, 10 % noise"] = [step_fault(made[seed], OURS, seed, noise=0.10) for seed in seeds]
    tables["step fault, 64 regions"] = {name: shown(runs) for name, runs in table.items()}
    fault_claims(claims, "fault", "step fault, 64 regions, 5 % of reports lost, 3 % noise", table[OURS.name])
    gaps = [best.gap / best.cost for best in (made[seed].optimum for seed in seeds)]
    claims.add(
        "routing.optimum.gap",
        "proven distance of the reference optimum from the least cost",
        max(gaps) * 100,
        "%",
        "<= 0.25",
    )
    flap_claims(claims, tables, made, seeds, say)
    say("prediction …")
    prediction_claims(claims, tables, seeds, quick)
    moved = [price_rise(made[seed]) for seed in seeds]
    claims.add(
        "routing.price.periods",
        "a price rises: periods until 90 % of the share has moved",
        max(p for p, _ in moved),
        "",
        "<= 12",
    )
    claims.add(
        "routing.price.step",
        "the most that moves in one period, of all that moves",
        max(m for _, m in moved),
        "",
        "<= 0.21",
    )
    matrix_claims(claims, tables, quick, say)
    return {
        "claims": claims.rows,
        "baselines": tables,
        "seed": list(seeds),
        "commit": commit(),
        "machine": {
            "cores": os.cpu_count(),
            "system": platform.platform(terse=True),
            "python": platform.python_version(),
        },
    }


def flap_claims(claims: Claims, tables: dict[str, Any], made: dict[int, World], seeds: Sequence[int], say: Any) -> None:
    say("a flapping link …")
    ours = [flapping(made[seed], OURS, seed) for seed in seeds]
    theirs = [flapping(made[seed], SYMMETRIC, seed) for seed in seeds]
    tables["flapping link"] = {
        name: {"path_changes": [f for f, _ in runs], "mean_excess_%": [round(e * 100, 1) for _, e in runs]}
        for name, runs in ((OURS.name, ours), (SYMMETRIC.name, theirs))
    }
    fewer = sum(f for f, _ in theirs) / max(1, sum(f for f, _ in ours))
    claims.add(
        "routing.flap.fewer", "path changes of symmetric recovery ÷ ours, all seeds together", fewer, "x", ">= 2"
    )
    spent = sum(1 + e for _, e in ours) / sum(1 + e for _, e in theirs)
    claims.add(
        "routing.flap.cost",
        "cost while it flaps, after the first surprise, ÷ that of symmetric recovery",
        spent,
        "x",
        "<= 0.5",
    )


def prediction_claims(claims: Claims, tables: dict[str, Any], seeds: Sequence[int], quick: bool) -> None:
    rows = []
    for seed in seeds:
        series = simulation.loads_of_links(seed, links=40, periods=600 if quick else 1_500)
        rows.append((simulation.foresee(series, ahead=0), simulation.foresee(series, ahead=2)))
    now = float(np.mean([a.used_congested for a, _ in rows]))
    then = float(np.mean([b.used_congested for _, b in rows]))
    needless = float(np.mean([b.avoided_needlessly for _, b in rows])) * 100
    tables["prediction"] = {
        "by the last measurement": {"congested_used_%": round(now * 100, 3)},
        "by the forecast": {"congested_used_%": round(then * 100, 3), "needless_%": round(needless, 3)},
        "needless_by_measurement_%": round(float(np.mean([a.avoided_needlessly for a, _ in rows])) * 100, 3),
    }
    claims.add(
        "routing.prediction.fewer",
        "uses of congested links, fewer than without forecast",
        (1 - then / now) * 100,
        "%",
        ">= 25",
    )
    claims.add("routing.prediction.needless", "link-periods avoided needlessly", needless, "%", "<= 1.6")


def matrix_claims(claims: Claims, tables: dict[str, Any], quick: bool, say: Any) -> None:
    """The same on the measured matrices; where that data is not, this is said and nothing is claimed."""
    data = data_folder()
    if data is None:
        say("the measured matrices are not here (IDLEWILD_REFERENCE_DIR): their rows are left out")
        tables["measured matrices"] = "left out: reference data is not here"
        return
    for cloud in CLOUDS:
        say(f"{cloud} matrix …")
        runs: dict[str, list[Fault]] = {}
        for seed in (301,):
            world = worlds.measured(cloud, data, seed)
            for policy in (*POLICIES, WRONG):
                runs.setdefault(policy.name, []).append(step_fault(world, policy, seed))
            runs.setdefault("ours, 10 % noise", []).append(step_fault(world, OURS, seed, noise=0.10))
        name = f"{world.name} ({len(world.rtt_us)} links)"
        tables[f"step fault, {name}"] = {policy: shown(found) for policy, found in runs.items()}
        fault_claims(claims, cloud, f"step fault on the measured matrix {world.name}", runs[OURS.name])


def shown(runs: Sequence[Fault]) -> dict[str, Any]:
    return {
        "periods_to_5_%": [run.periods if run.periods >= 0 else "never" for run in runs],
        "steady_%": [round(run.steady * 100, 2) for run in runs],
        "worst_late_%": [round(run.worst * 100, 2) for run in runs],
        "path_changes": [run.flips for run in runs],
    }


def commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="two seeds, shorter series; own claim ids")
    parser.add_argument("--json", action="store_true", help="print the result as JSON only")
    given = parser.parse_args(words)
    result = measure(given.quick, (lambda _: None) if given.json else print)
    if given.json:
        print(json.dumps(result, indent=1))
    else:
        for name, table in result["baselines"].items():
            print(f"\n{name}")
            for row, figures in table.items() if isinstance(table, dict) else [("", table)]:
                print(f"  {row}: {json.dumps(figures)}")
        for row in result["claims"]:
            print(f"{'ok ' if row['ok'] else 'BAD'} {row['id']}: {row['value']} {row['unit']} (target {row['target']})")
    return 0 if all(row["ok"] for row in result["claims"]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
