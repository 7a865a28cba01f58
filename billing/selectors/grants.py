"""Grants that are open: credits in the order in which they are used, and resource-hours with what is left of them."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db.models import QuerySet, Sum

from billing.domain.grants import Allowance, Credit, Hours
from billing.domain.invoicing import InvoiceState
from billing.domain.statement import iso, quantity_text
from billing.models import BillingPeriod, CreditGrant, HourGrant, InvoiceLine
from portal.accounts.models import Organisation
from portal.kit.money import Money


def credits_of(organisation_id: int) -> QuerySet[CreditGrant]:
    """All credit grants of a tenant, newest first."""
    return CreditGrant.objects.filter(organisation_id=organisation_id).order_by("-id")


def hours_of(organisation_id: int) -> QuerySet[HourGrant]:
    """All grants of resource-hours to a tenant, newest first."""
    return HourGrant.objects.filter(organisation_id=organisation_id).select_related("giver").order_by("-id")


def open_credits(organisation_id: int, currency: str) -> list[Credit]:
    """Credits with something left, whether they have expired or not."""
    rows = CreditGrant.objects.filter(organisation_id=organisation_id, currency=currency, left_minor__gt=0)
    return [
        Credit(
            ref=row.public_id, left_minor=row.left_minor, priority=row.priority, expires_at=row.expires_at, given_at=row.created_at
        )
        for row in rows
    ]  # fmt: skip


def left(grants: Iterable[HourGrant]) -> dict[str, int]:
    """Grant → what no invoice has used of it, in resource-microseconds."""
    found = {grant.public_id: int(grant.qty_us) for grant in grants}
    used = (
        InvoiceLine.objects.filter(grant_ref__in=list(found))
        .exclude(invoice__state=InvoiceState.VOID)
        .values("grant_ref")
        .annotate(total=Sum("qty_us"))
    )
    for row in used:
        found[row["grant_ref"]] -= int(row["total"])
    return found


def open_hours(organisation_id: int, closed: BillingPeriod | None = None) -> list[Hours]:
    """Grants of resource-hours with something left; of a closed month: with what its invoice used, so that it is rated again as it was."""
    rows = list(hours_of(organisation_id))
    remaining = left(rows) if rows else {}
    if closed is not None:
        remaining = dict.fromkeys(remaining, 0) | _used_by(closed)
    return [
        Hours(
            ref=row.public_id, giver_ref=row.giver.public_id, resource=row.resource, left_us=remaining[row.public_id],
            priority=row.priority, starts_at=row.starts_at, expires_at=row.expires_at, given_at=row.created_at,
        )
        for row in rows
        if remaining[row.public_id] > 0
    ]  # fmt: skip


def _used_by(period: BillingPeriod) -> dict[str, int]:
    lines = InvoiceLine.objects.filter(invoice__period=period, correction_of="").exclude(grant_ref="")
    rows = lines.exclude(invoice__state=InvoiceState.VOID).values("grant_ref").annotate(total=Sum("qty_us"))
    return {row["grant_ref"]: int(row["total"]) for row in rows}


def allowance(organisation_id: int, *, closed: BillingPeriod | None = None) -> Allowance:
    """The open hours, to be spent while usage is rated; `closed`: as that month's invoice spent them."""
    return Allowance(open_hours(organisation_id, closed))


def hours_wire(tenant: Organisation, *, now: datetime) -> list[dict[str, Any]]:
    """The JSON form of a tenant's grants of hours; `left` counts issued invoices only."""
    rows = list(hours_of(tenant.id))
    remaining = left(rows)
    return [
        {
            "id": row.public_id,
            "resource": row.resource,
            "giver": {"id": row.giver.public_id, "name": row.giver.name},
            "hours": quantity_text(row.resource, int(row.qty_us), 4),
            "left": quantity_text(row.resource, max(0, remaining[row.public_id]), 4),
            "priority": row.priority,
            "starts_at": iso(row.starts_at),
            "expires_at": None if row.expires_at is None else iso(row.expires_at),
            "expired": row.expires_at is not None and row.expires_at <= now,
            "reason": row.reason,
        }
        for row in rows
    ]


def credits_wire(tenant: Organisation, *, now: datetime) -> list[dict[str, Any]]:
    """The JSON form of a tenant's credit grants."""
    return [
        {
            "id": row.public_id,
            "amount": Money(row.amount_minor, row.currency).wire(),
            "left": Money(row.left_minor, row.currency).wire(),
            "priority": row.priority,
            "expires_at": None if row.expires_at is None else iso(row.expires_at),
            "expired": row.expires_at is not None and row.expires_at <= now,
            "reason": row.reason,
            "given_at": iso(row.created_at),
        }
        for row in credits_of(tenant.id)
    ]
