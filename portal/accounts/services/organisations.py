"""Organisations: made, changed, hung into the tree; suspended and verified by an operator."""

from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from portal import ids
from portal.accounts.actors import MAX_TREE
from portal.accounts.models import Membership, Organisation, OrganisationState, Project, Role, User
from portal.accounts.services import shapes
from portal.audit.services import note
from portal.kit.errors import Conflict, Finding, InvalidInput

MOST_WEIGHT_MILLI = 1_000_000
CHANGEABLE = frozenset({"name", "period_timezone", "tax_id", "address", "country"})
"""The currency is chosen at sign-up and stays: invoices and credit are in it."""


def create(
    *,
    owner: User,
    name: str,
    currency: str,
    period_timezone: str = "UTC",
    slug: str = "",
    parent: Organisation | None = None,
    by: str = "",
    now: datetime,
) -> Organisation:
    """A new organisation with its first owner and a project named `default`."""
    shapes.refuse(
        [
            shapes.name("name", name),
            shapes.currency("currency", currency),
            shapes.time_zone("period_timezone", period_timezone),
            shapes.slug("slug", slug) if slug else None,
        ]
    )
    _check_depth(parent, height=1)
    with transaction.atomic():
        organisation = _insert(name.strip(), currency, period_timezone, slug, parent, now)
        Membership.objects.create(user=owner, organisation=organisation, role=Role.OWNER, created_at=now)
        Project.objects.create(organisation=organisation, slug="default", name=_("Default"), created_at=now)
        note(
            actor=by or owner.public_id,
            deed="organisation.create",
            target=organisation.public_id,
            organisation_id=organisation.id,
            data={"slug": organisation.slug, "currency": currency, "period_timezone": period_timezone},
            now=now,
        )
    return organisation


def _insert(name: str, currency: str, zone: str, slug: str, parent: Organisation | None, now: datetime) -> Organisation:
    """A wanted slug must be free; a made one gets a tail until it is."""
    base = slug or shapes.slug_from(name)
    for attempt in range(5):
        try:
            with transaction.atomic():
                return Organisation.objects.create(
                    slug=base if attempt == 0 else f"{base}-{ids.token(5)}",
                    name=name,
                    currency=currency,
                    period_timezone=zone,
                    parent=parent,
                    created_at=now,
                )
        except IntegrityError:
            if slug:
                raise InvalidInput([Finding("slug", "taken", _("another organisation has this slug"))]) from None
    raise Conflict(_("No free slug was found for this name; choose one."))


def change(*, organisation: Organisation, by: str, now: datetime, **values: Any) -> Organisation:
    """Change some of CHANGEABLE; a new period time zone takes effect with the next period."""
    strange = set(values) - CHANGEABLE
    shapes.refuse(
        [
            *(Finding(field, "unchangeable", _("this cannot be changed")) for field in sorted(strange)),
            shapes.name("name", values["name"]) if "name" in values else None,
            shapes.time_zone("period_timezone", values["period_timezone"]) if "period_timezone" in values else None,
        ]
    )
    with transaction.atomic():
        row = Organisation.objects.select_for_update().get(id=organisation.id)
        before = {field: getattr(row, field) for field in values}
        for field, value in values.items():
            setattr(row, field, value)
        row.save(update_fields=list(values))
        note(
            actor=by,
            deed="organisation.change",
            target=row.public_id,
            organisation_id=row.id,
            data={"before": before, "after": values},
            now=now,
        )
    return row


def set_parent(*, organisation: Organisation, parent: Organisation | None, by: str, now: datetime) -> Organisation:
    """Hang `organisation` below `parent` (None: make it a root). Refused: a circle, or more than eight levels.

    The parent's owner, admin, billing and viewer will read the money of `organisation`; the door asks that the actor
    manages both.
    """
    with transaction.atomic():
        # The whole tree is locked in one order, so that two moves cannot close a circle together.
        list(Organisation.objects.select_for_update().order_by("id").values_list("id", flat=True))
        row = Organisation.objects.get(id=organisation.id)
        if parent is not None:
            if row.id in _ancestors(parent) | {parent.id}:
                raise InvalidInput([Finding("parent", "circle", _("that would make a circle"))])
            _check_depth(parent, height=_height(row.id))
        before = row.parent.public_id if row.parent else None
        row.parent = parent
        row.save(update_fields=["parent"])
        note(
            actor=by,
            deed="organisation.parent",
            target=row.public_id,
            organisation_id=row.id,
            data={"before": before, "after": parent.public_id if parent else None},
            now=now,
        )
    return row


