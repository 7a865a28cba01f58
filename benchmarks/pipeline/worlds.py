"""The market that the pipeline benchmark plans on: regions, prices, links of public lists; stages and waits are modelled."""

import csv
import gzip
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scheduling.domain.columns import Floats
from scheduling.domain.pipeline import Links, Stage, Supply, options_of

ROOT = Path(__file__).resolve().parents[2]
PRICES = "prices/azure_ondemand_gpu_general_19regions_2026-06-18.csv.gz"
PROVIDERS = "prices/fsdl_cloud_gpus_2025-03-07.csv"
THROUGHPUT = "links/skyplane_throughput_2022-01.csv.gz"
LATENCY = "links/skyplane_latency_2022.csv.gz"
EGRESS = "links/skyplane_egress_cost_2022.csv.gz"
NODES = "workloads/alibaba_gpu_v2023/openb_node_list_gpu_node.csv"
SKU, CARD, OUTLIER_USD = "Standard_NC24ads_A100_v4", "A100 (80 GB)", 0.6
TENANTS_OF_A_REGION = 4
MOST_REGIONS = 2
STAGES = ("prepare", "train", "evaluate")
WIDE, NARROW = (8.0, 16.0, 32.0), (4.0, 8.0, 16.0)
"""Modelled: how many cards a stage can use at once (drawn); the claim is about the narrow ones."""
FREE = (0.2, 1.0)
"""Modelled: share of an offer's cards that is free (uniform)."""
WAIT_S = 1_800.0
"""Modelled: mean wait for an offer (exponential)."""
STREAM_SHARE = 0.25
"""Modelled: a transfer gets a quarter of the measured throughput of 64 connections."""


class Missing(Exception):
    """The reference data is not here."""


@dataclass(frozen=True)
class Public:
    """What the lists say. `ratio`: a region's price ÷ the mean of all; `azure`: dollars per card-hour by region;
    `others`: dollars per card-hour of each provider; `cards`: cards of each node of the node list.
    """

    regions: tuple[str, ...]
    azure: Floats
    ratio: Floats
    others: Floats
    cards: Floats
    links: Links


def folder() -> Path:
    named = os.environ.get("IDLEWILD_REFERENCE_DIR")
    base = Path(named) if named else ROOT.parent / "shared" / "data"
    if not (base / PRICES).exists():
        raise Missing(
            "the reference data is not here: set IDLEWILD_REFERENCE_DIR to the folder that holds prices/ and links/"
        )
    return base


def public(base: Path) -> Public:
    """All regions of one cloud that have a card price, throughput, delay and egress to each other."""
    listed = {r["region"]: float(r["usd_per_hour"]) for r in _rows(base / PRICES) if r["sku"] == SKU}
    band = _pairs(base / THROUGHPUT, "src_region", "dst_region", "throughput_sent", largest=True)
    delay = _pairs(base / LATENCY, "src_region", "dst_region", "avg_rtt", largest=False)
    egress = _pairs(base / EGRESS, "src", "dest", "cost", largest=True)
    names = _complete(tuple(sorted(listed)), (band, delay, egress))
    azure = np.array([listed[name] for name in names])
    return Public(names, azure, azure / azure.mean(), _others(base), _cards(base), _links(names, band, delay, egress))


def _links(
    names: tuple[str, ...],
    band: dict[tuple[str, str], float],
    delay: dict[tuple[str, str], float],
    egress: dict[tuple[str, str], float],
) -> Links:
    count = len(names)
    per_gb, price, first = (np.zeros((count, count)) for _ in range(3))
    for i, a in enumerate(names):
        for j, b in enumerate(names):
            if i != j:
                per_gb[i, j] = 8e9 / (_either(band, a, b) * STREAM_SHARE)
                price[i, j] = _either(egress, a, b)
                first[i, j] = _either(delay, a, b) / 1_000
    return Links(per_gb, price, first)


def _either(table: dict[tuple[str, str], float], a: str, b: str) -> float:
    if (a, b) in table:
        return table[a, b]
    if (b, a) in table:
        return table[b, a]
    raise Missing(f"no figure between {a} and {b}")


