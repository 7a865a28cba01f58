"""Jobs as pages show them: rows, attempts on a time line, what it waits for, how it ended, events."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from frontend.presenters import figures, words
from scheduling.domain.reasons import ENDED, WAITING, EndReason, WaitReason

OVER = ("done", "failed", "cancelled")
WIDTH = 1000
"""Width of the time line's drawing, in its own units."""
TICKS = 5


# --- rows --------------------------------------------------------------------------------------------------------------
def row(job: Any, *, attempt: Any | None = None, cost: Any | None = None) -> dict[str, Any]:
    """A line of a job list, and the head of a job's page."""
    return {
        "public_id": job.public_id,
        "name": job.name,
        "href": reverse("console:job", args=[job.public_id]),
        "organisation": job.organisation.name,
        "state": job.state,
        "detail": detail(job, attempt),
        "project": job.project.name,
        "node": node_text(attempt) if attempt else "",
        "cost": cost,
        "created_at": job.created_at,
        "ended_at": job.ended_at,
        "is_over": job.state in OVER,
        "may_cancel": job.state not in OVER and job.cancel_requested_at is None,
        "may_retry": job.state == "failed",
        "currency": job.currency,
    }


def detail(job: Any, attempt: Any | None) -> str:
    """One line under the state: what is going on, or why it ended."""
    if job.state in OVER:
        return str(words.word("reason", job.reason).text) if job.reason and job.reason != "finished" else ""
    if job.cancel_requested_at:
        return _("being cancelled")
    if attempt is not None and attempt.phase not in ("", "run") and attempt.state in ("leased", "running"):
        return str(words.word("phase", attempt.phase).text)
    if attempt is not None and attempt.state in ("unreachable", "cancelling"):
        return str(words.word("attempt", attempt.state).text)
    return ""


def node_text(attempt: Any) -> str:
    return f"{attempt.node.name} · {attempt.node.zone.region.name}"


# --- attempts on a time line ---------------------------------------------------------------------------------------------
def attempts(rows: Sequence[Any], now: datetime) -> tuple[list[dict[str, Any]], list[str]]:
    """The attempts, oldest first, each with its pieces on one common scale of true time; and the ticks of that scale."""
    ordered = sorted(rows, key=lambda attempt: attempt.id)
    if not ordered:
        return [], []
    start = ordered[0].assigned_at
    end = max((attempt.ended_at or now) for attempt in ordered)
    span = max((end - start).total_seconds(), 1.0)
    ticks = [clock(start + timedelta(seconds=span * step / (TICKS - 1))) for step in range(TICKS)]
    return [_attempt(attempt, start, span, now) for attempt in ordered], ticks


def clock(moment: datetime) -> str:
    return f"{timezone.localtime(moment):%H:%M:%S}"


def _attempt(attempt: Any, start: datetime, span: float, now: datetime) -> dict[str, Any]:
    place = lambda moment: round(WIDTH * (moment - start).total_seconds() / span)  # noqa: E731  a scale, used four times
    pieces = [
        {
            "kind": kind,
            "x": place(since),
            "width": max(place(until) - place(since), 3),
            "title": f"{text} {clock(since)}–{clock(until)}",
        }
        for kind, since, until, text in _pieces(attempt, now)
    ]
    proven = None
    metered = None
    if attempt.started_at and attempt.proven_until:
        proven = (attempt.proven_until - attempt.started_at).total_seconds()
        x = place(attempt.started_at)
        metered = {
            "x": x,
            "width": max(place(attempt.proven_until) - x, 3),
            "title": _("proven running time: %(time)s") % {"time": figures.duration(proven)},
        }
    state = words.word("attempt", attempt.state).text
    return {
        "number": attempt.number,
        "public_id": attempt.public_id,
        "node": attempt.node.name,
        "place": f"{attempt.node.zone.region.name} · {attempt.node.zone.name}",
        "state": attempt.state,
        "phase": attempt.phase if attempt.state in ("leased", "running") and attempt.phase != "run" else "",
        "fence": attempt.fence,
        "resumed": bool(attempt.resumed_from),
        "isolation": attempt.isolation,
        "reason": attempt.reason,
        "fault": attempt.fault,
        "message": attempt.message,
        "billed": is_billed(attempt.reason),
        "started_at": attempt.started_at,
        "proven": proven,
        "pieces": pieces,
        "metered": metered,
        "sentence": _("Attempt %(n)s on %(node)s: %(state)s, proven running time %(time)s")
        % {"n": attempt.number, "node": attempt.node.name, "state": state, "time": figures.duration(proven)},
    }


def is_billed(reason: str) -> bool:
    """Is the proven time of an attempt billed? A running one is, as far as anybody knows."""
    return not reason or reason not in EndReason.__members__.values() or ENDED[EndReason(reason)].billed


