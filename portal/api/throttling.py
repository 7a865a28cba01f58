"""Rate limits: counters of soft state against the table IDLEWILD_RATE_LIMITS. Redis away means no limit, and a warning.

`ByCaller` is the default of every REST view: reads and writes are counted per key (or person); a view narrows it with
``rate = "quote"``. Doors without DRF (sign-in, enrolment) call :func:`check`.
"""

from typing import Any

from django.conf import settings
from django.utils.translation import gettext as _
from rest_framework.permissions import SAFE_METHODS
from rest_framework.throttling import BaseThrottle

from portal import softstate
from portal.kit.errors import TooMany


def over(rate: str, who: str) -> int | None:
    """Count one more of `rate` by `who`; None if within the limit, else after how many seconds to come again."""
    limit = settings.IDLEWILD_RATE_LIMITS[rate]
    seen = softstate.count(f"rate:{rate}:{who}", seconds=limit["seconds"])
    return int(limit["seconds"]) if seen > limit["count"] else None


def check(rate: str, who: str) -> None:
    """`over`, as TooMany (429 with Retry-After)."""
    wait = over(rate, who)
    if wait is not None:
        raise TooMany(_("Too many requests. Try again in %(wait)s seconds.") % {"wait": wait}, retry_after=wait)


class ByCaller(BaseThrottle):
    """Per key, else person, else address; a limit "of organisation" counts all its callers together."""

    def __init__(self) -> None:
        self._wait: int | None = None

    def allow_request(self, request: Any, view: Any) -> bool:
        rates = ["read" if request.method in SAFE_METHODS else "write"]
        narrower = getattr(view, "rate", None)
        if narrower and request.method not in SAFE_METHODS:
            rates.append(narrower)
        for rate in rates:
            self._wait = over(rate, self._who(request, rate))
            if self._wait is not None:
                return False
        return True

    def wait(self) -> float | None:
        return self._wait

    def _who(self, request: Any, rate: str) -> str:
        actor = getattr(request, "actor", None)
        if actor is None:
            return address(request)
        if settings.IDLEWILD_RATE_LIMITS[rate]["of"] == "organisation" and actor.organisation is not None:
            return str(actor.organisation.public_id)
        return str(actor.id)


def address(request: Any) -> str:
    """The caller's address: the nearest one that is not a trusted proxy (IDLEWILD_TRUSTED_PROXIES)."""
    near = request.META.get("REMOTE_ADDR", "") or "unknown"
    trusted = set(settings.IDLEWILD_TRUSTED_PROXIES)
    if near not in trusted:
        return near
    for hop in reversed(
        [part.strip() for part in request.META.get("HTTP_X_FORWARDED_FOR", "").split(",") if part.strip()]
    ):
        if hop not in trusted:
            return hop
    return near
