"""What the green benchmark reads: the hourly carbon of 20 grids, a year of jobs, prices and egress of one cloud."""

import csv
import gzip
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scheduling.domain.columns import Floats
from scheduling.domain.timeshift import Work

ROOT = Path(__file__).resolve().parents[2]
CARBON = "energy/carbon_intensity_hourly_2022_20zones.csv.gz"
PRICES = "prices/azure_ondemand_gpu_general_19regions_2026-06-18.csv.gz"
EGRESS = "links/skyplane_egress_cost_2022.csv.gz"
JOBS = "workloads/gaia/pai-100k.csv.gz"
SKU, SKU_CORES = "Standard_D16s_v5", 16
REGION_OF = {
    "SE-SE3": "swedencentral",
    "NO-NO1": "norwayeast",
    "FR": "francecentral",
    "DE": "germanywestcentral",
    "GB": "uksouth",
    "US-CAL-CISO": "westus",
    "US-MIDA-PJM": "eastus",
    "HK": "eastasia",
    "SG": "southeastasia",
    "JP-TK": "japaneast",
    "KR": "koreacentral",
}
"""Grid zones in which the cloud has a region with a price in our list."""
DATA_GB = 0.02
"""Modelled: gigabytes that a core-hour of work brings along from its home."""
MOST_CORES = 4
"""Larger jobs of the trace are left out, so that no zone's capacity is set by one of them."""
WINTER, SUMMER, STRETCH = 336, 4_704, 672
"""Four weeks of January and four of July; the year's jobs are laid over these eight weeks, so that zones get full."""
HEADROOM = 1.5
"""Capacity of each zone ÷ the mean use of a home: all zones together are two thirds full."""
EGRESS_UNKNOWN = 0.0875
"""US dollars per GB where the list has no figure for a pair: its largest for this cloud inside itself is less."""


class Missing(Exception):
    """The reference data is not here."""


def folder() -> Path:
    named = os.environ.get("IDLEWILD_REFERENCE_DIR")
    base = Path(named) if named else ROOT.parent / "shared" / "data"
    if not (base / CARBON).exists():
        raise Missing(
            "the reference data is not here: set IDLEWILD_REFERENCE_DIR to the folder that holds energy/ and prices/"
        )
    return base


@dataclass(frozen=True)
class Energy:
    """Zones and their carbon [zone, hour] in g/kWh."""

    zones: tuple[str, ...]
    carbon: Floats

    def of(self, names: tuple[str, ...]) -> "Energy":
        return Energy(names, self.carbon[[self.zones.index(name) for name in names]])


def energy(base: Path) -> Energy:
    with gzip.open(base / CARBON, "rt") as text:
        rows = csv.reader(text)
        zones = tuple(next(rows)[1:])
        carbon = np.array([[float(cell) for cell in row[1:]] for row in rows]).T
    return Energy(zones, carbon)


def seasons(whole: Energy) -> Energy:
    """The four weeks of winter, then the four of summer."""
    parts = [whole.carbon[:, start : start + STRETCH] for start in (WINTER, SUMMER)]
    return Energy(whole.zones, np.concatenate(parts, axis=1))


def column(path: Path, name: str) -> Floats:
    with gzip.open(path, "rt") as rows:
        return np.array([float(row[name]) for row in csv.DictReader(rows)])


def jobs(base: Path, *, every: int, seed: int, zones: int, slack: int, hours: int) -> list[Work]:
    """Each `every`-th job of the year's trace, laid over `hours`, its home drawn; its length in whole hours, rounded up."""
    chance = np.random.default_rng([seed, 11])
    made = []
    with gzip.open(base / JOBS, "rt") as text:
        for number, row in enumerate(csv.DictReader(text)):
            if number % every != seed % every:
                continue
            arrival, length = int(float(row["arrival_time"])) % hours, max(1, int(np.ceil(float(row["length"]))))
            if arrival + length + slack < hours and float(row["cpus"]) <= MOST_CORES:
                made.append(Work(arrival, length, float(row["cpus"]), int(chance.integers(zones)), slack))
    return made


def capacity(work: list[Work], zones: int, hours: int) -> Floats:
    """The same in each zone: :data:`HEADROOM` × the mean use of a home, and room for the largest job."""
    mean = sum(one.size * one.hours for one in work) / hours / zones
    return np.full(zones, max(HEADROOM * mean, float(MOST_CORES)))


def prices(base: Path, zones: tuple[str, ...]) -> Floats:
    """US dollars per core-hour."""
    with gzip.open(base / PRICES, "rt") as text:
        listed = {row["region"]: float(row["usd_per_hour"]) for row in csv.DictReader(text) if row["sku"] == SKU}
    return np.array([listed[REGION_OF[zone]] / SKU_CORES for zone in zones])


def moving(base: Path, zones: tuple[str, ...]) -> Floats:
    """US dollars for bringing the data of one core-hour from a home to a zone."""
    with gzip.open(base / EGRESS, "rt") as text:
        listed = {(row["src"], row["dest"]): float(row["cost"]) for row in csv.DictReader(text)}
    ends = [f"azure:{REGION_OF[zone]}" for zone in zones]
    each = [[0.0 if a == b else listed.get((a, b), EGRESS_UNKNOWN) for b in ends] for a in ends]
    return np.array(each) * DATA_GB
