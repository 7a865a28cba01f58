"""What every template knows: the theme, who acts, the menu, and the labels that never hide."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest

from frontend import doors
from frontend.menu import menu_of
from frontend.themes import THEME_COOKIE, THEMES


def everywhere(request: HttpRequest) -> dict[str, Any]:
    """The context processor that the settings name."""
    theme = request.COOKIES.get(THEME_COOKIE) or getattr(getattr(request, "user", None), "theme", "") or "auto"
    actor = doors.actor_of(request) if getattr(request, "user", None) and request.user.is_authenticated else None
    return {
        "theme": theme if theme in THEMES else "auto",
        "actor": actor,
        "menu": menu_of(request, actor) if actor else [],
        "memberships": request.user.memberships.select_related("organisation").order_by("id") if actor else [],
        "mail_to_files": settings.IDLEWILD_MAIL_TO_FILES,
        "unsafe_nodes": settings.IDLEWILD_ALLOW_UNSAFE_NODES,
        "request_id": getattr(request, "request_id", ""),
    }
