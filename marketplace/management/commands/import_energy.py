"""``manage.py import_energy FILE.csv[.gz] --region europe-west3=DE``: load the hourly carbon of grids (docs/green.md)."""

import gzip
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from marketplace.services import energy
from portal import clock
from portal.kit.errors import IdlewildError

BY = "operator"


class Command(BaseCommand):
    help = "Load hourly carbon intensity of grid zones from a CSV file."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", nargs="?", type=Path, help="CSV, plain or .gz")
        parser.add_argument("--zone", action="append", default=[], help="only this grid zone (may be repeated)")
        parser.add_argument(
            "--region", action="append", default=[], metavar="REGION=ZONE", help="this region hangs on that grid zone"
        )
        parser.add_argument("--weeks-later", type=int, default=0, help="move all hours: a past year stands in for this")
        parser.add_argument("--source", default="", help="where the figures come from, with date")

    def handle(self, *_: Any, **given: Any) -> None:
        now = clock.now()
        try:
            if given["file"] is not None:
                self._load(given, now)
            for pair in given["region"]:
                region, equals, zone = pair.partition("=")
                if not equals:
                    raise CommandError(f"{pair}: write REGION=ZONE")
                energy.hang(region=region, grid_zone=zone, by=BY, now=now)
                self.stdout.write(f"{region} hangs on {zone or 'no grid'}")
        except IdlewildError as error:
            raise CommandError(str(error)) from None

    def _load(self, given: dict[str, Any], now: Any) -> None:
        file: Path = given["file"]
        if not file.exists():
            raise CommandError(f"{file} is not there")
        with gzip.open(file, "rt") if file.suffix == ".gz" else file.open() as lines:
            made = energy.load(
                hours=energy.read(lines, zones=frozenset(given["zone"])),
                source=given["source"] or file.name,
                later=timedelta(weeks=given["weeks_later"]),
                by=BY,
                now=now,
            )
        self.stdout.write(f"{made} hours loaded")
