"""The exact pick and the exact front at 51,200, 1,024,000 and 16,384,000 nodes, beside flat scans in the same run.

    .venv/bin/python benchmarks/placement/run.py [--quick] [--json] [--backend auto|numpy|moocore|numba]

See README.md beside this file. `--quick` leaves 16.4 M out.
"""

import argparse
import gc
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.placement import baseline, synthetic  # noqa: E402 the tree is not installed
from benchmarks.placement.synthetic import LARGE, MIDDLE, SMALL, Size  # noqa: E402
from scheduling.domain import capacity_map, frontier, kernels, pareto, search, summaries  # noqa: E402
from scheduling.domain.columns import Table  # noqa: E402
from scheduling.domain.kernels import Kernels  # noqa: E402
from scheduling.domain.request import Paths, Policy, Request  # noqa: E402
from scheduling.domain.search import Problem  # noqa: E402
from scheduling.domain.summaries import Summaries  # noqa: E402
from scheduling.gateways import backends  # noqa: E402
from scheduling.gateways.capacity import Message  # noqa: E402

SEED = 20_261  # constants were chosen on seeds below 10,000
CASES = 300
PICKS, FRONTS, FLATS, BATCH = 200, 40, 6, 1_000


@dataclass
class Market:
    """One market and its questions."""

    table: Table
    tiers: Summaries
    paths: Paths
    seed: int

    def question(self, number: int) -> tuple[Request, Policy]:
        request = synthetic.request(self.seed + number, self.table.regions)
        return request, synthetic.policy(self.seed + 10_000 + number)

    def problem(self, number: int) -> Problem:
        return self.asked(self.question(number))

    def asked(self, question: tuple[Request, Policy]) -> Problem:
        return Problem(*question, self.table, self.paths, tiers=self.tiers)

    def by(self, made: Kernels) -> "Market":
        """The same, searched with other loops."""
        tiers = Summaries(self.table, self.tiers.levels, made)
        tiers.__dict__["cells_of_kind"] = self.tiers.cells_of_kind
        return Market(self.table, tiers, self.paths, self.seed)


def market(size: Size, seed: int, made: Kernels, *, one_price: bool = False) -> Market:
    table = synthetic.market(size, seed=seed, one_price=one_price)
    tiers = summaries.build(table, kernels=made)
    assert len(tiers.cells_of_kind) == len(table.models)
    return Market(table, tiers, synthetic.paths(table.regions, seed=seed + 1), seed + 2)


def timed(what: Callable[[], Any]) -> tuple[float, Any]:
    """(seconds, answer)."""
    begin = time.perf_counter()
    answer = what()
    return time.perf_counter() - begin, answer


def quantiles(seconds: Sequence[float]) -> dict[str, float]:
    ms = np.array(seconds) * 1e3
    return {"p50_ms": round(float(np.percentile(ms, 50)), 3), "p99_ms": round(float(np.percentile(ms, 99)), 3)}


def of_picks(place: Market, made: Kernels, times: int) -> dict[str, Any]:
    """Picks of `times` questions; each begins with making the problem."""
    place = place.by(made)
    for number in range(5):
        search.pick(place.problem(times + number))
    took, looked, cells = [], [], []
    for question in [place.question(number) for number in range(times)]:
        seconds, found = timed(lambda question=question: search.pick(place.asked(question)))
        took.append(seconds)
        looked.append(found.looked_at)
        cells.append(found.opened)
    shown = {
        "cells_opened": int(np.median(cells)),
        "nodes_evaluated": int(np.median(looked)),
        "most_nodes": int(max(looked)),
    }
    return {**quantiles(took), **shown, "n": times}


def of_fronts(place: Market, made: Kernels, times: int) -> dict[str, Any]:
    place = place.by(made)
    frontier.front(place.problem(times))
    took, sizes, looked = [], [], []
    for question in [place.question(number) for number in range(times)]:
        seconds, found = timed(lambda question=question: frontier.front(place.asked(question)))
        took.append(seconds)
        sizes.append(len(found.rows))
        looked.append(found.looked_at)
    shown = {"points": int(np.median(sizes)), "most_points": int(max(sizes)), "nodes_evaluated": int(np.median(looked))}
    return {**quantiles(took), **shown, "n": times}


