"""Has a job used up its budget?

Asked of the exact amounts (in micro-currency), not of the rounded lines: a line of 0.005 is printed as 0.01 and would end a job
with a budget of 0.01 when half of it is used. So a budget that is a quote's `high` never ends a job before its max_duration.
"""

from billing.selectors import usage
from portal.kit.money import CURRENCIES
from scheduling.models import Job


def used_micro(job: Job) -> int:
    """What its billed lines come to before they are rounded."""
    return sum(line.amount_micro for line in usage.job_cost(job.public_id).lines if not line.unbilled_reason)


def is_spent(job: Job) -> bool:
    """Is the budget used up? A job without one has no end of that kind."""
    if job.budget_minor is None:
        return False
    return used_micro(job) >= job.budget_minor * 10 ** (6 - CURRENCIES[job.currency].exponent)
