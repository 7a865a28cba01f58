"""An operator's hand on usage: import what was metered elsewhere, check a FOCUS file, prove the roll-up.

::

    manage.py usage import slurm-october.csv --source slurm-a --organisation moss [--provider sol]
    manage.py usage check focus.csv
    manage.py usage prove
"""

from argparse import ArgumentParser
from collections import Counter
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from billing.domain import focus_check
from billing.services import imports, rollup
from portal import clock
from portal.accounts.models import Organisation
from portal.kit.errors import IdlewildError, InvalidInput

SHOWN = 50


class Command(BaseCommand):
    help = "Imports usage that was metered elsewhere, checks a FOCUS file, proves the hourly roll-up."

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        take = verbs.add_parser("import", help="a CSV or a FOCUS 1.2 file; sent twice it changes nothing")
        take.add_argument("file", type=Path)
        take.add_argument("--source", required=True, help="the name of the meter")
        take.add_argument("--organisation", required=True, help="who is billed: its slug")
        take.add_argument("--provider", default="", help="who is paid: its slug; default: the organisation itself")
        take.add_argument("--by", default="system", help="who does it: usr_…")
        verbs.add_parser("check", help="name every fault of a FOCUS 1.2 file").add_argument("file", type=Path)
        verbs.add_parser("prove", help="roll-up = records, no overlaps; months that are not closed")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self.stdout.write(
                {"import": self.take, "check": self.check_file, "prove": self.prove}[options["verb"]](options)
            )
        except InvalidInput as refused:
            raise CommandError("\n".join(f"{fault.path}: {fault.message}" for fault in refused.errors)) from None
        except (IdlewildError, OSError) as refused:
            raise CommandError(str(refused)) from None

    def take(self, options: dict[str, Any]) -> str:
        made = imports.take_csv(
            organisation=_organisation(options["organisation"]),
            provider=_organisation(options["provider"]) if options["provider"] else None,
            source=options["source"],
            data=options["file"].read_bytes(),
            by=options["by"],
            now=clock.now(),
        )
        return (
            f"{made.public_id}: {made.rows} rows, {made.stored} stored, {made.duplicates} known already, {made.conflicts} in conflict, "
            f"{made.quarantined} quarantined, {made.skipped} skipped"
        )

    def check_file(self, options: dict[str, Any]) -> str:
        problems = focus_check.check(options["file"].read_text(encoding="utf-8"))
        if not problems:
            return "this is a FOCUS 1.2 file without a fault"
        kinds = ", ".join(
            f"{count} × {rule}" for rule, count in Counter(problem.rule for problem in problems).most_common()
        )
        more = [f"… and {len(problems) - SHOWN} more"] if len(problems) > SHOWN else []
        raise CommandError("\n".join([*map(str, problems[:SHOWN]), *more, f"{len(problems)} faults: {kinds}"]))

    def prove(self, options: dict[str, Any]) -> str:
        found = rollup.prove(now=clock.now())
        return "\n".join(found) or "the roll-up says what the records say; no two records overlap"


def _organisation(slug: str) -> Organisation:
    found = Organisation.objects.filter(slug=slug).first()
    if found is None:
        raise CommandError(f"there is no organisation {slug}")
    return found
