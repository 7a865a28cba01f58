"""Who acts.

A person or a key, in one organisation, with deeds. Made at the door, handed to services as text (`actor.id`).
"""

from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _

from portal.accounts.models import ApiKey, Membership, Organisation, Project, Role, User
from portal.accounts.permissions import DEEDS_IN_CHILDREN, READERS_OF_CHILDREN, ROLE_DEEDS
from portal.kit.errors import NotFound

MAX_TREE = 8
"""Levels of the organisation tree."""


@dataclass(frozen=True)
class Actor:
    """A signed-in person or key.

    `organisation` is None for a person who belongs to none; `role` is None for a parent's reader.
    """

    user: User
    organisation: Organisation | None
    role: Role | None
    deeds: frozenset[str]
    key: ApiKey | None = None

    @property
    def id(self) -> str:
        """The text id of audit trail and rows: ``usr_…`` or ``key_…``."""
        return self.key.public_id if self.key else self.user.public_id

    @property
    def is_operator(self) -> bool:
        """An operator acts in person, never by key."""
        return self.key is None and self.user.is_operator

    @property
    def project(self) -> Project | None:
        """The default project of what a key submits."""
        return self.key.project if self.key else None

    def home(self) -> Organisation:
        """The organisation, or 404 for a person who has none."""
        if self.organisation is None:
            raise NotFound(
                _("You belong to no organisation yet: make one, or accept an invitation."), code="no_organisation"
            )
        return self.organisation


def of_user(user: User, slug: str | None = None) -> Actor:
    """The actor of a person in the organisation named `slug` (default.

    The first membership). NotFound for a stranger's organisation.
    """
    memberships = Membership.objects.filter(user=user).select_related("organisation").order_by("id")
    if not slug:
        first = memberships.first()
        return _member(user, first) if first else Actor(user, None, None, frozenset())
    member = memberships.filter(organisation__slug=slug).first()
    if member:
        return _member(user, member)
    reader = _as_parent(slug, {m.organisation_id: Role(m.role) for m in memberships})
    if reader is None:
        raise NotFound(
            _("There is no organisation %(slug)s that you can see.") % {"slug": slug}, code="organisation_not_found"
        )
    return Actor(user, reader, None, frozenset(str(deed) for deed in DEEDS_IN_CHILDREN))


def of_key(key: ApiKey, now: datetime, slug: str | None = None) -> Actor:
    """The actor of an API key: its scopes, cut down to what its maker may do today."""
    member = key.membership
    allowed = {str(deed) for deed in ROLE_DEEDS[Role(member.role)]}
    deeds = frozenset(allowed & set(key.scopes))
    if slug and slug != member.organisation.slug:
        reader = _as_parent(slug, {member.organisation_id: Role(member.role)})
        kept = deeds & {str(deed) for deed in DEEDS_IN_CHILDREN}
        if reader is None or not kept:
            raise NotFound(
                _("There is no organisation %(slug)s that this key can see.") % {"slug": slug},
                code="organisation_not_found",
            )
        return Actor(member.user, reader, None, kept, key)
    return Actor(member.user, member.organisation, Role(member.role), deeds, key)


def _member(user: User, member: Membership) -> Actor:
    role = Role(member.role)
    return Actor(user, member.organisation, role, frozenset(str(deed) for deed in ROLE_DEEDS[role]))


def _as_parent(slug: str, roles: dict[int, Role]) -> Organisation | None:
    """The organisation `slug` if one of its ancestors is among `roles` with a reading role."""
    target = Organisation.objects.filter(slug=slug).select_related("parent").first()
    above = target.parent if target else None
    for _level in range(MAX_TREE):
        if above is None:
            return None
        if roles.get(above.id) in READERS_OF_CHILDREN:
            return target
        above = above.parent
    return None
