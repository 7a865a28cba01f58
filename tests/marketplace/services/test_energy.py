"""Hours of carbon from files, by grid zone; beyond them the last week repeats."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from marketplace.models import EnergyHour, Region
from marketplace.selectors import energy as seen
from marketplace.services import energy
from portal.kit.errors import InvalidInput, NotFound
from tests.factories.market import a_region

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 3, 10, 12, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)
WIDE = "hour_utc,DE,FR\n2026-03-10T12:00Z,400.5,50\n2026-03-10T13:00Z,300,\n"
DOWNLOAD = (
    "Datetime (UTC),Country,Zone Name,Zone Id,Carbon Intensity gCO₂eq/kWh (direct),"
    "Carbon Intensity gCO₂eq/kWh (LCA),Low Carbon Percentage,Renewable Percentage\n"
    "2026-03-10 12:00:00,Spain,Spain,ES,100.0,120.5,76.0,42.94\n"
)


def load(text: str, **more: object) -> int:
    return energy.load(hours=energy.read(text.splitlines()), source="test", by="test", now=NOW, **more)  # type: ignore[arg-type]


def test_both_forms_are_read_and_the_same_hour_again_replaces() -> None:
    assert load(WIDE) == 3
    assert load(DOWNLOAD) == 1
    spain = EnergyHour.objects.get(grid_zone="ES")
    assert (spain.carbon_mg_per_kwh, spain.green_ppm) == (120_500, 429_400)
    assert load(WIDE.replace("400.5", "380")) == 3
    rows = EnergyHour.objects.filter(grid_zone="DE").order_by("at")
    assert [row.carbon_mg_per_kwh for row in rows] == [380_000, 300_000]


def test_only_the_zones_asked_for(settings: object) -> None:
    found = list(energy.read(WIDE.splitlines(), zones=frozenset({"FR"})))
    assert [(hour.grid_zone, hour.carbon_mg) for hour in found] == [("FR", 50_000)]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a,b\n1,2\n", "file"),
        ("hour_utc,DE\nyesterday,1\n", "line 2"),
        ("hour_utc,DE\n2026-03-10T12:00Z,-1\n", "line 2"),
        ("hour_utc,DE\n2026-03-10T12:00Z,x\n", "line 2"),
        ("hour_utc,DE\n2026-03-10T12:00Z,NaN\n", "line 2"),
        ("hour_utc,DE\n2026-03-10T12:00Z,99999\n", "line 2"),
    ],
)
def test_what_makes_no_sense_is_named_by_its_line(text: str, path: str) -> None:
    with pytest.raises(InvalidInput) as found:
        load(text)
    assert found.value.errors[0].path == path
    assert not EnergyHour.objects.exists()


def test_the_last_week_repeats_beyond_what_is_known() -> None:
    start = NOW.replace(minute=0)
    hours = [energy.Hour("DE", start - number * HOUR, 1_000 * number) for number in range(1, 169)]
    energy.load(hours=[*hours, energy.Hour("DE", start, 7)], source="test", by="test", now=NOW)
    found = seen.ahead(grid_zone="DE", now=NOW, hours=200)
    assert found is not None
    assert (found.known, found.source) == (1, "test")
    assert found.carbon_mg[:3] == (7, 167_000, 166_000)
    assert found.carbon_mg[168] == 7
    assert seen.ahead(grid_zone="DE", now=NOW + timedelta(days=8), hours=3) is None
    assert seen.ahead(grid_zone="", now=NOW, hours=3) is None


def test_the_command_loads_a_file_and_hangs_regions_on_grids(tmp_path: Path) -> None:
    a_region("europe-west3")
    file = tmp_path / "carbon.csv"
    file.write_text(WIDE)
    call_command("import_energy", str(file), "--region", "europe-west3=DE", "--weeks-later", "1")
    assert Region.objects.get(slug="europe-west3").grid_zone == "DE"
    first = EnergyHour.objects.filter(grid_zone="DE").order_by("at").first()
    assert first is not None
    assert (first.at, first.source) == (datetime(2026, 3, 17, 12, tzinfo=UTC), "carbon.csv")


@pytest.mark.parametrize("words", [["nowhere.csv"], ["--region", "europe"], ["--region", "nowhere=DE"]])
def test_the_command_says_what_is_wrong(words: list[str]) -> None:
    with pytest.raises(CommandError):
        call_command("import_energy", *words)


def test_an_unknown_region_hangs_on_nothing() -> None:
    with pytest.raises(NotFound):
        energy.hang(region="nowhere", grid_zone="DE", by="test", now=NOW)
