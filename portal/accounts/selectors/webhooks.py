"""Webhook endpoints and deliveries that an organisation sees: never a secret."""

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from portal.accounts.models import Organisation, WebhookDelivery, WebhookEndpoint
from portal.kit.errors import NotFound


def endpoints(organisation: Organisation) -> QuerySet[WebhookEndpoint]:
    """Newest first."""
    return WebhookEndpoint.objects.filter(organisation=organisation).order_by("-id")


def endpoint(organisation: Organisation, public_id: str) -> WebhookEndpoint:
    """One of `endpoints`; NotFound otherwise."""
    found = endpoints(organisation).filter(public_id=public_id).first()
    if found is None:
        raise NotFound(_("There is no such webhook."))
    return found


def deliveries(endpoint: WebhookEndpoint, *, state: str = "") -> QuerySet[WebhookDelivery]:
    """What was or is to be sent to an endpoint, newest first."""
    rows = WebhookDelivery.objects.filter(endpoint=endpoint).select_related("event", "endpoint").order_by("-id")
    return rows.filter(state=state) if state else rows


def delivery(organisation: Organisation, public_id: str) -> WebhookDelivery:
    """One delivery; NotFound for a stranger's."""
    found = (
        WebhookDelivery.objects.filter(endpoint__organisation=organisation, public_id=public_id)
        .select_related("event", "endpoint")
        .first()
    )
    if found is None:
        raise NotFound(_("There is no such delivery."))
    return found
