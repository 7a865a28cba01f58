"""Home: what runs, what it costs this month, what needs attention."""

from django.http import HttpResponse

from frontend.doors import PageRequest, page, show


@page()
def index(request: PageRequest) -> HttpResponse:
    return show(request, "home/index", {"figures": {"running": 0, "queued": 0}, "may_run": False})