def _pieces(attempt: Any, now: datetime) -> Iterable[tuple[str, datetime, datetime, str]]:
    """What happened when: preparing, running, silent."""
    end = attempt.ended_at or now
    begun = attempt.started_at or end
    yield "prepare", attempt.assigned_at, begun, _("preparing")
    if attempt.started_at is None:
        return
    silent = attempt.state in ("lost", "unreachable") and attempt.proven_until is not None
    until = max(attempt.proven_until, attempt.started_at) if silent else end
    yield "run", attempt.started_at, until, _("running")
    if silent and until < end:
        yield "lost", until, end, _("node silent")


# --- why it waits, how it ended ------------------------------------------------------------------------------------------
def counted(tier: str, amount: int) -> str:
    """4 regions, 1 node."""
    texts = {
        "region": ngettext("%(n)s region", "%(n)s regions", amount),
        "zone": ngettext("%(n)s zone", "%(n)s zones", amount),
        "node": ngettext("%(n)s node", "%(n)s nodes", amount),
    }
    return texts[tier] % {"n": amount} if tier in texts else ""


def reason_text(refused: Mapping[str, Any]) -> str:
    """A waiting reason with its figures: the house's sentence in the reader's language, and of how many places it is said."""
    try:
        known = WAITING[WaitReason(str(refused["reason"]))]
    except ValueError:
        return str(words.word("waiting", refused["reason"]).text)
    sentence = known.text
    places = counted(known.tier, int(refused["count"])) if refused.get("count") else ""
    gaps = {name: refused.get(name, "") for name in ("count", "asked", "best", "unit")}
    said = _(sentence).format(**gaps)
    return _("%(places)s: %(reason)s") % {"places": places, "reason": said} if places else said


def waiting(task: Any | None) -> dict[str, Any] | None:
    """Why a task waits; None when it does not, or nobody has looked at it yet."""
    if task is None or task.state not in ("queued", "waiting") or not task.waiting:
        return None
    told = task.waiting
    tiers = [
        {
            "text": words.word("waiting", row["reason"]).text,
            **{k: row.get(k, "") for k in ("count", "asked", "best", "unit")},
        }
        for tier in told.get("tiers", [])
        for row in tier.get("refused", [])
    ]
    for line in tiers:
        unit = f" {line['unit']}" if line["unit"] else ""
        line["asked"] = f"{line['asked']}{unit}" if line["asked"] else ""
        line["best"] = f"{line['best']}{unit}" if line["best"] else ""
    sentence = _("No node fits now. The job starts by itself as soon as one does.")
    if told.get("reason"):
        sentence = reason_text(told)
    if told.get("position"):
        sentence += " " + _("Place in the queue: %(n)s.") % {"n": told["position"]}
    return {
        "since": task.waiting_since or task.queued_at,
        "sentence": sentence,
        "tiers": tiers,
        "helps": [help_text(one) for one in told.get("helps", [])],
    }


def help_text(one: Mapping[str, Any]) -> str:
    nodes = int(one.get("nodes", 0))
    fits = ngettext("%(n)s node fits", "%(n)s nodes fit", nodes) % {"n": nodes}
    return f"{one.get('change', '')} → {fits}"


def ended(job: Any, last: Any | None) -> dict[str, Any] | None:
    """How the job ended, why, and what comes next; None while it goes on."""
    if job.state not in OVER or job.state == "done":
        return None
    word = words.word("reason", job.reason or (last.reason if last else ""))
    following = {
        "failed": _(
            "“Try again” starts it once more under the same description; “New job like this” lets you change it."
        ),
        "cancelled": _("What had run until then is billed; nothing more is."),
    }[job.state]
    message = last.message if last is not None and last.reason else ""
    if last is not None and last.exit_code not in (None, 0):
        message = (f"{message} · " if message else "") + _("exit code %(code)s") % {"code": last.exit_code}
    return {"text": word.text, "tone": word.tone, "icon": word.icon, "message": message, "following": following}


def event(found: Any, names: Mapping[str, str]) -> dict[str, Any]:
    """One event in words. `names`: of nodes, by id."""
    word = words.word("event", found.type)
    data = found.data or {}
    parts = []
    if data.get("reason"):
        kind = "waiting" if found.type == "task.waiting" else "reason"
        parts.append(str(words.word(kind, data["reason"]).text))
    parts += [str(names.get(data[name], data[name])) for name in ("node", "region", "message") if data.get(name)]
    return {
        "text": word.text,
        "tone": word.tone,
        "icon": word.icon,
        "at": found.created_at,
        "detail": " · ".join(parts),
    }
