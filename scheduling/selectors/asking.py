"""From a task as it stands in the database to the question that the rules answer: request, policy, limits.

One place for quotes, the cycle and `explain`, so that all three ask the same question.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from billing.selectors import balances
from portal.accounts.models import Organisation
from portal.kit.money import Money
from scheduling.domain.demand import Pick, Strategy, TaskSpec
from scheduling.domain.placement import in_order
from scheduling.domain.request import Policy, Request, of_task, policy_of
from scheduling.domain.spec_values import duration_s
from scheduling.models import Task
from scheduling.selectors import jobs, predictions

PAST_DUE = "past_due"


@dataclass(frozen=True)
class Question:
    """What is asked of the rules; several requests when kinds of cards are tried in order."""

    requests: tuple[Request, ...]
    policy: Policy
    own: int = 0  # so many of the requests, the first ones, are for the organisation's own nodes only

    @property
    def at_home(self) -> "Question":
        """The question asked of the organisation's own nodes alone."""
        return Question(self.requests[: self.own], self.policy, self.own)

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """Equal for questions that have the same answer."""
        policy = self.policy
        return (self.requests, policy.optimize, policy.pick, policy.prefer, tuple(sorted(policy.weights.items())))

    @cached_property
    def timeless(self) -> tuple[Any, ...]:
        """The key without the moment: equal for the same question asked again later."""
        return (tuple(replace(request, now=0) for request in self.requests), *self.key[1:])


def of_spec(
    spec: TaskSpec,
    *,
    organisation: Organisation,
    project_id: int,
    name: str,
    max_price_micro: int | None,
    now: datetime,
    past_due: bool,
) -> Question:
    """The question of a spec that is only being quoted."""
    request = of_task(
        spec,
        currency=organisation.currency,
        now=int(now.timestamp()),
        max_price_micro=max_price_micro,
        deadline=deadline(spec, begun=now),
        past_due=past_due,
    )
    request = Asked().foreseen(request, spec, organisation_id=organisation.id, project_id=project_id, name=name)
    return Question(tuple(in_order(request, spec.resources.cards_ordered)), policy_of(spec))


class Asked:
    """What a cycle asks of the database once for many tasks: who is past due, what ran before in a project, and whose granted hours pay for a job."""

    def __init__(self) -> None:
        self._past_due: dict[int, bool] = {}
        self._longer: dict[tuple[int, str, str], float] = {}
        self._history: dict[tuple[int, int], predictions.History] = {}

    def renew(self) -> None:
        """Forget what may differ from one cycle to the next."""
        for name in ("givers", "owners"):
            self.__dict__.pop(name, None)

    @cached_property
    def givers(self) -> Mapping[str, Sequence[str]]:
        """Job → the providers whose granted hours pay for it."""
        return balances.givers()

    @cached_property
    def owners(self) -> frozenset[int]:
        """Organisations that have nodes of their own in the market."""
        return frozenset(jobs.owners())

    def past_due(self, task: Task) -> bool:
        """Does the task's organisation owe what is overdue?"""
        tenant = task.job.organisation
        if tenant.id not in self._past_due:
            self._past_due[tenant.id] = is_past_due(tenant)
        return self._past_due[tenant.id]

    def foreseen(
        self, request: Request, spec: TaskSpec, *, organisation_id: int, project_id: int, name: str
    ) -> Request:
        """The request with how long it will take: the work that its spec names, corrected by what the name's earlier runs showed;
        else what past runs in its project tell (work where their SCU is known, and seconds for places without).
        """
        if spec.work_micro is not None:
            named = organisation_id, name, spec.task_type
            if named not in self._longer:
                self._longer[named] = predictions.longer(
                    organisation_id=organisation_id, name=name, task_type=spec.task_type
                )
            return replace(request, work_micro=max(1, round(spec.work_micro * self._longer[named])))
        mine = organisation_id, project_id
        if mine not in self._history:
            self._history[mine] = predictions.history(organisation_id=organisation_id, project_id=project_id)
        found = self._history[mine].run_time(spec, name=name)
        if found.seconds is None:
            return request
        return replace(request, work_micro=found.work_micro, expected_s=min(found.seconds, spec.max_duration_s))


