"""Jobs and what belongs to them, as somebody sees them. Doors and pages ask here and nowhere else."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from django.db.models import F, Prefetch, Q, QuerySet, Sum
from django.db.models.fields.json import KeyTransform
from django.utils.translation import gettext as _

from marketplace.models import Node
from portal.accounts.models import Organisation
from portal.kit.errors import NotFound
from scheduling.domain.attempt import LIVE as LIVE_ATTEMPT
from scheduling.domain.demand import TaskSpec
from scheduling.domain.fairness import Held
from scheduling.domain.job import TaskState
from scheduling.domain.order import Waiting, order
from scheduling.models import Attempt, Job, JobEvent, Lease, Quote, Task
from scheduling.selectors.snapshot import Market

_LIVE = [state.value for state in LIVE_ATTEMPT]


def for_organisation(
    organisation: Organisation,
    *,
    states: Collection[str] = (),
    project: str = "",
    labels: Collection[tuple[str, str]] = (),
    since: datetime | None = None,
    text: str = "",
) -> QuerySet[Job]:
    """The jobs of an organisation, newest first."""
    rows = _with_names(Job.objects.filter(organisation=organisation))
    if states:
        rows = rows.filter(state__in=list(states))
    if project:
        rows = rows.filter(Q(project__slug=project) | Q(project__public_id=project))
    for name, value in labels:
        rows = rows.filter(labels__contains={name: value})
    if since is not None:
        rows = rows.filter(created_at__gte=since)
    if text:
        rows = rows.filter(Q(name__icontains=text) | Q(public_id=text))
    return rows.order_by("-id")


def everything(*, states: Collection[str] = ()) -> QuerySet[Job]:
    """All jobs, for operators."""
    rows = _with_names(Job.objects.all())
    return (rows.filter(state__in=list(states)) if states else rows).order_by("-id")


def one(organisation: Organisation, public_id: str) -> Job:
    """One job of the organisation; NotFound for a stranger's."""
    found = _with_names(Job.objects.filter(organisation=organisation, public_id=public_id)).first()
    if found is None:
        raise NotFound(_("There is no such job that you can see."), code="job_not_found")
    return found


def any_one(public_id: str) -> Job:
    """Any job, for operators."""
    found = _with_names(Job.objects.filter(public_id=public_id)).first()
    if found is None:
        raise NotFound(_("There is no such job."), code="job_not_found")
    return found


def _with_names(rows: QuerySet[Job]) -> QuerySet[Job]:
    tasks = Prefetch("tasks", Task.objects.order_by("id"))
    live = Attempt.objects.filter(state__in=_LIVE).select_related("node").order_by("-id")
    return rows.select_related("organisation", "project", "quote").prefetch_related(
        tasks, Prefetch("tasks__attempts", live, to_attr="live_attempts")
    )


def tasks(job: Job) -> QuerySet[Task]:
    """Its tasks, newest first."""
    return Task.objects.filter(job=job).order_by("-id")


def attempts(job: Job) -> QuerySet[Attempt]:
    """All its attempts, newest first."""
    return (
        Attempt.objects.filter(task__job=job)
        .select_related("task", "node__zone__region", "node__organisation", "lease", "replaced_by", "decision")
        .order_by("-id")
    )


def live_attempt(job: Job) -> Attempt | None:
    """The attempt that holds a place now."""
    return attempts(job).filter(state__in=_LIVE).first()


def events(job: Job, *, since: int = 0) -> QuerySet[JobEvent]:
    """What happened, newest first; `since`: after that sequence."""
    return JobEvent.objects.filter(job=job, sequence__gt=since).order_by("-id")


def quote(organisation: Organisation, public_id: str) -> Quote:
    """A quote of the organisation; NotFound for a stranger's."""
    found = (
        Quote.objects.select_related("project", "organisation")
        .filter(organisation=organisation, public_id=public_id)
        .first()
    )
    if found is None:
        raise NotFound(_("There is no such quote."), code="quote_not_found")
    return found


def queue(*, most: int = 10_000) -> list[Task]:
    """Queued tasks with all that a decision needs, oldest first."""
    return list(_whole(Task.objects.filter(state=TaskState.QUEUED)).order_by("id")[:most])


def queued(tasks: Collection[int]) -> dict[int, Task]:
    """Those of `tasks` that are still queued, with all that a decision needs, by id."""
    return {task.id: task for task in _whole(Task.objects.filter(id__in=list(tasks), state=TaskState.QUEUED))}


def _whole(rows: QuerySet[Task]) -> QuerySet[Task]:
    return rows.select_related("job__organisation", "job__project", "job__quote")


def line(*, most: int = 50_000) -> list[Waiting]:
    """The queue as far as the order needs it, oldest first: no spec is read but the size of each task."""
    wanted = KeyTransform("resources", "spec")
    rows = (
        Task.objects.filter(state=TaskState.QUEUED)
        .annotate(
            cores=KeyTransform("cores_milli", wanted),
            memory=KeyTransform("memory_mib", wanted),
            disk=KeyTransform("disk_gib", wanted),
            kinds=KeyTransform("cards", wanted),
            nodes=KeyTransform("num_nodes", "spec"),
        )
        .order_by("id")
        .values_list(
            "id", "job__organisation_id", "job__priority", "queued_at", "cores", "memory", "disk", "kinds", "nodes"
        )
    )
    return [
        Waiting(task, organisation, priority, queued_at, Held(cores, memory, disk, _fewest(kinds)) * (nodes or 1))
        for task, organisation, priority, queued_at, cores, memory, disk, kinds, nodes in rows[:most]
    ]


def _fewest(kinds: Collection[dict[str, Any]]) -> int:
    return min((int(card["count"]) for card in kinds), default=0) if kinds else 0


def in_turn(market: Market) -> list[Waiting]:
    """The order in which queued tasks are looked at."""
    waiting = line()
    return order(waiting, holding(), market.capacity, weights({item.organisation for item in waiting}))


def owners() -> set[int]:
    """Organisations that have a listed node."""
    return set(Node.objects.filter(state="listed").values_list("organisation_id", flat=True).distinct())


def weights(organisations_: Collection[int]) -> dict[int, int]:
    """The shares that operators gave to organisations, in thousandths."""
    rows = Organisation.objects.filter(id__in=list(organisations_))
    return dict(rows.values_list("id", "share_weight_milli"))


def needs(spec: TaskSpec) -> Held:
    """What a task takes from its node."""
    wanted = spec.resources
    cards = min((card.count for card in wanted.cards), default=0)
    return Held(wanted.cores_milli, wanted.memory_mib, wanted.disk_gib, cards)


def holding() -> dict[int, Held]:
    """What each organisation's leases hold of others' nodes: its own serve it first and do not count against its share."""
    rows = (
        Lease.objects.filter(capacity_freed=False)
        .exclude(node__organisation_id=F("attempt__task__job__organisation_id"))
        .values("attempt__task__job__organisation_id")
        .annotate(cores=Sum("cores_milli"), memory=Sum("memory_mib"), disk=Sum("disk_gib"), taken=Sum("cards"))
    )
    return {
        row["attempt__task__job__organisation_id"]: Held(row["cores"], row["memory"], row["disk"], row["taken"])
        for row in rows
    }


def counts(*, organisation: Organisation | None = None) -> dict[str, int]:
    """How many jobs are in each state."""
    rows = Job.objects.all() if organisation is None else Job.objects.filter(organisation=organisation)
    found: dict[str, Any] = {}
    for state in rows.values_list("state", flat=True):
        found[state] = found.get(state, 0) + 1
    return found
