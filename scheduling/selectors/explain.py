"""Why is it waiting, why here and not there, why did it end: one answer per job, from stored decisions and the market now.

Every sentence has a code beside it, so that pages and programs can say it in their own words; `text` is the whole answer in
the caller's language.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.utils.translation import gettext as _

from billing.selectors import usage
from portal.kit.money import micro_text
from scheduling.domain import explain as rules
from scheduling.domain.attempt import LIVE
from scheduling.domain.demand import TaskSpec
from scheduling.domain.job import JOB_OPEN, TaskState
from scheduling.domain.placement import Decision, decide_in_order
from scheduling.domain.reasons import ENDED, WAITING, EndReason, WaitReason
from scheduling.models import Attempt, Job, PlacementDecision, Task
from scheduling.selectors import asking, decisions, jobs, snapshot
from scheduling.selectors.asking import Question
from scheduling.selectors.snapshot import Market

NEXT_CYCLE = timedelta(seconds=5)


def job(found: Job, *, now: datetime) -> dict[str, Any]:
    """The explanation of a job: of its first task that has not ended, else of its last."""
    tasks = list(found.tasks.select_related("job__organisation", "job__project", "job__quote").order_by("id"))
    task = next((one for one in tasks if one.ended_at is None), tasks[-1])
    attempts = list(jobs.attempts(found))
    told: dict[str, Any] = {
        "job": found.public_id,
        "task": task.public_id,
        "state": str(found.state),
        "attempts": [attempt_line(one) for one in attempts],
    }
    if found.state not in JOB_OPEN:
        told |= _ended(found, task, attempts)
    elif task.state in (TaskState.QUEUED, TaskState.WAITING):
        told |= waiting(task, now=now)
    decision = decisions.of_job(found).first()
    if decision is not None:
        told["placed"] = placed(decision, [one for one in attempts if one.state in [s.value for s in LIVE]])
    told["text"] = _text(told)
    return told


# -- waiting --------------------------------------------------------------------------------------------------------------
def waiting(task: Task, *, now: datetime) -> dict[str, Any]:
    """Why a queued task waits, decided anew: position, likely start, refusals per tier, what would help."""
    market = snapshot.load(now=now)
    turn = jobs.in_turn(market)
    position = next((place for place, item in enumerate(turn, start=1) if item.task == task.id), None)
    question = asking.of_queued(task, now=now, past_due=asking.is_past_due(task.job.organisation))
    decision = decide_in_order(
        question.requests, question.policy, market.table, market.paths, tiers=market.tiers, explain=True
    )
    stored = task.waiting or {}
    if stored.get("reason") == WaitReason.GANG_INCOMPLETE:  # one node that fits says nothing about a gang
        return _of_gang(task, stored, position)
    start = _start(question, decision, market, task, now)
    tiers = [_with_text(tier.form()) for tier in decision.tiers or ()]
    return {
        "since": task.waiting_since or task.queued_at,
        "reason": _reason(stored),
        "position": position,
        "start": None if start is None else {"low": _iso(start[0]), "high": _iso(start[1])},
        "start_unknown": "nothing_fits" if start is None else None,
        "tiers": tiers,
        "helps": [] if decision.row is not None else _helps(question, market),
    }


def _of_gang(task: Task, stored: Mapping[str, Any], position: int | None) -> dict[str, Any]:
    """Why a task of several nodes waits, as its last turn found it; fewer nodes would help if a zone has some."""
    most = int(stored.get("best") or 0)
    fewer = {"change": f"num_nodes {most}", "field": "num_nodes", "value": str(most), "nodes": most}
    return {
        "since": task.waiting_since or task.queued_at,
        "reason": _reason(stored),
        "position": position,
        "start": None,
        "start_unknown": "nothing_fits",
        "tiers": [_with_text(tier) for tier in stored["tiers"]],
        "helps": [fewer] if most else [],
    }


def _reason(stored: Mapping[str, Any]) -> dict[str, Any] | None:
    if not stored:
        return None
    return {
        "code": stored["reason"],
        **{key: stored[key] for key in ("tier", "asked", "best", "unit") if key in stored},
        "text": refusal_text(stored),
    }


def _helps(question: Question, market: Market) -> list[dict[str, Any]]:
    found = []
    for request in question.requests:
        found += [help_.form() for help_ in rules.helps(request, market.table, market.paths)]
        opening = rules.opens_at(request, market.table, market.paths)
        if opening is not None:
            moment = datetime.fromtimestamp(opening, tz=market.now.tzinfo).strftime("%Y-%m-%dT%H:%M:%SZ")
            found.append({"change": f"wait {moment}", "field": "wait", "value": moment, "nodes": 1})
    return found


def _start(
    question: Question, decision: Decision, market: Market, task: Task, now: datetime
) -> tuple[timedelta, timedelta] | None:
    """When it may start: at once, when leases on nodes that are large enough end, or when a window opens; None = not known."""
    begin = max(timedelta(0), task.not_before - now) if task.not_before else timedelta(0)
    if decision.row is not None:
        return begin, begin + NEXT_CYCLE
    empty = market.table.as_if_empty()
    nodes = {
        empty.rows[int(row)].node
        for request in question.requests
        for row in decide_in_order([request], question.policy, empty, market.paths).problem.feasible(
            slice(0, len(empty))
        )
    }
    ends = _latest_ends([market.live[node].node_id for node in nodes], now)
    if ends:
        return begin, max(begin, min(ends))
    opening = [rules.opens_at(request, market.table, market.paths) for request in question.requests]
    moments = [moment for moment in opening if moment is not None]
    if moments:
        wait = datetime.fromtimestamp(min(moments), tz=now.tzinfo) - now
        return wait, wait + NEXT_CYCLE
    return None


def _latest_ends(nodes: Sequence[int], now: datetime) -> list[timedelta]:
    """Per node: how long until all that runs there must have ended (max_duration of each)."""
    left: dict[int, timedelta] = {}
    rows = Attempt.objects.filter(node_id__in=nodes, state__in=[s.value for s in LIVE]).select_related("task")
    for attempt in rows:
        limit = timedelta(seconds=TaskSpec.from_form(attempt.task.spec).max_duration_s)
        end = max(timedelta(0), (attempt.started_at or attempt.assigned_at) + limit - now)
        left[attempt.node_id] = max(left.get(attempt.node_id, end), end)
    return list(left.values())


def _iso(length: timedelta) -> str:
    """ISO 8601, in whole minutes above two."""
    seconds = int(length.total_seconds())
    return f"PT{seconds}S" if seconds < 120 else f"PT{-(-seconds // 60)}M"


def _with_text(tier: dict[str, Any]) -> dict[str, Any]:
    return {**tier, "refused": [{**refusal, "text": refusal_text(refusal)} for refusal in tier["refused"]]}


def refusal_text(refusal: Mapping[str, Any]) -> str:
    """The sentence of one reason with its numbers, in the caller's language."""
    sentence = WAITING[WaitReason(refusal["reason"])].text
    gaps = {name: refusal.get(name) or "–" for name in ("asked", "best", "unit", "count")}
    return _(sentence).format(**gaps)


