"""Members.

Invited, joined, given another role, removed. One gives and takes roles up to one's own; the last owner stays.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from portal import ids
from portal.accounts.models import Invitation, Membership, Organisation, Role, User
from portal.accounts.permissions import RANK
from portal.accounts.services import shapes
from portal.audit.services import note
from portal.kit.errors import Conflict, Finding, Forbidden, InvalidInput, NotFound
from portal.outbox.services import put

KEEP = timedelta(days=7)
"""An invitation is good for this long."""


@dataclass(frozen=True)
class Invited:
    """The invitation and its token, which is never shown again."""

    invitation: Invitation
    token: str
    link: str


def invite(*, organisation: Organisation, email: str, role: str, by: str, by_role: Role, now: datetime) -> Invited:
    """Ask somebody in; a mail with the link goes out after commit."""
    address = email.strip().lower()
    shapes.refuse([_address(address), _role(role)])
    _up_to_own(by_role, Role(role))
    if Membership.objects.filter(organisation=organisation, user__email=address).exists():
        raise Conflict(_("%(email)s is a member already.") % {"email": address}, code="already_member")
    token = ids.token(40)
    link = f"{settings.IDLEWILD_BASE_URL}/invitations/{token}"
    with transaction.atomic():
        invitation = Invitation.objects.create(
            organisation=organisation,
            email=address,
            role=role,
            token_hash=ids.digest(token),
            created_by=by,
            created_at=now,
            expires_at=now + KEEP,
        )
        note(
            actor=by,
            deed="member.invite",
            target=invitation.public_id,
            organisation_id=organisation.id,
            data={"email": address, "role": role},
            now=now,
        )
        put(
            topic="mail",
            key=f"invitation:{invitation.public_id}",
            payload={
                "to": [address],
                "subject": _("You are invited to %(organisation)s on Idlewild") % {"organisation": organisation.name},
                "body": _("Join %(organisation)s as %(role)s within seven days:\n\n%(link)s\n")
                % {"organisation": organisation.name, "role": role, "link": link},
            },
            now=now,
        )
    return Invited(invitation, token, link)


def open_invitation(token: str, now: datetime) -> Invitation:
    """The open invitation of that token; NotFound when it is unknown, used or over."""
    found = Invitation.objects.select_related("organisation").filter(token_hash=ids.digest(token)).first()
    if found is None or found.accepted_at is not None or found.expires_at <= now:
        raise NotFound(_("This invitation was used or is over. Ask for a new one."), code="invitation_over")
    return found


def accept(*, token: str, user: User, now: datetime) -> Membership:
    """Join by the token; it works once, for the person whose address was invited."""
    with transaction.atomic():
        invitation = open_invitation(token, now)
        if invitation.email != user.email.lower():
            raise Forbidden(
                _("This invitation is for %(email)s. Sign in as that person.") % {"email": invitation.email},
                code="other_person",
            )
        used = Invitation.objects.filter(id=invitation.id, accepted_at=None).update(accepted_at=now)
        if used != 1:  # another click got there first
            raise NotFound(_("This invitation was used or is over. Ask for a new one."), code="invitation_over")
        try:
            with transaction.atomic():
                member = Membership.objects.create(
                    user=user, organisation=invitation.organisation, role=invitation.role, created_at=now
                )
        except IntegrityError:
            raise Conflict(_("You are a member already."), code="already_member") from None
        note(
            actor=user.public_id,
            deed="member.join",
            target=user.public_id,
            organisation_id=invitation.organisation_id,
            data={"role": invitation.role, "invitation": invitation.public_id},
            now=now,
        )
    return member


def change_role(*, member: Membership, role: str, by: str, by_role: Role, now: datetime) -> Membership:
    """Another role; neither the old nor the new one above the actor's own. API keys are cut down with it at once."""
    shapes.refuse([_role(role)])
    with transaction.atomic():
        row = _locked(member)
        _up_to_own(by_role, Role(row.role))
        _up_to_own(by_role, Role(role))
        if Role(row.role) == Role.OWNER and role != Role.OWNER:
            _not_last_owner(row)
        before, row.role = row.role, role
        row.save(update_fields=["role"])
        note(
            actor=by,
            deed="member.role",
            target=row.user.public_id,
            organisation_id=row.organisation_id,
            data={"before": before, "after": role},
            now=now,
        )
    return row


def remove(*, member: Membership, by: str, by_role: Role, now: datetime) -> None:
    """Out; the member's API keys die with the membership. Everybody may leave, but for the last owner."""
    with transaction.atomic():
        row = _locked(member)
        if row.user.public_id != by:
            _up_to_own(by_role, Role(row.role))
        if Role(row.role) == Role.OWNER:
            _not_last_owner(row)
        user, organisation_id, role = row.user.public_id, row.organisation_id, row.role
        row.delete()
        note(actor=by, deed="member.remove", target=user, organisation_id=organisation_id, data={"role": role}, now=now)


def withdraw_invitation(*, invitation: Invitation, by: str, now: datetime) -> None:
    """An open invitation ends now."""
    with transaction.atomic():
        ended = Invitation.objects.filter(id=invitation.id, accepted_at=None, expires_at__gt=now).update(expires_at=now)
        if ended != 1:  # accepted or over meanwhile
            raise Conflict(_("This invitation was used or is over."), code="invitation_over")
        note(
            actor=by,
            deed="member.uninvite",
            target=invitation.public_id,
            organisation_id=invitation.organisation_id,
            now=now,
        )


def _locked(member: Membership) -> Membership:
    """The row, under the lock of its organisation, so that two last owners cannot leave together."""
    Organisation.objects.select_for_update().get(id=member.organisation_id)
    row = Membership.objects.select_related("user", "organisation").filter(id=member.id).first()
    if row is None:
        raise NotFound(_("This member has left."))
    return row


def _not_last_owner(row: Membership) -> None:
    others = Membership.objects.filter(organisation_id=row.organisation_id, role=Role.OWNER).exclude(id=row.id)
    if not others.exists():
        raise Conflict(_("The last owner stays: make somebody else an owner first."), code="last_owner")


def _up_to_own(own: Role, wanted: Role) -> None:
    if RANK[wanted] > RANK[own]:
        raise Forbidden(
            _("You give and take roles up to your own (%(own)s).") % {"own": own.value}, code="above_own_role"
        )


def _address(value: str) -> Finding | None:
    try:
        validate_email(value)
    except ValidationError as error:
        return Finding("email", "bad_email", " ".join(error.messages))
    return None


def _role(value: str) -> Finding | None:
    if value in {role.value for role in Role}:
        return None
    return Finding("role", "unknown_role", _("one of %(known)s") % {"known": ", ".join(role.value for role in Role)})


def refuse_unknown_role(value: str) -> None:
    """InvalidInput for a word that is no role."""
    finding = _role(value)
    if finding:
        raise InvalidInput([finding])
