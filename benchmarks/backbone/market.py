"""Four regions with a node each, links between them, a tenant. Prints JSON.

python -m benchmarks.backbone.market     (started by `run.py`, against its private product)
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
from scheduling.services import links  # noqa: E402

CREDIT_MINOR = 1_000_000_00
PRICES = {"east": "0.500", "north": "0.100", "south": "0.160", "west": "0.130"}
"""East holds the data, north is the cheapest, west next."""
RTT_US, MBPS = 40_000, 300


def made() -> dict[str, object]:
    """The tenant's key, and a token per region."""
    now, password = clock.now(), ids.token(20)
    tenant = sign_up(email="tenant@example.org", password=password, organisation_name="Tenant", currency="CNY", now=now)
    provider = sign_up(
        email="provider@example.org", password=password, organisation_name="Provider", currency="CNY", now=now
    )
    organisations.verify_provider(organisation=provider.organisation, verified=True, by="system", now=now)
    organisations.set_credit_limit(organisation=tenant.organisation, minor=CREDIT_MINOR, by="system", now=now)
    tokens = {}
    for number, (name, price) in enumerate(PRICES.items()):
        region = places.put_region(
            slug=name, name=name.title(), latitude=Decimal(10 * number), longitude=Decimal(10), by="system", now=now
        )
        zone = places.put_zone(region=region, slug="a", name="A", by="system", now=now)
        tokens[name] = nodes.invite(
            organisation=provider.organisation,
            zone=zone,
            name=name,
            terms={"prices": {"core": price}},
            by="system",
            now=now,
        ).token
    for a in PRICES:
        for b in PRICES:
            if a != b:
                links.configure(
                    source=a, target=b, rtt_us=RTT_US, bandwidth_mbps=MBPS, price_micro_per_gb=0, currency="CNY",
                    by="system", now=now,
                )  # fmt: skip
    member = Membership.objects.get(user=tenant.user, organisation=tenant.organisation)
    return {"key": keys.create(member=member, name="bench", by="system", now=now).text, "tokens": tokens}


if __name__ == "__main__":
    print(json.dumps(made()))