def equal_to_brute_force(loaded: Sequence[Kernels], cases: int) -> tuple[int, int]:
    """(cases, differences): pick of 5 and front of small markets, by every backend, against plain loops."""
    wrong = done = 0
    for case in range(cases):
        size = Size(3, 2, 8 + case % 40)
        place = market(size, SEED + case, loaded[case % len(loaded)], one_price=case % 5 == 0)
        problem = place.problem(case)
        front, ordered = baseline.brute_force(problem)
        found = frontier.front_by_groups(problem)
        wrong += {tuple(map(float, vector)) for vector in found.vectors} != front or len(found.rows) != len(front)
        wrong += [int(row) for row in search.pick(problem, k=5).rows] != ordered[:5]
        done += 1
    return done, wrong


def of_flat(place: Market, made: Kernels, times: int) -> dict[str, Any]:
    """Flat scans, and whether they choose the same node."""
    numba = baseline.flat_numba()
    if numba is not None:
        numba(place.problem(0))  # compiles
    by_numpy, by_numba, wrong = [], [], 0
    for number in range(times):
        problem = place.by(made).problem(number)
        ours = search.pick(problem)
        seconds, rows = timed(lambda problem=problem: baseline.flat_numpy(problem))
        by_numpy.append(seconds)
        wrong += rows.tolist() != ours.rows.tolist()
        if numba is not None:
            seconds, score = timed(lambda problem=problem: numba(problem))
            by_numba.append(seconds)
            best = float(problem.score(ours.vectors[:1])[0]) if len(ours.rows) else np.inf
            wrong += not (score == best or abs(score - best) <= 1e-9 * max(1.0, abs(best)))
    made_ = {"numpy": quantiles(by_numpy), "different": wrong, "n": times}
    return {**made_, "numba": quantiles(by_numba)} if by_numba else made_


def of_deltas(place: Market, times: int) -> dict[str, Any]:
    """Capacity of random rows moves: how long until cell, zone and region tell it; then equal to a full build?"""
    chance = np.random.default_rng(SEED)
    rows = chance.integers(0, len(place.table), times)
    took = []
    for row in rows.tolist():
        place.table.cores[row] = int(place.table.cores[row]) * 3 // 4
        place.table.queue[row] = int(chance.integers(0, 60))
        begin = time.perf_counter()
        place.tiers.freshen(row)
        took.append(time.perf_counter() - begin)
    whole = summaries.build(place.table)
    same = all(mine.same(theirs) for mine, theirs in zip(place.tiers, whole, strict=True))
    us = np.array(took) * 1e6
    return {
        "p50_us": round(float(np.percentile(us, 50)), 2),
        "mean_us": round(float(us.mean()), 2),
        "equal": same,
        "n": times,
    }


def of_batch(place: Market, jobs: int) -> dict[str, Any]:
    """Jobs placed one after the other: decide, take the capacity, refresh the summaries."""
    placed = 0
    questions = [place.question(50_000 + number) for number in range(jobs)]
    begin = time.perf_counter()
    for question in questions:
        problem = place.asked(question)
        found = search.pick(problem)
        if len(found.rows):
            cards = max((card.count for card in problem.request.cards), default=0)
            request = problem.request
            place.tiers.take(
                int(found.rows[0]),
                cores=request.cores_milli,
                memory=request.memory_mib,
                disk=request.disk_gib,
                cards=cards,
            )
            placed += 1
    seconds = time.perf_counter() - begin
    return {"jobs_per_s": round(jobs / seconds, 1), "placed": placed, "jobs": jobs}


