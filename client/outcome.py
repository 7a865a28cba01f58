"""How a job ended, as the exit code of the command.

============================================================================  ==========================================
reason of the first failed task (contracts §5.2)                               exit
============================================================================  ==========================================
finished                                                                       0
exit_nonzero setup_failed out_of_memory disk_full output_* input_* image_*     its own code, 209 if it has none
time_limit                                                                     206
cancelled_by_tenant organisation_suspended stopped_by_operator                 204
budget_exhausted balance_exhausted                                             202
no_capacity deadline_passed                                                    203
node_* not_accepted device_error start_* report_forged platform_fault …        205
============================================================================  ==========================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .errors import Exit
from .models import Job, JobState, Row, text

OWN_CODE = frozenset(
    {
        "exit_nonzero",
        "setup_failed",
        "out_of_memory",
        "disk_full",
        "output_missing",
        "output_refused",
        "input_unreadable",
        "image_refused",
    }
)
BY_REASON = {
    "finished": Exit.DONE,
    "time_limit": Exit.TIME_LIMIT,
    "cancelled_by_tenant": Exit.CANCELLED,
    "organisation_suspended": Exit.CANCELLED,
    "stopped_by_operator": Exit.CANCELLED,
    "budget_exhausted": Exit.SPENDING,
    "balance_exhausted": Exit.SPENDING,
    "no_capacity": Exit.NO_CAPACITY,
    "deadline_passed": Exit.NO_CAPACITY,
}
LOST = frozenset(
    {
        "node_lost",
        "node_rebooted",
        "not_accepted",
        "node_drained",
        "device_error",
        "start_failed",
        "start_timeout",
        "report_forged",
        "platform_fault",
        "upload_failed",
        "preempted",
    }
)


@dataclass(frozen=True)
class Outcome:
    """The exit code, who it speaks for ("job" or "cli"), and why."""

    exit: int
    source: str
    reason: str
    message: str = ""


def of(job: Job, tasks: Sequence[Row], attempts: Sequence[Row]) -> Outcome:
    """The outcome of an ended job: of its first failed task, in the order of the stages."""
    if job.state is JobState.DONE:
        return Outcome(Exit.DONE, "job", "finished")
    failed = [task for task in tasks if task.get("state") == "failed"] or [
        task for task in tasks if task.get("state") == "cancelled"
    ]
    task = failed[0] if failed else {}
    own = [
        a for a in attempts if not task or text(a.get("task")) in {text(task.get("id")), text(task.get("name"))}
    ] or list(attempts)
    last = max(own, key=lambda a: int(a.get("number") or a.get("fence") or 0), default={})
    reason = text(task.get("reason")) or job.reason or text(last.get("reason"))
    message = text(task.get("message") or last.get("message"))
    code = last.get("exit_code")
    if reason in OWN_CODE:
        return (
            Outcome(code, "job", reason, message)
            if isinstance(code, int) and code
            else Outcome(Exit.OTHER, "cli", reason, message)
        )
    if reason in LOST:
        return Outcome(Exit.LOST, "cli", reason, message)
    if job.state is JobState.CANCELLED and reason not in BY_REASON:
        return Outcome(Exit.CANCELLED, "cli", reason or "cancelled_by_tenant", message)
    return Outcome(BY_REASON.get(reason, Exit.OTHER), "cli", reason, message)
