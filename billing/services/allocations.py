"""Rules by which a split bill lays shared costs over departments: set from a month that is not closed, ended, never edited."""

from collections.abc import Sequence
from datetime import datetime

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from billing.domain.allocation import Method, Source
from billing.domain.periods import PeriodState, split_name
from billing.models import AllocationRule, BillingPeriod
from portal.accounts.models import Organisation
from portal.audit.services import note
from portal.kit.errors import Conflict, Finding, InvalidInput

MOST_WEIGHTS = 200
MOST_WEIGHT = 1_000_000


def set_rule(
    *,
    organisation: Organisation,
    name: str,
    source_kind: str,
    source: str,
    method: str,
    weights: Sequence[tuple[str, int]],
    from_month: str,
    by: str,
    now: datetime,
) -> AllocationRule:
    """Share what stands at `source` from a month on. Conflict `month_is_closed`, `rule_exists`; InvalidInput for weights that lay nothing."""
    _check(source_kind, source, method, weights, from_month)
    _refuse_closed(organisation, from_month)
    try:
        with transaction.atomic():
            rule = AllocationRule.objects.create(
                organisation=organisation,
                name=name.strip() or source,
                source_kind=source_kind,
                source=source,
                method=method,
                weights=[[department, weight] for department, weight in weights],
                from_month=from_month,
                created_by=by,
                created_at=now,
            )
    except IntegrityError:
        raise Conflict(
            _("%(source)s is shared by a rule already: end that one first.") % {"source": source}, code="rule_exists"
        ) from None
    note(
        actor=by, deed="allocation.set", target=rule.public_id, organisation_id=organisation.id, now=now,
        data={"source": source, "method": method, "from": from_month},
    )  # fmt: skip
    return rule


def end_rule(*, rule: AllocationRule, month: str, by: str, now: datetime) -> AllocationRule:
    """The rule holds no longer from that month on; bills of closed months keep it."""
    _refuse_closed(rule.organisation, month)
    updated = AllocationRule.objects.filter(id=rule.id, until_month="").update(until_month=max(month, rule.from_month))
    if updated != 1:
        raise Conflict(_("This rule has ended already."))
    rule.refresh_from_db()
    note(
        actor=by, deed="allocation.end", target=rule.public_id, organisation_id=rule.organisation_id, now=now,
        data={"until": rule.until_month},
    )  # fmt: skip
    return rule


def _check(source_kind: str, source: str, method: str, weights: Sequence[tuple[str, int]], month: str) -> None:
    findings = []
    if source_kind not in set(Source):
        findings.append(Finding("source_kind", "unknown", "department or project"))
    if method not in set(Method):
        findings.append(Finding("method", "unknown", "equal, weights or usage"))
    if not source.strip():
        findings.append(Finding("source", "missing", "name the department, or the project by its id"))
    if len(weights) > MOST_WEIGHTS or any(not 0 <= weight <= MOST_WEIGHT for _name, weight in weights):
        findings.append(Finding("weights", "out_of_range", f"at most {MOST_WEIGHTS} weights of 0 to {MOST_WEIGHT}"))
    elif method == Method.WEIGHTS and not any(weight for _name, weight in weights):
        findings.append(Finding("weights", "missing", "give at least one department a weight above 0"))
    if len({name for name, _weight in weights}) != len(weights):
        findings.append(Finding("weights", "twice", "a department is there twice"))
    try:
        split_name(month)
    except ValueError as problem:
        findings.append(Finding("from_month", "bad_month", str(problem)))
    if findings:
        raise InvalidInput(findings)


def _refuse_closed(organisation: Organisation, month: str) -> None:
    closed = BillingPeriod.objects.filter(organisation=organisation, state=PeriodState.CLOSED, month__gte=month)
    if closed.exists():
        raise Conflict(
            _("%(month)s is closed: a rule begins or ends with a month that is not.") % {"month": month}, code="month_is_closed"
        )  # fmt: skip
