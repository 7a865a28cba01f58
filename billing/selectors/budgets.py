"""Budgets as they stand in the billing month: spent, committed, left, forecast; and which of them says no."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from billing.domain import budgets as rules
from billing.domain.budgets import AtLimit, Scope, Spender, Standing
from billing.domain.holds import HoldState
from billing.domain.periods import containing
from billing.domain.statement import iso
from billing.models import Budget, BudgetAlert, Hold
from billing.selectors import balances, periods
from portal.accounts.models import Organisation, Project
from portal.kit.errors import NotFound
from portal.kit.intervals import Interval
from portal.kit.money import Money

PACE = timedelta(days=7)
"""How far back a forecast looks."""


@dataclass(frozen=True, slots=True)
class Month:
    """The billing month of a moment."""

    name: str
    interval: Interval


@dataclass(frozen=True, slots=True)
class Overview:
    """One budget with its standing and its forecast."""

    budget: Budget
    name: str
    month: Month
    standing: Standing
    forecast: Money
    alerts: tuple[BudgetAlert, ...]

    def wire(self) -> dict[str, Any]:
        """The JSON form."""
        code = self.budget.currency
        return {
            "id": self.budget.public_id,
            "scope": self.budget.scope,
            "key": self.budget.key or None,
            "name": self.name,
            "amount": Money(self.budget.amount_minor, code).wire(),
            "at_limit": self.budget.at_limit,
            "thresholds": list(self.budget.thresholds),
            "month": self.month.name,
            "ends_at": iso(self.month.interval.end),
            "spent": Money(self.standing.spent_minor, code).wire(),
            "committed": Money(self.standing.committed_minor, code).wire(),
            "left": Money(self.standing.left_minor, code).wire(),
            "percent": self.standing.percent,
            "forecast": self.forecast.wire(),
            "alerts": [{"threshold": alert.threshold, "at": iso(alert.at)} for alert in self.alerts],
        }


@dataclass(frozen=True, slots=True)
class TooSmall:
    """A budget that has no room: its name, and what is left of it."""

    name: str
    left_minor: int


def of(organisation_id: int) -> QuerySet[Budget]:
    """The budgets of an organisation: its own, then by scope and name."""
    return Budget.objects.filter(organisation_id=organisation_id).order_by("scope", "key", "id")


def one(*, organisation_id: int, public_id: str) -> Budget:
    """That budget of that organisation; NotFound for a foreign one."""
    found = Budget.objects.filter(organisation_id=organisation_id, public_id=public_id).first()
    if found is None:
        raise NotFound(_("There is no such budget that you can see."))
    return found


def month_of(tenant: Organisation, now: datetime) -> Month:
    """The billing month of `now`: the stored one, else the local month."""
    stored = periods.at(organisation_id=tenant.id, moment=now)
    if stored is not None:
        return Month(stored.month, Interval(stored.starts_at, stored.ends_at))
    local = containing(now, tenant.period_timezone)
    return Month(local.name, local.interval)


def spenders(tenant: Organisation, month: Interval) -> list[Spender]:
    """What each job of the tenant used in the month, and what it holds."""
    used = balances.used_between(tenant.id, tenant.currency, month.start, month.end)
    active = Hold.objects.filter(organisation=tenant, state=HoldState.ACTIVE, currency=tenant.currency)
    held = {hold.reference: (hold.project_ref, hold.department, hold.amount_minor) for hold in active}
    return rules.merged(used, held)


def standings(tenant: Organisation, *, now: datetime) -> list[tuple[Budget, Month, Standing]]:
    """Every budget of a tenant with its standing; one look at the usage for all of them."""
    rows = [row for row in of(tenant.id) if row.currency == tenant.currency]
    if not rows:
        return []
    month = month_of(tenant, now)
    jobs = spenders(tenant, month.interval)
    return [(row, month, rules.standing(row.amount_minor, Scope(row.scope), row.key, jobs)) for row in rows]


def overviews(tenant: Organisation, *, now: datetime) -> list[Overview]:
    """For the page and the API: standing, forecast to the end of the month, alerts of this month."""
    found = standings(tenant, now=now)
    if not found:
        return []
    month = found[0][1]
    recent = Interval(max(month.interval.start, now - PACE), max(now, month.interval.start + timedelta(microseconds=1)))
    pace = rules.merged(balances.used_between(tenant.id, tenant.currency, recent.start, recent.end), {})
    alerts = BudgetAlert.objects.filter(budget__organisation=tenant, month=month.name).order_by("threshold")
    by_budget: dict[int, list[BudgetAlert]] = {}
    for alert in alerts:
        by_budget.setdefault(alert.budget_id, []).append(alert)
    titles = names(tenant, [row for row, _, _ in found])
    return [
        Overview(
            row,
            titles[row.id],
            month,
            standing,
            Money(_forecast(row, standing, pace, recent, month, now), row.currency),
            tuple(by_budget.get(row.id, ())),
        )
        for row, _, standing in found
    ]


def too_small(
    tenant: Organisation, *, reference: str, project_ref: str, department: str, amount: Money, now: datetime
) -> TooSmall | None:
    """The first budget that blocks and has no room for a job that holds `amount`; the caller has locked the tenant's books."""
    for row, _month, standing in standings_that_block(tenant, now=now, without=reference):
        mine = Spender(reference, project_ref, department, 0, amount.minor)
        if rules.concerns(Scope(row.scope), row.key, mine) and not rules.fits(standing, amount.minor):
            return TooSmall(names(tenant, [row])[row.id], standing.left_minor)
    return None


