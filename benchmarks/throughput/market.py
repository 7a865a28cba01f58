"""The market and the load as rows: nodes with offers, prices, fingerprints and capacity; queues of jobs. Prints JSON.

    python -m benchmarks.throughput.market nodes 10000
    python -m benchmarks.throughput.market submit 15000 250        (so many jobs, so many a second; 0 = at once)

Started by `run.py` against its private product. Rows are written in bulk, as sign-up, enrolment and `jobs.submit` would write them: what
is measured is placement, so the load must be cheap to make. The generator's shape is the one of Kueue's published performance test: 30
queues, each with 350 small jobs (1 core), 100 medium (5) and 50 large (20), mixed in that proportion.
"""

import json
import os
import random
import sys
import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
django.setup()

from django.db import transaction  # noqa: E402 models come after the set-up

from marketplace.domain import fingerprint as rules  # noqa: E402
from marketplace.models import Fingerprint, Inventory, Node, Offer, PriceVersion, Region, Zone  # noqa: E402
from portal import celery, clock, ids, softstate  # noqa: E402, F401 the app whose broker the outbox nudges
from portal.accounts.models import Organisation, Project  # noqa: E402
from portal.accounts.services.sign_up import sign_up  # noqa: E402
from portal.outbox.models import OutboxMessage  # noqa: E402
from portal.outbox.services import put  # noqa: E402
from scheduling.models import Job, NodeState, Task  # noqa: E402
from scheduling.services import specs  # noqa: E402
from tests.factories.hardware import SomeReport  # noqa: E402 what agents say, kept in step with the rules

REGIONS, ZONES_EACH, PROVIDERS, QUEUES = 8, 4, 10, 30
CORES, MEMORY_GIB, DISK_GIB = 32, 128, 2_000
CLASSES = {"small": (350, 1, 1), "medium": (100, 5, 4), "large": (50, 20, 16)}  # jobs in a queue, cores, GiB
CURRENCY = "CNY"
TICK_S = 0.05
STEP = 1_000


def organisation(name: str) -> Organisation:
    now = clock.now()
    return sign_up(
        email=f"{name}@example.org", password=ids.token(20), organisation_name=name, currency=CURRENCY, now=now
    ).organisation


def nodes(count: int, seed: int) -> dict[str, Any]:
    """`count` machines of 32 cores over 8 regions × 4 zones, of 10 providers, each with prices of its own."""
    now, chance = clock.now(), random.Random(seed)
    providers = [organisation(f"provider-{i}") for i in range(PROVIDERS)]
    Organisation.objects.filter(id__in=[one.id for one in providers]).update(provider_verified=True)
    zones = []
    for r in range(REGIONS):
        region = Region.objects.create(
            slug=f"r{r}", name=f"R{r}", latitude="31.2", longitude=str(10 * r), green_ratio_ppm=100_000 * (r + 1)
        )
        zones += [
            Zone.objects.create(region=region, slug=f"z{z}", name=f"Z{z}", pue_milli=1_100, failure_domain=f"r{r}-z{z}")
            for z in range(ZONES_EACH)
        ]
    for start in range(0, count, STEP):
        with transaction.atomic():
            _some_nodes(range(start, min(count, start + STEP)), zones, providers, now, chance)
    for i in range(QUEUES):
        organisation(f"queue-{i}")
    return {"nodes": count}


