"""Reasons and exit codes: the whole table."""

import pytest

from client import outcome
from client.models import Job

CASES = [
    ("finished", "done", 0, 0, "job"),
    ("exit_nonzero", "failed", 3, 3, "job"),
    ("exit_nonzero", "failed", 204, 204, "job"),
    ("setup_failed", "failed", 7, 7, "job"),
    ("out_of_memory", "failed", 137, 137, "job"),
    ("disk_full", "failed", None, 209, "cli"),
    ("output_missing", "failed", 0, 209, "cli"),
    ("output_refused", "failed", 0, 209, "cli"),
    ("input_unreadable", "failed", None, 209, "cli"),
    ("image_refused", "failed", None, 209, "cli"),
    ("time_limit", "failed", None, 206, "cli"),
    ("cancelled_by_tenant", "cancelled", None, 204, "cli"),
    ("organisation_suspended", "cancelled", None, 204, "cli"),
    ("stopped_by_operator", "cancelled", None, 204, "cli"),
    ("budget_exhausted", "cancelled", None, 202, "cli"),
    ("no_capacity", "failed", None, 203, "cli"),
    ("deadline_passed", "failed", None, 203, "cli"),
    *[(reason, "failed", None, 205, "cli") for reason in sorted(outcome.LOST)],
    ("", "cancelled", None, 204, "cli"),
    ("something_new", "failed", None, 209, "cli"),
]


@pytest.mark.parametrize(("reason", "state", "exit_code", "leaves", "source"), CASES)
def test_a_reason_has_its_exit_code(reason: str, state: str, exit_code: int | None, leaves: int, source: str) -> None:
    job = Job.read({"id": "job_1", "state": state, "reason": reason})
    tasks = [{"id": "tsk_1", "name": "main", "state": state, "reason": reason}]
    attempts = [
        {"id": "att_1", "task": "main", "number": 1, "exit_code": None},
        {"id": "att_2", "task": "main", "number": 2, "exit_code": exit_code},
    ]
    result = outcome.of(job, tasks, attempts)
    assert (int(result.exit), result.source) == (leaves, source)


def test_the_first_failed_task_speaks_for_the_job() -> None:
    job = Job.read({"state": "failed"})
    tasks = [
        {"id": "a", "state": "done"},
        {"id": "b", "state": "failed", "reason": "exit_nonzero"},
        {"id": "c", "state": "failed", "reason": "needs_failed"},
    ]
    attempts = [{"task": "a", "number": 1, "exit_code": 0}, {"task": "b", "number": 1, "exit_code": 5}]
    assert outcome.of(job, tasks, attempts).exit == 5