# -- placed ---------------------------------------------------------------------------------------------------------------
def placed(decision: PlacementDecision, live: Sequence[Attempt]) -> dict[str, Any]:
    """Why here and why not there, as it was decided."""
    found = decisions.shown(decision)
    return {
        **{key: found[key] for key in ("id", "attempt", "decided", "versions", "front_only", "alternatives", "seen")},
        "point": decision.choice,
        "front": decision.front,
        "transfer": found["transfer"],
        "tiers": [_with_text(tier) for tier in decision.refused],
        "text": why_text(decision.choice["why"], decision.choice),
        "still_there": any(decision.attempt_id == attempt.id for attempt in live),
    }


WHY = {
    "only_point": "No other node that fitted was better in anything.",
    "pick_knee": "It was the best compromise: getting better in one thing would have cost more in the others.",
    "pick_weights": "It was the best by your weights.",
    "pick_cheapest": "It was the cheapest.",
    "pick_fastest": "It was the fastest.",
    "pick_greenest": "It was the greenest.",
}
"""Their translations stand in the catalogue with those of the pages, which say the same."""


def why_text(why: Mapping[str, Any], chosen: Mapping[str, Any]) -> str:
    """Why this point, and what the best of each kind would have meant instead."""
    parts = [_(WHY.get(why.get("code", ""), "")) if why.get("code") in WHY else ""]
    for role, other in (why.get("against") or {}).items():
        parts.append(
            _("{role} was {node}: {cost} {currency}, {time} s, {green} points of green share.").format(
                role=role,
                node=other["name"],
                cost=_signed(other["cost_micro"], micro_text(abs(other["cost_micro"]))),
                currency=chosen["currency"],
                time=_signed(other["time_s"], str(abs(other["time_s"]))),
                green="–"
                if other["green_ppm"] is None
                else _signed(other["green_ppm"], f"{abs(other['green_ppm']) / 10_000:g}"),
            )
        )
    return " ".join(part for part in parts if part)


