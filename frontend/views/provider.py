"""Pages of a provider: adding a node, the nodes, one node, the offers."""

from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _

from frontend.doors import PageRequest, page, show, who_can_grant
from frontend.forms import provider as shapes
from frontend.paging import page_of
from frontend.presenters import nodes as present
from frontend.presenters import offers as present_offers
from frontend.presenters.topics import topics_of
from marketplace.selectors import catalog
from marketplace.selectors import nodes as selectors
from marketplace.selectors import offers as offer_selectors
from marketplace.services import nodes, offers
from portal import clock
from portal.accounts.permissions import Deed, demand, may
from portal.kit.errors import InvalidInput
from scheduling.selectors import alive

LINE = "invited_line"
"""Session key: the line to paste, shown once after it was made."""


def zone_choices() -> list[tuple[str, str]]:
    return [(str(zone.id), present_offers.zone_text(zone)) for zone in catalog.zones()]


def ages(rows: list[Any]) -> dict[str, int]:
    return alive.ages_ms([row.public_id for row in rows], now_ms=int(clock.now().timestamp() * 1000))


@page("nodes.run")
def onboarding(request: PageRequest) -> HttpResponse:
    home = request.actor.home()
    initial = {"hours_timezone": home.period_timezone}
    form = shapes.OnboardingForm(request.POST or None, zones=zone_choices(), initial=initial, currency=home.currency)
    if request.method == "POST" and form.is_valid():
        made = _invite(request, form)
        if made is not None:
            request.session[LINE] = {"node": made.node.public_id, "line": made.line, "token": made.token}
            return redirect("console:onboarding_node", made.node.public_id)
    waiting = [row for row in selectors.for_organisation(home)[:50] if row.state in ("invited", "probing")]
    context = {
        "form": form,
        "waiting": [
            {
                "public_id": row.public_id,
                "name": row.name,
                "zone": present.place(row),
                "created_at": row.created_at,
                "state": row.state,
            }
            for row in waiting
        ],
    }
    return show(request, "provider/onboarding", context, status=422 if form.errors else 200)


def _invite(request: PageRequest, form: shapes.OnboardingForm) -> Any | None:
    values, home = form.cleaned_data, request.actor.home()
    zone = next(row for row in catalog.zones() if str(row.id) == values["zone"])
    try:
        return nodes.invite(
            organisation=home,
            zone=zone,
            name=values["name"],
            terms={**form.terms(), "refuse_past_due": values["refuse_past_due"]} if values["publish"] else None,
            refuse_past_due=values["refuse_past_due"],
            by=request.actor.id,
            now=clock.now(),
        )
    except InvalidInput as refused:
        shapes.explain(form, refused)
        return None


@page("nodes.run")
def onboarding_node(request: PageRequest, public_id: str) -> HttpResponse:
    """Waiting for a node: the line to paste (shown once), and its checks as they turn green."""
    node = selectors.of_provider(request.actor.home(), public_id)
    made = request.session.get(LINE) or {}
    fresh = made.get("node") == node.public_id and node.state == "invited"
    context = _node_context(request, node) | {
        "enrolment": selectors.enrolment(node),
        "line": made.get("line", "") if fresh else "",
        "token": made.get("token", "") if fresh else "",
    }
    return show(request, "provider/onboarding_node", context)


def _node_context(request: PageRequest, node: Any) -> dict[str, Any]:
    return {
        "node": node,
        "node_topic": present.topic(node),
        "topics": topics_of(request.actor.home()),
        "checks": present.checks(node),
        "contact": present.contact(node, ages([node]), clock.now()),
        "offer": node.offers.filter(state__in=("draft", "published", "paused")).first(),
        "place": present.place(node),
        "now": lambda: present.now(node),
        "may_run": may(request.actor, Deed.NODES_RUN),
    }


