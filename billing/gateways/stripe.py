"""The payment rail: the one place that speaks to Stripe. Without a key there is no rail, and pages say so.

Payments come with a later issue; what an issued invoice would collect waits in the outbox (topic ``stripe.collect``) until then.
"""

import stripe
from django.conf import settings

from portal.kit.errors import Unavailable


class NoRail(Unavailable):
    """No payment rail is configured."""

    code = "no_payment_rail"


def configured() -> bool:
    """Whether a key is set."""
    return bool(settings.STRIPE_SECRET_KEY)


def client() -> stripe.StripeClient:
    """The rail's client, or NoRail."""
    if not configured():
        raise NoRail(
            "no payment rail is set up here: pay by bank transfer, or ask the operator to set STRIPE_SECRET_KEY"
        )
    if settings.IDLEWILD_STRIPE_API_BASE:
        return stripe.StripeClient(
            settings.STRIPE_SECRET_KEY, base_addresses={"api": settings.IDLEWILD_STRIPE_API_BASE}
        )
    return stripe.StripeClient(settings.STRIPE_SECRET_KEY)