def _some_nodes(
    numbers: range, zones: list[Zone], providers: list[Organisation], now: Any, chance: random.Random
) -> None:
    made = Node.objects.bulk_create(
        Node(
            organisation=providers[i % len(providers)], zone=zones[i % len(zones)], name=f"n{i}", state="listed", isolation="full",
            executor="bwrap", cgroups="v2", boot_id="boot", incarnation=1, lease_classes=["fast", "standard", "tolerant"],
            cores_milli=CORES * 1_000, memory_mib=MEMORY_GIB * 1_024, disk_gib=DISK_GIB, arch="x86_64", cpu_model="Example 9000",
            machine_cores=CORES, hardware_hash="f" * 64, agent_version="bench", created_at=now, enrolled_at=now,
        )
        for i in numbers
    )  # fmt: skip
    Inventory.objects.bulk_create(Inventory(node=node, runtime={"python": "3.11.2"}, probed_at=now) for node in made)
    Fingerprint.objects.bulk_create(
        Fingerprint(
            node=node, suite="cpu-1", state="accepted", metrics=_metrics(chance), hardware_hash="f" * 64,
            measured_at=now, valid_until=now + timedelta(days=7),
        )
        for node in made
    )  # fmt: skip
    offers = Offer.objects.bulk_create(
        Offer(node=node, state="published", currency=CURRENCY, created_at=now, published_at=now) for node in made
    )
    PriceVersion.objects.bulk_create(
        PriceVersion(
            offer=offer, sku=f"core:-:{rental}", resource="core", rental=rental, unit_price_micro=micro, currency=CURRENCY,
            zone=f"{node.zone.region.slug}/{node.zone.slug}", provider=node.organisation.public_id, valid_from=now, created_by="bench",
        )
        for offer, node in zip(offers, made, strict=True)
        for rental, micro in _prices(chance, int(node.zone.region.slug[1:])).items()
    )  # fmt: skip
    NodeState.objects.bulk_create(
        NodeState(
            node=node, total_cores_milli=node.cores_milli, total_memory_mib=node.memory_mib, total_disk_gib=node.disk_gib, total_cards=0,
            free_cores_milli=node.cores_milli, free_memory_mib=node.memory_mib, free_disk_gib=node.disk_gib, free_cards=0,
        )
        for node in made
    )  # fmt: skip
    # there are no agents: every node counts as heard for two hours
    until = int((now + timedelta(hours=2)).timestamp() * 1000)
    softstate.put_many({f"alive:{node.public_id}": until for node in made}, ttl_ms=7_200_000)


def _prices(chance: random.Random, green: int) -> dict[str, int]:
    """The greener the region the dearer, so that there is something to weigh."""
    fixed = chance.randrange(80_000, 160_000, 500) + 8_000 * green
    return {"fixed": fixed, "spot": fixed * 6 // 10}


def _metrics(chance: random.Random) -> Any:
    """A report as the tests' factories make it, of a machine of some speed."""
    speed = chance.choice((0.8, 1.0, 1.3, 1.6))
    return rules.stored_metrics([replace(metric, value=metric.value * speed) for metric in SomeReport().metrics])


def submit(count: int, rate: int) -> dict[str, Any]:
    """`count` jobs in the proportion of the classes, `rate` a second; what each was, and when it came."""
    kinds = _kinds()
    order = [kind for kind, (many, _, _) in CLASSES.items() for _ in range(many)]
    random.Random(7).shuffle(order)
    tenants = list(Organisation.objects.filter(slug__startswith="queue-").order_by("id"))
    projects = {one.organisation_id: one for one in Project.objects.filter(organisation__in=tenants)}
    made, began = 0, time.monotonic()
    while made < count:
        due = count if not rate else min(count, int((time.monotonic() - began) * rate) + 1)
        if due > made:
            upto = min(due, made + STEP)
            _submit_some(range(made, upto), tenants, projects, order, kinds)
            made = upto
        elif rate:
            time.sleep(TICK_S)
    return {"submitted": made, "seconds": round(time.monotonic() - began, 2)}


def _kinds() -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    tenant = Organisation.objects.get(slug="queue-0")
    kinds = {}
    for kind, (_, cores, memory) in CLASSES.items():
        raw = {
            "name": kind, "run": "true", "max_price": "100", "max_duration": "1h",
            "resources": {"cpus": cores, "memory": memory, "disk_size": 1},
        }  # fmt: skip
        found = specs.read(raw, tenant=tenant, project=None, now=clock.now()).spec
        kinds[kind] = (found.outward(), found.task.form())
    return kinds


def _submit_some(numbers: range, tenants: Any, projects: Any, order: list[str], kinds: Any) -> None:
    now = clock.now()
    with transaction.atomic():
        jobs = Job.objects.bulk_create(
            Job(
                organisation=(tenant := tenants[i % len(tenants)]), project=projects[tenant.id],
                name=order[i // len(tenants) % len(order)], submitted_by="bench", spec=kinds[order[i // len(tenants) % len(order)]][0],
                currency=CURRENCY, max_price_micro=100_000_000, created_at=now,
            )
            for i in numbers
        )  # fmt: skip
        Task.objects.bulk_create(Task(job=job, spec=kinds[job.name][1], queued_at=now) for job in jobs)
        OutboxMessage.objects.bulk_create(
            OutboxMessage(topic="cycle.wanted", key=f"job.{job.public_id}", created_at=now, due_at=now)
            for job in jobs[1:]
        )
        put(topic="cycle.wanted", key=f"job.{jobs[0].public_id}", now=now)


def main(words: list[str]) -> dict[str, Any]:
    if words[0] == "nodes":
        return nodes(int(words[1]), seed=int(words[2]) if len(words) > 2 else 1)
    return submit(int(words[1]), int(words[2]))


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
