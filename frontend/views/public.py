"""Pages for everybody: what Idlewild is, and the switches for language, theme and organisation."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import check_for_language
from django.views.decorators.http import require_POST

from frontend.doors import PageRequest, page, show
from frontend.presenters import offers as present
from frontend.themes import THEME_COOKIE, THEMES
from marketplace.selectors import offers
from portal import clock
from portal.accounts import actors
from portal.accounts.authentication import SESSION_KEY
from portal.accounts.services import people

GLANCE = 6
YEAR_S = 365 * 86_400


def landing(request: HttpRequest) -> HttpResponse:
    if request.user.is_authenticated and not request.GET:
        return redirect("console:home")
    rows = offers.live_rows(clock.now())
    context = {
        "offers": [present.live(row) for row in rows[:GLANCE]],
        "references": [present.reference(row) for row in offers.references().filter(cards__gt=0)[:GLANCE]],
    }
    return show(request, "public/landing", context)


@require_POST
def preferences(request: HttpRequest) -> HttpResponse:
    """Language and theme: a cookie for this browser, the profile for the others."""
    answer = HttpResponseRedirect(_inside(request, request.POST.get("next", "")))
    language, theme = request.POST.get("language", ""), request.POST.get("theme", "")
    chosen: dict[str, str] = {}
    if language in dict(settings.LANGUAGES) and check_for_language(language):
        answer.set_cookie(settings.LANGUAGE_COOKIE_NAME, language, max_age=YEAR_S, samesite="Lax")
        chosen["language"] = language
    if theme in THEMES:
        answer.set_cookie(THEME_COOKIE, theme, max_age=YEAR_S, samesite="Lax")
        chosen["theme"] = "" if theme == "auto" else theme
    if chosen and request.user.is_authenticated:
        people.prefer(user=request.user, **chosen)
    return answer


@require_POST
@page(organisation=False)
def switch(request: PageRequest) -> HttpResponse:
    """Another of one's organisations; a stranger's is a 404."""
    actor = actors.of_user(request.user, request.POST.get("organisation", "") or "-")
    request.session[SESSION_KEY] = actor.home().slug
    return redirect("console:home")


def _inside(request: HttpRequest, target: str) -> str:
    """Only addresses of ours: never a way to send somebody elsewhere."""
    if target.startswith("/") and url_has_allowed_host_and_scheme(
        target, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    ):
        return target
    return "/"
