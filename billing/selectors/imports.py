"""Batches of usage that were imported."""

from django.db.models import QuerySet

from billing.models import UsageImport


def for_organisation(*, organisation_id: int) -> QuerySet[UsageImport]:
    """The organisation's batches, newest first."""
    return UsageImport.objects.filter(organisation_id=organisation_id).order_by("-id")
