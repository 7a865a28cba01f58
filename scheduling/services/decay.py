"""Learns from ended attempts how fast nodes really are. The rule is :mod:`scheduling.domain.learning`.

Each attempt that succeeded is looked at once. Its SCU is that of the fingerprint that held when it began, without decay; it is kept
beside the attempt, also for predicting run times. What nodes are to be counted with stands on their capacity row, so that placement
hears of it like of any other change; changes below one percent are not written.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from django.db import transaction

from marketplace.domain import scu as units
from marketplace.domain.fingerprint import profile_of
from marketplace.models import Device, Fingerprint, Node
from scheduling.domain import learning as rules
from scheduling.domain.demand import TaskSpec
from scheduling.domain.learning import Known
from scheduling.models import Attempt, DecayAttempt, DecaySum, NodeState
from scheduling.selectors import decay as known

MICRO = known.MICRO
LOOKED_BACK = timedelta(days=1)
MOST = 500
LEAST_CHANGE_MICRO = 10_000


def learn(*, now: datetime) -> int:
    """Look at the attempts that succeeded lately; returns how many taught something about a node."""
    rows = (
        Attempt.objects.filter(
            state="succeeded", ended_at__gte=now - LOOKED_BACK, started_at__isnull=False, learned=None
        )
        .select_related("task__job", "node", "lease")
        .order_by("ended_at", "id")[:MOST]
    )
    return sum(_learn_from(row, now) for row in rows)


def _learn_from(row: Attempt, now: datetime) -> bool:
    spec = TaskSpec.from_form(row.task.spec)
    hardware, power = _hardware(row, spec)
    y = None
    if spec.work_micro is not None and power and row.started_at and row.ended_at:
        seconds = (row.ended_at - row.started_at).total_seconds()
        y = rules.error(work_scu_h=spec.work_micro / MICRO, seconds=seconds, scu=power)
    with transaction.atomic():
        _seen, new = DecayAttempt.objects.get_or_create(
            attempt=row,
            defaults={
                "scu_micro": None if not power else round(power * MICRO),
                "error_micro": None if y is None else round(y * MICRO),
                "looked_at": now,
            },
        )
        return new and y is not None and _add(row, spec, hardware, y)


def _add(row: Attempt, spec: TaskSpec, hardware: str, y: float) -> bool:
    job = row.task.job
    subject = known.name_subject(organisation_id=job.organisation_id, name=job.name, task_type=spec.task_type)
    name = _locked("name", subject, hardware)
    of_type, of_node = _locked("hardware", hardware, spec.task_type), _locked("node", row.node.public_id, "")
    names = known.of_name(organisation_id=job.organisation_id, name=job.name, task_type=spec.task_type)
    seen = {part: sums for part, sums in names.items() if sums.count}
    made = rules.learn(y, hardware_type=hardware, known=Known(seen, known.sums(of_type), known.sums(of_node)))
    _write(name, made.name)
    if made.taught:
        _write(of_type, made.hardware)
        _write(of_node, made.node)
        _publish(row.node, hardware, spec.task_type, *rules.terms(made.hardware, made.node))
    return made.taught


def _locked(kind: str, subject: str, part: str) -> DecaySum:
    DecaySum.objects.get_or_create(kind=kind, subject=subject, part=part)
    return DecaySum.objects.select_for_update().get(kind=kind, subject=subject, part=part)


def _write(row: DecaySum, made: units.Sums) -> None:
    row.total_micro, row.count_micro = round(made.total * MICRO), round(made.count * MICRO)
    row.save(update_fields=["total_micro", "count_micro"])


def _publish(node: Node, hardware: str, task_type: str, of_type: float, of_node: float) -> None:
    """On the capacity rows: e on the node's own, H on those of all nodes with that hardware."""
    e, h = round(of_node * MICRO), round(of_type * MICRO)
    state = NodeState.objects.select_for_update().filter(node=node).first()
    if state is not None and abs(state.decay_micro - e) >= LEAST_CHANGE_MICRO:
        NodeState.objects.filter(node=node).update(decay_micro=e)
    model = "" if hardware.startswith(CPU) else hardware
    alike = Node.objects.filter(capacity__isnull=False)
    with_it = (
        {"devices__model": model, "devices__present": True} if model else {"cpu_model": hardware.removeprefix(CPU)}
    )
    alike = alike.filter(**with_it)
    ids = sorted(set(alike.values_list("id", flat=True)))
    for one in NodeState.objects.select_for_update().filter(node_id__in=ids).order_by("node_id"):
        before: Mapping[str, int] = one.hardware_decay.get(model, {})
        if abs(before.get(task_type, 0) - h) < LEAST_CHANGE_MICRO:
            continue
        decays = {**one.hardware_decay, model: {**before, task_type: h}}
        NodeState.objects.filter(node_id=one.node_id).update(hardware_decay=decays)


CPU = "cpu:"


def _hardware(row: Attempt, spec: TaskSpec) -> tuple[str, float | None]:
    """(hardware type, SCU of what the attempt had) by the fingerprint that held when it began."""
    lease = row.lease
    cards = list(Device.objects.filter(node=row.node, local_id__in=lease.devices)) if lease.cards else []
    name = cards[0].model if cards else f"{CPU}{row.node.cpu_model}"
    found = (
        Fingerprint.objects.filter(node=row.node, state="accepted", measured_at__lte=row.started_at)
        .order_by("-measured_at", "-id")
        .first()
    )
    if found is None or any(card.virtual for card in cards):
        return name, None
    if cards:
        one = units.scu(profile_of(found.metrics, "card"), spec.task_type)
        return name, None if one is None else one * len(cards)
    whole = units.scu(profile_of(found.metrics, "cpu"), spec.task_type)
    return name, units.of_cores(whole, lease.cores_milli, row.node.cores_milli)
