"""Two small layers around every page: the reader's preferences, and errors that help.

`Preferences` sets language and time zone from the profile where the browser has no choice of its own.
`HelpfulErrors` turns the house's errors into a page (or, for htmx, a fragment) that says what happened, what to do next and
the request's id; below ``/api/`` and ``/agent/`` errors belong to `portal.api`.
"""

import logging
from collections.abc import Callable
from zoneinfo import ZoneInfo, available_timezones

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone, translation

from frontend.views import errors
from portal.api.manners import PROGRAMS
from portal.kit.errors import IdlewildError

log = logging.getLogger("idlewild.console")
Handler = Callable[[HttpRequest], HttpResponse]


class Preferences:
    """Language: cookie, then profile, then the browser's wish. Time zone: the profile's."""

    def __init__(self, get_response: Handler) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        user = request.user
        if not user.is_authenticated:
            return self.get_response(request)
        if user.language and settings.LANGUAGE_COOKIE_NAME not in request.COOKIES:
            translation.activate(user.language)
            request.LANGUAGE_CODE = translation.get_language()
        zone = user.time_zone if user.time_zone in available_timezones() else "UTC"
        with timezone.override(ZoneInfo(zone)):
            return self.get_response(request)


class HelpfulErrors:
    """See the module."""

    def __init__(self, get_response: Handler) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if request.path.startswith(PROGRAMS):
            return None
        if isinstance(exception, IdlewildError):
            return errors.of_idlewild(request, exception)
        if isinstance(exception, Http404):
            return errors.not_found(request, exception)
        return None  # Django logs it and asks handler500
