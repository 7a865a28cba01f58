"""The terms under which an organisation pays; without a stored row, the terms of everybody."""

from datetime import timedelta

from billing.domain.holds import PayMode
from billing.models import Terms
from portal import clock
from portal.accounts.models import Organisation


def of(organisation: Organisation) -> Terms:
    """Its terms; an unsaved row with the defaults where none were agreed."""
    found = Terms.objects.filter(organisation=organisation).first()
    return found or Terms(organisation=organisation, changed_at=clock.now())


def is_prepaid(organisation_id: int) -> bool:
    """Does it pay before it uses?"""
    return Terms.objects.filter(organisation_id=organisation_id, mode=PayMode.PREPAID).exists()


def prepaid_ids() -> list[int]:
    """The organisations that pay before they use."""
    return list(Terms.objects.filter(mode=PayMode.PREPAID).values_list("organisation_id", flat=True))


def payment_time(organisation: Organisation) -> timedelta:
    """From the day of issue until an unpaid invoice is past due."""
    return timedelta(days=of(organisation).payment_days)


def discount_ppm(organisation: Organisation) -> int:
    """Its discount off list prices, as it is agreed now; a placement pins it."""
    return Terms.objects.filter(organisation=organisation).values_list("discount_ppm", flat=True).first() or 0
