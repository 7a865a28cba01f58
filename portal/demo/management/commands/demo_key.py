"""`manage.py demo_key`: a fresh API key of the demo tenant, for its main job, as one line of JSON on stdout.

With it comes the region of the first demo node: there the main job's input is said to lie.
"""

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from marketplace.models import Node
from portal import clock
from portal.accounts.models import Membership
from portal.accounts.services import keys

TENANT = "owner@example.org"


class Command(BaseCommand):
    help = "Makes an API key for the demo tenant and prints it (embedded profile only)."

    def handle(self, **options: Any) -> None:
        member = Membership.objects.select_related("organisation").filter(user__email=TENANT).order_by("id").first()
        if member is None:
            raise CommandError(f"there is no {TENANT}: the demo market was not filled")
        made = keys.create(member=member, name="main job of the demo", by="system", now=clock.now())
        first = Node.objects.select_related("zone__region").order_by("id").first()
        self.stdout.write(json.dumps({"key": made.text, "region": first.zone.region.slug if first else ""}))
