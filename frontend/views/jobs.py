"""Jobs of an organisation: the list, one job live, its log and outputs, cancel and retry."""

from typing import Any

from django.contrib import messages
from django.core.cache import cache
from django.db.models import prefetch_related_objects
from django.http import HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from billing.selectors import usage
from frontend.doors import PageRequest, page, show, who_can_grant
from frontend.forms.job import as_yaml
from frontend.paging import page_of
from frontend.presenters import jobs as present
from frontend.presenters import money_lines, placement, words
from frontend.presenters.topics import job_topic, topics_of
from portal import clock
from portal.accounts.permissions import Deed, may
from portal.kit.errors import BadRequest, NotFound
from portal.kit.money import Money
from scheduling.selectors import jobs as selectors
from scheduling.selectors import stored
from scheduling.services import artefacts, jobs, logs

TABS = ("overview", "log", "cost", "why", "outputs", "events", "spec")
SHOWN_ATTEMPTS = 50
SHOWN_CHECKPOINTS = 20


NAMED = ("tasks__attempts__node__zone__region",)
"""What a row of a job list names; fetched for all rows at once."""
COST_KEPT_S = {False: 4, True: 60}
"""How long a list shows the same cost: of a job that goes on, of one that is over. The job's own page always asks."""


def rows_of(found: list[Any]) -> list[dict[str, Any]]:
    """Jobs as rows, each with its newest attempt and its cost."""
    prefetch_related_objects(found, *NAMED)
    newest = {job.id: newest_attempt(job) for job in found}
    return [present.row(job, attempt=newest[job.id], cost=cost_of(job, newest[job.id])) for job in found]


def newest_attempt(job: Any) -> Any | None:
    """Of a job whose attempts are fetched already."""
    attempts = [attempt for task in job.tasks.all() for attempt in task.attempts.all()]
    return max(attempts, key=lambda attempt: attempt.id, default=None)


def cost_of(job: Any, attempt: Any | None) -> Money:
    """What a job costs so far; nothing is asked for one that never had a node."""
    if attempt is None:
        return Money(0, job.currency)
    key = f"job-cost:{job.public_id}"
    minor = cache.get(key)
    if minor is None:
        total = usage.job_cost(job.public_id).total
        if total.currency != job.currency:
            return total
        minor = total.minor
        cache.set(key, minor, COST_KEPT_S[job.state in present.OVER])
    return Money(int(minor), job.currency)


def chips(counts: dict[str, int], current: str, path: str) -> list[dict[str, Any]]:
    """Filters by state, with how many each holds."""
    every = [{"text": _("All"), "count": sum(counts.values()), "href": path, "current": not current}]
    return every + [
        {"text": word.text, "count": counts.get(state, 0), "href": f"{path}?state={state}", "current": state == current}
        for state, word in words.JOB.items()
        if counts.get(state) or state == current
    ]


@page("work.read")
def job_list(request: PageRequest) -> HttpResponse:
    home = request.actor.home()
    state = request.GET.get("state", "")
    found, older = page_of(request, selectors.for_organisation(home, states=[state] if state in words.JOB else []))
    context = {
        "jobs": rows_of(found),
        "older": older,
        "chips": chips(selectors.counts(organisation=home), state, reverse("console:jobs")),
        "filtered": bool(state),
        "topics": topics_of(home),
        "may_run": may(request.actor, Deed.JOBS_RUN),
    }
    return show(request, "jobs/list", context)


@page("work.read")
def job(request: PageRequest, public_id: str) -> HttpResponse:
    found = selectors.one(request.actor.home(), public_id)
    tab = request.GET.get("tab", "overview")
    attempts = list(selectors.attempts(found)[:SHOWN_ATTEMPTS])
    cost = usage.job_cost(found.public_id)
    may_log = may(request.actor, Deed.LOGS_READ)
    names = {attempt.node.public_id: attempt.node.name for attempt in attempts}
    shown, ticks = present.attempts(attempts, clock.now())
    context = {
        "tab": tab if tab in TABS else "overview",
        "topic": job_topic(found.public_id),
        "job": present.row(found, attempt=attempts[0] if attempts else None, cost=cost.total),
        "attempts": shown,
        "ticks": ticks,
        "cost": {"total": cost.total, "lines": [money_lines.row(line, names=names) for line in cost.lines]},
        "quoted": quoted(found),
        "waiting": present.waiting(found.tasks.first()),
        "ended": present.ended(found, attempts[0] if attempts else None),
        "outputs": lambda: outputs_of(found),
        "checkpoints": lambda: list(stored.checkpoints_of(found)[:SHOWN_CHECKPOINTS]),
        "has_checkpoint": bool(found.spec.get("checkpoint")),
        "decisions": lambda: [
            placement.decision(row.decision, row, found) for row in attempts if hasattr(row, "decision")
        ],
        "events": lambda: [present.event(row, names) for row in selectors.events(found)[:200]],
        "spec_yaml": lambda: as_yaml(found.spec),
        "may_run": may(request.actor, Deed.JOBS_RUN),
        "may_log": may_log,
        "who_can_grant": "" if may_log else who_can_grant(request.actor),
        **log_choice(request, attempts),
    }
    return show(request, "jobs/detail", context)


