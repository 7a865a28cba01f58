"""The money of jobs: reserved when they are submitted, renewed while they run, and the stop when there is no more.

:func:`watch` runs every 15 s. For each prepaid tenant whose jobs run it renews their holds; a job whose next two minutes nobody can pay for is stopped
(``balance_exhausted``), its people are told. Jobs under a budget that is used up and stops what runs end as ``budget_exhausted``. An agent reports at
least every 60 s, so what is used beyond the money stays below what the margin covers.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from billing.domain.holds import MARGIN
from billing.selectors import balances, budgets, terms
from billing.services import holds, notices
from billing.services.holds import Needs
from portal.accounts.models import Organisation
from portal.kit.money import Money
from scheduling.domain.demand import TaskSpec
from scheduling.domain.job import JobState
from scheduling.domain.reasons import EndReason
from scheduling.models import Attempt, Job
from scheduling.selectors import spending
from scheduling.services import leases

OPEN = (JobState.QUEUED, JobState.RUNNING)


def reserve(*, job: Job, whole: Money, now: datetime) -> Money:
    """Keep what a job may cost at most (`whole`, net) before it is placed; returns what is held. SpendingRefused says what stands against it."""
    spec = TaskSpec.from_form(job.tasks.order_by("id")[0].spec)
    window = spending.window_of(spec)
    amount = balances.to_hold(job.organisation, whole, spending.longest(spec))
    needs = Needs(job.project.public_id, job.project.department, spending.hours_ahead(spec, window))
    held = holds.reserve(
        organisation_id=job.organisation_id, reference=job.public_id, amount=amount, now=now, needs=needs
    )
    return Money(held.amount_minor, held.currency)


def stop_if_spent(*, job: Job, now: datetime) -> int:
    """Stop what runs of a job whose own budget is used up; returns how many attempts."""
    return _stop(spending.running([job.id]), EndReason.BUDGET_EXHAUSTED, now) if spending.is_spent(job) else 0


@dataclass
class Watched:
    """What one look at the money did."""

    renewed: int = 0
    stopped: int = 0


def watch(*, now: datetime) -> Watched:
    """Renew, warn and stop; one tenant after the other."""
    done = Watched()
    prepaid, stopping = set(terms.prepaid_ids()), set(budgets.stopping_ids())
    for tenant in Organisation.objects.filter(id__in=prepaid | stopping).order_by("id"):
        jobs = list(Job.objects.filter(organisation=tenant, state__in=OPEN).order_by("id"))
        by_job: dict[int, list[Attempt]] = {}
        for attempt in spending.running(job.id for job in jobs):
            by_job.setdefault(attempt.task.job_id, []).append(attempt)
        running = [job for job in jobs if job.id in by_job]
        if not running:
            continue
        if tenant.id in stopping:
            over = budgets.exhausted_jobs(tenant, now=now)
            for job in [job for job in running if job.public_id in over]:
                done.stopped += _stop(by_job.pop(job.id), EndReason.BUDGET_EXHAUSTED, now)
                running.remove(job)
        if tenant.id in prepaid:
            _renew(tenant, running, by_job, done, now)
    return done


def _renew(
    tenant: Organisation, jobs: Iterable[Job], by_job: dict[int, list[Attempt]], done: Watched, now: datetime
) -> None:
    hour = 0
    for job in jobs:
        attempts = by_job[job.id]
        rate = sum(spending.hour_micro(attempt) for attempt in attempts)
        if holds.renew(
            reference=job.public_id,
            hour_micro=rate,
            left=max(spending.time_left(attempt, now) for attempt in attempts),
            hours=_summed(attempts),
            now=now,
        ):
            done.renewed += 1
            hour += rate
            continue
        stopped = _stop(attempts, EndReason.BALANCE_EXHAUSTED, now)
        if stopped:
            notices.dry(
                tenant=tenant, job_ref=job.public_id, job_name=job.name, attempt_ref=attempts[0].public_id, now=now
            )
        done.stopped += stopped
    if hour:
        notices.low(tenant=tenant, hour_micro=hour, now=now)


def _summed(attempts: Iterable[Attempt]) -> dict[str, int]:
    found: dict[str, int] = {}
    for attempt in attempts:
        for resource, quantity in spending.hours_ahead(TaskSpec.from_form(attempt.task.spec), MARGIN).items():
            found[resource] = found.get(resource, 0) + quantity
    return found


def _stop(attempts: Iterable[Attempt], reason: EndReason, now: datetime) -> int:
    fresh = [attempt for attempt in attempts if attempt.stop_requested_at is None]
    return sum(leases.ask_stop(attempt_id=one.id, reason=reason, actor="system", now=now) for one in fresh)
