"""Error pages: what happened, the next step, the request's id; never a stack trace or a blank region."""

from collections.abc import Sequence

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _

from portal.kit.errors import Finding, IdlewildError, InvalidInput


def _answer(
    request: HttpRequest,
    *,
    status: int,
    title: str,
    text: str,
    following: str,
    icon: str = "warning",
    findings: Sequence[Finding] = (),
    again: bool = False,
) -> HttpResponse:
    """A whole page, or the fragment where htmx asked for a part of one."""
    htmx = request.headers.get("HX-Request") == "true"
    context = {
        "title": title,
        "text": text,
        "next": following,
        "icon": icon,
        "findings": findings,
        "again": request.get_full_path() if again and request.method == "GET" and not htmx else "",
        "request_id": getattr(request, "request_id", ""),
    }
    return render(request, "errors/_problem.html" if htmx else "errors/page.html", context, status=status)


def of_idlewild(request: HttpRequest, error: IdlewildError) -> HttpResponse:
    """The page of one of the house's own errors; its detail already says what to do."""
    titles = {
        402: _("This cannot be paid for now"),
        403: _("Your role does not include this"),
        404: _("There is nothing here"),
        409: _("This is not possible in the present state"),
        413: _("This is too large"),
        422: _("Something in the form is not right"),
        429: _("Too many requests"),
        503: _("Not available at the moment"),
    }
    retry = error.extra.get("retry_after")
    following = _("Nothing was changed.")
    if retry:
        following += " " + _("Try again in %(seconds)s seconds.") % {"seconds": retry}
    return _answer(
        request,
        status=error.status,
        title=titles.get(error.status, _("This did not work")),
        text=str(error.detail),
        following=following,
        icon="secret" if error.status == 403 else "search" if error.status == 404 else "warning",
        findings=error.errors if isinstance(error, InvalidInput) else (),
        again=error.status in (429, 503),
    )


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return _answer(
        request,
        status=404,
        title=_("There is nothing here"),
        text=_("The address is wrong, or what it names belongs to another organisation."),
        following=_("Check the address, or switch to the organisation it belongs to."),
        icon="search",
    )


def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return _answer(
        request,
        status=403,
        title=_("This is not allowed"),
        text=str(exception) or _("Your role does not include this."),
        following=_("An owner or administrator of the organisation can change your role."),
        icon="secret",
    )


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return _answer(
        request,
        status=400,
        title=_("This request cannot be read"),
        text=_("It did not arrive as this page sends it. Nothing was changed."),
        following=_("Reload the page and try again."),
    )


def csrf_failed(request: HttpRequest, reason: str = "") -> HttpResponse:
    return _answer(
        request,
        status=403,
        title=_("This form is too old"),
        text=_("It was opened before you last signed in or out, so it was not taken. Nothing was changed."),
        following=_("Go back, reload the page and send it again. Cookies have to be allowed."),
    )


def broken(request: HttpRequest) -> HttpResponse:
    return _answer(
        request,
        status=500,
        title=_("This is our fault"),
        text=_("Something broke while this page was made. Running jobs and money are not affected."),
        following=_("Try again; if it happens again, tell the operator the request id below."),
        again=True,
    )
