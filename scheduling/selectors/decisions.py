"""Stored placement decisions, and deciding again on what they stored."""

from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from portal.accounts.models import Organisation
from portal.kit.errors import NotFound
from portal.kit.money import micro_text
from scheduling.domain import placement
from scheduling.models import Job, PlacementDecision


@dataclass(frozen=True)
class Replay:
    """What deciding again gave: the same node? the same inputs as were digested?"""

    decision: PlacementDecision
    node: str | None
    same: bool
    untouched: bool

    def wire(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "decision": self.decision.public_id,
            "chosen": self.decision.choice["node"],
            "again": self.node,
            "same": self.same,
            "digest": self.decision.digest,
            "untouched": self.untouched,
        }


def of_job(job: Job) -> QuerySet[PlacementDecision]:
    """The decisions of a job's tasks, newest first."""
    return PlacementDecision.objects.filter(task__job=job).select_related("task", "attempt").order_by("-id")


def of_organisation(organisation: Organisation, public_id: str) -> PlacementDecision:
    """One decision about a job of the organisation; NotFound otherwise."""
    rows = PlacementDecision.objects.select_related("task__job", "attempt")
    found = rows.filter(task__job__organisation=organisation, public_id=public_id).first()
    if found is None:
        raise NotFound(_("There is no such decision that you can see."), code="decision_not_found")
    return found


def any_one(public_id: str) -> PlacementDecision:
    """Any decision, for operators."""
    found = PlacementDecision.objects.select_related("task__job", "attempt").filter(public_id=public_id).first()
    if found is None:
        raise NotFound(_("There is no such decision."), code="decision_not_found")
    return found


def replay(decision: PlacementDecision) -> Replay:
    """Decide again on the stored inputs."""
    node = placement.replay(decision.inputs).node
    return Replay(decision, node, node == decision.choice["node"], placement.digest(decision.inputs) == decision.digest)


def shown(decision: PlacementDecision) -> dict[str, Any]:
    """A decision's JSON form."""
    return {
        "id": decision.public_id,
        "task": decision.task.public_id,
        "attempt": decision.attempt.public_id if decision.attempt else None,
        "decided": decision.decided_at,
        "versions": decision.versions,
        "digest": decision.digest,
        "choice": decision.choice,
        "front": decision.front,
        "front_only": decision.front["size"] if len(decision.alternatives) < 2 else None,
        "alternatives": decision.alternatives,
        "seen": decision.seen,
        "tiers": decision.refused,
        "transfer": {
            "lines": decision.transfer["lines"],
            "cost": {"amount": micro_text(decision.transfer["micro"]), "currency": decision.choice["currency"]},
        },
    }
