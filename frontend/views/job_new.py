"""A new job: one page with the form, the same as YAML, and the live quote; submit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from frontend.doors import PageRequest, page, show
from frontend.forms import job as shapes
from frontend.presenters import placement
from marketplace.selectors import catalog
from portal import clock
from portal.accounts.selectors import organisations
from portal.kit.errors import BadRequest, Conflict, Finding, IdlewildError, InvalidInput, SpendingRefused, TooLarge
from scheduling.domain import spec_document
from scheduling.selectors import jobs as selectors
from scheduling.services import jobs, quotes

Spec = Mapping[str, Any]
SOFT = (InvalidInput, SpendingRefused, Conflict, BadRequest, TooLarge)
"""Refusals that are shown beside the description instead of on a page of their own."""


@dataclass
class Draft:
    """What the page works on: the description, as a form or as text, and what is said about it."""

    mode: str
    form: shapes.JobForm
    yaml: str
    spec: Any
    quote: dict[str, Any] | None = None
    findings: Sequence[Finding] = ()
    problem: str = ""
    status: int = 200
    beyond: list[str] = field(default_factory=list)


@page("jobs.run")
def new(request: PageRequest) -> HttpResponse:
    if request.method != "POST":
        return _answer(request, _begin(request))
    draft = _read(request)
    if request.POST.get("to") in ("form", "yaml") and request.POST["to"] != draft.mode:
        return _answer(request, _turned(request, draft))
    if request.POST.get("submit"):
        made = _submit(request, draft)
        if made is not None:
            return redirect("console:job", made.public_id)
    if draft.quote is None:
        _ask(request, draft)
    return _answer(request, draft)


def _form(request: PageRequest, data: Any = None, initial: Mapping[str, Any] | None = None) -> shapes.JobForm:
    home = request.actor.home()
    return shapes.JobForm(
        data,
        initial=dict(initial or {}),
        projects=[(row.slug, row.name) for row in organisations.projects(home)],
        regions=[(row.slug, row.name) for row in catalog.regions() if row.nodes],
        currency=home.currency,
    )


def _begin(request: PageRequest) -> Draft:
    """An empty page, a sample, or a description like that of an earlier job."""
    spec: Spec = {}
    if request.GET.get("like"):
        spec = _as_written(selectors.one(request.actor.home(), request.GET["like"]).spec)
    elif request.GET.get("sample") in shapes.SAMPLES:
        spec = shapes.SAMPLES[request.GET["sample"]]
    beyond = shapes.beyond_the_form(spec)
    mode = "yaml" if beyond or request.GET.get("mode") == "yaml" else "form"
    draft = Draft(
        mode, _form(request, initial=shapes.initial_of(spec)), shapes.as_yaml(spec) if spec else "", spec, beyond=beyond
    )
    if spec:
        _ask(request, draft)
    return draft


def _as_written(shown: Spec) -> Spec:
    """A stored description without the defaults it shows: what somebody would have written."""
    kept = {name: value for name, value in shown.items() if name in shapes.KNOWN and value not in (None, "", {}, [])}
    for section, defaults in DEFAULTS.items():
        inside = kept.get(section)
        if isinstance(inside, Mapping):
            rest = {
                name: value
                for name, value in inside.items()
                if value not in (None, "", {}, []) and defaults.get(name) != value
            }
            kept[section] = rest
            if not rest:
                del kept[section]
    if kept.get("task_type") == "custom":
        del kept["task_type"]
    for name, keys in (("inputs", ("url", "content", "path", "size_bytes", "region")), ("outputs", ("name", "path"))):
        if kept.get(name):
            kept[name] = [{key: row[key] for key in keys if row.get(key) not in (None, "")} for row in kept[name]]
    return kept


DEFAULTS: dict[str, dict[str, Any]] = {
    "resources": {
        "infra": "*/*/*",
        "use_spot": False,
        "disk_size": "20GiB",
        "job_recovery": {"strategy": "failover", "max_restarts_on_errors": 0, "recover_on_exit_codes": []},
    },
    "placement": {
        "optimize": ["cost", "time", "green", "transfer"],
        "pick": "knee",
        "verified": True,
        "min_green": "0",
        "regions": [],
        "avoid": [],
    },
    "on_disconnect": {"action": "replace", "lease": "standard"},
}


def _read(request: PageRequest) -> Draft:
    """What was sent, as form or as text."""
    if request.POST.get("mode") == "yaml":
        text = request.POST.get("yaml", "")
        draft = Draft("yaml", _form(request), text, None)
        try:
            draft.spec = spec_document.read(text).value or {}
        except (BadRequest, TooLarge) as refused:
            draft.problem, draft.spec = str(refused.detail), None
        return draft
    form = _form(request, request.POST)
    form.trust_the_service()
    spec = form.spec()
    return Draft("form", form, shapes.as_yaml(spec), spec)


def _turned(request: PageRequest, draft: Draft) -> Draft:
    """The same description in the other shape; the form cannot show everything that YAML can say."""
    if draft.mode == "form":
        return Draft("yaml", draft.form, draft.yaml, draft.spec)
    if not isinstance(draft.spec, dict):
        draft.problem = draft.problem or _("This is not a job description yet.")
        return draft
    beyond = shapes.beyond_the_form(draft.spec)
    if beyond:
        draft.problem = _("The form has no place for %(fields)s. Take it out of the YAML, or go on in YAML.") % {
            "fields": ", ".join(beyond)
        }
        return draft
    turned = Draft("form", _form(request, initial=shapes.initial_of(draft.spec)), draft.yaml, draft.spec)
    _ask(request, turned)
    return turned


def _ask(request: PageRequest, draft: Draft) -> None:
    """A quote for the description as it stands; what is wrong with it is told beside it."""
    if not isinstance(draft.spec, dict) or not draft.spec.get("run"):
        return
    try:
        made = quotes.make(
            actor_org=request.actor.home(), project=None, spec=_told(draft), by=request.actor.id, now=clock.now()
        )
    except SOFT as refused:
        _note(draft, refused)
    else:
        draft.quote = placement.quote(made)


def _told(draft: Draft) -> Any:
    """What the service reads: the text itself for YAML, so that findings name lines; the values for the form."""
    return draft.yaml if draft.mode == "yaml" else draft.spec


def _note(draft: Draft, refused: IdlewildError) -> None:
    if isinstance(refused, InvalidInput):
        draft.findings = refused.errors
    else:
        draft.problem = str(refused.detail)


def _submit(request: PageRequest, draft: Draft) -> Any | None:
    """The job, or None with what was wrong noted and status 422 (402, 409)."""
    home = request.actor.home()
    try:
        quote = selectors.quote(home, request.POST["quote"]) if request.POST.get("quote") else None
        point = request.POST.get("point", "")
        return jobs.submit(
            tenant=home,
            project=None,
            spec=_told(draft),
            by=request.actor.id,
            quote=quote,
            point=int(point) if quote is not None and point.isdigit() else None,
            now=clock.now(),
        )
    except SOFT as refused:
        _ask(request, draft)
        _note(draft, refused)
        draft.form.place(draft.findings)
        draft.status = refused.status
        return None


def _answer(request: PageRequest, draft: Draft) -> HttpResponse:
    context = {
        "mode": draft.mode,
        "form": draft.form,
        "yaml": draft.yaml,
        "quote": draft.quote,
        "findings": draft.findings,
        "problem": draft.problem,
        "may_submit": draft.spec is not None and not draft.findings,
    }
    # A description that is still being written is no error: the live quote says what is missing and answers 200.
    return show(request, "jobs/new", context, status=200 if request.GET.get("part") else draft.status)
