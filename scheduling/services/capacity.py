"""Free capacity of nodes: opened, freed, and compared with what is really promised.

The cycle takes capacity with a guarded ``UPDATE … SET free = free - x WHERE free >= x`` and then inserts the lease,
in one transaction; a trigger on the
lease refuses what would not fit, whatever the row says (migration 0002). Everything here sets ``free`` to *total −
promised*, under the row's lock.
"""

from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Sum

from marketplace.models import Node
from portal import softstate
from portal.audit.services import note
from portal.outbox.services import put
from scheduling.models import Lease, NodeState
from scheduling.services import live

DRIFT = "inventory_drift"
DRIFT_TTL_MS = 10 * 60 * 1000
MEASURES = ("cores_milli", "memory_mib", "disk_gib", "cards")


def open_node(*, node: Node, now: datetime) -> NodeState:
    """The capacity row of a node as its hardware is: made when it is listed, brought up to date when it changes."""
    totals = {
        "cores_milli": node.cores_milli,
        "memory_mib": node.memory_mib,
        "disk_gib": node.disk_gib,
        "cards": node.devices.filter(present=True).count(),
    }
    takes_work = node.state == "listed"
    with transaction.atomic():
        row, made = NodeState.objects.get_or_create(
            node=node,
            defaults={
                **{f"total_{name}": value for name, value in totals.items()},
                **{f"free_{name}": value for name, value in totals.items()},
                "open": takes_work,
                "last_sync_at": now,
            },
        )
        if not made:
            row = NodeState.objects.select_for_update(no_key=True).get(node=node)
            if _totals(row) != totals or row.open != takes_work:
                promised = booked(node.id)
                NodeState.objects.filter(node=node).update(
                    open=takes_work,
                    **{f"total_{name}": value for name, value in totals.items()},
                    **{f"free_{name}": max(0, value - promised[name]) for name, value in totals.items()},
                )
                row.refresh_from_db()
        if takes_work:
            put(topic="cycle.wanted", key=f"node.{node.public_id}.{row.version}", now=now)
        live.changed(f"node.{node.public_id}", f"org.{node.organisation.public_id}.nodes")
    return row


def close_node(*, node: Node, now: datetime) -> None:
    """No new work for this node (draining, retired); what runs goes on."""
    with transaction.atomic():
        NodeState.objects.filter(node=node, open=True).update(open=False)
        live.changed(f"node.{node.public_id}", f"org.{node.organisation.public_id}.nodes")


def free(*, lease: Lease, now: datetime) -> bool:
    """Give back what a lease held, once; False if it was given back already."""
    if Lease.objects.filter(id=lease.id, capacity_freed=False).update(capacity_freed=True) != 1:
        return False  # another got there first
    row = NodeState.objects.select_for_update(no_key=True).get(node_id=lease.node_id)
    _refit(row)
    put(topic="cycle.wanted", key=f"freed.{lease.public_id}", now=now)
    return True


def reconcile(*, now: datetime) -> int:
    """Compare what each node has left with what is promised of it, and mend the row; returns how many nodes differed.

    The number is published as `inventory_drift`; each repair is an audit event. A second look finds 0.
    """
    differing = 0
    for node_id in list(NodeState.objects.order_by("node_id").values_list("node_id", flat=True)):
        with transaction.atomic():
            differing += _reconcile_one(node_id, now)
    softstate.put(DRIFT, differing, ttl_ms=DRIFT_TTL_MS)
    return differing


def drift() -> int | None:
    """Nodes that differed at the last comparison; None = not known."""
    known: int | None = softstate.get(DRIFT)
    return known


def booked(node_id: int) -> dict[str, int]:
    """What is promised of a node by leases that hold capacity."""
    sums = Lease.objects.filter(node_id=node_id, capacity_freed=False).aggregate(
        **{name: Sum(name, default=0) for name in MEASURES}
    )
    return {name: int(sums[name]) for name in MEASURES}


def _reconcile_one(node_id: int, now: datetime) -> int:
    row = NodeState.objects.select_for_update(of=("self",), no_key=True).select_related("node").get(node_id=node_id)
    was = {name: getattr(row, f"free_{name}") for name in MEASURES}
    right = _refit(row)
    if right == was:
        return 0
    note(
        actor="system",
        deed="capacity.mend",
        target=row.node.public_id,
        organisation_id=row.node.organisation_id,
        data={"was": was, "is": right},
        now=now,
    )
    put(topic="cycle.wanted", key=f"mended.{row.node.public_id}.{row.version + 1}", now=now)
    return 1


def _refit(row: NodeState) -> dict[str, int]:
    """Set what is free to total − promised; the caller has locked the row."""
    promised = booked(row.node_id)
    right = {name: max(0, value - promised[name]) for name, value in _totals(row).items()}
    values: dict[str, Any] = {f"free_{name}": value for name, value in right.items()}
    if any(getattr(row, name) != value for name, value in values.items()):
        NodeState.objects.filter(node_id=row.node_id).update(**values)
    return right


def _totals(row: NodeState) -> dict[str, int]:
    return {name: getattr(row, f"total_{name}") for name in MEASURES}
