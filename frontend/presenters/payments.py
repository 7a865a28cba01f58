"""Payments, refunds and payouts → what pages show: money, words, addresses."""

from typing import Any

from django.urls import reverse

from portal.kit.money import Money


def row(payment: Any) -> dict[str, Any]:
    """A payment in a list."""
    return {
        "public_id": payment.public_id,
        "state": payment.state,
        "purpose": payment.purpose,
        "number": payment.invoice.number if payment.invoice is not None else "",
        "invoice": reverse("console:invoice", args=[payment.invoice.public_id]) if payment.invoice is not None else "",
        "organisation": payment.organisation.name,
        "amount": Money(payment.amount_minor, payment.currency),
        "given_back": Money(payment.refunded_minor, payment.currency),
        "automatic": payment.automatic,
        "failure": payment.failure_message,
        "created_at": payment.created_at,
        "ended_at": payment.ended_at,
    }


def refund(found: Any, currency: str) -> dict[str, Any]:
    """A refund of a payment."""
    return {
        "amount": Money(found.amount_minor, currency),
        "state": found.state,
        "created_at": found.created_at,
        "reference": found.reference,
    }


def dispute(found: Any, currency: str) -> dict[str, Any]:
    """A dispute of a payment."""
    return {
        "amount": Money(found.amount_minor, currency),
        "state": found.state,
        "opened_at": found.opened_at,
        "due_by": found.due_by,
    }