def standings_that_block(
    tenant: Organisation, *, now: datetime, without: str = ""
) -> list[tuple[Budget, Month, Standing]]:
    """Budgets that block or stop, as they stand without the job `without`."""
    rows = list(of(tenant.id).exclude(at_limit=AtLimit.NOTIFY).filter(currency=tenant.currency))
    if not rows:
        return []
    month = month_of(tenant, now)
    jobs = [job for job in spenders(tenant, month.interval) if job.job_ref != without]
    return [(row, month, rules.standing(row.amount_minor, Scope(row.scope), row.key, jobs)) for row in rows]


def exhausted_jobs(tenant: Organisation, *, now: datetime) -> dict[str, str]:
    """Job → name of the budget that is used up and stops what runs; over all jobs that hold something."""
    rows = list(of(tenant.id).filter(at_limit=AtLimit.STOP, currency=tenant.currency))
    if not rows:
        return {}
    jobs = spenders(tenant, month_of(tenant, now).interval)
    found: dict[str, str] = {}
    for row in rows:
        scope = Scope(row.scope)
        if rules.standing(row.amount_minor, scope, row.key, jobs).exhausted:
            title = names(tenant, [row])[row.id]
            found |= {job.job_ref: title for job in jobs if rules.concerns(scope, row.key, job)}
    return found


def stopping_ids() -> list[int]:
    """The organisations that have a budget which stops what runs."""
    return list(Budget.objects.filter(at_limit=AtLimit.STOP).values_list("organisation_id", flat=True).distinct())


def names(tenant: Organisation, rows: list[Budget]) -> dict[int, str]:
    """What people call each budget: the organisation, the department, the project's name, the job's id."""
    projects = dict(Project.objects.filter(organisation=tenant).values_list("public_id", "name"))
    return {
        row.id: {Scope.ORGANISATION: tenant.name, Scope.PROJECT: projects.get(row.key, row.key)}.get(
            Scope(row.scope), row.key
        )
        for row in rows
    }


def _forecast(
    row: Budget, standing: Standing, pace: list[Spender], recent: Interval, month: Month, now: datetime
) -> int:
    lately = rules.standing(row.amount_minor, Scope(row.scope), row.key, pace).spent_minor
    return rules.forecast(
        spent_minor=standing.spent_minor, recent_minor=lately, recent=recent, month=month.interval, now=now
    )
