"""Secrets of tenants: written, replaced, deleted; never shown. Stored sealed (`portal.vault`), opened only for a live
fence.

The seal is bound to the organisation and the name, so a ciphertext copied to another row does not open.
"""

import re
from collections.abc import Iterable
from datetime import datetime

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from portal import vault
from portal.accounts.models import Organisation, Project, Secret
from portal.accounts.services import shapes
from portal.audit.services import note
from portal.kit.errors import Finding

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,119}")
MOST = 64 * 1024


def put(
    *, organisation: Organisation, name: str, value: str, by: str, now: datetime, project: Project | None = None
) -> Secret:
    """Write or replace a secret of the organisation, or of one project (which wins there)."""
    shapes.refuse(
        [
            None
            if NAME.fullmatch(name)
            else Finding("name", "bad_name", _("letters, digits and _, as an environment variable"), "HUB_TOKEN"),
            Finding("value", "blank", _("a secret is not empty")) if not value else None,
            Finding("value", "too_long", _("at most 64 KiB")) if len(value.encode()) > MOST else None,
            Finding("project", "unknown", _("a project of this organisation"))
            if project is not None and project.organisation_id != organisation.id
            else None,
        ]
    )
    sealed = vault.encrypt(value, about=_about(organisation, name))
    with transaction.atomic():
        secret, created = Secret.objects.update_or_create(
            organisation=organisation,
            project=project,
            name=name,
            defaults={"sealed": sealed, "updated_at": now},
            create_defaults={"sealed": sealed, "updated_at": now, "created_at": now, "created_by": by},
        )
        note(
            actor=by,
            deed="secret.set",
            target=secret.public_id,
            organisation_id=organisation.id,
            data={"name": name, "project": project.slug if project else None, "new": created},
            now=now,
        )
    return secret


def delete(*, secret: Secret, by: str, now: datetime) -> None:
    """Gone; running attempts keep the value they were given."""
    with transaction.atomic():
        note(
            actor=by,
            deed="secret.delete",
            target=secret.public_id,
            organisation_id=secret.organisation_id,
            data={"name": secret.name},
            now=now,
        )
        secret.delete()


def missing(*, organisation: Organisation, project: Project | None, names: Iterable[str]) -> list[str]:
    """Which of `names` are not in the store (asked at submit)."""
    wanted = list(dict.fromkeys(names))
    known = set(_visible(organisation, project).filter(name__in=wanted).values_list("name", flat=True))
    return [name for name in wanted if name not in known]


def open_for_attempt(
    *, organisation: Organisation, project: Project | None, names: Iterable[str], attempt: str, node: str, now: datetime
) -> dict[str, str]:
    """The values for one attempt.

    Only `scheduling` calls it, when a node accepts under a live fence; each opening is in the audit trail.
    """
    wanted = list(dict.fromkeys(names))
    if not wanted:
        return {}
    rows: dict[str, Secret] = {}
    for row in _visible(organisation, project).filter(name__in=wanted).order_by("project_id"):
        if row.name not in rows or row.project_id is not None:  # the project's own wins
            rows[row.name] = row
    note(
        actor=node,
        deed="secret.open",
        target=attempt,
        organisation_id=organisation.id,
        data={"names": sorted(rows)},
        now=now,
    )
    return {name: vault.decrypt(row.sealed, about=_about(organisation, name)) for name, row in rows.items()}


def rotate(*, now: datetime) -> int:
    """Re-encrypt what older keys sealed; returns how many (`manage.py rotate_secrets`)."""
    count = 0
    for row in Secret.objects.select_related("organisation").order_by("id").iterator():
        if vault.is_current(row.sealed):
            continue
        fresh = vault.rotate(row.sealed, about=_about(row.organisation, row.name))
        count += Secret.objects.filter(id=row.id, sealed=row.sealed).update(sealed=fresh)
    if count:
        note(actor="system", deed="secret.rotate", target="vault", data={"count": count}, now=now)
    return count


def _visible(organisation: Organisation, project: Project | None) -> QuerySet[Secret]:
    return Secret.objects.filter(organisation=organisation).filter(Q(project=None) | Q(project=project))


def _about(organisation: Organisation, name: str) -> str:
    return f"secret:{organisation.public_id}:{name}"
