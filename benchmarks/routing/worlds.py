"""The networks that the routing benchmark runs on: invented ones of 64 regions, and the measured matrices of two clouds.

A world has links (round trip in microseconds, capacity in Mbit/s) and machines per region. Demand is 55 % of all machines,
dealt unevenly, so that work has to travel; link capacities are scaled until the busiest link of the optimum is at 75 %.
"""

import csv
import gzip
import json
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from scheduling.domain import routing
from scheduling.domain.columns import Floats, Ints

LOAD = 0.55
BUSIEST = 0.75
REGIONS, LINKS = 64, 160
MACHINE_US = 15_000.0


@dataclass(frozen=True)
class World:
    """True state at one moment. `rtt_us`, `mbps` per link; `machines` capacity and `demand` per region, in Mbit/s of
    work that is brought along.
    """

    name: str
    graph: routing.Graph
    strategies: routing.Strategies
    rtt_us: Floats
    mbps: Floats
    machines: Floats
    demand: Floats

    def elements(self, rtt_us: Floats | None = None, mbps: Floats | None = None) -> routing.Elements:
        """Links and machines as elements; with other figures of the links where a planner believes other ones."""
        base = self.rtt_us if rtt_us is None else rtt_us
        band = self.mbps if mbps is None else mbps
        here = np.full(len(self.machines), MACHINE_US)
        return routing.Elements(np.concatenate((base, here)), np.concatenate((band, self.machines)))

    @cached_property
    def broken(self) -> "World":
        """The same with all links of the busiest region ten times slower and at 8 % of their capacity."""
        return self.changed(busiest(self), delay=10.0, capacity=0.08)

    @cached_property
    def pinched(self) -> "World":
        """The same with only the busiest link so."""
        return self.changed(busiest_link(self), delay=10.0, capacity=0.08)

    def changed(self, links: Ints, *, delay: float, capacity: float) -> "World":
        """The world with some links worse (or better)."""
        rtt, mbps = self.rtt_us.copy(), self.mbps.copy()
        rtt[links] *= delay
        mbps[links] *= capacity
        return replace(self, rtt_us=rtt, mbps=mbps)

    @cached_property
    def optimum(self) -> routing.Split:
        """The least total delay, to within the split's own gap."""
        return routing.split(self.elements(), self.strategies, self.demand, steps=2_500)


def invented(seed: int) -> World:
    """64 regions on a plane, each joined to near ones, 160 links."""
    chance = np.random.default_rng(seed)
    where = chance.random((REGIONS, 2)) * 120.0
    far = np.sqrt(((where[:, None] - where[None]) ** 2).sum(axis=2))
    ends = _joined(far)
    rtt_us = (far[ends[:, 0], ends[:, 1]] + 2.0) * 1_000
    return _world(f"invented-{seed}", chance, rtt_us, chance.lognormal(0.0, 0.5, len(ends)), ends, REGIONS)


def _joined(far: Floats) -> Ints:
    """A tree of shortest links (so that all are joined), then the shortest others up to :data:`LINKS`."""
    count = len(far)
    inside, chosen = {0}, set()
    while len(inside) < count:
        _, a, b = min((far[a, b], a, b) for a in inside for b in range(count) if b not in inside)
        chosen.add((min(a, b), max(a, b)))
        inside.add(b)
    pairs = sorted((far[a, b], a, b) for a in range(count) for b in range(a + 1, count))
    for _, one, other in pairs:
        if len(chosen) >= LINKS:
            break
        chosen.add((one, other))
    return np.array(sorted(chosen), dtype=np.int64)


