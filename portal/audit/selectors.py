"""Reading the audit trail."""

from django.db.models import QuerySet

from portal.audit.models import AuditEvent


def for_organisation(organisation_id: int) -> QuerySet[AuditEvent]:
    """What was done in an organisation, newest first."""
    return AuditEvent.objects.filter(organisation_id=organisation_id).order_by("-id")


def of_target(target: str) -> QuerySet[AuditEvent]:
    """What was done to one thing, newest first."""
    return AuditEvent.objects.filter(target=target).order_by("-id")


def everything() -> QuerySet[AuditEvent]:
    """The whole trail, for operators."""
    return AuditEvent.objects.order_by("-id")
