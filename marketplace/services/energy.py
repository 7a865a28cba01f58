"""Read the hourly carbon of grids from CSV files, and say which grid a region hangs on.

Two forms are understood: one column of hours and one per zone (``hour_utc,DE,FR``, grams per kWh), and the downloads of a
public carbon database with one zone per file (``Datetime (UTC)``, ``Carbon Intensity gCO₂eq/kWh (LCA)``, ``Renewable
Percentage``). Loading a file again replaces its hours, so a new forecast is simply loaded over the old one.
"""

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation

from django.db import transaction
from django.utils.translation import gettext as _

from marketplace.models import EnergyHour, Region
from marketplace.models.energy import MOST_MG
from portal.audit.services import note
from portal.kit.errors import Finding, InvalidInput, NotFound

BATCH = 5_000
WIDE, MOMENT, ZONE = "hour_utc", "Datetime (UTC)", "Zone Id"
CARBON = "Carbon Intensity gCO₂eq/kWh (LCA)"
GREEN = "Renewable Percentage"


@dataclass(frozen=True)
class Hour:
    """One hour of a file."""

    grid_zone: str
    at: datetime
    carbon_mg: int
    green_ppm: int | None = None


def read(lines: Iterable[str], *, zones: frozenset[str] = frozenset()) -> Iterator[Hour]:
    """The hours of a CSV file, of `zones` only if any is named. InvalidInput names the line that makes no sense."""
    rows = csv.DictReader(lines)
    names = rows.fieldnames or []
    if WIDE in names:
        wanted = [name for name in names if name != WIDE and (not zones or name in zones)]
        for number, row in enumerate(rows, start=2):
            for name in wanted:
                if row[name]:
                    yield Hour(name, _moment(row[WIDE], number), _grams(row[name], number))
    elif MOMENT in names and CARBON in names:
        for number, row in enumerate(rows, start=2):
            if row[CARBON] and (not zones or row[ZONE] in zones):
                share = int(Decimal(row[GREEN]) * 10_000) if row.get(GREEN) else None
                yield Hour(row[ZONE], _moment(row[MOMENT], number), _grams(row[CARBON], number), share)
    else:
        wanted_text = _("the first line must name hour_utc and zones, or be that of a carbon database's download")
        raise InvalidInput([Finding("file", "bad_value", wanted_text)])


def _moment(text: str, line: int) -> datetime:
    try:
        found = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError:
        raise InvalidInput(
            [Finding(f"line {line}", "bad_value", _("not a time: %(text)s") % {"text": text[:40]})]
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _grams(text: str, line: int) -> int:
    try:
        milligrams = int(Decimal(text) * 1_000)
    except (InvalidOperation, ValueError, OverflowError):  # no number, or NaN, or endless
        milligrams = -1
    if not 0 <= milligrams <= MOST_MG:
        wrong = _("not grams of carbon per kWh: %(text)s") % {"text": text[:40]}
        raise InvalidInput([Finding(f"line {line}", "out_of_range", wrong)])
    return milligrams


def load(*, hours: Iterable[Hour], source: str, later: timedelta = timedelta(0), by: str, now: datetime) -> int:
    """Store hours, `later` moved (a past year stands in for this one), and answer how many. The same hour again replaces."""
    made = 0
    batch: dict[tuple[str, datetime], EnergyHour] = {}
    with transaction.atomic():
        for hour in hours:
            at = (hour.at + later).replace(minute=0, second=0, microsecond=0)
            batch[hour.grid_zone, at] = EnergyHour(
                grid_zone=hour.grid_zone,
                at=at,
                carbon_mg_per_kwh=hour.carbon_mg,
                green_ppm=hour.green_ppm,
                source=source,
            )
            if len(batch) >= BATCH:
                made += _store(batch)
        made += _store(batch)
        note(actor=by, deed="energy.load", target=source[:100], data={"hours": made}, now=now)
    return made


def _store(batch: dict[tuple[str, datetime], EnergyHour]) -> int:
    rows = list(batch.values())
    batch.clear()
    EnergyHour.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["grid_zone", "at"],
        update_fields=["carbon_mg_per_kwh", "green_ppm", "source"],
    )
    return len(rows)


def hang(*, region: str, grid_zone: str, by: str, now: datetime) -> Region:
    """Say whose hours hold in a region; NotFound for an unknown region."""
    with transaction.atomic():
        row = Region.objects.select_for_update(no_key=True).filter(slug=region).first()
        if row is None:
            raise NotFound(_("There is no region %(name)s.") % {"name": region}, code="region_not_found")
        row.grid_zone = grid_zone
        row.save(update_fields=["grid_zone"])
        note(actor=by, deed="region.grid_zone", target=region, data={"grid_zone": grid_zone}, now=now)
    return row
