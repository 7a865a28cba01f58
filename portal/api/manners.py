"""The middleware of the front door: every request has an id, every refusal below ``/api/`` is problem+json.

The id is the caller's ``X-Request-Id`` if it is a plain word, else a new one; it is in the answer's header, in problem
bodies and in log lines.
"""

import logging
import re
from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, JsonResponse
from django.utils.translation import gettext as _

from portal import ids
from portal.api.errors import MEDIA_TYPE, of_idlewild, problem
from portal.kit.errors import IdlewildError

log = logging.getLogger("idlewild.api")
HEADER = "X-Request-Id"
_PLAIN = re.compile(r"[A-Za-z0-9_.-]{8,64}")
PROGRAMS = ("/api/", "/agent/", "/hooks/")
"""Addresses below which only programs knock."""


def _unreadable(request: HttpRequest) -> HttpResponse | None:
    """400 for an address with a null character: no id or word of ours has one, and no database takes one."""
    if "\x00" in request.path or "%00" in request.META.get("QUERY_STRING", ""):
        return HttpResponseBadRequest("400 Bad Request: a null character in the address", content_type="text/plain")
    return None


class Manners:
    """See the module."""

    sync_capable = True
    async_capable = True  # a held sync of an agent must not hold a thread

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self.get_response = get_response
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:
        if iscoroutinefunction(self):
            return self._awaited(request)
        self._greet(request)
        return self._see_off(request, _unreadable(request) or self.get_response(request))

    async def _awaited(self, request: HttpRequest) -> HttpResponse:
        self._greet(request)
        return self._see_off(request, _unreadable(request) or await self.get_response(request))

    def _greet(self, request: HttpRequest) -> None:
        given = request.headers.get(HEADER, "")
        request.request_id = given if _PLAIN.fullmatch(given) else ids.token(20)  # type: ignore[attr-defined]

    def _see_off(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        is_json = "json" in response.get("Content-Type", "")
        if response.status_code >= 400 and request.path.startswith(PROGRAMS) and not is_json:
            response = self._dressed(request, response)
        response[HEADER] = request.request_id  # type: ignore[attr-defined]
        return response

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if not request.path.startswith(PROGRAMS):
            return None
        request_id = request.request_id  # type: ignore[attr-defined]
        if isinstance(exception, IdlewildError):
            body, headers = of_idlewild(exception, request_id)
            return JsonResponse(body, status=body["status"], headers=headers, content_type=MEDIA_TYPE)
        return None

    def _dressed(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        sentences = {
            400: (_("The address cannot be read."), "bad_request"),
            404: (_("There is no such address. The interface is described at /api/v1/openapi.json."), "not_found"),
            403: (_("This request was refused before it was read (CSRF token missing or wrong?)."), "forbidden"),
            500: (_("This is our fault. Nothing was changed; say the request id if you ask us about it."), "internal"),
        }
        detail, code = sentences.get(response.status_code, (response.reason_phrase, "error"))
        body = problem(status=response.status_code, code=code, detail=detail, request_id=request.request_id)  # type: ignore[attr-defined]
        dressed = JsonResponse(body, status=response.status_code, content_type=MEDIA_TYPE)
        dressed.cookies = response.cookies
        return dressed
