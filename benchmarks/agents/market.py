"""Rows for N nodes with L running attempts each, as if they had been enrolled and placed; prints the fleet as JSON.

    python -m benchmarks.agents.market NODES LEASES      (started by `run.py`, against its private product)

Only the past is made up: nodes, tasks, attempts and leases are the product's own rows, checked by its own triggers. From then on everything is the real wire.
"""

import json
import os
import sys
from datetime import timedelta
from decimal import Decimal

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
django.setup()

from django.db import transaction  # noqa: E402 models come after the set-up

from marketplace.models import Node, Zone  # noqa: E402
from marketplace.services import places  # noqa: E402
from portal import clock, ids  # noqa: E402
from portal.accounts.services.sign_up import sign_up  # noqa: E402
from scheduling.models import Attempt, Job, Lease, NodeState, Task  # noqa: E402

CORES_MILLI, MEMORY_MIB, DISK_GIB = 16_000, 65_536, 500
PIECE = 1_000
START_WITHIN = timedelta(minutes=3)
"""The first renewal of each lease must come until then."""


def made(nodes: int, leases: int, lease_class: str) -> dict[str, object]:
    """Sign-in and leases of each node."""
    now, secret = clock.now(), ids.token(20)
    tenant = sign_up(email="tenant@example.org", password=secret, organisation_name="Tenant", currency="CNY", now=now)
    provider = sign_up(
        email="provider@example.org", password=secret, organisation_name="Provider", currency="CNY", now=now
    )
    region = places.put_region(
        slug="bench", name="Bench", latitude=Decimal("31.2"), longitude=Decimal("121.5"), by="system", now=now
    )
    zone = places.put_zone(region=region, slug="a", name="A", by="system", now=now)
    project = tenant.organisation.projects.order_by("id").first()
    fleet = []
    for first in range(0, nodes, PIECE):
        with transaction.atomic():
            rows = machines(
                provider.organisation, zone, range(first, min(first + PIECE, nodes)), secret, lease_class, now
            )
            held = attempts_of(rows, leases, tenant.organisation, project, lease_class, now) if leases else {}
        fleet += [{"node": row.public_id, "leases": held.get(row.id, [])} for row in rows]
    return {"secret": secret, "fleet": fleet}


def machines(owner: object, zone: Zone, numbers: range, secret: str, lease_class: str, now: object) -> list[Node]:
    rows = Node.objects.bulk_create(
        [
            Node(
                organisation=owner, zone=zone, name=f"machine-{n}", state="listed", secret_hash=ids.digest(secret), boot_id="boot", incarnation=1,
                isolation="full", lease_classes=[lease_class], cores_milli=CORES_MILLI, memory_mib=MEMORY_MIB, disk_gib=DISK_GIB, machine_cores=16,
                arch="x86_64", executor="bwrap", cgroups="v2", created_at=now, enrolled_at=now,
            )
            for n in numbers
        ]
    )  # fmt: skip
    NodeState.objects.bulk_create(
        [
            NodeState(
                node=row, total_cores_milli=CORES_MILLI, total_memory_mib=MEMORY_MIB, total_disk_gib=DISK_GIB, total_cards=0,
                free_cores_milli=CORES_MILLI, free_memory_mib=MEMORY_MIB, free_disk_gib=DISK_GIB, free_cards=0,
            )
            for row in rows
        ]
    )  # fmt: skip
    return rows


def attempts_of(
    rows: list[Node], leases: int, tenant: object, project: object, lease_class: str, now: object
) -> dict[int, list[list[object]]]:
    """One job a node, with a task, an attempt and a lease for each of its leases; node id → [attempt, fence]."""
    spec = {"run": "sleep 3600", "resources": {"cpus": 1}}
    jobs = Job.objects.bulk_create(
        [
            Job(
                organisation=tenant, project=project, name="bench", submitted_by="system", spec={"name": "bench", **spec}, state="running", currency="CNY",
                created_at=now,
            )
            for _ in rows
        ]
    )  # fmt: skip
    tasks = Task.objects.bulk_create(
        [
            Task(job=job, name="main", index=n, spec=spec, state="running", fence=1, queued_at=now)
            for job in jobs
            for n in range(leases)
        ]
    )
    owners = [row for row in rows for _ in range(leases)]
    attempts = Attempt.objects.bulk_create(
        [
            Attempt(
                task=task, node=node, number=1, fence=1, state="running", isolation="full", assigned_at=now, accepted_at=now, started_at=now, phase="run",
            )
            for task, node in zip(tasks, owners, strict=True)
        ]
    )  # fmt: skip
    Lease.objects.bulk_create(
        [
            Lease(
                attempt=attempt, node=attempt.node, fence=1, state="active", lease_class=lease_class, action="replace", cores_milli=1_000, memory_mib=1_024,
                disk_gib=1, cards=0, devices=[], prices={"currency": "CNY", "rental": "fixed", "items": {}}, created_at=now, accept_by=now,
                expires_at=now + START_WITHIN,
            )
            for attempt in attempts
        ]
    )  # fmt: skip
    held: dict[int, list[list[object]]] = {}
    for attempt in attempts:
        held.setdefault(attempt.node_id, []).append([attempt.public_id, 1])
    return held


def ended() -> dict[str, int]:
    """Attempts by state: with a healthy platform all still run."""
    counts: dict[str, int] = {}
    for state in Attempt.objects.values_list("state", flat=True):
        counts[state] = counts.get(state, 0) + 1
    return counts


if __name__ == "__main__":
    if sys.argv[1] == "ended":
        print(json.dumps(ended()))
    else:
        print(json.dumps(made(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])))