def of_queued(
    task: Task, *, now: datetime, past_due: bool, spec: TaskSpec | None = None, asked: Asked | None = None
) -> Question:
    """The question of a queued task. `spec`: if it was read already; `asked`: what is known from other tasks.

    A quote's chosen point caps the first attempt: nothing is bought dearer than was promised. Later attempts are capped by
    `max_price`, or without one by the point."""
    job, asked = task.job, asked or Asked()
    spec = spec or TaskSpec.from_form(task.spec)
    point = chosen_point(task)
    caps: dict[str, Any] = {}
    if point is not None and (task.fence == 0 or job.max_price_micro is None):
        caps = {"cap_nano": int(point["hour_nano"]), "cap_transfer_micro": int(point["transfer_micro"])}
    request = of_task(
        spec,
        currency=job.currency,
        now=int(now.timestamp()),
        max_price_micro=job.max_price_micro,
        deadline=deadline(spec, begun=job.created_at),
        excluded=tuple(task.excluded_nodes),
        past_due=past_due,
        **caps,
    )
    request = asked.foreseen(
        request, spec, organisation_id=job.organisation_id, project_id=job.project_id, name=job.name
    )
    only = asked.givers.get(job.public_id)
    if only:
        request = replace(request, avoid=(*request.avoid, *_other_providers(only)))
    prefer = str(point["node"]) if point is not None and (task.fence == 0 or spec.placement.pick == Pick.ASK) else ""
    kinds = _after_failure(task, spec, in_order(request, spec.resources.cards_ordered))
    own = _on_own(kinds, job.organisation.slug) if job.organisation_id in asked.owners and not prefer else []
    return Question((*own, *kinds), policy_of(spec, prefer=prefer), own=len(own))


def _on_own(kinds: Sequence[Request], owner: str) -> list[Request]:
    """Owner first: an organisation's own nodes serve its jobs before the market does."""
    return [replace(kind, owner=owner) for kind in kinds]


def _other_providers(only: Sequence[str]) -> list[str]:
    """Every provider that is not among them, as places to avoid."""
    others = Organisation.objects.filter(nodes__isnull=False).exclude(public_id__in=list(only))
    return sorted({f"provider:{slug}" for slug in others.values_list("slug", flat=True)})


def _after_failure(task: Task, spec: TaskSpec, kinds: list[Request]) -> list[Request]:
    """`job_recovery.strategy` of a task that had a place before: the same region first, or every other one first; then anywhere."""
    if task.fence == 0 or spec.resources.strategy == Strategy.NONE:
        return kinds
    region = task.attempts.order_by("-id").values_list("node__zone__region__slug", flat=True).first()
    if region is None:
        return kinds
    if spec.resources.strategy == Strategy.EAGER_NEXT_REGION:
        first = [replace(kind, avoid=(*kind.avoid, region)) for kind in kinds]
    else:
        first = [replace(kind, regions=(region,)) for kind in kinds if not kind.regions or region in kind.regions]
    return [*first, *kinds]


def without_caps(request: Request) -> Request:
    """The request without the caps of a quote."""
    return replace(request, cap_nano=None, cap_transfer_micro=None)


def chosen_point(task: Task) -> Mapping[str, Any] | None:
    """The point of the quote that the job was submitted with."""
    job = task.job
    if job.quote is None or job.point is None:
        return None
    point: Mapping[str, Any] = job.quote.points[job.point]
    return point


def deadline(spec: TaskSpec, *, begun: datetime) -> int | None:
    """The latest end in Unix seconds: a time, or a duration from submission."""
    text = spec.placement.deadline
    if not text:
        return None
    try:
        return int(datetime.fromisoformat(text).timestamp())
    except ValueError:
        return int((begun + timedelta(seconds=duration_s(text))).timestamp())


def is_past_due(organisation: Organisation) -> bool:
    """Does the tenant owe what is overdue? Providers may refuse its work then."""
    spend = balances.may_spend(organisation_id=organisation.id, amount=Money(0, organisation.currency))
    return not spend.allowed and spend.refused_by == PAST_DUE