@page("work.read")
def node_list(request: PageRequest) -> HttpResponse:
    home = request.actor.home()
    rows, older = page_of(
        request, selectors.for_organisation(home).select_related("capacity").prefetch_related("devices")
    )
    silent = ages(rows)
    context = {
        "nodes": [present.row(row, silent, clock.now()) for row in rows],
        "older": older,
        "topics": topics_of(home),
        "may_run": may(request.actor, Deed.NODES_RUN),
    }
    return show(request, "provider/nodes", context)


DEEDS = {"drain": nodes.drain, "undrain": nodes.undrain, "retire": nodes.retire}


@page("work.read")
def node(request: PageRequest, public_id: str) -> HttpResponse:
    found = selectors.of_provider(request.actor.home(), public_id)
    if request.method == "POST":
        demand(request.actor, Deed.NODES_RUN)
        deed = DEEDS.get(request.POST.get("do", ""))
        if deed is not None:
            deed(node=found, by=request.actor.id, now=clock.now())
            messages.success(request, _("Done. Jobs that run there keep their price and their end."))
        return redirect("console:node", public_id)
    context = _node_context(request, found) | {
        "devices": list(found.devices.all()),
        "fingerprints": [present.fingerprint(row) for row in selectors.fingerprints(found)[:5]],
        "programs": present.programs(found),
    }
    return show(request, "provider/node", context)


@page("work.read")
def offer_list(request: PageRequest) -> HttpResponse:
    home = request.actor.home()
    rows, older = page_of(request, offer_selectors.for_organisation(home).prefetch_related("prices"))
    context = {
        "offers": [present_offers.own(row) for row in rows],
        "older": older,
        "unpublished": [row for row in selectors.for_organisation(home) if row.state == "listed"] if not rows else [],
    }
    return show(request, "provider/offers", context)


@page("offers.price")
def offer_new(request: PageRequest, public_id: str) -> HttpResponse:
    """Prices, hours and green power of a listed node: published at once."""
    home = request.actor.home()
    found = selectors.of_provider(home, public_id)
    form = shapes.TermsForm(
        request.POST or None, initial={"hours_timezone": home.period_timezone}, currency=home.currency
    )
    if request.method == "POST" and form.is_valid():
        try:
            made = offers.publish(node=found, terms=form.terms(), by=request.actor.id, now=clock.now())
        except InvalidInput as refused:
            shapes.explain(form, refused)
        else:
            messages.success(request, _("Published. The next quote can find it."))
            return redirect("console:offer", made.public_id)
    context = {"node": found, "form": form, "offer": None, "may_price": True}
    return show(request, "provider/offer", context, status=422 if form.errors else 200)


MOVES = {"pause": offers.pause, "resume": offers.resume, "withdraw": offers.withdraw}


@page("work.read")
def offer(request: PageRequest, public_id: str) -> HttpResponse:
    home = request.actor.home()
    found = offer_selectors.of_provider(home, public_id)
    asked = request.POST.get("do", "")
    form = shapes.PriceFields(
        request.POST if asked == "reprice" else None, initial=present_offers.prices_of(found), currency=found.currency
    )
    if request.method == "POST":
        demand(request.actor, Deed.OFFERS_PRICE)
        if asked in MOVES:
            MOVES[asked](offer=found, by=request.actor.id, now=clock.now())
            return redirect("console:offer", public_id)
        if form.is_valid():
            try:
                offers.reprice(offer=found, terms=form.price_terms(), by=request.actor.id, now=clock.now())
            except InvalidInput as refused:
                shapes.explain(form, refused)
            else:
                messages.success(request, _("The new price holds for what is placed from now on."))
                return redirect("console:offer", public_id)
    may_price = may(request.actor, Deed.OFFERS_PRICE)
    context = {
        "offer": present_offers.own(found),
        "prices": offer_selectors.price_history(found),
        "form": form if found.state in ("published", "paused") else None,
        "may_price": may_price,
        "who_can_grant": "" if may_price else who_can_grant(request.actor),
        "back": reverse("console:offers"),
    }
    return show(request, "provider/offer", context, status=422 if form.errors else 200)
