"""What a tenant is told about an unpaid invoice, and when: a short ladder, each step once.

==========  =======================  =====================================================
step        when                     what
==========  =======================  =====================================================
upcoming    3 days before it is due  a friendly word
due         on the day               it is due today
overdue     1 day after              past due: new work waits until it is paid
second      7 days after             again
final       21 days after            the last one; then people decide
==========  =======================  =====================================================

A step that was missed is not made up for when a later one is due: nobody gets three mails at once. After `GIVE_UP` an operator may write the debt off.
"""

from collections.abc import Collection
from datetime import datetime, timedelta
from enum import StrEnum


class Step(StrEnum):
    UPCOMING = "upcoming"
    DUE = "due"
    OVERDUE = "overdue"
    SECOND = "second"
    FINAL = "final"


LADDER: tuple[tuple[Step, timedelta], ...] = (
    (Step.UPCOMING, timedelta(days=-3)),
    (Step.DUE, timedelta(0)),
    (Step.OVERDUE, timedelta(days=1)),
    (Step.SECOND, timedelta(days=7)),
    (Step.FINAL, timedelta(days=21)),
)
GIVE_UP = timedelta(days=60)
"""From the due day until a debt may be written off."""


def due_step(*, due_at: datetime, issued_at: datetime, taken: Collection[str], now: datetime) -> Step | None:
    """The step to take now, or None. An invoice that is due within three days of its issue has no ``upcoming``."""
    reached = [
        step
        for step, after in LADDER
        if due_at + after <= now and (after >= timedelta(0) or due_at + after > issued_at)
    ]
    if not reached:
        return None
    latest = reached[-1]
    order = [step for step, _ in LADDER]
    later = {step.value for step in order[order.index(latest) :]}
    return None if later & set(taken) else latest


def may_give_up(*, due_at: datetime, now: datetime) -> bool:
    """Whether a debt is old enough to be written off."""
    return now >= due_at + GIVE_UP
