"""What a role may do, in words: for the members page and for the scopes of a key."""

from typing import Any

from django.utils.translation import gettext_lazy as _

from portal.accounts.models import Role
from portal.accounts.permissions import ROLE_DEEDS, Deed

TEXTS: dict[str, Any] = {
    "work.read": _("See jobs, nodes and offers"),
    "logs.read": _("Read logs and download outputs"),
    "costs.read": _("See what a job costs"),
    "jobs.run": _("Submit, cancel and retry jobs"),
    "secrets.set": _("Store and delete secrets"),
    "nodes.run": _("Add, drain and retire nodes"),
    "offers.price": _("Publish offers and set prices"),
    "money.read": _("See usage, invoices and balance"),
    "budgets.set": _("Set budgets"),
    "projects.manage": _("Make and change projects"),
    "money.move": _("Pay and be paid"),
    "members.manage": _("Invite members and change roles"),
    "audit.read": _("Read the audit trail"),
    "organisation.manage": _("Change the organisation itself"),
}


def text(deed: str) -> Any:
    return TEXTS.get(str(deed), str(deed))


def table() -> list[dict[str, Any]]:
    """One row a deed: may each role do it?"""
    return [{"text": text(deed), "roles": [deed in ROLE_DEEDS[role] for role in Role]} for deed in Deed]
