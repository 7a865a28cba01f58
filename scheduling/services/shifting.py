"""A task with slack waits for greener hours: decided when a place is found, from the hours of that place's grid.

The start moves only when it saves at least two percent, never beyond what is left of the slack since submission, and
never past the deadline. It is written down as `not_before`, so the task is not looked at in between; then it is decided
anew, by the market of that moment.
"""

from datetime import datetime, timedelta

from scheduling.domain.demand import TaskSpec
from scheduling.domain.job import TaskState
from scheduling.domain.placement import Decision
from scheduling.models import Task
from scheduling.selectors import asking
from scheduling.selectors.footprint import Electricity

LEAST_SAVED = 0.02
LEAST_DELAY = timedelta(minutes=1)


def later(task: Task, spec: TaskSpec, decision: Decision, *, now: datetime) -> datetime | None:
    """When the task should start instead of now; None = now."""
    left = slack_left(task, spec, decision, now=now)
    if left < LEAST_DELAY:
        return None
    place = decision.problem.table.rows[decision.place]
    begin = Electricity.at(now).start(
        place.region, place.zone, seconds=_seconds(decision), slack_s=int(left.total_seconds())
    )
    if begin is None or begin.saved < LEAST_SAVED or begin.delay_s < LEAST_DELAY.total_seconds():
        return None
    return now + timedelta(seconds=begin.delay_s)


def slack_left(task: Task, spec: TaskSpec, decision: Decision, *, now: datetime) -> timedelta:
    """What is left of the slack, and still ends before the deadline. Only a first attempt waits."""
    if not spec.placement.slack_s or task.fence:
        return timedelta(0)
    left = task.job.created_at + timedelta(seconds=spec.placement.slack_s) - now
    limit = asking.deadline(spec, begun=task.job.created_at)
    if limit is not None:
        left = min(left, timedelta(seconds=limit - now.timestamp() - spec.max_duration_s))
    return left


def _seconds(decision: Decision) -> int:
    return max(1, int(decision.chosen()["expected_s"]))


def postpone(task: Task, *, until: datetime) -> bool:
    """Write when the task starts at the earliest; False if another got there first."""
    updated = Task.objects.filter(id=task.id, state=TaskState.QUEUED, not_before=task.not_before).update(
        not_before=until
    )
    if updated == 1:
        task.not_before = until
    return updated == 1
