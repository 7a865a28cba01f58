"""What an ended attempt means for its task and its job.

A failover retry is a row: the task goes back to ``queued`` with `not_before` and the nodes it must not go to, and the
next cycle places it. Order of locks
for everybody who writes here: Task, Attempt, Lease, NodeState, Job (last, because all tasks of a job share it).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from billing.services import holds
from portal.kit.errors import Conflict
from portal.outbox.services import put
from scheduling.domain.demand import TaskSpec
from scheduling.domain.job import JOB_OPEN, JobState, TaskEvent, TaskState, before, derive
from scheduling.domain.reasons import ENDED, EndReason
from scheduling.domain.retry import History, Policy, RetryDecision, decide
from scheduling.models import Attempt, Job, JobEvent, Task
from scheduling.services import events, gangs, live

FOR_MONEY = frozenset({EndReason.BUDGET_EXHAUSTED, EndReason.BALANCE_EXHAUSTED})
"""Ended because nobody would have paid for more; `on_exceed: hold` makes the task wait instead."""


@dataclass(frozen=True)
class Event:
    """An event to write once the job's row may be locked."""

    type: str
    attempt: str = ""
    task: str = ""
    data: dict[str, Any] = field(default_factory=dict)


def move(*, task: Task, event: TaskEvent, now: datetime, **values: Any) -> None:
    """One step of the task machine as a guarded UPDATE; Conflict if another got there first."""
    ended = {"ended_at": now} if event in {TaskEvent.DONE, TaskEvent.FAILED, TaskEvent.CANCELLED} else {}
    state = _after(event)
    updated = Task.objects.filter(id=task.id, state__in=before(event)).update(
        state=state, waiting=None, waiting_since=None, **ended, **values
    )
    if updated != 1:  # another got there first
        raise Conflict(f"task {task.public_id} is {task.state} already", code="task_moved")
    task.state = state


def _after(event: TaskEvent) -> TaskState:
    return {
        TaskEvent.READY: TaskState.QUEUED,
        TaskEvent.PLACED: TaskState.PLACED,
        TaskEvent.STARTED: TaskState.RUNNING,
        TaskEvent.AGAIN: TaskState.QUEUED,
        TaskEvent.DONE: TaskState.DONE,
        TaskEvent.FAILED: TaskState.FAILED,
        TaskEvent.CANCELLED: TaskState.CANCELLED,
        TaskEvent.RETRIED: TaskState.QUEUED,
    }[event]


def after_attempt(*, task: Task, attempt: Attempt, reason: EndReason, exit_code: int | None, now: datetime) -> None:
    """The task goes on (done, failed, cancelled, or queued for another attempt) because `attempt` ended for
    `reason`.
    """
    if gangs.size(task) > 1:
        decides = gangs.after_member(attempt=attempt, reason=reason, exit_code=exit_code, now=now)
        if decides is None:
            return
        attempt, reason, exit_code = decides
    ending = ENDED[reason]
    if reason is EndReason.FINISHED:
        move(task=task, event=TaskEvent.DONE, now=now, reason=reason)
        return
    if reason in FOR_MONEY and task.job.budget_on_exceed == "hold":
        move(task=task, event=TaskEvent.AGAIN, now=now)  # it waits until the budget is raised, or the balance topped up
        return
    if ending.event is None:
        stopped = ending.attempt_state == "cancelled"
        move(task=task, event=TaskEvent.CANCELLED if stopped else TaskEvent.FAILED, now=now, reason=reason)
        return
    if Job.objects.filter(id=task.job_id).exclude(cancel_requested_at=None).exists():
        move(task=task, event=TaskEvent.CANCELLED, now=now, reason=EndReason.CANCELLED_BY_TENANT)
        return
    decision = decide(
        reason=reason,
        exit_code=exit_code,
        node=attempt.node.public_id,
        policy=Policy.of(TaskSpec.from_form(task.spec)),
        history=History(task.failures, task.first_failed_at, tuple(task.excluded_nodes)),
        now=now,
    )
    memory = _memory(decision)
    if decision.again:
        move(task=task, event=TaskEvent.AGAIN, now=now, not_before=decision.not_before, **memory)
        put(topic="cycle.wanted", key=f"again.{attempt.public_id}", now=now)
    else:
        move(task=task, event=TaskEvent.FAILED, now=now, reason=reason, **memory)


def _memory(decision: RetryDecision) -> dict[str, Any]:
    return {
        "failures": dict(decision.failures),
        "first_failed_at": decision.first_failed_at,
        "excluded_nodes": list(decision.excluded_nodes),
    }


def settle(*, job_id: int, now: datetime, happened: Sequence[Event] = ()) -> JobState:
    """Derive the job's state from its tasks, write the events, and tell the pages; at the end release its hold."""
    job = Job.objects.select_for_update(of=("self",), no_key=True).select_related("organisation").get(id=job_id)
    for event in happened:
        events.write(job_id=job_id, type=event.type, task=event.task, attempt=event.attempt, data=event.data, now=now)
    state = derive([TaskState(task) for task in job.tasks.values_list("state", flat=True)])
    if state != job.state:
        _move_job(job, state, now)
    live.changed(f"job.{job.public_id}", f"org.{job.organisation.public_id}.jobs")
    return state


def _move_job(job: Job, state: JobState, now: datetime) -> None:
    over = state not in JOB_OPEN
    reason = ""
    if over and state is not JobState.DONE:
        reason = job.tasks.filter(state=state).order_by("ended_at", "id").values_list("reason", flat=True).first() or ""
    updated = Job.objects.filter(id=job.id, state=job.state).update(
        state=state, reason=reason, ended_at=now if over else None
    )
    if updated != 1:  # another got there first
        raise Conflict(f"job {job.public_id} has changed", code="job_moved")
    data: dict[str, Any] = {"reason": reason} if reason else {}
    if over:
        data["final"] = True
        for earlier in JobEvent.objects.filter(job=job, data__final=True):  # ended, then retried by the tenant
            JobEvent.objects.filter(id=earlier.id).update(data={**earlier.data, "final": False})
        holds.release(reference=job.public_id, now=now)
    events.write(job_id=job.id, type=f"job.{state.value}", data=data, now=now)
    job.state = state
