"""Words for tests of submitting and placing."""

from datetime import datetime, timedelta
from typing import Any

from marketplace.models import Node
from scheduling.models import Job, NodeState
from scheduling.services import jobs
from tests.cast import THEN, Person

NOW = THEN + timedelta(hours=1)
SPEC: dict[str, Any] = {
    "name": "job",
    "run": "true",
    "resources": {"cpus": 1, "memory": 1, "disk_size": 1},
    "max_price": "1.00",
    "max_duration": "1h",
}


def spec(**changes: Any) -> dict[str, Any]:
    """A small spec; `resources` and `placement` are merged."""
    made = {**SPEC, **changes}
    made["resources"] = {**SPEC["resources"], **changes.get("resources", {})}
    return made


def heard(*nodes: Node, now: datetime = NOW) -> None:
    """These nodes (all if none is named) were heard at `now`."""
    rows = NodeState.objects.filter(node__in=nodes) if nodes else NodeState.objects.all()
    rows.update(last_sync_at=now)


def submit(who: Person, *, now: datetime = NOW, **changes: Any) -> Job:
    """Submit `spec(**changes)`."""
    quote, point = changes.pop("quote", None), changes.pop("point", None)
    return jobs.submit(
        tenant=who.organisation, project=None, spec=spec(**changes), by=who.id, now=now, quote=quote, point=point
    )
