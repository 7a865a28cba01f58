"""Budgets are set, and people are told: each threshold of a month once, whoever looks and however often."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import transaction

from billing.domain import budgets as rules
from billing.domain.budgets import AtLimit, Scope, Standing
from billing.models import Budget, BudgetAlert
from billing.selectors import balances, budgets
from billing.services import telling, wallets
from portal.accounts.models import Organisation, Project
from portal.audit.services import note
from portal.kit.errors import Finding, InvalidInput
from portal.kit.money import Money


def set_budget(
    *,
    organisation_id: int,
    scope: str,
    key: str = "",
    amount: Money,
    at_limit: str = AtLimit.NOTIFY,
    thresholds: Sequence[int] = rules.THRESHOLDS,
    by: str,
    now: datetime,
) -> Budget:
    """Set the budget of a scope: a second one for the same scope replaces the first. `key`: department, project id or slug, job id.

    Takes effect at once, downwards too: what blocks or stops looks at the new amount. InvalidInput names what is wrong.
    """
    with transaction.atomic():
        tenant = Organisation.objects.get(id=organisation_id)
        balances.same_currency(tenant, amount)
        kept = _check(tenant, scope, key, amount, at_limit, thresholds)
        wallets.lock(tenant)
        values = {
            "currency": amount.currency, "amount_minor": amount.minor, "at_limit": at_limit, "thresholds": list(kept[1]), "changed_at": now,
        }  # fmt: skip
        row, made = Budget.objects.get_or_create(
            organisation=tenant, scope=scope, key=kept[0], defaults={**values, "created_by": by, "created_at": now}
        )
        was = {} if made else {"amount": Money(row.amount_minor, row.currency).text(), "at_limit": row.at_limit}
        if not made:
            Budget.objects.filter(id=row.id).update(**values)
            row.refresh_from_db()
        note(
            actor=by, deed="budget.set", target=row.public_id, organisation_id=tenant.id,
            data={"scope": scope, "key": kept[0], "amount": amount.text(), "at_limit": at_limit, "was": was}, now=now,
        )  # fmt: skip
    return row


def remove(*, budget: Budget, by: str, now: datetime) -> None:
    """Take a budget away, with its alerts."""
    with transaction.atomic():
        note(
            actor=by, deed="budget.remove", target=budget.public_id, organisation_id=budget.organisation_id,
            data={"scope": budget.scope, "key": budget.key}, now=now,
        )  # fmt: skip
        budget.delete()


def watch(*, now: datetime) -> int:
    """Tell the people of every tenant which thresholds their budgets have passed; returns how many alerts are new."""
    told = 0
    for organisation_id in list(Budget.objects.values_list("organisation_id", flat=True).distinct()):
        tenant = Organisation.objects.get(id=organisation_id)
        for row, month, standing in budgets.standings(tenant, now=now):
            told += _alert(tenant, row, month.name, standing, now)
    return told


def _alert(tenant: Organisation, row: Budget, month: str, standing: Standing, now: datetime) -> int:
    """Alert rows for the thresholds that are new; one mail that names the highest."""
    passed = standing.passed(row.thresholds)
    if not passed:
        return 0
    with transaction.atomic():
        known = set(BudgetAlert.objects.filter(budget=row, month=month).values_list("threshold", flat=True))
        new = [limit for limit in passed if limit not in known]
        made = 0
        for limit in new:
            _row, first = BudgetAlert.objects.get_or_create(
                budget=row, month=month, threshold=limit,
                defaults={"amount_minor": row.amount_minor, "spent_minor": standing.spent_minor, "at": now},
            )  # fmt: skip
            made += first
        if made:
            _tell(tenant, row, month, max(new), standing, now)
    return made


def _tell(tenant: Organisation, row: Budget, month: str, limit: int, standing: Standing, now: datetime) -> None:
    name = budgets.names(tenant, [row])[row.id]
    spent, amount = Money(standing.spent_minor, row.currency).text(), Money(row.amount_minor, row.currency).text()
    what = {
        AtLimit.NOTIFY: ("Nothing is stopped.", "不会停止任何作业。"),
        AtLimit.BLOCK: ("At 100 % nothing new is started.", "达到 100% 后不再启动新作业。"),
        AtLimit.STOP: ("At 100 % running jobs are stopped.", "达到 100% 后停止运行中的作业。"),
    }[AtLimit(row.at_limit)]
    telling.people(
        tenant=tenant, key=f"budget:{row.public_id}:{month}:{limit}", now=now,
        subject=f"Budget {name}: {limit} % used · 预算 {name}：已用 {limit}%",
        lines=(
            f"{spent} of {amount} {row.currency} are used in {month}. {what[0]}",
            f"{month} 已使用 {spent} / {amount} {row.currency}。{what[1]}",
        ),
        link=f"{settings.IDLEWILD_BASE_URL}/budgets",
    )  # fmt: skip


def _check(
    tenant: Organisation, scope: str, key: str, amount: Money, at_limit: str, thresholds: Sequence[int]
) -> tuple[str, tuple[int, ...]]:
    wrong: list[Finding] = []
    kept: tuple[int, ...] = ()
    if scope not in set(Scope):
        wrong.append(Finding("scope", "bad_value", "organisation, department, project or job"))
    if at_limit not in set(AtLimit):
        wrong.append(Finding("at_limit", "bad_value", "notify, block or stop"))
    if amount.minor <= 0:
        wrong.append(Finding("amount", "bad_amount", "a budget is above 0"))
    try:
        kept = rules.check_thresholds(list(thresholds))
    except ValueError as fault:
        wrong.append(Finding("thresholds", "bad_value", str(fault)))
    found: Any = key.strip()
    if scope == Scope.ORGANISATION:
        found = ""
    elif not found:
        wrong.append(Finding("key", "required", f"name the {scope}"))
    elif scope == Scope.PROJECT:
        mine = Project.objects.filter(organisation=tenant)
        project = mine.filter(public_id=found).first() or mine.filter(slug=found).first()
        found = project.public_id if project else found
        if project is None:
            wrong.append(Finding("key", "unknown_project", "there is no such project"))
    if wrong:
        raise InvalidInput(wrong)
    return found, kept
