"""What every page's door does the same way: who is it, may they, show the page or one live region of it.

::

    @page("work.read")
    def jobs(request: PageRequest) -> HttpResponse:
        return show(request, "jobs/list", {"jobs": selectors.for_organisation(request.actor.home())})

A page's address with ``?part=name`` answers only the partial ``<folder>/_name.html`` with the same context: one rendering
path, one permission check. Context values may be functions: they are called only where a template uses them, and once,
so a region pays for what it shows.
"""

import re
from collections.abc import Callable, Mapping
from functools import wraps
from inspect import isfunction
from typing import Any

from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template import TemplateDoesNotExist
from django.template.loader import get_template
from django.utils.cache import patch_vary_headers
from django.utils.functional import SimpleLazyObject
from django.utils.translation import gettext as _

from portal.accounts import authentication
from portal.accounts.actors import Actor
from portal.accounts.models import Role
from portal.accounts.permissions import demand
from portal.accounts.selectors import organisations
from portal.kit.errors import NotFound

PART = re.compile(r"[a-z][a-z_]{0,30}")


class PageRequest(HttpRequest):
    """A request that came through :func:`page`: somebody is signed in."""

    actor: Actor
    request_id: str


View = Callable[..., HttpResponse]


def actor_of(request: HttpRequest) -> Actor | None:
    """The signed-in person in the organisation of the session, looked up once a request."""
    if not hasattr(request, "actor"):
        request.actor = authentication.actor_of_session(request) if hasattr(request, "session") else None  # type: ignore[attr-defined]
    return request.actor  # type: ignore[attr-defined,no-any-return]


def page(deed: str = "", *, organisation: bool = True) -> Callable[[View], View]:
    """A page for signed-in people. `deed`: what their role must include. `organisation`: whether they need to belong to one."""

    def around(view: View) -> View:
        @wraps(view)
        def door(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            _demand_text(request)
            actor = actor_of(request)
            if actor is None:
                return _to_sign_in(request)
            if organisation and actor.organisation is None:
                return redirect("console:organisations" if actor.is_operator else "console:organisation_new")
            if deed:
                demand(actor, deed)
            return view(request, *args, **kwargs)

        return door

    return around


def operator(view: View) -> View:
    """A page for operators. To everybody else it does not exist."""

    @wraps(view)
    def door(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        _demand_text(request)
        actor = actor_of(request)
        if actor is None:
            return _to_sign_in(request)
        if not actor.is_operator:
            raise NotFound(_("There is nothing here that you can see."))
        return view(request, *args, **kwargs)

    return door


def _demand_text(request: HttpRequest) -> None:
    """400 for a form with a null character: an id is read from it without a form's checks, and no database takes one."""
    if any("\x00" in value for _name, values in request.POST.lists() for value in values):
        raise BadRequest(_("The form holds a null character."))


def _to_sign_in(request: HttpRequest) -> HttpResponse:
    if request.headers.get("HX-Request"):
        return HttpResponse(status=401, headers={"HX-Refresh": "true"})
    return redirect_to_login(request.get_full_path())


def show(
    request: HttpRequest, name: str, context: Mapping[str, Any] | None = None, *, status: int = 200
) -> HttpResponse:
    """The page `name`, or the region of it that `?part=` asks for."""
    part = request.GET.get("part", "")
    template = f"{name}.html"
    if part:
        template = f"{name.rpartition('/')[0]}/_{part}.html"
        _exists(part, template)
    response = render(request, template, lazily(context or {}), status=status)
    response.headers.setdefault("Cache-Control", "no-store")
    patch_vary_headers(response, ["Cookie", "HX-Request"])
    return response


def lazily(context: Mapping[str, Any]) -> dict[str, Any]:
    """Functions among the values are called where a template first uses them, and once."""
    return {name: SimpleLazyObject(value) if isfunction(value) else value for name, value in context.items()}


def _exists(part: str, template: str) -> None:
    try:
        if PART.fullmatch(part):
            get_template(template)
            return
    except TemplateDoesNotExist:
        pass
    raise NotFound(_("This page has no such part."))


def who_can_grant(actor: Actor) -> str:
    """The sentence of a page part that the role does not include."""
    people = organisations.members(actor.home()).filter(role__in=(Role.OWNER, Role.ADMIN))[:3]
    names = ", ".join(str(member.user) for member in people)
    return _("%(names)s can change your role.") % {"names": names}