def _complete(names: tuple[str, ...], tables: tuple[dict[tuple[str, str], float], ...]) -> tuple[str, ...]:
    """The regions between which every table has a figure: those that miss most of them are left out first."""
    while True:
        missing = {
            a: sum((a, b) not in table and (b, a) not in table for table in tables for b in names if b != a)
            for a in names
        }
        worst = max(missing.values())
        if not worst:
            return names
        last = max(name for name in names if missing[name] == worst)
        names = tuple(name for name in names if name != last)


def _rows(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as text:
        return list(csv.DictReader(text))


def _pairs(path: Path, source: str, target: str, column: str, *, largest: bool) -> dict[tuple[str, str], float]:
    made: dict[tuple[str, str], float] = {}
    for row in _rows(path):
        if row[source].startswith("azure:") and row[target].startswith("azure:") and row[column]:
            ends = row[source].partition(":")[2], row[target].partition(":")[2]
            value = float(row[column])
            held = made.get(ends, value)
            made[ends] = max(held, value) if largest else min(held, value)
    return made


def _others(base: Path) -> Floats:
    """Each provider's least price per card of that kind, the outlier left out."""
    least: dict[str, float] = {}
    for row in _rows(base / PROVIDERS):
        if row["GPU Type"] == CARD and row["Per-GPU"]:
            price = float(row["Per-GPU"])
            if price >= OUTLIER_USD:
                least[row["Cloud"]] = min(price, least.get(row["Cloud"], price))
    return np.array([least[name] for name in sorted(least)])


def _cards(base: Path) -> Floats:
    return np.array([float(row["gpu"]) for row in _rows(base / NODES)])


@dataclass(frozen=True)
class World:
    """One random tenant: its home, its pipeline in the whole market, and the cheapest offer of each region per stage."""

    home: int
    stages: tuple[Stage, ...]
    supplies: tuple[tuple[Supply, ...], ...]


def world(known: Public, seed: int, *, market: bool, widths: tuple[float, ...] = NARROW) -> World:
    """`market`: two providers per region, else the one cloud. Work, data and waits are drawn; all else is the lists'."""
    chance = np.random.default_rng([seed, 23])
    count = len(known.regions)
    home = int(chance.integers(count))
    waits = chance.exponential(WAIT_S, (count, 2))
    cards = np.array([[chance.choice(known.cards, TENANTS_OF_A_REGION).sum() for _ in range(2)] for _ in range(count)])
    cards = np.maximum(1.0, np.floor(cards * chance.uniform(*FREE, (count, 2))))
    chosen = np.array([chance.choice(known.others, 2, replace=False) for _ in range(count)])
    prices = chosen * known.ratio[:, None] if market else known.azure[:, None]
    work = chance.lognormal(np.log([16.0, 96.0, 32.0]), 0.5)  # card-hours
    wanted = chance.choice(widths, 3)
    data_gb = float(chance.lognormal(np.log(80.0), 0.7))
    between = data_gb * chance.uniform(0.1, 0.6, 2)
    supplies = []
    for stage in range(len(STAGES)):
        offers = []
        for region in range(count):
            for provider in range(prices.shape[1]):
                usable = max(1.0, min(wanted[stage], cards[region, provider]))
                seconds = work[stage] * 3_600 / usable
                cost = float(work[stage] * prices[region, provider])
                offers.append(Supply(region, float(waits[region, provider]), float(seconds), cost))
        supplies.append(tuple(offers))
    # the evaluation is an array of independent parts, so it may run in two regions
    options = [options_of(s, most_regions=MOST_REGIONS if i == 2 else 1) for i, s in enumerate(supplies)]
    stages = (
        Stage("prepare", options[0], (), ((home, data_gb),), float(between[0])),
        Stage("train", options[1], (0,), (), float(between[1])),
        Stage("evaluate", options[2], (1,)),
    )
    return World(home, stages, tuple(supplies))
