"""Home: what runs, what it costs this month, what needs attention."""

from datetime import timedelta
from typing import Any

from django.http import HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from billing.selectors import balances, usage
from billing.selectors import invoices as invoice_selectors
from frontend.doors import PageRequest, page, show
from frontend.presenters import money_lines, words
from frontend.presenters.topics import topics_of
from frontend.views.jobs import rows_of
from marketplace.selectors import nodes
from portal import clock
from portal.accounts.permissions import Deed, may
from scheduling.selectors import jobs

UNDER_WAY = ("queued", "running")
FRESH = timedelta(days=1)
"""Failed jobs are brought to attention for so long."""
MOST, FEW = 20, 5


@page()
def index(request: PageRequest) -> HttpResponse:
    home = request.actor.home()
    counts = jobs.counts(organisation=home)
    context = {
        "figures": lambda: figures(request, counts),
        "attention": lambda: attention(request),
        "jobs": lambda: rows_of(list(jobs.for_organisation(home, states=UNDER_WAY)[:MOST])),
        "recent": lambda: rows_of(list(jobs.for_organisation(home)[:FEW])),
        "any_job": bool(counts),
        "topics": topics_of(home),
        "may_run": may(request.actor, Deed.JOBS_RUN),
    }
    return show(request, "home/index", context)


def figures(request: PageRequest, counts: dict[str, int]) -> dict[str, Any]:
    """The four figures; money only for who may read it."""
    home = request.actor.home()
    found: dict[str, Any] = {"running": counts.get("running", 0), "queued": counts.get("queued", 0)}
    coming = usage.upcoming(home.id, clock.now())
    found["green_ppm"] = money_lines.green_ppm(coming.lines) if coming else None
    if may(request.actor, Deed.MONEY_READ):
        standing = balances.balance(organisation_id=home.id)
        found |= {"cost": coming.subtotal if coming else standing.used, "limit": standing.limit, "held": standing.held}
    return found


def attention(request: PageRequest) -> list[dict[str, Any]]:
    """What somebody should look at: overdue invoices, failed jobs of today, nodes with a failed check."""
    home, found = request.actor.home(), []
    if may(request.actor, Deed.MONEY_READ):
        for invoice in invoice_selectors.for_organisation(organisation_id=home.id, state="past_due")[:3]:
            found.append(
                {
                    "tone": "danger",
                    "icon": "invoice",
                    "href": reverse("console:invoice", args=[invoice.public_id]),
                    "title": _("Invoice %(number)s is past due") % {"number": invoice.number},
                    "text": _("Some providers take no jobs until it is paid."),
                }
            )
    if may(request.actor, Deed.WORK_READ):
        since = clock.now() - FRESH
        for job in jobs.for_organisation(home, states=["failed"]).filter(ended_at__gte=since)[:3]:
            found.append(
                {
                    "tone": "danger",
                    "icon": "job",
                    "href": reverse("console:job", args=[job.public_id]),
                    "title": _("The job %(name)s failed") % {"name": job.name},
                    "text": words.word("reason", job.reason).text,
                }
            )
    for node in nodes.for_organisation(home)[:50]:
        failed = [check for check in node.checks or [] if check.get("state") == "failed"]
        if failed and node.state != "retired":
            found.append(
                {
                    "tone": "warning",
                    "icon": "node",
                    "href": reverse("console:node", args=[node.public_id]),
                    "title": _("The node %(name)s needs a hand") % {"name": node.name},
                    "text": failed[0].get("fix") or failed[0].get("detail", ""),
                }
            )
    return found[:8]
