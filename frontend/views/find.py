"""Search over pages, jobs, nodes and invoices of the organisation."""

from collections.abc import Iterator

from django.http import HttpResponse
from django.urls import reverse

from billing.selectors import invoices
from frontend.doors import PageRequest, page, show
from frontend.menu import menu_of
from marketplace.selectors import nodes
from portal.accounts.permissions import Deed, may
from scheduling.selectors import jobs

EACH = 6
Found = dict[str, str]


@page(organisation=False)
def index(request: PageRequest) -> HttpResponse:
    query = request.GET.get("q", "").strip()[:80]
    return show(request, "find/index", {"query": query, "found": list(_found(request, query)) if query else []})


def _found(request: PageRequest, query: str) -> Iterator[Found]:
    asked = query.casefold()
    for group in menu_of(request, request.actor):
        for item in group.items:
            if asked in item.text.casefold():
                yield {"text": item.text, "href": item.href, "icon": item.icon, "sub": group.title}
    if request.actor.organisation is None:
        return
    home = request.actor.home()
    if may(request.actor, Deed.WORK_READ):
        for job in jobs.for_organisation(home, text=query)[:EACH]:
            yield _row(job.name, "job", job.public_id, "job")
        for node in nodes.for_organisation(home).filter(name__icontains=query)[:EACH]:
            yield _row(node.name, "node", node.public_id, "node")
    if may(request.actor, Deed.MONEY_READ):
        for invoice in invoices.for_organisation(organisation_id=home.id).filter(number__icontains=query)[:EACH]:
            yield _row(str(invoice.number), "invoice", invoice.public_id, "invoice")


def _row(text: str, name: str, public_id: str, icon: str) -> Found:
    return {"text": text, "href": reverse(f"console:{name}", args=[public_id]), "icon": icon, "sub": public_id}
