"""Billing months: which there are, and which one a moment belongs to."""

from collections.abc import Iterable
from datetime import datetime

from django.utils.translation import gettext as _

from billing.domain.periods import PeriodState
from billing.models import BillingPeriod
from portal.kit.errors import NotFound


def of_month(*, organisation_id: int, month: str) -> BillingPeriod:
    """The stored period of that name; NotFound if the tenant has none (nothing was used then)."""
    period = BillingPeriod.objects.filter(organisation_id=organisation_id, month=month).first()
    if period is None:
        raise NotFound(
            _("Nothing was used in %(month)s: this organisation has no such billing month.") % {"month": month}
        )
    return period


def at(*, organisation_id: int, moment: datetime) -> BillingPeriod | None:
    """The stored period in which `moment` lies."""
    return BillingPeriod.objects.filter(
        organisation_id=organisation_id, starts_at__lte=moment, ends_at__gt=moment
    ).first()


def all_of(organisation_ids: Iterable[int], *, since: datetime) -> dict[int, list[BillingPeriod]]:
    """The periods of several tenants that end after `since`, oldest first."""
    found: dict[int, list[BillingPeriod]] = {}
    for period in BillingPeriod.objects.filter(organisation_id__in=list(organisation_ids), ends_at__gt=since).order_by(
        "starts_at"
    ):
        found.setdefault(period.organisation_id, []).append(period)
    return found


def open_since(*, organisation_id: int) -> datetime | None:
    """The end of the last closed period: everything from then on is not invoiced yet. None if none was closed."""
    closed = BillingPeriod.objects.filter(organisation_id=organisation_id, state=PeriodState.CLOSED)
    return closed.order_by("-ends_at").values_list("ends_at", flat=True).first()
