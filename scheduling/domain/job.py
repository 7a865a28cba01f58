"""Tasks, and the state of a job derived from them, in a stated order.

The task machine:

==================================  ========  ========  ========  ========  =======
event ↓ state →                     waiting   queued    placed    running   ended
==================================  ========  ========  ========  ========  =======
ready (its needs are done)          queued    ✗         ✗         ✗         ✗
placed (an attempt has a lease)     ✗         placed    ✗         ✗         ✗
started (a process runs)            ✗         ✗         running   running   ✗
again (failover: a new attempt)     ✗         ✗         queued    queued    ✗
done                                ✗         ✗         done      done      ✗
failed                              failed    failed    failed    failed    ✗
cancelled                           cancelled cancelled cancelled cancelled ✗
retried (by the tenant)             ✗         ✗         ✗         ✗         queued (failed, cancelled)
==================================  ========  ========  ========  ========  =======

The state of a job; the first line that fits:

1. a task is placed or running → running
2. a task is waiting or queued → running if another one is done already, else queued
3. a task failed → failed
4. a task was cancelled → cancelled
5. → done
"""

from collections.abc import Iterable
from enum import StrEnum

from portal.kit import machine


class TaskState(StrEnum):
    WAITING = "waiting"
    QUEUED = "queued"
    PLACED = "placed"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class TaskEvent(StrEnum):
    READY = "ready"
    PLACED = "placed"
    STARTED = "started"
    AGAIN = "again"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    RETRIED = "retried"


class JobState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


OPEN = frozenset({TaskState.WAITING, TaskState.QUEUED, TaskState.PLACED, TaskState.RUNNING})
JOB_OPEN = frozenset({JobState.QUEUED, JobState.RUNNING})

S, E = TaskState, TaskEvent
TABLE: dict[tuple[TaskState, TaskEvent], tuple[TaskState, tuple[()]]] = {
    (S.WAITING, E.READY): (S.QUEUED, ()),
    (S.QUEUED, E.PLACED): (S.PLACED, ()),
    (S.PLACED, E.STARTED): (S.RUNNING, ()),
    (S.RUNNING, E.STARTED): (S.RUNNING, ()),
    (S.PLACED, E.AGAIN): (S.QUEUED, ()),
    (S.RUNNING, E.AGAIN): (S.QUEUED, ()),
    (S.PLACED, E.DONE): (S.DONE, ()),
    (S.RUNNING, E.DONE): (S.DONE, ()),
    **{(state, E.FAILED): (S.FAILED, ()) for state in (S.WAITING, S.QUEUED, S.PLACED, S.RUNNING)},
    **{(state, E.CANCELLED): (S.CANCELLED, ()) for state in (S.WAITING, S.QUEUED, S.PLACED, S.RUNNING)},
    (S.FAILED, E.RETRIED): (S.QUEUED, ()),
    (S.CANCELLED, E.RETRIED): (S.QUEUED, ()),
}


def step(state: TaskState, event: TaskEvent) -> TaskState:
    """The task's state after `event`; InvalidTransition (409) when the table has no such pair."""
    return machine.step(TABLE, state, event)[0]


def before(event: TaskEvent) -> tuple[TaskState, ...]:
    """The states in which `event` is possible: the condition of the guarded UPDATE that performs it."""
    return tuple(state for state, possible in TABLE if possible is event)


def derive(tasks: Iterable[TaskState]) -> JobState:
    """The state of a job with these tasks (at least one); see the order above."""
    states = set(tasks)
    if states & {TaskState.PLACED, TaskState.RUNNING}:
        return JobState.RUNNING
    if states & {TaskState.WAITING, TaskState.QUEUED}:
        return JobState.RUNNING if TaskState.DONE in states else JobState.QUEUED
    if TaskState.FAILED in states:
        return JobState.FAILED
    if TaskState.CANCELLED in states:
        return JobState.CANCELLED
    return JobState.DONE
