"""Wallets, budgets and bank transfers in words and figures."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from billing.selectors.wallets import reference_of
from frontend.presenters import figures as numbers
from portal.kit.money import Money

KINDS = {
    "topup": gettext_lazy("Top-up"),
    "takeout": gettext_lazy("Paid back"),
    "hold": gettext_lazy("Kept for a job, or given back"),
    "prepaid": gettext_lazy("Invoice"),
    "bank": gettext_lazy("Bank transfer"),
}
WHY = {
    "no_reference": gettext_lazy("It names no invoice and no wallet"),
    "bad_reference": gettext_lazy("Its reference is mistyped: the check digits do not agree"),
    "unknown_reference": gettext_lazy("There is no such invoice"),
    "several_references": gettext_lazy("It names several invoices"),
    "currency_differs": gettext_lazy("It is in another currency, and is never converted"),
    "nothing_open": gettext_lazy("The invoice is paid already"),
    "": gettext_lazy("Not looked at yet"),
}
AT_LIMIT = {
    "notify": gettext_lazy("people are told"),
    "block": gettext_lazy("nothing new starts"),
    "stop": gettext_lazy("running jobs are stopped"),
}
SCOPES = {
    "organisation": gettext_lazy("Organisation"),
    "department": gettext_lazy("Department"),
    "project": gettext_lazy("Project"),
    "job": gettext_lazy("Job"),
}


def amount(wire: Mapping[str, str]) -> Money:
    """Money from its JSON form."""
    return Money.parse(wire["amount"], wire["currency"])


def moment(text: str | None) -> datetime | None:
    """A time of a JSON form."""
    return None if text is None else datetime.fromisoformat(text.replace("Z", "+00:00"))


def figures(found: Mapping[str, Any]) -> list[dict[str, str]]:
    """The four figures of a wallet."""
    return [
        {"name": _("Balance"), "value": numbers.money(amount(found["balance"])), "context": _("paid in and not used")},
        {"name": _("Kept for jobs"), "value": numbers.money(amount(found["kept"])), "context": _("until they end, or are invoiced")},
        {"name": _("Free to spend"), "value": numbers.money(amount(found["available"])), "context": _("on new jobs, now")},
        {"name": _("Credit"), "value": numbers.money(amount(found["credit"])), "context": _("used by the next invoice first")},
    ]  # fmt: skip


def credit(row: Mapping[str, Any]) -> dict[str, Any]:
    """One credit grant."""
    return {
        "reason": row["reason"], "left": amount(row["left"]), "amount": amount(row["amount"]), "expires_at": moment(row["expires_at"]),
        "expired": row["expired"],
    }  # fmt: skip


def hours(row: Mapping[str, Any]) -> dict[str, Any]:
    """One grant of resource-hours."""
    unit = _("core-hours") if row["resource"] == "core" else _("card-hours")
    left, whole = (numbers.grouped(row[name].partition(".")[0]) for name in ("left", "hours"))
    return {
        "giver": row["giver"]["name"], "reason": row["reason"], "left": f"{left} {unit}", "whole": f"{whole} {unit}",
        "expires_at": moment(row["expires_at"]), "expired": row["expired"],
    }  # fmt: skip


def entry(row: Any) -> dict[str, Any]:
    """One movement of the wallet."""
    return {
        "at": row.txn.at, "kind": KINDS.get(row.txn.kind, row.txn.kind), "amount": Money(row.amount_minor, row.currency),
        "reference": reference_of(row), "into": row.amount_minor > 0,
    }  # fmt: skip


def budget(view: Any) -> dict[str, Any]:
    """One budget of the list."""
    code, standing = view.budget.currency, view.standing
    tone = "danger" if standing.exhausted else "warning" if standing.percent >= 75 else "success"
    return {
        "public_id": view.budget.public_id,
        "scope": SCOPES[view.budget.scope],
        "name": view.name,
        "amount": Money(view.budget.amount_minor, code),
        "spent": Money(standing.spent_minor, code),
        "held": Money(standing.committed_minor - standing.spent_minor, code),
        "left": Money(standing.left_minor, code),
        "percent": standing.percent,
        "shown": min(100, standing.percent),
        "tone": tone,
        "forecast": view.forecast,
        "over": view.forecast.minor > view.budget.amount_minor,
        "at_limit": AT_LIMIT[view.budget.at_limit],
        "told": ", ".join(f"{alert.threshold} %" for alert in view.alerts),
    }


def transfer(row: Any) -> dict[str, Any]:
    """One bank transfer of the operator's list."""
    code = row.currency
    return {
        "public_id": row.public_id,
        "booked_on": row.booked_on,
        "amount": Money(row.amount_minor, code),
        "payer": row.payer_name or _("no name"),
        "account": row.payer_account,
        "text": row.text,
        "bank_reference": row.bank_reference,
        "state": row.state,
        "why": WHY.get(row.why, row.why),
        "organisation": row.organisation.name if row.organisation else "",
        "invoice": row.invoice.number if row.invoice else "",
        "to_wallet": Money(row.to_wallet_minor, code) if row.to_wallet_minor else None,
    }