def measured(cloud: str, data: Path, seed: int) -> World:
    """All regions of `cloud` ("aws" or "gcp") that the published matrices cover, joined directly, each with each."""
    rtt = _aws_rtt(data) if cloud == "aws" else {}
    rtt |= _matrix(data / "links/skyplane_latency_2022.csv.gz", cloud, "avg_rtt", largest=False)
    band = _matrix(data / "links/skyplane_throughput_2022-01.csv.gz", cloud, "throughput_sent", largest=True)
    names = sorted({a for a, _ in band} & {b for _, b in band})
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    missing = [pair for pair in pairs if pair not in rtt and pair[::-1] not in rtt]
    if missing:
        raise ValueError(f"{cloud}: no round trip for {missing[:3]} and {len(missing)} pairs in all")
    ends = np.array([(names.index(a), names.index(b)) for a, b in pairs], dtype=np.int64)
    rtt_us = np.array([_both(rtt, a, b) for a, b in pairs]) * 1_000
    mbps = np.array([_both(band, a, b) for a, b in pairs]) / 1e6
    return _world(f"{cloud}-{len(names)}", np.random.default_rng(seed), rtt_us, mbps, ends, len(names))


def _both(table: dict[tuple[str, str], float], a: str, b: str) -> float:
    found = [table[pair] for pair in ((a, b), (b, a)) if pair in table]
    if not found:
        raise ValueError(f"no figure between {a} and {b}")
    return sum(found) / len(found)


def _matrix(path: Path, cloud: str, column: str, *, largest: bool) -> dict[tuple[str, str], float]:
    """(region, region) → the figure in `column` inside one cloud; zones cut off, of several rows the best."""
    made: dict[tuple[str, str], float] = {}
    with gzip.open(path, "rt") as rows:
        for row in csv.DictReader(rows):
            a, b = _region(row["src_region"], cloud), _region(row["dst_region"], cloud)
            if a and b and a != b and row[column]:
                value = float(row[column])
                if value > 0:
                    held = made.get((a, b), value)
                    made[a, b] = max(held, value) if largest else min(held, value)
    return made


def _region(text: str, cloud: str) -> str:
    if not text.startswith(f"{cloud}:"):
        return ""
    name = text.partition(":")[2]
    return name[:-2] if cloud == "gcp" and name[-2] == "-" else name


def _aws_rtt(data: Path) -> dict[tuple[str, str], float]:
    table = json.loads((data / "links/aws_region_rtt_p50_1y.json").read_text())["data"]
    return {(a, b): float(ms) for a, row in table.items() for b, ms in row.items() if a != b}


def _world(name: str, chance: np.random.Generator, rtt_us: Floats, mbps: Floats, ends: Ints, regions: int) -> World:
    graph = routing.Graph(regions, ends, rtt_us)
    strategies = routing.strategies_of(graph)
    machines = chance.lognormal(0.0, 0.5, regions) * 1_000
    demand = chance.lognormal(0.0, 0.8, regions)
    demand *= LOAD * machines.sum() / demand.sum()
    world = World(name, graph, strategies, rtt_us, mbps * 1_000, machines, demand)
    for _ in range(12):
        best = routing.split(world.elements(), strategies, demand, steps=200)
        top = _loads(world, best)[: len(rtt_us)].max()
        if abs(top - BUSIEST) < 0.01:
            break
        world = replace(world, mbps=world.mbps * top / BUSIEST)
    return world


def _loads(world: World, found: routing.Split) -> Floats:
    return routing.loads(world.elements(), world.strategies, found.share * world.demand[world.strategies.source])


def busiest(world: World) -> Ints:
    """All links of the region whose links carry most at the optimum."""
    links = len(world.rtt_us)
    carried = _loads(world, world.optimum)[:links] * world.mbps
    at = np.bincount(world.graph.ends.ravel(), weights=np.repeat(carried, 2), minlength=world.graph.regions)
    return np.flatnonzero((world.graph.ends == int(np.argmax(at))).any(axis=1)).astype(np.int64)


def busiest_link(world: World) -> Ints:
    """The one link that carries most at the optimum."""
    links = len(world.rtt_us)
    carried = _loads(world, world.optimum)[:links] * world.mbps
    return np.array([int(np.argmax(carried))], dtype=np.int64)
