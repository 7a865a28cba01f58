"""The market: machines on offer, and (apart, labelled) the published prices of other markets."""

from typing import Any

from django.http import HttpResponse, QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from frontend.doors import PageRequest, page, show
from frontend.forms.market import MarketForm, ReferenceForm
from frontend.paging import page_of
from frontend.presenters import links as present_links
from frontend.presenters import offers as present
from marketplace.selectors import catalog
from marketplace.selectors import offers as selectors
from portal import clock
from portal.accounts.permissions import Deed, may
from scheduling.selectors import beliefs, links

MOST = 200
MOST_LINKS = 1_000


@page("work.read")
def index(request: PageRequest) -> HttpResponse:
    context = {"may_run": may(request.actor, Deed.JOBS_RUN)}
    if request.GET.get("tab") == "reference":
        return show(request, "market/index", context | _references(request))
    if request.GET.get("tab") == "links":
        return show(request, "market/index", context | {"tab": "links", "links": _links()})
    return show(request, "market/index", context | _offers(request))


def _links() -> list[dict[str, Any]]:
    """All links with what counts of each now."""
    now, known = clock.now(), beliefs.everything()
    rows = links.everything().order_by("source", "target")[:MOST_LINKS]
    return [
        present_links.row(links.shown(row, now=now, belief=known.get((row.source, row.target))), row.price_micro_per_gb)
        for row in rows
    ]


def _offers(request: PageRequest) -> dict[str, Any]:
    regions = [(row.slug, row.name) for row in catalog.regions()]
    form = MarketForm(request.GET or None, regions=regions)
    clauses = form.clauses()
    values = form.cleaned_data if form.is_bound and form.is_valid() else {}
    everything = bool(values.get("all"))
    found = selectors.search(
        filter_text=" ".join(clauses.values()) + (" kind=live" if everything else ""),
        order=(values.get("order") or "price_core_hour",),
        viewer=request.actor.home(),
        task_type=values.get("kind") or "custom",
        no_default=everything,
        now=clock.now(),
    )
    rows = [row["row"] for row in found.rows if row["kind"] == "live"]
    return {
        "tab": "offers",
        "form": form,
        "offers": [present.live(row, values.get("kind") or "custom") for row in rows[:MOST]],
        "filtered": bool(clauses) or any(found.hidden.get(name) for name in ("verified", "bookable")),
        "relaxations": _relaxations(request, clauses, found),
    }


def _relaxations(request: PageRequest, clauses: dict[str, str], found: selectors.Search) -> list[dict[str, str]]:
    """Filters whose dropping alone would show something, the best first; each with its link."""
    names = {clause: field for field, clause in clauses.items()}
    offered = []
    for clause, gained in sorted(found.relax, key=lambda item: -item[1]):
        field = names.get(clause) or next(
            (f for f, c in clauses.items() if c.replace('"', "") == clause.replace('"', "")), ""
        )
        if not gained or not field:
            continue
        text = ngettext(
            "Without “%(clause)s” there is %(n)s offer.", "Without “%(clause)s” there are %(n)s offers.", gained
        )
        offered.append({"text": text % {"clause": clause, "n": gained}, "href": _without(request, field)})
    hidden = sum(found.hidden.get(name, 0) for name in ("verified", "bookable"))
    if hidden and not offered:
        text = ngettext(
            "%(n)s offer is closed now or not measured yet.", "%(n)s offers are closed now or not measured yet.", hidden
        )
        offered.append({"text": text % {"n": hidden}, "href": _with(request, "all", "on")})
    return offered[:3]


def _without(request: PageRequest, field: str) -> str:
    query: QueryDict = request.GET.copy()
    query.pop(field, None)
    return f"?{query.urlencode()}"


def _with(request: PageRequest, field: str, value: str) -> str:
    query: QueryDict = request.GET.copy()
    query[field] = value
    return f"?{query.urlencode()}"


def _references(request: PageRequest) -> dict[str, Any]:
    rows = selectors.references()
    markets = sorted(set(rows.values_list("market", flat=True)))
    form = ReferenceForm(request.GET or None, markets=markets)
    values = form.cleaned_data if form.is_bound and form.is_valid() else {}
    if values.get("market"):
        rows = rows.filter(market=values["market"])
    if values.get("card"):
        rows = rows.filter(card_model__icontains=values["card"])
    found, older = page_of(request, rows)
    return {
        "tab": "reference",
        "form": form,
        "references": [present.reference(row) for row in found],
        "total": rows.count(),
        "older": older,
        "filtered": bool(values.get("market") or values.get("card")),
        "title": _("Reference prices"),
    }
