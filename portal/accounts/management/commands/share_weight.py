"""`manage.py share_weight ORGANISATION WEIGHT`: what part of scarce capacity an organisation gets, against 1 for everybody else."""

from decimal import Decimal, InvalidOperation
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from portal import clock
from portal.accounts.models import Organisation
from portal.accounts.services import organisations
from portal.kit.errors import InvalidInput


class Command(BaseCommand):
    help = "Sets an organisation's weight in the fair share of scarce capacity (0.001 to 1000; 1 = as everybody)."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("organisation", help="its slug or id")
        parser.add_argument("weight", help="such as 2 or 0.5")

    def handle(self, *, organisation: str, weight: str, **options: Any) -> None:
        found = (
            Organisation.objects.filter(slug=organisation).first()
            or Organisation.objects.filter(public_id=organisation).first()
        )
        if found is None:
            raise CommandError(f"there is no organisation {organisation}: name its slug or its id (org_…)")
        try:
            milli = int(Decimal(weight) * 1_000)
            row = organisations.set_share_weight(organisation=found, milli=milli, by="operator", now=clock.now())
        except (InvalidOperation, ValueError, OverflowError):
            raise CommandError(f"{weight} is not a weight: write a number such as 2 or 0.5") from None
        except InvalidInput as problem:
            raise CommandError(str(problem)) from None
        self.stdout.write(f"{row.slug} weighs {Decimal(row.share_weight_milli) / 1_000} now")