def of_map(seed: int) -> dict[str, Any]:
    """Bytes of the capacity map of 10,000 nodes in 100 zones: all of it, and what changes in 5 s.

    *steady*: every node's job lasts an hour (two changes an hour and node); *busy*: 40 placements or ends a second.
    """
    table = synthetic.market(Size(10, 10, 100), seed=seed)
    chance = np.random.default_rng(seed)
    zones, nodes = capacity_map.figures(capacity_map.zones(table)), capacity_map.nodes(table)
    shown: dict[str, Any] = {"full_bytes": Message(zones, [], nodes, []).size}
    for name, changes in (("steady", len(table) * 2 * 5 // 3_600), ("busy", 40 * 5)):
        for row in chance.integers(0, len(table), changes).tolist():
            table.take(row, cores=500, memory=512, disk=1, cards=0)
        new_zones, new_nodes = capacity_map.figures(capacity_map.zones(table)), capacity_map.nodes(table)
        message = Message(*capacity_map.changed(zones, new_zones), *capacity_map.changed(nodes, new_nodes))
        shown[name] = {
            "changes": changes,
            "bytes": message.size,
            "times_less": round(shown["full_bytes"] / message.size, 1),
        }
        zones, nodes = new_zones, new_nodes
    return shown


def of_flat_fronts(place: Market, times: int) -> dict[str, Any]:
    """Others' skylines over all feasible vectors, and whether ours has the same points."""
    shown: dict[str, Any] = {}
    for name, skyline in baseline.flat_fronts().items():
        took, wrong = [], 0
        for number in range(min(times, 3) if name == "pymoo" else times):
            problem = place.problem(number)
            vectors = baseline.flat_vectors(problem)
            if name == "pymoo":
                vectors = vectors[:5_000]
            seconds, mask = timed(lambda vectors=vectors, skyline=skyline: skyline(vectors))
            took.append(seconds)
            ours = kernels.front(vectors) if name == "pymoo" else None
            theirs = {tuple(v) for v in vectors[mask].tolist()}
            mine = vectors[ours] if ours is not None else frontier.front(problem).vectors
            wrong += theirs != {tuple(v) for v in mine.tolist()}
        shown[f"flat_front_{name}" + ("_5000_rows" if name == "pymoo" else "")] = {
            **quantiles(took),
            "different": wrong,
        }
    return shown


def measured(*, quick: bool, state: Path, backend: str) -> dict[str, Any]:
    loaded = [backends.load(name, state=state) for name in backends.NAMES if backends.installed(name)]
    by_name = {one.name: one for one in loaded}
    best = by_name["numba" if backend == "auto" and "numba" in by_name else "numpy" if backend == "auto" else backend]
    plain = by_name["numpy"]
    shown: dict[str, Any] = {"backend": best.name}
    bases: dict[str, Any] = {}
    shown["brute_force"] = dict(zip(("cases", "different"), equal_to_brute_force(loaded, CASES), strict=True))
    small = market(SMALL, SEED, best)
    shown["front_51200"] = {one.name: of_fronts(small, one, FRONTS) for one in loaded}
    shown["pick_51200"] = {one.name: of_picks(small, one, PICKS) for one in (best, plain)}
    bases |= of_flat_fronts(small, 10)
    thin = frontier.front(small.problem(0)).vectors
    shown["epsilon_1_percent"] = {"points": len(thin), "kept": len(pareto.thinned(thin, 0.01))}
    shown["map_10000"] = of_map(SEED)
    sizes = {SMALL.total: shown["pick_51200"]}
    for size, fronts in ((MIDDLE, 12), (LARGE, 12)):
        if quick and size is LARGE:
            continue
        place = market(size, SEED, best)
        name = f"{size.total}"
        shown[f"pick_{name}"] = {one.name: of_picks(place, one, PICKS) for one in (best, plain)}
        sizes[size.total] = shown[f"pick_{name}"]
        bases[f"flat_pick_{name}"] = of_flat(place, best, FLATS)
        shown[f"front_{name}"] = {best.name: of_fronts(place, best, fronts)}
        shown[f"memory_{name}"] = {
            "columns_mb": round(place.table.nbytes / 1e6, 1),
            "summaries_mb": round(place.tiers.nbytes / 1e6, 1),
        }
        shown[f"delta_{name}"] = of_deltas(place, 1_000)
        shown[f"batch_{name}"] = of_batch(place, BATCH)
        del place
        gc.collect()
        place = market(size, SEED, best, one_price=True)
        shown[f"front_{name}_one_price"] = {best.name: of_fronts(place, best, fronts)}
        del place
        gc.collect()
    totals = np.log(np.array(sorted(sizes)))
    times = np.log([sizes[total][best.name]["p50_ms"] for total in sorted(sizes)])
    shown["growth_exponent"] = round(float(np.polyfit(totals, times, 1)[0]), 3)
    return {
        "claims": claims_of(shown, bases, best.name, MIDDLE.total if quick else LARGE.total, quick),
        "figures": shown,
        "baselines": bases,
        "seed": SEED,
        "commit": commit(),
        "machine": machine(),
    }


def claims_of(shown: dict[str, Any], bases: dict[str, Any], best: str, total: int, quick: bool) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []

    def claim(
        name: str, what: str, value: float, unit: str, most: float | None = None, least: float | None = None
    ) -> None:
        ok = (most is None or value <= most) and (least is None or value >= least)
        target = f"<= {most:g}" if most is not None else f">= {least:g}"
        row = {"id": f"placement.{name}" + (".quick" if quick else ""), "what": what, "value": round(value, 4)}
        made.append({**row, "unit": unit, "target": target, "ok": bool(ok)})

    forced, flat = shown["brute_force"], bases[f"flat_pick_{total}"]
    pick, front = shown[f"pick_{total}"][best], shown["front_51200"]
    plain = shown[f"pick_{total}"]["numpy"]
    claim(
        "exact",
        f"pick of 5 and front differ from brute force, {forced['cases']} cases",
        forced["different"],
        "cases",
        most=0,
    )
    claim("exact.flat", f"flat scans of {total:,} nodes choose another node", flat["different"], "cases", most=0)
    claim("pick.p50", f"pick at {total:,} nodes, {best}, median", pick["p50_ms"], "ms", most=1.0)
    claim("pick.p99", f"pick at {total:,} nodes, {best}, 99th percentile", pick["p99_ms"], "ms", most=5.0)
    claim("pick.numpy.p50", f"pick at {total:,} nodes, NumPy only, median", plain["p50_ms"], "ms", most=1.5)
    claim("pick.numpy.p99", f"pick at {total:,} nodes, NumPy only, 99th percentile", plain["p99_ms"], "ms", most=10.0)
    scale = (MIDDLE.total if quick else LARGE.total) / LARGE.total
    times = flat["numpy"]["p50_ms"] / pick["p50_ms"]
    claim("pick.flat_numpy", "a flat NumPy scan takes so many times as long", times, "×", least=1_000 * scale)
    if "numba" in flat:
        times = flat["numba"]["p50_ms"] / pick["p50_ms"]
        claim("pick.flat_numba", "a flat compiled scan takes so many times as long", times, "×", least=300 * scale)
    if "numba" in front:
        claim(
            "front.51200.numba",
            "front at 51,200 nodes with the extra `fast`, median",
            front["numba"]["p50_ms"],
            "ms",
            most=2.0,
        )
    if "moocore" in front:
        claim(
            "front.51200.moocore",
            "front at 51,200 nodes with moocore, median",
            front["moocore"]["p50_ms"],
            "ms",
            most=25.0,
        )
        wrong = bases["flat_front_moocore"]["different"]
        claim("front.moocore", "front of 51,200 nodes differs from moocore's flat one", wrong, "cases", most=0)
    mixed, one = shown[f"front_{total}"][best], shown[f"front_{total}_one_price"][best]
    claim("front.mixed", f"front at {total:,} nodes, every node different, median", mixed["p50_ms"], "ms", most=100.0)
    claim("front.one_price", f"front at {total:,} nodes, one price per cell, median", one["p50_ms"], "ms", most=30.0)
    memory = sum(shown[f"memory_{total}"].values())
    claim("memory", f"columns, tables and summaries of {total:,} nodes", memory, "MB", most=512.0)
    delta = shown[f"delta_{total}"]
    claim("delta", "a node's change until cell, zone and region tell it, median", delta["p50_us"], "µs", most=20.0)
    claim(
        "delta.equal",
        "summaries differ from a full build after 1,000 changes",
        float(not delta["equal"]),
        "levels",
        most=0,
    )
    times = shown["map_10000"]["steady"]["times_less"]
    claim(
        "map", "the capacity map of 10,000 nodes, jobs of an hour: bytes a second below full sync", times, "×", least=20
    )
    batch = shown[f"batch_{total}"]["jobs_per_s"]
    claim(
        "batch",
        f"jobs placed one after the other at {total:,} nodes, columns and summaries written",
        batch,
        "jobs/s",
        least=1_000,
    )
    return made


def commit() -> str:
    found = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or "unknown"


def machine() -> dict[str, Any]:
    """Where it was measured; `load` is what else ran there."""
    system = f"{platform.system()} {platform.release().split('-')[0]}"
    load = round(os.getloadavg()[0], 1)
    return {
        "cores": os.cpu_count(),
        "system": system,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "load": load,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"up to {MIDDLE.total:,} nodes")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--backend", default="auto", choices=("auto", *backends.NAMES))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="idlewild-bench-") as folder:
        result = measured(quick=options.quick, state=Path(folder), backend=options.backend)
    if options.json:
        print(json.dumps(result, indent=1))
    else:
        for row in result["claims"]:
            print(
                f"{'ok ' if row['ok'] else 'NOT'} {row['what']}: {row['value']} {row['unit']} (target {row['target']})"
            )
        for name, figures in {**result["figures"], **result["baselines"]}.items():
            print(f"    {name}: {figures}")
    return 0 if all(row["ok"] for row in result["claims"]) else 1


if __name__ == "__main__":
    sys.exit(main())
