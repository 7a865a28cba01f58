"""Tasks, and how the state of a job follows from them."""

from itertools import product

import pytest

from portal.kit.errors import InvalidTransition
from scheduling.domain.job import JOB_OPEN, OPEN, JobState, TaskEvent, TaskState, before, derive, step

S, E = TaskState, TaskEvent
EXPECTED = {
    (S.WAITING, E.READY): S.QUEUED,
    (S.QUEUED, E.PLACED): S.PLACED,
    (S.PLACED, E.STARTED): S.RUNNING,
    (S.RUNNING, E.STARTED): S.RUNNING,
    (S.PLACED, E.AGAIN): S.QUEUED,
    (S.RUNNING, E.AGAIN): S.QUEUED,
    (S.PLACED, E.DONE): S.DONE,
    (S.RUNNING, E.DONE): S.DONE,
    (S.FAILED, E.RETRIED): S.QUEUED,
    (S.CANCELLED, E.RETRIED): S.QUEUED,
    **{(state, E.FAILED): S.FAILED for state in OPEN},
    **{(state, E.CANCELLED): S.CANCELLED for state in OPEN},
}


@pytest.mark.parametrize(("state", "event"), list(product(TaskState, TaskEvent)))
def test_every_pair(state: TaskState, event: TaskEvent) -> None:
    if (state, event) in EXPECTED:
        assert step(state, event) is EXPECTED[state, event]
        assert state in before(event)
    else:
        with pytest.raises(InvalidTransition):
            step(state, event)
        assert state not in before(event)


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [
        (["queued"], "queued"),
        (["waiting", "queued"], "queued"),
        (["placed"], "running"),
        (["running", "failed"], "running"),
        (["done", "waiting"], "running"),
        (["failed", "queued"], "queued"),
        (["done", "failed", "cancelled"], "failed"),
        (["done", "cancelled"], "cancelled"),
        (["done", "done"], "done"),
    ],
)
def test_a_job_is_what_its_tasks_are(tasks: list[str], expected: str) -> None:
    assert derive([TaskState(task) for task in tasks]) == expected


def test_every_combination_of_three_tasks_has_a_state() -> None:
    for tasks in product(TaskState, repeat=3):
        state = derive(tasks)
        assert (state in JOB_OPEN) == bool(set(tasks) & OPEN)
        assert (state is JobState.DONE) == (set(tasks) == {TaskState.DONE})
