"""What a person chooses for themselves: name, time zone, language, theme."""

from typing import Any

from django.utils.translation import gettext as _

from portal.accounts.models import User
from portal.accounts.services import shapes
from portal.kit.errors import Finding

OWN = frozenset({"name", "time_zone", "language", "theme"})
THEMES = ("", "light", "dark")


def prefer(*, user: User, **values: Any) -> User:
    """Keep some of `OWN`; InvalidInput for what is not one of the known choices."""
    shapes.refuse(
        [
            *(Finding(field, "unchangeable", _("this cannot be changed")) for field in sorted(set(values) - OWN)),
            shapes.time_zone("time_zone", values["time_zone"]) if "time_zone" in values else None,
            Finding("theme", "unknown_theme", _("light, dark, or nothing"))
            if values.get("theme", "") not in THEMES
            else None,
        ]
    )
    for field, value in values.items():
        setattr(user, field, value.strip())
    user.save(update_fields=list(values))
    return user
