"""API keys: made (shown once), revoked. Scopes are deeds, at most the maker's."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext as _

from portal import ids
from portal.accounts.models import ApiKey, Membership, Project, Role
from portal.accounts.permissions import ROLE_DEEDS, Deed
from portal.accounts.services import shapes
from portal.audit.services import note
from portal.kit.errors import Conflict, Finding


@dataclass(frozen=True)
class MadeKey:
    """The row, and the text that is never shown again."""

    key: ApiKey
    text: str


def create(
    *,
    member: Membership,
    name: str,
    by: str,
    now: datetime,
    scopes: Sequence[str] | None = None,
    project: Project | None = None,
    expires_at: datetime | None = None,
    within: frozenset[str] | None = None,
    maker: ApiKey | None = None,
) -> MadeKey:
    """A key for `member`.

    Without scopes it gets all deeds of the role. `within` limits what a key may hand on, `maker` is that key: a key
    makes no stronger key, and none that outlives it.
    """
    own = {str(deed) for deed in ROLE_DEEDS[Role(member.role)]}
    if maker is not None:
        project = project or maker.project
        ends = [moment for moment in (expires_at, maker.expires_at) if moment is not None]
        expires_at = min(ends, default=None)
    allowed = own if within is None else own & within
    wanted = sorted(allowed) if scopes is None else list(dict.fromkeys(scopes))
    shapes.refuse(
        [
            shapes.name("name", name, most=80),
            *(_scope(index, scope, allowed) for index, scope in enumerate(wanted)),
            Finding("scopes", "empty", _("at least one deed")) if not wanted else None,
            Finding("expires_at", "past", _("a time to come"))
            if expires_at is not None and expires_at <= now
            else None,
            Finding("project", "unknown", _("a project of this organisation"))
            if project is not None and project.organisation_id != member.organisation_id
            else None,
        ]
    )
    prefix, secret = ids.token(10), ids.token(40)
    with transaction.atomic():
        key = ApiKey.objects.create(
            membership=member,
            project=project,
            name=name.strip(),
            prefix=prefix,
            secret_hash=ids.digest(secret),
            scopes=wanted,
            created_at=now,
            expires_at=expires_at,
        )
        note(
            actor=by,
            deed="key.create",
            target=key.public_id,
            organisation_id=member.organisation_id,
            data={"name": key.name, "scopes": wanted, "prefix": prefix},
            now=now,
        )
    return MadeKey(key, f"idw_{prefix}_{secret}")


def revoke(*, key: ApiKey, by: str, now: datetime) -> ApiKey:
    """The key opens nothing any more."""
    with transaction.atomic():
        updated = ApiKey.objects.filter(id=key.id, revoked_at=None).update(revoked_at=now)
        if updated != 1:  # revoked already
            raise Conflict(_("This key is revoked already."), code="state")
        note(actor=by, deed="key.revoke", target=key.public_id, organisation_id=key.membership.organisation_id, now=now)
    key.refresh_from_db()
    return key


def _scope(index: int, scope: str, allowed: set[str]) -> Finding | None:
    if scope in allowed:
        return None
    if scope in {deed.value for deed in Deed}:
        return Finding(
            f"scopes[{index}]", "above_own", _("you do not have the deed %(deed)s yourself") % {"deed": scope}
        )
    return Finding(f"scopes[{index}]", "unknown_deed", _("one of %(known)s") % {"known": ", ".join(sorted(allowed))})
