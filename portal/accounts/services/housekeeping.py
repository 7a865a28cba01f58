"""What is deleted when its time is over.

Idempotency keys (30 days), sent outbox rows (30 days), invitations (30 days after their end), sessions.
"""

from datetime import datetime, timedelta
from importlib import import_module

from django.conf import settings

from portal.accounts.models import Invitation
from portal.accounts.services import webhooks
from portal.api import idempotency
from portal.outbox import services as outbox

KEEP_INVITATIONS = timedelta(days=30)


def expire(*, now: datetime) -> dict[str, int]:
    """How many of each were deleted."""
    import_module(settings.SESSION_ENGINE).SessionStore.clear_expired()
    return {
        "idempotency_keys": idempotency.expire(now=now),
        "outbox": outbox.expire(now=now),
        "webhooks": webhooks.expire(now=now),
        "invitations": Invitation.objects.filter(expires_at__lt=now - KEEP_INVITATIONS).delete()[0],
    }
