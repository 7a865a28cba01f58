"""Every error leaves the house as problem+json: ``{type, title, status, code, detail, request_id, errors[], help}``.

`problem_handler` is DRF's EXCEPTION_HANDLER (settings name it); :class:`portal.api.manners.Manners` does the same for
what never reaches a DRF view (an unknown address below ``/api/``, a crash). `code` is stable, `detail` says what to do
next.
"""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from django.core.exceptions import PermissionDenied, SuspiciousOperation, ValidationError
from django.http import Http404
from django.utils.translation import gettext as _
from rest_framework import exceptions
from rest_framework.response import Response

from portal.kit.errors import Finding, IdlewildError, InvalidInput

MEDIA_TYPE = "application/problem+json"
MOST_ERRORS = 100

_CODES = {
    400: "bad_request",
    401: "not_signed_in",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    406: "not_acceptable",
    409: "conflict",
    413: "too_large",
    415: "unsupported_media_type",
    422: "invalid_input",
    429: "rate_limited",
    500: "internal",
    503: "unavailable",
}


def problem(
    *,
    status: int,
    code: str,
    detail: str,
    request_id: str = "",
    errors: Iterable[Mapping[str, Any]] = (),
    extra: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The body of a refusal."""
    return {
        "type": f"urn:idlewild:error:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "code": code,
        "detail": detail,
        "request_id": request_id,
        "errors": list(errors)[:MOST_ERRORS],
        "help": f"/api/v1/errors/{code}",
        **{name: value for name, value in (extra or {}).items() if name != "retry_after"},
    }


def finding_wire(finding: Finding) -> dict[str, Any]:
    """A finding as it is sent; line and column only where known."""
    wire: dict[str, Any] = {
        "path": finding.path,
        "code": finding.code,
        "message": str(finding.message),
        "hint": str(finding.hint),
    }
    if finding.line is not None:
        wire |= {"line": finding.line, "column": finding.column}
    return wire


def of_idlewild(error: IdlewildError, request_id: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Body and headers of one of our own errors."""
    errors = [finding_wire(f) for f in error.errors] if isinstance(error, InvalidInput) else []
    extra = getattr(error, "extra", {})
    headers = {"Retry-After": str(extra["retry_after"])} if "retry_after" in extra else {}
    body = problem(
        status=error.status,
        code=error.code,
        detail=str(error.detail),
        request_id=request_id,
        errors=errors,
        extra=extra,
    )
    return body, headers


def problem_handler(exc: Exception, context: Mapping[str, Any]) -> Response | None:
    """DRF's exception handler.

    None (for an unknown error) lets Django answer 500; :class:`portal.api.manners.Manners` dresses it.
    """
    request = context.get("request")
    request_id = getattr(request, "request_id", "") if request is not None else ""
    headers: dict[str, str] = {}
    if isinstance(exc, IdlewildError):
        body, headers = of_idlewild(exc, request_id)
        if body["status"] == 401:
            headers["WWW-Authenticate"] = 'Bearer realm="idlewild"'
    elif isinstance(exc, exceptions.ValidationError):
        body = problem(status=422, code="invalid_input", detail=_("Some fields are not as they should be; see errors."),
                       request_id=request_id, errors=list(flat(exc.detail)))  # fmt: skip
    elif isinstance(exc, ValidationError):
        errors = [
            {"path": "", "code": getattr(exc, "code", None) or "invalid", "message": message, "hint": ""}
            for message in exc.messages
        ]
        body = problem(
            status=422, code="invalid_input", detail="; ".join(exc.messages), request_id=request_id, errors=errors
        )
    elif isinstance(exc, Http404 | exceptions.NotFound):
        body = problem(
            status=404, code="not_found", detail=_("There is nothing here that you can see."), request_id=request_id
        )
    elif isinstance(exc, PermissionDenied):
        body = problem(
            status=403, code="forbidden", detail=str(exc) or _("You may not do this."), request_id=request_id
        )
    elif isinstance(exc, SuspiciousOperation):
        body = problem(status=400, code="bad_request", detail=_("The request cannot be read."), request_id=request_id)
    elif isinstance(exc, exceptions.APIException):
        body, headers = _of_framework(exc, request_id)
    else:
        return None
    return Response(body, status=body["status"], headers=headers, content_type=MEDIA_TYPE)


def _of_framework(exc: exceptions.APIException, request_id: str) -> tuple[dict[str, Any], dict[str, str]]:
    headers: dict[str, str] = {}
    status = exc.status_code
    if isinstance(exc, exceptions.Throttled):
        headers["Retry-After"] = str(int(getattr(exc, "wait", None) or 1))
    if isinstance(exc, exceptions.NotAuthenticated | exceptions.AuthenticationFailed):
        headers["WWW-Authenticate"] = getattr(exc, "auth_header", "") or 'Bearer realm="idlewild"'
    return problem(
        status=status, code=_CODES.get(status, "error"), detail=str(exc.detail), request_id=request_id
    ), headers


def flat(detail: Any, path: str = "") -> Iterable[dict[str, Any]]:
    """A serializer's errors as a flat list, by dotted path."""
    if isinstance(detail, Mapping):
        for name, below in detail.items():
            here = "" if name == "non_field_errors" else str(name)
            yield from flat(below, ".".join(part for part in (path, here) if part))
    elif isinstance(detail, list | tuple):
        for index, below in enumerate(detail):
            nested = isinstance(below, Mapping | list | tuple)
            yield from flat(below, f"{path}[{index}]" if nested else path)
    else:
        yield {"path": path, "code": getattr(detail, "code", "invalid"), "message": str(detail), "hint": ""}
