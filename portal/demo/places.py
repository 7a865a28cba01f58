"""The demo's places: real regions with published figures, links between all of them, and other markets' list prices.

The files and their licences are named in `data/NOTICE.md`. What is invented says so: `DEMO`.
"""

import csv
import re
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

from marketplace.models import Region, Zone
from marketplace.services import places, references
from marketplace.services.references import Listing
from scheduling.services import links

DATA = Path(__file__).parent / "data"
BY = "system"
DEMO = "demo figure"
CARBON = "Google region-carbon-info 2024 (Apache-2.0)"
ROUND_TRIPS = "GCP round trips, AT&T Center for Virtualization, SMU (Apache-2.0); price and bandwidth: demo figures"

# region → (slug, name, PUE in thousandths, tier): the halls of the four live nodes. PUEs are demo figures.
HALLS = {
    "asia-southeast1": ("harbour", "Harbour hall (demo)", 1_450, "centre"),
    "asia-south1": ("monsoon", "Monsoon hall (demo)", None, "edge"),
    "us-west1": ("river", "River hall (demo)", 1_120, "centre"),
    "europe-north1": ("granite", "Granite hall (demo)", 1_080, "site"),
}
NEAR_MBPS, FAR_MBPS = 2_000, 1_000
NEAR_MICRO_PER_GB, FAR_MICRO_PER_GB = 40_000, 100_000  # CNY 0.04 within a continent, 0.10 between two
LISTED_ON = date(2025, 3, 7)
LIST_SOURCE = "Full Stack Deep Learning, Cloud GPU table of 2025-03-07"


def fill(*, currency: str, now: datetime) -> dict[str, Zone]:
    """Regions, zones, links and reference prices.

    Again changes nothing. Returns the zones of the live nodes by region.
    """
    continents = _regions(now)
    zones = {
        region: places.put_zone(
            region=Region.objects.get(slug=region), slug=slug, name=name, tier=tier, pue_milli=pue, by=BY, now=now
        )
        for region, (slug, name, pue, tier) in HALLS.items()
    }
    _links(continents, currency, now)
    _reference_prices(now)
    return zones


def _rows(name: str) -> Iterator[dict[str, str]]:
    with (DATA / name).open(newline="", encoding="utf-8") as file:
        yield from csv.DictReader(file)


def _regions(now: datetime) -> dict[str, str]:
    carbon = {row["Google Cloud Region"]: row for row in _rows("google_region_carbon_2024.csv")}
    continents: dict[str, str] = {}
    for row in _rows("regions.csv"):
        figures = carbon[row["slug"]]
        region = places.put_region(
            slug=row["slug"],
            name=row["name"],
            country=row["country"],
            latitude=Decimal(row["latitude"]),
            longitude=Decimal(row["longitude"]),
            green_ratio_ppm=int(Decimal(figures["Google CFE"]) * 1_000_000),
            carbon_g_per_kwh=int(Decimal(figures["Grid carbon intensity (gCO2eq / kWh)"]).to_integral_value()),
            figures_source=CARBON,
            by=BY,
            now=now,
        )
        if row["slug"] not in HALLS:
            places.put_zone(region=region, slug="a", name=f"{row['name']} A", by=BY, now=now)
        continents[row["slug"]] = row["continent"]
    return continents


def _links(continents: dict[str, str], currency: str, now: datetime) -> None:
    for row in _rows("gcp_region_rtt_ms.csv"):
        source, target = row["sending_region"], row["receiving_region"]
        near = continents[source] == continents[target]
        links.configure(
            source=source,
            target=target,
            rtt_us=int(Decimal(row["milliseconds"]) * 1000),
            bandwidth_mbps=NEAR_MBPS if near else FAR_MBPS,
            price_micro_per_gb=NEAR_MICRO_PER_GB if near else FAR_MICRO_PER_GB,
            currency=currency,
            figures_source=ROUND_TRIPS,
            by=BY,
            now=now,
        )


def _reference_prices(now: datetime) -> None:
    markets: dict[str, list[Listing]] = {}
    for row in _rows("fsdl_cloud_gpus_2025-03-07.csv"):
        listing = _listing(row)
        if listing:
            markets.setdefault(row["Cloud"], []).append(listing)
    for market, listings in sorted(markets.items()):
        references.load(
            market=market,
            listings=listings,
            source=LIST_SOURCE,
            licence="MIT",
            listed_on=LISTED_ON,
            by=BY,
            now=now,
        )


def _listing(row: dict[str, str]) -> Listing | None:
    """A row of the list; None where it names no price for the whole instance."""
    price, cards = row["On-demand"].strip(), _whole(row["GPUs"])
    if not price or not cards:
        return None
    model, memory = _card(row["GPU Type"])
    name = " ".join(
        part for part in (row["Name"].strip(), f"{cards} × {row['GPU Type'].strip()}", f"{row['vCPUs']} vCPU") if part
    )
    return Listing(
        name=name[:120],
        price=price,
        currency="USD",
        card_model=model,
        cards=cards,
        card_memory_gib=memory,
        cores=_whole(row["vCPUs"]),
        memory_gib=_whole(row["RAM"]),
        spot_price=row["Spot"].strip(),
    )


def _card(text: str) -> tuple[str, int | None]:
    """``A100 (80 GB)`` → (A100-80GB, 80): the size belongs to the name where a model is sold in several."""
    found = re.fullmatch(r"(.+?)\s*(?:\((\d+)\s*GB\))?", text.strip())
    if found is None:
        return text.strip(), None
    model, memory = found[1].strip().replace(" ", "-"), found[2]
    sized = model in ("A100", "V100")
    return (f"{model}-{memory}GB" if sized and memory else model), int(memory) if memory else None


def _whole(text: str) -> int | None:
    """A whole number, rounded down; None for anything else."""
    try:
        return int(Decimal(text.strip()))
    except ArithmeticError:
        return None
