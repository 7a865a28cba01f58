"""Limits that people set themselves, and the alerts they gave: each threshold once in a billing month."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from billing.domain.budgets import AtLimit, Scope
from portal import ids


def new_budget_id() -> str:
    return ids.public_id("bdg")


class Budget(models.Model):
    """So much a month for an organisation, a department, a project or one job. `key` names which: "" for the organisation."""

    public_id = models.CharField(max_length=32, unique=True, default=new_budget_id, editable=False)
    organisation = models.ForeignKey("accounts.Organisation", models.PROTECT, related_name="budgets")
    scope = models.CharField(max_length=12)
    key = models.CharField(max_length=120, blank=True)  # department name, project id, job id
    currency = models.CharField(max_length=3)
    amount_minor = models.BigIntegerField()
    at_limit = models.CharField(max_length=6, default=AtLimit.NOTIFY)
    thresholds = ArrayField(models.PositiveSmallIntegerField())
    created_by = models.CharField(max_length=80)
    created_at = models.DateTimeField()
    changed_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["organisation", "scope", "key"], name="budget_once_per_scope"),
            models.CheckConstraint(condition=Q(amount_minor__gt=0), name="budget_positive"),
            models.CheckConstraint(condition=Q(scope__in=[s.value for s in Scope]), name="budget_scope_known"),
            models.CheckConstraint(condition=Q(at_limit__in=[a.value for a in AtLimit]), name="budget_action_known"),
            models.CheckConstraint(
                condition=(Q(scope=Scope.ORGANISATION) & Q(key="")) | (~Q(scope=Scope.ORGANISATION) & ~Q(key="")),
                name="budget_key_names_its_scope",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.scope} {self.key}: {self.amount_minor}"


class BudgetAlert(models.Model):
    """A threshold was reached in a month; append-only, so nobody is told twice."""

    budget = models.ForeignKey(Budget, models.CASCADE, related_name="alerts")
    month = models.CharField(max_length=7)
    threshold = models.PositiveSmallIntegerField()  # per cent
    amount_minor = models.BigIntegerField()  # the budget as it was
    spent_minor = models.BigIntegerField()
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["budget", "month", "threshold"], name="budget_alert_once")]

    def __str__(self) -> str:
        return f"{self.budget_id} {self.month} {self.threshold} %"
