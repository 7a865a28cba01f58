"""How an attempt ended, and whether its metered time is billed (contracts §5.2, billing P4).

Metered is the same in every case: what was proven. Billed is what the table says: a fault of the provider or of the platform costs the tenant nothing,
and a line of 0 says so, naming the reason and the node. The provider is paid exactly what was billed.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Fault(StrEnum):
    NONE = "none"
    TENANT = "tenant"
    PROVIDER = "provider"
    PLATFORM = "platform"


REASONS: dict[str, tuple[Fault, bool]] = {
    "finished": (Fault.NONE, True),
    **dict.fromkeys(
        ("exit_nonzero", "setup_failed", "out_of_memory", "disk_full", "output_missing", "output_refused"),
        (Fault.TENANT, True),
    ),
    **dict.fromkeys(("input_unreadable", "image_refused"), (Fault.TENANT, True)),
    **dict.fromkeys(
        ("time_limit", "cancelled_by_tenant", "budget_exhausted", "balance_exhausted", "organisation_suspended"),
        (Fault.TENANT, True),
    ),
    "preempted": (Fault.NONE, True),
    **dict.fromkeys(
        (
            "node_lost",
            "node_rebooted",
            "not_accepted",
            "node_drained",
            "device_error",
            "start_failed",
            "start_timeout",
            "report_forged",
        ),
        (Fault.PROVIDER, False),
    ),
    **dict.fromkeys(("platform_fault", "upload_failed"), (Fault.PLATFORM, False)),
    "stopped_by_operator": (Fault.NONE, True),
}
"""reason → (fault, is the metered time billed). Reasons of tasks that never had an attempt are not here: nothing was metered."""

SHUT = frozenset({"node_lost", "node_rebooted", "not_accepted", "report_forged"})
"""After these the attempt was fenced off: whatever its node still reports is kept, never rated."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How an attempt ended; set once."""

    attempt_ref: str
    reason: str
    fault: Fault
    billed: bool
    message: str
    ended_at: datetime


def decide(*, attempt_ref: str, reason: str, fault: str, billed: bool, message: str, ended_at: datetime) -> Ending:
    """The ending, if it agrees with the table; ValueError names the reason that is unknown or contradicts it."""
    if reason not in REASONS:
        raise ValueError(f"{reason!r} is not a reason for which an attempt ends")
    known_fault, known_billed = REASONS[reason]
    if (Fault(fault), billed) != (known_fault, known_billed):
        raise ValueError(f"{reason}: fault is {known_fault}, billed is {known_billed}; got {fault}, {billed}")
    return Ending(attempt_ref, reason, known_fault, known_billed, message, ended_at)
