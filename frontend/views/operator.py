"""Pages of an operator: fleet, queue, jobs, organisations, audit trail."""

from typing import Any

from django.contrib import messages
from django.db.models import prefetch_related_objects
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _

from frontend.doors import PageRequest, operator, show
from frontend.forms.operator import AuditForm
from frontend.paging import page_of
from frontend.presenters import figures, words
from frontend.presenters import jobs as present_jobs
from frontend.presenters import nodes as present
from frontend.views.jobs import NAMED, chips, newest_attempt
from frontend.views.provider import ages
from marketplace.selectors import nodes
from portal import clock
from portal.accounts.selectors import organisations
from portal.accounts.services import organisations as services
from portal.audit import selectors as audit
from portal.kit.errors import NotFound
from scheduling.selectors import jobs

MOST = 500


@operator
def fleet(request: PageRequest) -> HttpResponse:
    rows = list(
        nodes.everything().exclude(state="retired").select_related("capacity").prefetch_related("devices")[:MOST]
    )
    silent = ages(rows)
    shown = [present.row(row, silent, clock.now(), link=False) for row in rows]
    return show(request, "operator/fleet", {"nodes": shown, "figures": fleet_figures(rows, shown)})


def fleet_figures(rows: list[Any], shown: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Nodes, cores, cards, jobs: how many, of how many."""
    capacities = [found for row in rows if (found := present.capacity_of(row))]
    cores, free = (sum(getattr(row, name) for row in capacities) for name in ("total_cores_milli", "free_cores_milli"))
    cards, free_cards = (sum(getattr(row, name) for row in capacities) for name in ("total_cards", "free_cards"))
    counts = jobs.counts()
    online = sum(1 for row in shown if row["contact"] == "online")
    return [
        {"name": _("Nodes online"), "value": figures.number(online), "context": _("of %(n)s known") % {"n": len(rows)}},
        {
            "name": _("Cores in use"),
            "value": figures.cores(cores - free),
            "context": _("of %(total)s for sale") % {"total": figures.cores(cores)},
        },
        {
            "name": _("Cards in use"),
            "value": figures.number(cards - free_cards),
            "context": _("of %(total)s") % {"total": cards},
        },
        {
            "name": _("Jobs running"),
            "value": figures.number(counts.get("running", 0)),
            "context": _("%(n)s in the queue") % {"n": counts.get("queued", 0)},
        },
    ]


@operator
def queue(request: PageRequest) -> HttpResponse:
    tasks = [
        {
            "public_id": task.public_id,
            "job": task.job.name,
            "organisation": task.job.organisation.name,
            "since": task.waiting_since or task.queued_at,
            "why": why(task),
        }
        for task in jobs.queue(most=MOST)
    ]
    return show(request, "operator/queue", {"tasks": tasks})


def why(task: Any) -> str:
    told = present_jobs.waiting(task)
    if told is None:
        return _("not looked at yet")
    return "; ".join(str(row["text"]) for row in told["tiers"][:2]) or told["sentence"]


@operator
def all_jobs(request: PageRequest) -> HttpResponse:
    state = request.GET.get("state", "")
    found, older = page_of(request, jobs.everything(states=[state] if state in words.JOB else []))
    prefetch_related_objects(found, *NAMED)
    rows = [present_jobs.row(job, attempt=newest_attempt(job)) | {"href": ""} for job in found]
    context = {
        "jobs": rows,
        "older": older,
        "chips": chips(jobs.counts(), state, reverse("console:all_jobs")),
        "filtered": bool(state),
    }
    return show(request, "operator/jobs", context)


@operator
def organisation_list(request: PageRequest) -> HttpResponse:
    if request.method == "POST":
        _change(request)
        return redirect(request.get_full_path())
    kind = request.GET.get("kind", "")
    rows = organisations.everybody()
    if kind == "verified":
        rows = rows.filter(provider_verified=True)
    elif kind == "unverified":
        rows = rows.filter(provider_verified=False, nodes__isnull=False).distinct()
    elif kind == "suspended":
        rows = rows.filter(state="suspended")
    found, older = page_of(request, rows)
    path = reverse("console:organisations")
    context = {
        "organisations": found,
        "older": older,
        "filtered": bool(kind),
        "chips": [
            {"text": text, "href": f"{path}?kind={name}" if name else path, "current": name == kind}
            for name, text in kinds().items()
        ],
    }
    return show(request, "operator/organisations", context)


def kinds() -> dict[str, str]:
    return {
        "": _("All"),
        "verified": _("Verified providers"),
        "unverified": _("Providers to verify"),
        "suspended": _("Suspended"),
    }


def _change(request: PageRequest) -> None:
    found = organisations.everybody().filter(public_id=request.POST.get("organisation", "")).first()
    if found is None:
        raise NotFound(_("There is no such organisation."))
    asked, by, now = request.POST.get("do", ""), request.actor.id, clock.now()
    if asked in ("verify", "unverify"):
        services.verify_provider(organisation=found, verified=asked == "verify", by=by, now=now)
    elif asked == "suspend":
        services.suspend(organisation=found, by=by, reason=request.POST.get("reason", ""), now=now)
    elif asked == "resume":
        services.resume(organisation=found, by=by, now=now)
    messages.success(request, _("Done: %(name)s. It is in the audit trail.") % {"name": found.name})


@operator
def audit_trail(request: PageRequest) -> HttpResponse:
    form = AuditForm(request.GET or None)
    wanted = form.cleaned_data if form.is_valid() else {}
    rows = audit.everything()
    if wanted.get("actor"):
        rows = rows.filter(actor=wanted["actor"])
    if wanted.get("deed"):
        rows = rows.filter(deed__startswith=wanted["deed"])
    if wanted.get("target"):
        rows = rows.filter(target=wanted["target"])
    found, older = page_of(request, rows)
    context = {"form": form, "events": found, "older": older, "filtered": any(wanted.values())}
    return show(request, "operator/audit", context)
