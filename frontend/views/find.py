"""Search over pages, jobs, nodes and invoices of the organisation."""

from django.http import HttpResponse

from frontend.doors import PageRequest, page, show


@page(organisation=False)
def index(request: PageRequest) -> HttpResponse:
    return show(request, "find/index", {"query": request.GET.get("q", "").strip(), "found": []})
