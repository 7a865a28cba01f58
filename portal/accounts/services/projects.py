"""Projects: parts of an organisation with bill lines of their own."""

from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from portal.accounts.models import Organisation, Project
from portal.accounts.services import shapes
from portal.audit.services import note
from portal.kit.errors import Conflict, Finding, InvalidInput

CHANGEABLE = frozenset({"name", "department"})


def create(
    *, organisation: Organisation, slug: str, by: str, now: datetime, name: str = "", department: str = ""
) -> Project:
    """A new project; `department` groups split bills."""
    shapes.refuse([shapes.slug("slug", slug), shapes.name("name", name or slug), _department(department)])
    try:
        with transaction.atomic():
            project = Project.objects.create(
                organisation=organisation,
                slug=slug,
                name=(name or slug).strip(),
                department=department.strip(),
                created_at=now,
            )
            note(
                actor=by,
                deed="project.create",
                target=project.public_id,
                organisation_id=organisation.id,
                data={"slug": slug, "department": project.department},
                now=now,
            )
    except IntegrityError:
        raise InvalidInput([Finding("slug", "taken", _("there is a project of this slug"))]) from None
    return project


def change(*, project: Project, by: str, now: datetime, **values: Any) -> Project:
    """Another name or department; bills of past periods keep the old ones."""
    strange = set(values) - CHANGEABLE
    shapes.refuse(
        [
            *(Finding(field, "unchangeable", _("this cannot be changed")) for field in sorted(strange)),
            shapes.name("name", values["name"]) if "name" in values else None,
            _department(values.get("department", "")),
        ]
    )
    with transaction.atomic():
        row = Project.objects.select_for_update().get(id=project.id)
        before = {field: getattr(row, field) for field in values}
        for field, value in values.items():
            setattr(row, field, value.strip())
        row.save(update_fields=list(values))
        note(
            actor=by,
            deed="project.change",
            target=row.public_id,
            organisation_id=row.organisation_id,
            data={"before": before, "after": values},
            now=now,
        )
    return row


def archive(*, project: Project, by: str, now: datetime) -> Project:
    """No new jobs; bills and history stay."""
    with transaction.atomic():
        updated = Project.objects.filter(id=project.id, archived_at=None).update(archived_at=now)
        if updated != 1:  # archived already
            raise Conflict(_("This project is archived already."), code="state")
        note(
            actor=by, deed="project.archive", target=project.public_id, organisation_id=project.organisation_id, now=now
        )
    project.refresh_from_db()
    return project


def _department(value: str) -> Finding | None:
    return shapes.name("department", value) if value else None
