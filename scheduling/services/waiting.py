"""What keeps a queued task from a place: what ends it before it is looked at, what holds it back, and the reason that it is told.

A reason is written, with an event, only when it differs from the one that stands there (P41): an hour of cycles a second is one row.
"""

from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from portal.accounts.models import OrganisationState
from portal.kit.errors import Conflict
from portal.kit.money import Money
from scheduling.domain.columns import HEARD, KEPT, TAKES_WORK
from scheduling.domain.demand import TaskSpec
from scheduling.domain.job import TaskEvent, TaskState
from scheduling.domain.placement import Decision, feasible
from scheduling.domain.reasons import EndReason, Tier, WaitReason
from scheduling.models import Task
from scheduling.selectors import asking, spending
from scheduling.selectors.asking import Question
from scheduling.selectors.snapshot import Market
from scheduling.services import events, live, outcomes


# -- what ends or holds a task before it is looked at ---------------------------------------------------------------------
def over(task: Task, spec: TaskSpec, now: datetime) -> EndReason | None:
    """Why the task can no longer start, if so."""
    limit = asking.deadline(spec, begun=task.job.created_at)
    if limit is not None and now.timestamp() >= limit:
        return EndReason.DEADLINE_PASSED
    if is_spent(task):  # held tasks wait for as long as it takes: they lack money, not capacity
        return EndReason.BUDGET_EXHAUSTED if task.job.budget_on_exceed == "stop" else None
    if _waits_too_long(task, timedelta(seconds=spec.retry_for_s + spec.placement.slack_s), now):
        return EndReason.NO_CAPACITY
    return None


def _waits_too_long(task: Task, limit: timedelta, now: datetime) -> bool:
    """Longer than `retry.duration` without a place, since it was queued or its last attempt ended."""
    if now - task.queued_at <= limit:
        return False
    last = task.attempts.order_by("-id").values_list("ended_at", flat=True).first()
    return last is None or now - last > limit


def is_spent(task: Task) -> bool:
    """Has the job used up its budget? Only asked once something has run."""
    return task.fence > 0 and spending.is_spent(task.job)


def held_back(task: Task, now: datetime) -> dict[str, Any] | None:
    """The reason for which a task is not even looked at now."""
    if task.job.organisation.state != OrganisationState.ACTIVE:
        return task_reason(WaitReason.TENANT_REFUSED)
    if task.not_before is not None and task.not_before > now:
        return task_reason(WaitReason.START_LATER, asked=task.not_before.strftime("%Y-%m-%dT%H:%M:%SZ"))
    if is_spent(task):
        budget = Money(task.job.budget_minor or 0, task.job.currency)
        return task_reason(WaitReason.BUDGET_HELD, asked=budget.text(), unit=budget.currency)
    short = spending.short_of_balance(task.job) if task.fence > 0 else None
    if short is not None:
        needed, there = short
        return task_reason(WaitReason.BALANCE_SHORT, asked=needed.text(), best=there.text(), unit=needed.currency)
    return None


def task_reason(reason: WaitReason, **numbers: Any) -> dict[str, Any]:
    """A reason that lies with the task and not with places."""
    return {"reason": reason.value, "tier": Tier.TASK.value, "tiers": [], **numbers}


def end(task: Task, reason: EndReason, now: datetime) -> bool:
    """End a task that cannot start any more; False if another got there first."""
    stopped = reason is EndReason.BUDGET_EXHAUSTED
    try:
        with transaction.atomic():
            mine = _lock(task)
            if mine is None:
                return False
            event = TaskEvent.CANCELLED if stopped else TaskEvent.FAILED
            outcomes.move(task=mine, event=event, now=now, reason=reason)
            outcomes.settle(job_id=task.job_id, now=now)
    except Conflict:
        return False
    return True


def _lock(task: Task) -> Task | None:
    queued = Task.objects.select_for_update(skip_locked=True, no_key=True).filter(id=task.id, state=TaskState.QUEUED)
    return queued.first()


# -- why it waits ---------------------------------------------------------------------------------------------------------
def reason_of(decision: Decision, question: Question, market: Market) -> dict[str, Any]:
    """The reason of a refused decision: all tiers with their numbers, and the one reason that stands in lists."""
    tiers = [tier.form() for tier in decision.tiers or ()]
    refusals = [{**r, "tier": tier["tier"]} for tier in tiers for r in tier["refused"]]
    if not refusals:
        return {"reason": WaitReason.SUMMARY_EXPIRED.value, "tier": Tier.REGION.value, "tiers": tiers}
    outdated = [r for r in refusals if r["reason"] == WaitReason.QUOTE_OUTDATED]
    most = max(refusals, key=lambda r: (r["nodes"], r["tier"] == Tier.NODE.value))
    main = outdated[0] if outdated and _fits_without_caps(question, market) else most
    numbers = {key: main[key] for key in ("asked", "best", "unit") if key in main}
    return {"reason": main["reason"], "tier": main["tier"], "tiers": tiers, **numbers}


def _fits_without_caps(question: Question, market: Market) -> bool:
    free = [asking.without_caps(request) for request in question.requests]
    return any(len(feasible(request, question.policy, market.table, market.paths)) for request in free)


def is_hopeless(question: Question, market: Market) -> bool:
    """Could no node take it even if it were empty? Then only a change of offers can help."""
    empty = market.table.as_if_empty().copied()
    empty.mark(range(len(empty)), HEARD | TAKES_WORK, True)
    empty.mark(range(len(empty)), KEPT, False)
    return not any(len(feasible(request, question.policy, empty, market.paths)) for request in question.requests)


def keep(task: Task, reason: dict[str, Any], now: datetime) -> bool:
    """Keep the reason; True if it was written because it differs from the one that stood there."""
    if _signature(task.waiting) == _signature(reason):
        return False
    with transaction.atomic():
        mine = _lock(task)
        if mine is None or _signature(mine.waiting) == _signature(reason):
            return False
        Task.objects.filter(id=task.id).update(waiting=reason, waiting_since=now)
        events.write(job_id=task.job_id, type="task.waiting", task=task.public_id, data=reason, now=now)
        job = task.job
        live.changed(f"job.{job.public_id}", f"org.{job.organisation.public_id}.jobs")
    return True


def _signature(waiting: dict[str, Any] | None) -> Any:
    """What makes two reasons the same: the reasons and what was asked, not the numbers of a moment."""
    if waiting is None:
        return None
    refused = [
        (tier["tier"], refusal["reason"], refusal.get("asked", "") if refusal["reason"] not in _MOVING else "")
        for tier in waiting.get("tiers", ())
        for refusal in tier["refused"]
    ]
    return (waiting["reason"], "" if waiting["reason"] in _MOVING else waiting.get("asked", ""), sorted(refused))


_MOVING = frozenset({"balance_short", "offer_closed_now", "offer_ends_early", "deadline_passed"})
"""Reasons whose asked number is a moment that moves with the clock."""
