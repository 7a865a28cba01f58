"""The usage that the benchmark meters: tenants whose attempts report every minute, for an hour each, through one October. All of it from a seed."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from billing.domain.metering import UsageFact
from portal.accounts.models import Organisation

OCTOBER = datetime(2026, 10, 1, tzinfo=UTC)
GRACE_OVER = datetime(2026, 11, 4, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
PER_ATTEMPT = 60
CARDS = ("A100-80GB", "H100-80GB", "L4", "")
REGIONS = ("east", "west", "north")


def tenants(count: int, mark: str) -> list[Organisation]:
    """New organisations in CNY and UTC."""
    return [
        Organisation.objects.create(
            slug=f"{mark}-{number}", name=f"Tenant {number}", currency="CNY", period_timezone="UTC", created_at=OCTOBER
        )
        for number in range(count)
    ]


def facts(tenant: Organisation, records: int, seed: int) -> Iterator[UsageFact]:
    """`records` facts of one tenant, attempt by attempt, as its nodes would report them."""
    chance = random.Random(seed)
    for attempt in range(-(-records // PER_ATTEMPT)):
        card = chance.choice(CARDS)
        resource = "card" if card else "core"
        count = 1000 * (1 if card else chance.randint(1, 16))
        begun = OCTOBER + timedelta(hours=chance.randrange(31 * 24 - 2), minutes=chance.randrange(60))
        project, region = chance.randrange(4), chance.choice(REGIONS)
        for seq in range(1, min(PER_ATTEMPT, records - attempt * PER_ATTEMPT) + 1):
            start = begun + (seq - 1) * MINUTE
            yield UsageFact(
                attempt_ref=f"att_{tenant.id}_{attempt}",
                fence=1,
                resource=resource,
                seq=seq,
                started_at=start,
                ended_at=start + MINUTE,
                count_milli=count,
                qty_us=count * 60_000,
                sku=f"{resource}:{card or '-'}:fixed",
                price_version_ref=f"prv_{card or 'core'}",
                unit_price_micro=4_000_000 if card else 35_000,
                currency="CNY",
                organisation_id=tenant.id,
                project_ref=f"prj_{tenant.id}_{project}",
                project_name=f"Project {project}",
                department=f"Department {project % 2}",
                provider_ref=f"org_seller_{region}",
                provider_name=f"Seller {region}",
                node_ref=f"nod_{region}_{attempt % 50}",
                job_ref=f"job_{tenant.id}_{attempt}",
                job_name=f"job {attempt}",
                task_name="main",
                user_ref=f"usr_{attempt % 7}",
                region=region,
                zone=f"{region}-1",
                hardware_model=card,
                green_ratio_ppm=500_000,
                pue_milli=1200,
                power_mw=400_000 if card else 8_000,
                power_basis="nameplate",
                grid_g_per_kwh=450,
            )


def rows(count: int, batch: int) -> list[dict[str, str]]:
    """A batch of an HTTP import: rows of usage that a cluster metered itself."""
    return [
        {
            "id": f"{batch}-{number}",
            "resource": "core",
            "started_at": f"{OCTOBER + timedelta(hours=batch, minutes=number % 59):%Y-%m-%dT%H:%M:%SZ}",
            "ended_at": f"{OCTOBER + timedelta(hours=batch, minutes=number % 59 + 1):%Y-%m-%dT%H:%M:%SZ}",
            "count": "4",
            "unit_price": "0.035",
            "user": f"user-{number % 9}",
            "region": "east",
        }
        for number in range(count)
    ]
