"""Payouts and their parts → words and money; what a payment service still wants to know, in words."""

from typing import Any

from django.conf import settings
from django.utils.translation import gettext as _

from frontend.presenters.money_lines import month_text
from portal.kit.money import Money


def hold_days() -> int:
    """Days between the payment of an invoice and its share being free to go out."""
    return int(settings.IDLEWILD_PAYOUT_HOLD_DAYS)


def row(payout: Any) -> dict[str, Any]:
    """A payout in a list."""
    return {
        "public_id": payout.public_id,
        "state": payout.state,
        "reason": payout.reason,
        "amount": Money(payout.amount_minor, payout.currency),
        "taken_back": Money(payout.reversed_minor, payout.currency),
        "failure": payout.failure_message,
        "created_at": payout.created_at,
        "sent_at": payout.sent_at,
        "transfer": payout.transfer,
    }


def part(found: Any, currency: str) -> dict[str, Any]:
    """Why a payout has its amount."""
    words = {
        "share": _("Your share of %(month)s"),
        "set_off": _("What you owed was set off"),
        "credited": _("A credit note took this back"),
        "returned": _("An earlier payout came back"),
        "carried": _("Carried over: below the smallest step of the payment service"),
    }
    month = month_text(found.invoice.period.month) if found.invoice is not None else ""
    text = words.get(found.kind, found.kind) % {"month": month} if month else words.get(found.kind, found.kind)
    return {"text": text, "amount": Money(found.amount_minor, currency), "at": found.at}


def due(account: Any) -> list[str]:
    """What the payment service still wants, in words; its own name of a thing where we have none."""
    if account is None:
        return []
    known = {
        "external_account": _("a bank account"),
        "business_type": _("what kind of business it is"),
        "tos_acceptance.date": _("your consent to its terms"),
        "individual.verification.document": _("a document that proves who you are"),
        "company.tax_id": _("the company's tax number"),
    }
    return [str(known.get(name, name.replace("_", " ").replace(".", ": "))) for name in account.due]
