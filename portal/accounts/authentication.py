"""How people and keys sign in to the REST (settings name these classes). Nodes sign in elsewhere:
`scheduling.api.agent`.

A person comes with the session cookie (and the CSRF token on writes), a program with ``Authorization: Bearer
idw_<prefix>_<secret>``. Which organisation is meant: the header ``X-Idlewild-Organisation: <slug>``, else the session's
choice, else the first membership. Each sets `request.actor`.
"""

from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q
from django.utils.translation import gettext as _
from rest_framework.authentication import BaseAuthentication, SessionAuthentication

from portal import clock, ids
from portal.accounts import actors
from portal.accounts.models import ApiKey
from portal.kit.errors import NotSignedIn

ORGANISATION_HEADER = "X-Idlewild-Organisation"
SESSION_KEY = "organisation"
LAST_USED_EVERY = timedelta(minutes=1)
"""`last_used_at` is written at most this often: reading stays cheap."""


def wanted_organisation(request: Any) -> str | None:
    """The slug that the request names, if any."""
    return request.headers.get(ORGANISATION_HEADER) or None


class SessionAuth(SessionAuthentication):
    """Session cookie + CSRF."""

    def authenticate(self, request: Any) -> tuple[Any, Any] | None:
        found = super().authenticate(request)
        if found is None:
            return None
        user, _auth = found
        session = getattr(request, "session", {})
        slug = wanted_organisation(request)
        request.actor = _of_session(user, slug, session.get(SESSION_KEY))
        return user, None

    def authenticate_header(self, request: Any) -> str:
        return "Session"  # so that an unknown person gets 401, not 403


def _of_session(user: Any, named: str | None, remembered: str | None) -> actors.Actor:
    if named:
        return actors.of_user(user, named)
    if remembered and user.memberships.filter(organisation__slug=remembered).exists():
        return actors.of_user(user, remembered)
    return actors.of_user(user)


def actor_of_session(request: Any) -> actors.Actor | None:
    """The actor of a Django (page) request; None when nobody is signed in."""
    if not request.user.is_authenticated:
        return None
    return _of_session(request.user, wanted_organisation(request), request.session.get(SESSION_KEY))


class KeyAuth(BaseAuthentication):
    """``Authorization: Bearer idw_<prefix>_<secret>``."""

    def authenticate(self, request: Any) -> tuple[Any, Any] | None:
        scheme, _space, text = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        now = clock.now()
        key = find_key(text.strip(), now)
        if key is None:
            raise NotSignedIn(
                _("This API key is unknown, expired or revoked. Make a new one under Settings, API keys."),
                code="key_refused",
            )
        _touch(key, now)
        request.actor = actors.of_key(key, now, wanted_organisation(request))
        return key.membership.user, key

    def authenticate_header(self, request: Any) -> str:
        return 'Bearer realm="idlewild"'


def find_key(text: str, now: datetime) -> ApiKey | None:
    """The living key of that text, compared in constant time; None for anything else."""
    head, _a, rest = text.partition("_")
    prefix, _b, secret = rest.partition("_")
    if head != "idw" or not prefix or not secret:
        return None
    key = (
        ApiKey.objects.select_related("membership__organisation", "membership__user", "project")
        .filter(prefix=prefix, revoked_at=None, membership__user__is_active=True)
        .filter(Q(expires_at=None) | Q(expires_at__gt=now))
        .first()
    )
    return key if key and ids.same(key.secret_hash, ids.digest(secret)) else None


def _touch(key: ApiKey, now: datetime) -> None:
    if key.last_used_at is None or now - key.last_used_at >= LAST_USED_EVERY:
        ApiKey.objects.filter(id=key.id).update(last_used_at=now)
