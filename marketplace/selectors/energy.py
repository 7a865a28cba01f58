"""The carbon of the hours to come, where a node stands.

Known hours count as they are; beyond them the last known week repeats: the same hour of the same weekday is the plainest
forecast. A region without hours of the last week has no series; its published yearly mean may be known.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from marketplace.models import EnergyHour, Zone

HOUR = timedelta(hours=1)
WEEK_H = 168


@dataclass(frozen=True)
class Ahead:
    """Milligrams per kWh from the hour that runs now; `measured`: how many of these hours are known and not repeated."""

    grid_zone: str
    carbon_mg: tuple[int, ...]
    known: int
    source: str


def ahead(*, grid_zone: str, now: datetime, hours: int) -> Ahead | None:
    """The next `hours` hours of a grid zone; None when the last week has a gap that nothing can fill."""
    if not grid_zone:
        return None
    start = now.replace(minute=0, second=0, microsecond=0)
    rows = EnergyHour.objects.filter(
        grid_zone=grid_zone, at__gte=start - WEEK_H * HOUR, at__lt=start + hours * HOUR
    ).order_by("at")
    found = {row.at: row for row in rows}
    made: list[int] = []
    known = 0
    for number in range(hours):
        at = start + number * HOUR
        row = found.get(at)
        known += row is not None
        value = row.carbon_mg_per_kwh if row is not None else _week_before(found, made, number, at)
        if value is None:
            return None
        made.append(value)
    source = max((row.source for row in found.values()), default="")
    return Ahead(grid_zone, tuple(made), known, source)


def _week_before(found: dict[datetime, EnergyHour], made: list[int], number: int, at: datetime) -> int | None:
    if number >= WEEK_H:
        return made[number - WEEK_H]
    row = found.get(at - WEEK_H * HOUR)
    return None if row is None else row.carbon_mg_per_kwh


@dataclass(frozen=True)
class Supply:
    """What is known of the electricity of a zone: whose hours hold, the yearly mean, the zone's PUE."""

    grid_zone: str
    yearly_mg: int | None
    pue_milli: int | None


def supplies() -> dict[tuple[str, str], Supply]:
    """(region, zone) → its electricity."""
    rows = Zone.objects.values_list(
        "region__slug", "slug", "region__grid_zone", "region__carbon_g_per_kwh", "pue_milli"
    )
    return {
        (region, zone): Supply(grid, None if grams is None else grams * 1_000, pue)
        for region, zone, grid, grams, pue in rows
    }
