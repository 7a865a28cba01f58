"""Fapiao requests: of an invoice, and those that wait for an operator."""

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from billing.domain.fapiao import FapiaoState
from billing.models import FapiaoRequest, Invoice
from portal.kit.errors import NotFound


def of_invoice(invoice: Invoice) -> QuerySet[FapiaoRequest]:
    """All requests of an invoice, the newest first."""
    return FapiaoRequest.objects.filter(invoice=invoice).select_related("invoice").order_by("-id")


def waiting() -> QuerySet[FapiaoRequest]:
    """Requests that are to be issued, oldest first."""
    found = FapiaoRequest.objects.filter(state=FapiaoState.REQUESTED)
    return found.select_related("invoice__organisation").order_by("id")


def one(public_id: str) -> FapiaoRequest:
    """A request by its id; for operators."""
    row = FapiaoRequest.objects.filter(public_id=public_id).select_related("invoice").first()
    if row is None:
        raise NotFound(_("There is no such request."))
    return row
