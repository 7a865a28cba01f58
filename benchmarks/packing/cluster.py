"""The published cluster and its tasks (see data/SOURCES.md of the reference folder): 1,213 nodes, 6,212 cards, four task lists."""

import csv
import gzip
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from scheduling.domain.fragmentation import Nodes, Shape, nodes

ROOT = Path(__file__).resolve().parents[2]
TRACES = ("default", "cpu050", "gpuspec10", "multigpu20")
LOAD = 1.3


class Missing(Exception):
    """The reference data is not here."""


def folder() -> Path:
    named = os.environ.get("IDLEWILD_REFERENCE_DIR")
    base = Path(named) if named else ROOT.parent / "shared" / "data"
    if not (base / "workloads/alibaba_gpu_v2023").is_dir():
        raise Missing(f"reference data is not here: {base} (set IDLEWILD_REFERENCE_DIR)")
    return base


def machines(base: Path) -> tuple[Nodes, int]:
    """(the empty nodes, number of cards)."""
    with open(base / "workloads/alibaba_gpu_v2023/openb_node_list_gpu_node.csv", newline="") as file:
        rows = [(int(r["cpu_milli"]), int(r["memory_mib"]), int(r["gpu"]), r["model"]) for r in csv.DictReader(file)]
    return nodes(rows), sum(row[2] for row in rows)


@dataclass(frozen=True)
class Tasks:
    """The kinds of tasks of a list, and for each task its kind."""

    shapes: tuple[Shape, ...]
    kinds: np.ndarray

    @property
    def shares(self) -> list[float]:
        return [float(n) for n in np.bincount(self.kinds, minlength=len(self.shapes))]


@cache
def tasks(base: Path, trace: str) -> Tasks:
    found: dict[Shape, int] = {}
    kinds = []
    with gzip.open(base / f"workloads/alibaba_gpu_v2023/openb_pod_list_{trace}.csv.gz", "rt", newline="") as file:
        for row in csv.DictReader(file):
            cards = int(row["num_gpu"])
            share = int(row["gpu_milli"]) if cards == 1 else 1000
            models = tuple(sorted(filter(None, (row.get("gpu_spec") or "").split("|"))))
            shape = Shape(int(row["cpu_milli"]), int(row["memory_mib"]), cards, share, models)
            kinds.append(found.setdefault(shape, len(found)))
    return Tasks(tuple(found), np.array(kinds))


def arrivals(given: Tasks, cards: int, seed: int) -> np.ndarray:
    """Kinds in order of arrival: the list shuffled, then drawn with replacement until 130 % of the cards are asked for."""
    random = np.random.default_rng(seed)
    asked = np.array([shape.cards * shape.share_milli for shape in given.shapes])[given.kinds] / 1000
    order = random.permutation(len(given.kinds))
    more = random.integers(0, len(given.kinds), size=40_000)
    sequence = np.concatenate((order, more))
    until = int(np.searchsorted(np.cumsum(asked[sequence]), LOAD * cards)) + 1
    return np.asarray(given.kinds[sequence[:until]])


def published(base: Path) -> dict[str, dict[str, float]]:
    """trace → policy → mean of ten seeds of the cards allocated (%) when all had arrived."""
    sums: dict[str, dict[str, list[float]]] = {}
    with gzip.open(base / "reference/fgd/analysis_allo_discrete_4workloads.csv.gz", "rt", newline="") as file:
        for row in csv.DictReader(file):
            trace = row["workload"].removeprefix("openb_pod_list_")
            name = row["sc_policy"].partition("-")[2]
            sums.setdefault(trace, {}).setdefault(name, []).append(float(row["130"]))
    return {trace: {name: sum(v) / len(v) for name, v in rows.items()} for trace, rows in sums.items()}
