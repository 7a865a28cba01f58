"""A task with slack waits for greener or cheaper hours: decided when a place is found, from that place's grid and price windows.

What counts is what the spec says counts: the carbon of the hours it would run (green), the factor of the price window in
which it would start (cost: the factor at the start holds to the end), or the product of both. The start moves only when
that saves at least two percent, never beyond what is left of the slack since submission, never past the deadline, and
never into hours in which the offer is closed. It is written down as `not_before`, so the task is not looked at in
between; then it is decided anew, by the market of that moment.
"""

from datetime import datetime, timedelta

import numpy as np

from marketplace.domain import windows
from marketplace.domain.windows import Span
from marketplace.models import Offer
from portal.kit.money import PPM
from scheduling.domain import timeshift
from scheduling.domain.columns import Floats, Ints
from scheduling.domain.demand import Objective, Pick, Placement, TaskSpec
from scheduling.domain.job import TaskState
from scheduling.domain.placement import Decision
from scheduling.models import Task
from scheduling.selectors import asking
from scheduling.selectors.footprint import Electricity

LEAST_SAVED = 0.02
LEAST_DELAY = timedelta(minutes=1)
MOST_CHANGES = 200
"""Of price windows that are looked at; a week has far fewer."""


def later(task: Task, spec: TaskSpec, decision: Decision, *, now: datetime) -> datetime | None:
    """When the task should start instead of now; None = now."""
    left = slack_left(task, spec, decision, now=now)
    if left < LEAST_DELAY:
        return None
    delay_s, saved = _best(spec.placement, decision, now, int(left.total_seconds()))
    if saved < LEAST_SAVED or delay_s < LEAST_DELAY.total_seconds():
        return None
    return now + timedelta(seconds=delay_s)


def slack_left(task: Task, spec: TaskSpec, decision: Decision, *, now: datetime) -> timedelta:
    """What is left of the slack, and still ends before the deadline. Only a first attempt waits."""
    if not spec.placement.slack_s or task.fence:
        return timedelta(0)
    left = task.job.created_at + timedelta(seconds=spec.placement.slack_s) - now
    limit = asking.deadline(spec, begun=task.job.created_at)
    if limit is not None:
        left = min(left, timedelta(seconds=limit - now.timestamp() - spec.max_duration_s))
    return left


def counts(wish: Placement, objective: Objective) -> bool:
    """Does the spec's policy look at this objective?"""
    alone = {Pick.CHEAPEST: Objective.COST, Pick.GREENEST: Objective.GREEN, Pick.FASTEST: Objective.TIME}
    pick = Pick(wish.pick)
    if pick in alone:
        return alone[pick] == objective
    if pick == Pick.WEIGHTS:
        return wish.weights_micro.get(objective, 0) > 0
    return objective in wish.optimize


def _best(wish: Placement, decision: Decision, now: datetime, slack_s: int) -> tuple[int, float]:
    """(delay in seconds, share saved) of the best start within the slack at the decided place."""
    place = decision.problem.table.rows[decision.place]
    seconds = max(1, int(decision.chosen()["expected_s"]))
    power = Electricity.at(now)
    series = power.series(place.region, place.zone, seconds=seconds, slack_s=slack_s)
    series = series if counts(wish, Objective.GREEN) else None
    offer = Offer.objects.filter(public_id=place.offer).values_list("windows", "hours").first()
    priced, hours = (windows.stored(rows) for rows in offer) if offer is not None else ((), ())
    priced = priced if counts(wish, Objective.COST) else ()
    found = {0, *_changes((*priced, *hours), now, slack_s)}
    if series is not None:
        found |= set(timeshift.breaks(power.into_hour_s, seconds, slack_s))
    delays = np.array([d for d in sorted(found) if d == 0 or windows.is_open(hours, now + timedelta(seconds=d))])
    means = None if series is None else timeshift.mean_over(series, delays + power.into_hour_s, seconds)
    factors = _factors(priced, now, delays) if priced else None
    best = timeshift.cheapest_start(delays, means=means, factors=factors)
    before, after = (_value(means, factors, at) for at in (0, best))
    return int(delays[best]), 1 - after / before if before > 0 else 0.0


def _value(means: Floats | None, factors: Floats | None, at: int) -> float:
    return (1.0 if means is None else float(means[at])) * (1.0 if factors is None else float(factors[at]))


def _changes(spans: tuple[Span, ...], now: datetime, slack_s: int) -> list[int]:
    """Delays at which a window begins or ends, within the slack."""
    made: list[int] = []
    moment, end = now, now + timedelta(seconds=slack_s)
    while spans and len(made) < MOST_CHANGES:
        following = windows.next_change(spans, moment)
        if following is None or following > end:
            break
        made.append(int((following - now).total_seconds()))
        moment = following
    return made


def _factors(priced: tuple[Span, ...], now: datetime, delays: Ints) -> Floats:
    held = [windows.in_force(priced, now + timedelta(seconds=int(d))) for d in delays]
    return np.array([1.0 if span is None else span.factor_ppm / PPM for span in held])


def postpone(task: Task, *, until: datetime) -> bool:
    """Write when the task starts at the earliest; False if another got there first."""
    updated = Task.objects.filter(id=task.id, state=TaskState.QUEUED, not_before=task.not_before).update(
        not_before=until
    )
    if updated == 1:
        task.not_before = until
    return updated == 1
