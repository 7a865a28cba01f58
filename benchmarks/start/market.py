"""The smallest market: a tenant, a provider, a place, and a token for one node that sells at once. Prints JSON.

python -m benchmarks.start.market     (started by `run.py`, against its private product)
"""

import json
import os
from decimal import Decimal

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
django.setup()

from marketplace.services import nodes, places  # noqa: E402 models come after the set-up
from portal import celery, clock, ids  # noqa: E402, F401 the app whose broker the outbox nudges
from portal.accounts.models import Membership  # noqa: E402
from portal.accounts.services import keys, organisations  # noqa: E402
from portal.accounts.services.sign_up import sign_up  # noqa: E402

CREDIT_MINOR = 1_000_000_00


def made() -> dict[str, str]:
    """The tenant's key and the node's token."""
    now, password = clock.now(), ids.token(20)
    tenant = sign_up(email="tenant@example.org", password=password, organisation_name="Tenant", currency="CNY", now=now)
    provider = sign_up(
        email="provider@example.org", password=password, organisation_name="Provider", currency="CNY", now=now
    )
    organisations.verify_provider(organisation=provider.organisation, verified=True, by="system", now=now)
    organisations.set_credit_limit(organisation=tenant.organisation, minor=CREDIT_MINOR, by="system", now=now)
    region = places.put_region(
        slug="bench", name="Bench", latitude=Decimal("31.2"), longitude=Decimal("121.5"), by="system", now=now
    )
    zone = places.put_zone(region=region, slug="a", name="A", by="system", now=now)
    invited = nodes.invite(
        organisation=provider.organisation,
        zone=zone,
        name="bench-1",
        terms={"prices": {"core": "0.10"}},
        by="system",
        now=now,
    )
    member = Membership.objects.get(user=tenant.user, organisation=tenant.organisation)
    return {"key": keys.create(member=member, name="bench", by="system", now=now).text, "token": invited.token}


if __name__ == "__main__":
    print(json.dumps(made()))
