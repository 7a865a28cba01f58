"""Role → deed: what a member may do (house §8), as one table.

A door asks for a deed, never for a role: ``permission_classes = [Needs("jobs.run")]``. A person who is no member sees
404 (see :mod:`portal.accounts.authentication`); a member without the deed sees 403 with the names of those who can
grant it.

Two deeds split what the table says in words: `audit.read` (billing reads the audit log without managing members) and
`costs.read` (a developer sees what jobs cost, not the organisation's money).
"""

from enum import StrEnum
from typing import Any

from django.utils.translation import gettext as _
from rest_framework.permissions import SAFE_METHODS

from portal.accounts.models import Organisation, OrganisationState, Role
from portal.kit.errors import Forbidden, NotFound, NotSignedIn


class Deed(StrEnum):
    WORK_READ = "work.read"  # jobs, tasks, explain, nodes, offers
    LOGS_READ = "logs.read"  # logs, outputs, datasets
    COSTS_READ = "costs.read"  # what a job costs
    JOBS_RUN = "jobs.run"  # submit, cancel, retry, change priority or cap
    SECRETS_SET = "secrets.set"  # write only
    NODES_RUN = "nodes.run"  # invite, drain, retire, self-test
    OFFERS_PRICE = "offers.price"  # publish, reprice, pause, withdraw
    MONEY_READ = "money.read"  # usage, invoices, balance, earnings, statements
    BUDGETS_SET = "budgets.set"
    PROJECTS_MANAGE = "projects.manage"
    MONEY_MOVE = "money.move"  # top up, pay, payment methods, dispute, payout account
    MEMBERS_MANAGE = "members.manage"  # invite, roles up to one's own, foreign API keys, webhooks
    AUDIT_READ = "audit.read"
    ORGANISATION_MANAGE = "organisation.manage"  # names, tax ids, currency, period zone, parent, owners, close


_EVERYONE = frozenset({Deed.WORK_READ, Deed.COSTS_READ})

ROLE_DEEDS: dict[Role, frozenset[Deed]] = {
    Role.OWNER: frozenset(Deed),
    Role.ADMIN: frozenset(Deed) - {Deed.MONEY_MOVE, Deed.ORGANISATION_MANAGE},
    Role.DEVELOPER: _EVERYONE | {Deed.LOGS_READ, Deed.JOBS_RUN, Deed.SECRETS_SET, Deed.NODES_RUN},
    Role.BILLING: _EVERYONE | {Deed.MONEY_READ, Deed.BUDGETS_SET, Deed.MONEY_MOVE, Deed.AUDIT_READ},
    Role.VIEWER: _EVERYONE | {Deed.LOGS_READ, Deed.MONEY_READ},
}

READERS_OF_CHILDREN = frozenset({Role.OWNER, Role.ADMIN, Role.BILLING, Role.VIEWER})
"""A parent's members of these roles read the money of its children, nothing else."""
DEEDS_IN_CHILDREN = frozenset({Deed.MONEY_READ})

READ_ONLY = frozenset({Deed.WORK_READ, Deed.LOGS_READ, Deed.COSTS_READ, Deed.MONEY_READ, Deed.AUDIT_READ})
"""What a suspended organisation may still do, beside paying."""
WHILE_SUSPENDED = READ_ONLY | {Deed.MONEY_MOVE}

RANK: dict[Role, int] = {Role.VIEWER: 0, Role.BILLING: 1, Role.DEVELOPER: 1, Role.ADMIN: 2, Role.OWNER: 3}
"""Roles up to one's own: an admin gives and takes every role but owner."""


def may(actor: Any, deed: str) -> bool:
    """May `actor` (of `portal.accounts.actors`, or None) do it? The state of the organisation counts."""
    if actor is None or deed not in actor.deeds:
        return False
    organisation = actor.organisation
    return organisation is None or organisation.state == OrganisationState.ACTIVE or deed in WHILE_SUSPENDED


def demand(actor: Any, deed: str) -> None:
    """`may`, or the error that says what to do: NotSignedIn, or Forbidden with who can grant the deed."""
    if actor is None:
        raise NotSignedIn(_("Sign in, or send an API key: Authorization: Bearer idw_…"))
    if may(actor, deed):
        return
    if actor.organisation is None:
        actor.home()  # says what to do: there is nobody who could grant anything
    if deed in actor.deeds:
        raise Forbidden(
            _("This organisation is suspended: it can read and pay, nothing else. Ask the operator of the platform."),
            code="organisation_suspended",
        )
    raise Forbidden(
        _("This needs the deed %(deed)s. %(who)s can grant it.") % {"deed": deed, "who": _grantors(actor.organisation)},
        deed=deed,
    )


def _grantors(organisation: Organisation | None) -> str:
    """Up to three owners and admins, by name."""
    if organisation is None:
        return str(_("An owner or admin of the organisation"))
    people = (
        organisation.memberships.filter(role__in=[Role.OWNER, Role.ADMIN])
        .select_related("user")
        .order_by("-role", "id")
    )
    names = [str(member.user) for member in people[:3]]
    return ", ".join(names) or str(_("An owner or admin of the organisation"))


def Needs(deed: str = "", **by_method: str) -> Any:  # noqa: N802  # reads like the class it stands for
    """A DRF permission: the deed of every method, or of each: ``Needs(get="work.read", post="nodes.run")``.

    Without a deed any signed-in member may come in (``Needs()``).
    """
    return DeedNeeded(deed, **by_method)


class DeedNeeded:
    """What `Needs` makes; ``of(method)`` tells the deed."""

    def __init__(self, deed: str = "", **by_method: str) -> None:
        self.by_method = {method.upper(): str(Deed(needed)) for method, needed in by_method.items()}
        self.deed = str(Deed(deed)) if deed else ""

    def __call__(self) -> "DeedNeeded":
        return self

    def of(self, method: str) -> str:
        """The deed that `method` needs; "" = to be a member is enough."""
        if method in ("HEAD", "OPTIONS"):
            method = "GET"
        return self.by_method.get(method, self.deed)

    def has_permission(self, request: Any, view: Any) -> bool:
        actor = getattr(request, "actor", None)
        deed = self.of(request.method)
        if deed:
            demand(actor, deed)
        elif actor is None:
            raise NotSignedIn(_("Sign in, or send an API key: Authorization: Bearer idw_…"))
        elif (
            actor.organisation is not None
            and actor.organisation.state != OrganisationState.ACTIVE
            and request.method not in SAFE_METHODS
        ):
            raise Forbidden(_("This organisation is suspended."), code="organisation_suspended")
        return True

    def has_object_permission(self, request: Any, view: Any, obj: Any) -> bool:
        return True


class OperatorsAlone:
    """A DRF permission: operators, signed in as people. To everybody else the door does not exist (404)."""

    def __call__(self) -> "OperatorsAlone":
        return self

    def has_permission(self, request: Any, view: Any) -> bool:
        actor = getattr(request, "actor", None)
        if actor is None:
            raise NotSignedIn(_("Sign in as an operator."))
        if not actor.is_operator:
            raise NotFound(_("There is nothing here that you can see."))
        return True

    def has_object_permission(self, request: Any, view: Any, obj: Any) -> bool:
        return True


OperatorOnly: Any = OperatorsAlone()
"""``permission_classes = [OperatorOnly]``."""
