"""What runs now, as the rules of preemption and of planned starts see it."""

from collections.abc import Collection
from datetime import datetime, timedelta

from django.db.models import Max, Q

from scheduling.domain.attempt import AttemptState
from scheduling.domain.backfill import Running
from scheduling.domain.fairness import Held
from scheduling.domain.preemption import Victim
from scheduling.domain.reasons import WaitReason
from scheduling.models import Attempt, Lease, NodeState, Task

SHORT = (WaitReason.CORES_SHORT, WaitReason.MEMORY_SHORT, WaitReason.DISK_SHORT, WaitReason.CARDS_SHORT)
STOPPABLE = (AttemptState.LEASED, AttemptState.RUNNING)


def victims(*, now: datetime) -> list[Victim]:
    """Live attempts at the interruptible price that nobody has asked to stop; what each would lose counts from its last complete checkpoint, or its start."""
    rows = (
        Attempt.objects.filter(
            state__in=[state.value for state in STOPPABLE],
            lease__capacity_freed=False,
            lease__prices__rental="spot",
            stop_requested_at=None,
            task__job__cancel_requested_at=None,
        )
        .annotate(saved_at=Max("checkpoints__taken_at", filter=Q(checkpoints__complete=True)))
        .select_related("lease", "node")
        .order_by("id")
    )
    found = []
    for attempt in rows:
        began = attempt.started_at or attempt.assigned_at
        lost = now - max(began, attempt.saved_at or began) if attempt.started_at else timedelta(0)
        found.append(
            Victim(
                attempt=attempt.id,
                node=attempt.node.public_id,
                held=_held(attempt.lease),
                age_s=max(0.0, (now - began).total_seconds()),
                lost_s=max(0.0, lost.total_seconds()),
                card_model=attempt.lease.card_model,
            )
        )
    return found


def latest_ends(nodes: Collection[str]) -> list[Running]:
    """Everything that holds capacity of these nodes, with its latest end: start + max_duration."""
    rows = (
        Lease.objects.filter(node__public_id__in=list(nodes), capacity_freed=False)
        .select_related("attempt")
        .values_list(
            "node__public_id", "attempt__started_at", "attempt__assigned_at", "attempt__task__spec__max_duration_s",
            "cores_milli", "memory_mib", "disk_gib", "cards",
        )
    )  # fmt: skip
    return [
        Running(node, Held(cores, memory, disk, cards), int((started or assigned).timestamp()) + int(seconds))
        for node, started, assigned, seconds, cores, memory, disk, cards in rows
    ]


def waiting_for_room(*, most: int) -> list[Task]:
    """Queued tasks that wait because what they need is not free at once, those that wait longest first."""
    rows = Task.objects.filter(state="queued", waiting__reason__in=[reason.value for reason in SHORT])
    return list(
        rows.select_related("job__organisation", "job__project", "job__quote").order_by("queued_at", "id")[:most]
    )


def kept() -> dict[str, list[str]]:
    """Task → nodes whose free capacity is kept for it."""
    found: dict[str, list[str]] = {}
    rows = NodeState.objects.exclude(kept_for="").order_by("node_id")
    for task, node in rows.values_list("kept_for", "node__public_id"):
        found.setdefault(task, []).append(node)
    return found


def _held(lease: Lease) -> Held:
    return Held(lease.cores_milli, lease.memory_mib, lease.disk_gib, lease.cards)
