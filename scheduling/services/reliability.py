"""The reliability of nodes, and what follows when one fails in use. Formula and rule: :mod:`scheduling.domain.reliability`.

Counted are attempts that the node had accepted. Faults of tenants and of the platform cost a node nothing. A listed node whose last
three attempts failed by its own fault is put in doubt: no new work until it has passed self-test and measurement again.
"""

from datetime import datetime, timedelta

from marketplace.models import Node
from marketplace.services import nodes
from scheduling.domain import reliability as rules
from scheduling.domain.reasons import N_, Fault
from scheduling.domain.reliability import Ending
from scheduling.models import Attempt

DOUBT = N_("Three attempts in a row or more ended by the node's own fault.")
LOOKED_AT_EVERY = timedelta(minutes=5)
"""Nodes on which something ended within this time get a new figure; more than the period of the task that asks."""


def score(*, now: datetime) -> int:
    """New figures for nodes on which an attempt has ended lately; returns how many."""
    lately = Attempt.objects.filter(ended_at__gte=now - LOOKED_AT_EVERY).values_list("node_id", flat=True).distinct()
    endings: dict[int, list[Ending]] = {}
    rows = Attempt.objects.filter(node_id__in=list(lately), ended_at__gte=now - rules.WINDOW).exclude(accepted_at=None)
    for node_id, at, fault, state in rows.values_list("node_id", "ended_at", "fault", "state"):
        if at is not None:
            endings.setdefault(node_id, []).append(Ending(at, fault == Fault.PROVIDER, state == "succeeded"))
    for node in Node.objects.filter(id__in=list(endings)):
        ppm, samples = rules.score(endings[node.id], now)
        nodes.set_reliability(node=node, ppm=ppm, samples=samples)
        _doubt(node, endings[node.id], now)
    return len(endings)


def _doubt(node: Node, endings: list[Ending], now: datetime) -> None:
    fresh = [one for one in endings if node.doubted_at is None or one.at > node.doubted_at]
    if rules.doubtful(fresh, now):
        nodes.doubt(node=node, reason=DOUBT, now=now)
