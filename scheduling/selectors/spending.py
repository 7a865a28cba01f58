"""Has a job used up its budget, or the money it is paid from?

Asked of the exact amounts (in micro-currency), not of the rounded lines: a line of 0.005 is printed as 0.01 and would end a job
with a budget of 0.01 when half of it is used. So a budget that is a quote's `high` never ends a job before its max_duration.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from billing.domain.holds import MARGIN, WINDOW
from billing.selectors import balances, budgets, terms, usage
from portal.kit.money import CURRENCIES, Money
from portal.kit.quantities import MILLI
from scheduling.domain.attempt import LIVE
from scheduling.domain.demand import TaskSpec
from scheduling.models import Attempt, Job


def used_micro(job: Job) -> int:
    """What its billed lines come to before they are rounded."""
    return sum(line.amount_micro for line in usage.job_cost(job.public_id).lines if not line.unbilled_reason)


def is_spent(job: Job) -> bool:
    """Is the budget used up? A job without one has no end of that kind."""
    if job.budget_minor is None:
        return False
    return used_micro(job) >= job.budget_minor * 10 ** (6 - CURRENCIES[job.currency].exponent)


def hour_micro(attempt: Attempt) -> int:
    """What an attempt costs in an hour at its lease's own prices, in micro-currency, net; the pinned discount is not counted."""
    lease = attempt.lease
    amounts = {"core": lease.cores_milli, "card": lease.cards * MILLI}
    items = lease.prices.get("items", {})
    return sum(items[name]["unit_price_micro"] * count // MILLI for name, count in amounts.items() if name in items)


def running(job_ids: Iterable[int]) -> list[Attempt]:
    """The live attempts of some jobs, with their leases and specs."""
    live = Attempt.objects.filter(task__job__in=list(job_ids), state__in=[state.value for state in LIVE])
    return list(live.select_related("lease", "task").order_by("id"))


def time_left(attempt: Attempt, now: datetime) -> timedelta:
    """Of its longest time; the whole of it before its first process runs."""
    longest = timedelta(seconds=TaskSpec.from_form(attempt.task.spec).max_duration_s)
    return max(timedelta(0), longest - (now - attempt.started_at if attempt.started_at else timedelta(0)))


def hours_ahead(spec: TaskSpec, length: timedelta) -> dict[str, int]:
    """Resource → resource-microseconds that a task uses in `length`: what granted hours would have to cover."""
    microseconds = length // timedelta(microseconds=1)
    needs = spec.resources
    found = {"core": needs.cores_milli * microseconds // MILLI}
    if needs.cards:
        found["card"] = max(card.count for card in needs.cards) * microseconds
    return found


def longest(spec: TaskSpec) -> timedelta:
    """The longest time that one attempt may take."""
    return timedelta(seconds=spec.max_duration_s)


def window_of(spec: TaskSpec) -> timedelta:
    """The time that a first hold reaches over."""
    return min(WINDOW, timedelta(seconds=spec.max_duration_s))


def short_of_balance(job: Job) -> tuple[Money, Money] | None:
    """(needed, there) when a job that ran before cannot be paid for any further; None when it can.

    Only of prepaid tenants; what it holds and has not used counts as there.
    """
    if not terms.is_prepaid(job.organisation_id):
        return None
    spend = balances.may_resume(job.organisation_id, reference=job.public_id, hour_micro=_last_hour(job), length=MARGIN)
    return None if spend.allowed else (spend.needed, spend.available)


def _last_hour(job: Job) -> int:
    last = Attempt.objects.filter(task__job=job, lease__isnull=False).select_related("lease").order_by("-id").first()
    return hour_micro(last) if last is not None else 0


def stopped_by_budgets(job: Job, now: datetime) -> str:
    """The name of the budget (of organisation, department, project or job) that is used up and stops this job; else empty."""
    return budgets.exhausted_jobs(job.organisation, now=now).get(job.public_id, "")
