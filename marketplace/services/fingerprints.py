"""Measurements of nodes: judged, kept for ever, valid for a while."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol

from django.conf import settings
from django.db.models import Max

from marketplace.domain import fingerprint as rules
from marketplace.models import CheckedRun, Fingerprint, Node
from marketplace.models.fingerprints import FingerprintState
from marketplace.models.nodes import NodeState
from marketplace.services import challenges
from portal import ids
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
    runs: Sequence[str]


def accept(*, node: Node, report: ReportLike, now: datetime) -> Fingerprint:
    """Judge and keep a report; an unstable or refused one is kept too, and changes nothing else.

    The runs it names must be this node's own, passed and fresh; each counts once.
    """
    models = list(node.devices.filter(present=True, virtual=False).values_list("model", flat=True))
    runs = challenges.passed(node=node, runs=report.runs, short=report.short, now=now)
    checked, share = challenges.checked(runs), rules.share_of(node.cores_milli)
    judgement = rules.judge(
        report.metrics,
        short=report.short,
        models=models,
        checked=checked,
        share=share,
        demand_check=not settings.IDLEWILD_UNCHECKED_FINGERPRINTS,
    )
    if judgement.verdict is rules.Verdict.ACCEPTED and not report.short and not report.stable:
        judgement = rules.Judgement(rules.Verdict.UNSTABLE, "the agent calls it unstable")
    metrics = rules.stored_metrics(report.metrics, rules.allowed(checked, share))
    metrics["machine"] = {
        "threads": report.threads,
        "kernel_library": report.kernel_library,
        "versions": dict(report.versions),
        "hardware_hash": report.hardware_hash,
    }
    metrics["checked"] = {run.kind: run.measured for run in runs}
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
    CheckedRun.objects.filter(id__in=[run.id for run in runs], used_in=None).update(used_in=row)
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
    """The one that holds now: accepted, not outlived, of this hardware, and later than what made us doubt the node."""
    rows = node.fingerprints.filter(
        state=FingerprintState.ACCEPTED, valid_until__gt=now, hardware_hash=node.hardware_hash
    )
    if node.doubted_at is not None:
        rows = rows.filter(measured_at__gt=node.doubted_at)
    return rows.order_by("-measured_at", "-id").first()


def before(node: Node, row: Fingerprint) -> Fingerprint | None:
    """The accepted one that `row` follows, of the same hardware."""
    rows = node.fingerprints.filter(state=FingerprintState.ACCEPTED, hardware_hash=row.hardware_hash)
    return rows.exclude(id=row.id).order_by("-measured_at", "-id").first()


def rises(node: Node, row: Fingerprint) -> bool:
    """Does an accepted measurement say more than a tenth more than the last one of the same suite?"""
    last = before(node, row)
    if row.state != FingerprintState.ACCEPTED or last is None or last.short != row.short:
        return False
    parts = ("cpu", "card")
    return any(rules.rises(rules.profile_of(last.metrics, p), rules.profile_of(row.metrics, p)) for p in parts)


def request_due(*, now: datetime, since: datetime | None = None) -> int:
    """Ask nodes to measure again: all whose measurement is seven days old, and some at random, unannounced.

    The latter so that a node is met every three days on average (`since` = when this was asked last), for five minutes under
    load. Returns how many were asked.
    """
    due = 0
    rows = Node.objects.filter(state__in=[NodeState.LISTED, NodeState.PROBING]).exclude(
        wanted__contains=["fingerprint"]
    )
    chance = (now - since) / rules.RECHECK_EVERY if since else 0.0
    for node in rows.annotate(measured=Max("fingerprints__measured_at")):
        if node.measured is None:
            continue
        surprised = ids.seed() % 1_000_000 < chance * 1_000_000
        if not surprised and node.measured > now - rules.MEASURE_AGAIN_AFTER:
            continue
        updated = Node.objects.filter(id=node.id, wanted=node.wanted).update(
            wanted=[*node.wanted, "fingerprint"], soak_s=rules.SOAK_S
        )
        due += updated  # 0: somebody else asked meanwhile
    return due