def _signed(value: int, text: str) -> str:
    return f"{'-' if value < 0 else '+'}{text}"


# -- ended ----------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Line:
    """One attempt in a sentence."""

    attempt: Attempt

    def wire(self) -> dict[str, Any]:
        """The JSON form."""
        attempt = self.attempt
        ending = ENDED.get(EndReason(attempt.reason)) if attempt.reason else None
        return {
            "attempt": attempt.public_id,
            "number": attempt.number,
            "fence": attempt.fence,
            "node": attempt.node.public_id,
            "name": attempt.node.name,
            "region": attempt.node.zone.region.slug,
            "state": str(attempt.state),
            "reason": attempt.reason or None,
            "fault": attempt.fault or None,
            "billed": None if ending is None else ending.billed,
            "exit_code": attempt.exit_code,
            "message": attempt.message,
            "text": "" if ending is None else _(ending.text),
            "replaced_by": attempt.replaced_by.public_id if attempt.replaced_by else None,
        }


def attempt_line(attempt: Attempt) -> dict[str, Any]:
    """What became of an attempt: reason, fault, whether it is billed."""
    return Line(attempt).wire()


def _ended(found: Job, task: Task, attempts: Sequence[Attempt]) -> dict[str, Any]:
    reason = EndReason(task.reason) if task.reason else None
    ending = ENDED[reason] if reason else None
    cost = usage.job_cost(found.public_id)
    return {
        "ended": {
            "at": found.ended_at,
            "reason": reason.value if reason else None,
            "fault": ending.fault.value if ending else None,
            "billed": ending.billed if ending else None,
            "text": _(ending.text) if ending else "",
            "message": attempts[0].message if attempts else "",
            "exit_code": attempts[0].exit_code if attempts else None,
            "cost": cost.wire(),
            "next": "nothing" if found.state == "done" else "retry" if found.state == "failed" else "submit_again",
        }
    }


def _text(told: Mapping[str, Any]) -> str:
    """The whole answer in a few sentences."""
    if "ended" in told:
        ended = told["ended"]
        return " ".join(part for part in (ended["text"], ended["message"], _billed(ended)) if part)
    if "tiers" in told:
        return _text_of_waiting(told)
    return str(told.get("placed", {}).get("text", ""))


def _billed(ended: Mapping[str, Any]) -> str:
    total = ended["cost"]["total"]
    return _("Cost so far: {amount} {currency}.").format(**total)


TIER_NAMES = {"region": "regions", "zone": "zones", "node": "nodes"}


def _text_of_waiting(told: Mapping[str, Any]) -> str:
    parts = []
    if told["reason"]:
        parts.append(told["reason"]["text"])
    for tier in told["tiers"]:
        for refusal in tier["refused"]:
            parts.append(f"{refusal['count']} {_(TIER_NAMES[tier['tier']])}: {refusal['text']}")
    if told["position"]:
        parts.append(_("Position {position} in the queue.").format(position=told["position"]))
    if told["start"]:
        parts.append(_("Start expected in {low} to {high}.").format(**told["start"]))
    else:
        parts.append(_("The start is not known: nothing fits as the market is now."))
    for help_ in told["helps"][:3]:
        parts.append(_("{change} would admit {nodes} nodes.").format(**help_))
    return "\n".join(parts)
