"""Measurements of nodes: judged, kept for ever, valid for a while."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol

from django.db.models import Max

from marketplace.domain import fingerprint as rules
from marketplace.models import Fingerprint, Node
from marketplace.models.fingerprints import FingerprintState
from marketplace.models.nodes import NodeState
from portal.audit.services import note


class ReportLike(Protocol):
    """``agent.protocol.FingerprintReport`` fits."""

    suite: str
    short: bool
    stable: bool
    hardware_hash: str
    threads: int
    kernel_library: str
    versions: Any
    metrics: Sequence[rules.MetricLike]


def accept(*, node: Node, report: ReportLike, now: datetime) -> Fingerprint:
    """Judge and keep a report; an unstable or refused one is kept too, and changes nothing else."""
    models = list(node.devices.filter(present=True, virtual=False).values_list("model", flat=True))
    judgement = rules.judge(report.metrics, short=report.short, models=models)
    if judgement.verdict is rules.Verdict.ACCEPTED and not report.short and not report.stable:
        judgement = rules.Judgement(rules.Verdict.UNSTABLE, "the agent calls it unstable")
    metrics = rules.stored_metrics(report.metrics)
    metrics["machine"] = {
        "threads": report.threads,
        "kernel_library": report.kernel_library,
        "versions": dict(report.versions),
        "hardware_hash": report.hardware_hash,
    }
    row = Fingerprint.objects.create(
        node=node,
        suite=report.suite[:20],
        short=report.short,
        state=FingerprintState(judgement.verdict.value),
        reason=judgement.reason[:200],
        metrics=metrics,
        hardware_hash=node.hardware_hash,
        measured_at=now,
        valid_until=now + rules.VALID_FOR,
    )
    note(
        actor=node.public_id,
        deed=f"fingerprint.{judgement.verdict.value}",
        target=row.public_id,
        organisation_id=node.organisation_id,
        data={"node": node.public_id, "reason": judgement.reason},
        now=now,
    )
    return row


def newest(node: Node) -> Fingerprint | None:
    """The last one, whatever became of it."""
    return node.fingerprints.order_by("-measured_at", "-id").first()


def valid(node: Node, now: datetime) -> Fingerprint | None:
    """The one that holds now: accepted, not outlived, of this hardware."""
    return (
        node.fingerprints.filter(state=FingerprintState.ACCEPTED, valid_until__gt=now, hardware_hash=node.hardware_hash)
        .order_by("-measured_at", "-id")
        .first()
    )


def request_due(*, now: datetime) -> int:
    """Nodes whose measurement is seven days old are asked to measure again; returns how many."""
    due = 0
    rows = Node.objects.filter(state__in=[NodeState.LISTED, NodeState.PROBING]).exclude(
        wanted__contains=["fingerprint"]
    )
    for node in rows.annotate(measured=Max("fingerprints__measured_at")):
        if node.measured is None or node.measured > now - rules.MEASURE_AGAIN_AFTER:
            continue
        updated = Node.objects.filter(id=node.id, wanted=node.wanted).update(wanted=[*node.wanted, "fingerprint"])
        due += updated  # 0: somebody else asked meanwhile
    return due
