"""Keys and secrets that somebody sees: never their text."""

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from portal.accounts.actors import Actor
from portal.accounts.models import ApiKey, Organisation, Secret
from portal.accounts.permissions import Deed, may
from portal.kit.errors import NotFound


def visible_to(actor: Actor) -> QuerySet[ApiKey]:
    """One's own keys in the organisation; everybody's for who manages members."""
    rows = ApiKey.objects.filter(membership__organisation=actor.home()).select_related(
        "membership__user", "membership__organisation", "project"
    )
    if not may(actor, Deed.MEMBERS_MANAGE):
        rows = rows.filter(membership__user=actor.user)
    return rows.order_by("-id")


def one(actor: Actor, public_id: str) -> ApiKey:
    """A key of `visible_to`; NotFound otherwise."""
    found = visible_to(actor).filter(public_id=public_id).first()
    if found is None:
        raise NotFound(_("There is no such API key that you can see."))
    return found


def secrets(organisation: Organisation) -> QuerySet[Secret]:
    """The names of an organisation's secrets."""
    return Secret.objects.filter(organisation=organisation).select_related("project").order_by("-id")


def secret(organisation: Organisation, public_id: str) -> Secret:
    """One secret by id or, for one of the whole organisation, by name; NotFound otherwise."""
    rows = secrets(organisation)
    found = rows.filter(public_id=public_id).first() or rows.filter(name=public_id, project=None).first()
    if found is None:
        raise NotFound(_("There is no such secret."))
    return found