def _ancestors(organisation: Organisation) -> set[int]:
    seen: set[int] = set()
    above = organisation.parent
    while above is not None and above.id not in seen:
        seen.add(above.id)
        above = above.parent
    return seen


def _height(organisation_id: int) -> int:
    """Levels from this organisation down, itself included."""
    levels, below = 0, [organisation_id]
    while below and levels <= MAX_TREE:
        levels += 1
        below = list(Organisation.objects.filter(parent_id__in=below).values_list("id", flat=True))
    return levels


def _check_depth(parent: Organisation | None, *, height: int) -> None:
    levels = height + (len(_ancestors(parent)) + 1 if parent else 0)
    if levels > MAX_TREE:
        raise InvalidInput(
            [Finding("parent", "too_deep", _("the tree has at most %(most)d levels") % {"most": MAX_TREE})]
        )


def suspend(*, organisation: Organisation, by: str, reason: str, now: datetime) -> Organisation:
    """An operator stops it.

    It may read and pay, nothing else. Scheduling stops its jobs (reason `organisation_suspended`).
    """
    return _set_state(organisation, OrganisationState.ACTIVE, OrganisationState.SUSPENDED, by, reason, now)


def resume(*, organisation: Organisation, by: str, reason: str = "", now: datetime) -> Organisation:
    """An operator lets it go on."""
    return _set_state(organisation, OrganisationState.SUSPENDED, OrganisationState.ACTIVE, by, reason, now)


def _set_state(
    organisation: Organisation, was: OrganisationState, becomes: OrganisationState, by: str, reason: str, now: datetime
) -> Organisation:
    with transaction.atomic():
        updated = Organisation.objects.filter(id=organisation.id, state=was).update(state=becomes)
        if updated != 1:  # another operator got there first
            raise Conflict(_("It is %(state)s already.") % {"state": becomes.value}, code="state")
        deed = "organisation.suspend" if becomes == OrganisationState.SUSPENDED else "organisation.resume"
        note(
            actor=by,
            deed=deed,
            target=organisation.public_id,
            organisation_id=organisation.id,
            data={"reason": reason},
            now=now,
        )
    organisation.refresh_from_db()
    return organisation


def verify_provider(*, organisation: Organisation, verified: bool, by: str, now: datetime) -> Organisation:
    """An operator vouches for a provider, or takes it back."""
    with transaction.atomic():
        updated = (
            Organisation.objects.filter(id=organisation.id)
            .exclude(provider_verified=verified)
            .update(provider_verified=verified)
        )
        if updated == 1:
            deed = "provider.verify" if verified else "provider.unverify"
            note(actor=by, deed=deed, target=organisation.public_id, organisation_id=organisation.id, now=now)
    organisation.refresh_from_db()
    return organisation


def set_share_weight(*, organisation: Organisation, milli: int, by: str, now: datetime) -> Organisation:
    """An operator sets an organisation's share of scarce capacity, in thousandths of the usual one (1 … 1,000,000)."""
    if not 1 <= milli <= MOST_WEIGHT_MILLI:
        raise InvalidInput([Finding("weight", "out_of_range", _("a weight is between 0.001 and 1000"))])
    with transaction.atomic():
        row = Organisation.objects.select_for_update().get(id=organisation.id)
        before, row.share_weight_milli = row.share_weight_milli, milli
        row.save(update_fields=["share_weight_milli"])
        note(
            actor=by,
            deed="organisation.weight",
            target=row.public_id,
            organisation_id=row.id,
            data={"was": before, "is": milli},
            now=now,
        )
    return row


def set_credit_limit(*, organisation: Organisation, minor: int | None, by: str, now: datetime) -> Organisation:
    """An operator sets how much may be owed, in minor units; None = the default of settings."""
    if minor is not None and minor < 0:
        raise InvalidInput([Finding("credit_limit", "negative", _("a limit is not negative"))])
    with transaction.atomic():
        row = Organisation.objects.select_for_update().get(id=organisation.id)
        before, row.credit_limit_minor = row.credit_limit_minor, minor
        row.save(update_fields=["credit_limit_minor"])
        note(
            actor=by,
            deed="organisation.credit_limit",
            target=row.public_id,
            organisation_id=row.id,
            data={"before": before, "after": minor},
            now=now,
        )
    return row
