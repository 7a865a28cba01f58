"""How reliable a node is: of its attempts of the last 30 days, the share that did not end by its own fault.

Counted are attempts that the node had accepted. Faults of tenants and of the platform cost a node nothing; below 20
attempts it is new, and no figure
is shown.
"""

from datetime import datetime, timedelta

from django.db.models import Count, Q

from marketplace.models import Node
from marketplace.services import nodes
from portal.kit.money import PPM
from scheduling.domain.reasons import Fault
from scheduling.models import Attempt

WINDOW = timedelta(days=30)
FEWEST = 20
LOOKED_AT_EVERY = timedelta(minutes=5)
"""Nodes on which something ended within this time get a new figure; more than the period of the task that asks."""


def score(*, now: datetime) -> int:
    """New figures for nodes on which an attempt has ended lately; returns how many."""
    lately = Attempt.objects.filter(ended_at__gte=now - LOOKED_AT_EVERY).values_list("node_id", flat=True).distinct()
    counts = (
        Attempt.objects.filter(node_id__in=list(lately), ended_at__gte=now - WINDOW)
        .exclude(accepted_at=None)
        .values("node_id")
        .annotate(all=Count("id"), faults=Count("id", filter=Q(fault=Fault.PROVIDER)))
    )
    scored = 0
    for row in counts:
        enough = row["all"] >= FEWEST
        ppm = PPM * (row["all"] - row["faults"]) // row["all"] if enough else None
        nodes.set_reliability(node=Node(id=row["node_id"]), ppm=ppm, samples=row["all"])
        scored += 1
    return scored
