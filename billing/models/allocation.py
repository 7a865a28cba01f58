"""Who bears what is shared: rules by which a split bill lays costs over departments."""

from django.db import models
from django.db.models import F, Q

from billing.domain.allocation import Method, Source
from portal import ids


def new_rule_id() -> str:
    return ids.public_id("alc")


class AllocationRule(models.Model):
    """One shared cost and who bears it, from one month on. Never edited: it ends, and another follows, so old bills keep their split."""

    public_id = models.CharField(max_length=32, unique=True, default=new_rule_id, editable=False)
    organisation = models.ForeignKey("accounts.Organisation", models.PROTECT, related_name="allocation_rules")
    name = models.CharField(max_length=120)
    source_kind = models.CharField(max_length=12)  # department, project
    source = models.CharField(max_length=120)  # a department's name, a project's id
    method = models.CharField(max_length=8)  # equal, weights, usage
    weights = models.JSONField(default=list)  # [["department", 3], …]; for equal and usage: who shares, [] = all others
    from_month = models.CharField(max_length=7)
    until_month = models.CharField(max_length=7, blank=True)  # the first month in which it no longer holds
    created_by = models.CharField(max_length=80)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(method__in=[method.value for method in Method]), name="allocation_method_known"
            ),
            models.CheckConstraint(
                condition=Q(source_kind__in=[source.value for source in Source]), name="allocation_source_known"
            ),
            models.CheckConstraint(
                condition=Q(until_month="") | Q(until_month__gte=F("from_month")),
                name="allocation_ends_after_it_begins",
            ),
            models.UniqueConstraint(
                fields=["organisation", "source_kind", "source"],
                condition=Q(until_month=""),
                name="allocation_once_per_source",
            ),
        ]

    def __str__(self) -> str:
        return self.name