def outputs_of(found: Any) -> list[Any]:
    """What the job has stored, once its result was accepted."""
    return list(found.artefacts.filter(published=True).order_by("name"))


def quoted(found: Any) -> dict[str, str] | None:
    """What the quote had said about the chosen point."""
    if found.quote is None or found.point is None:
        return None
    point = placement.point(found.quote.points[found.point], None)
    return {"low": point["low"], "high": point["high"]}


def log_choice(request: PageRequest, attempts: list[Any]) -> dict[str, Any]:
    """Which attempt's log, and which stream, is shown; the newest one's output unless asked."""
    numbers = [str(attempt.number) for attempt in attempts]
    number = request.GET.get("attempt", "")
    number = number if number in numbers else (numbers[0] if numbers else "")
    stream = request.GET.get("stream", "stdout")
    stream = stream if stream in logs.STREAMS else "stdout"
    choices = [
        {
            "href": f"?tab=log&attempt={attempt.number}&stream={name}",
            "current": (str(attempt.number), name) == (number, stream),
            "text": _("Attempt %(n)s: %(stream)s") % {"n": attempt.number, "stream": text},
        }
        for attempt in reversed(attempts)
        for name, text in (("stdout", _("output")), ("stderr", _("errors")))
    ]
    follow = "" if request.GET.get("attempt") else "&follow=1"
    return {"log_query": f"stream={stream}" + (follow or f"&attempt={number}"), "log_choices": choices}


@page("logs.read")
def log(request: PageRequest, public_id: str) -> HttpResponse:
    """The bytes of a log from an offset on, as plain text; `X-Log-Next` says where to go on."""
    found = selectors.one(request.actor.home(), public_id)
    attempts = list(selectors.attempts(found)[:SHOWN_ATTEMPTS])
    stream = request.GET.get("stream", "stdout")
    if stream not in logs.STREAMS:
        raise NotFound(_("There is no such log."))
    wanted = request.GET.get("attempt", "")
    attempt = next(
        (row for row in attempts if str(row.number) == wanted), attempts[0] if attempts and not wanted else None
    )
    over = found.state in present.OVER
    if attempt is None:
        return _log_answer(b"", 0, "" if not over else "end")
    if request.GET.get("download"):
        return _whole_log(found, attempt, stream)
    part = logs.read(attempt=attempt, stream=stream, offset=_offset(request))
    ended = part.complete and part.next_offset >= part.total and (over or bool(wanted))
    more = "1" if part.next_offset < part.total else "end" if ended else ""
    return _log_answer(part.data, part.next_offset, more, attempt.number)


def _offset(request: PageRequest) -> int:
    text = request.GET.get("offset", "0")
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise BadRequest(_("The offset is a whole number of bytes."))
    return int(text)


def _log_answer(data: bytes, following: int, more: str, attempt: int | str = "") -> HttpResponse:
    answer = HttpResponse(data, content_type="text/plain; charset=utf-8")
    answer["X-Log-Next"], answer["X-Log-More"], answer["X-Log-Attempt"] = str(following), more, str(attempt)
    answer["Cache-Control"] = "no-store"
    return answer


def _whole_log(found: Any, attempt: Any, stream: str) -> StreamingHttpResponse:
    def parts() -> Any:
        offset = 0
        while True:
            part = logs.read(attempt=attempt, stream=stream, offset=offset)
            yield part.data
            if part.next_offset == offset:
                return
            offset = part.next_offset

    answer = StreamingHttpResponse(parts(), content_type="text/plain; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="{found.name}-{attempt.number}-{stream}.log"'
    return answer


@page("logs.read")
def output(request: PageRequest, public_id: str, artefact_id: str) -> HttpResponse:
    found = selectors.one(request.actor.home(), public_id)
    row = next((row for row in outputs_of(found) if row.public_id == artefact_id), None)
    if row is None or row.state != "stored":
        raise NotFound(_("There is no such output, or it is no longer kept."))
    answer = StreamingHttpResponse(artefacts.content(artefact=row), content_type="application/octet-stream")
    answer["Content-Length"] = str(row.size_bytes)
    answer["Content-Disposition"] = _attachment(row)
    return answer


def _attachment(row: Any) -> str:
    name = row.path.rsplit("/", 1)[-1] or row.name
    return (
        f'attachment; filename="{name}"' if name.isascii() and '"' not in name else f'attachment; filename="{row.name}"'
    )


@require_POST
@page("jobs.run")
def cancel(request: PageRequest, public_id: str) -> HttpResponse:
    found = selectors.one(request.actor.home(), public_id)
    jobs.cancel(job=found, by=request.actor.id, now=clock.now())
    messages.success(request, _("“%(name)s” is being cancelled. What ran until now is billed.") % {"name": found.name})
    return redirect("console:job", public_id)


@require_POST
@page("jobs.run")
def retry(request: PageRequest, public_id: str) -> HttpResponse:
    found = selectors.one(request.actor.home(), public_id)
    jobs.retry(job=found, by=request.actor.id, now=clock.now())
    messages.success(request, _("“%(name)s” is queued again.") % {"name": found.name})
    return redirect("console:job", public_id)
