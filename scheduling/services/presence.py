"""Tell providers when a node falls silent and when it is back: ``node.disconnected`` and ``node.returned``.

Soft state says who is heard, and missing means unknown. So a silence is first only noted; it is told when it has lasted
:data:`TOLD_AFTER` and at least one other node was heard meanwhile: if nobody is heard the fault is ours.
"""

from datetime import datetime, timedelta

from django.db import transaction

from marketplace.models.nodes import NodeState as Enrolment
from portal.accounts.services import webhooks
from scheduling.models import NodeState
from scheduling.selectors import alive

TOLD_AFTER = timedelta(seconds=60)


def look(*, now: datetime) -> int:
    """Compare who should be heard with who is; returns how many changes were told."""
    rows = list(
        NodeState.objects.filter(node__state__in=[Enrolment.LISTED, Enrolment.DRAINING]).select_related("node__zone")
    )
    ages = alive.ages_ms([row.node.public_id for row in rows], now_ms=int(now.timestamp() * 1000))
    heard = {name for name, age in ages.items() if age == 0}
    if not heard:
        return 0
    return sum(_one(row, row.node.public_id in heard, now) for row in rows)


def _one(row: NodeState, heard: bool, now: datetime) -> int:
    if heard == (row.silent_since is None) and (heard or row.silence_told):
        return 0
    told = not heard and row.silent_since is not None and now - row.silent_since >= TOLD_AFTER
    if not heard and row.silent_since is not None and not told:
        return 0
    with transaction.atomic():
        updated = NodeState.objects.filter(
            node_id=row.node_id, silent_since=row.silent_since, silence_told=row.silence_told
        ).update(silent_since=None if heard else row.silent_since or now, silence_told=told)
        if updated != 1:  # another looked at the same time
            return 0
        if not told and not (heard and row.silence_told):
            return 0
        webhooks.emit(
            organisation_id=row.node.organisation_id,
            type="node.returned" if heard else "node.disconnected",
            subject=row.node.public_id,
            data={
                "node": {"id": row.node.public_id, "name": row.node.name},
                "zone": row.node.zone.slug,
                "silent_since": row.silent_since.isoformat() if row.silent_since else None,
            },
            now=now,
        )
    return 1
