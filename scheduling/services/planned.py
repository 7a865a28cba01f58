"""Planned starts of the tasks that wait longest for room; see `domain.backfill`. Nothing is stored: each cycle makes its promises anew."""

from datetime import datetime

import numpy as np

from scheduling.domain import backfill
from scheduling.domain.backfill import Promise
from scheduling.domain.demand import TaskSpec
from scheduling.domain.fairness import Held
from scheduling.domain.filters import card_count
from scheduling.domain.placement import feasible
from scheduling.models import Task
from scheduling.selectors import asking, running
from scheduling.selectors.asking import Asked
from scheduling.selectors.snapshot import Market
from scheduling.services import waiting
from scheduling.services.room import free

LOOKED_AT = 64
"""Waiting tasks that are looked at for a planned start."""
PLACES = 256
"""Nodes looked at for each, those with most cores free first."""


def make(*, market: Market, asked: Asked, now: datetime) -> list[Promise]:
    """One promise a region, `backfill.MOST` in all."""
    made: list[Promise] = []
    regions: set[str] = set()
    for task in running.waiting_for_room(most=LOOKED_AT):
        if len(made) >= backfill.MOST:
            break
        found = of(task=task, market=market, asked=asked, taken=[one.node for one in made], shut=regions, now=now)
        if found is not None:
            made.append(found)
            regions.add(market.live[found.node].region)
    return made


def of(
    *,
    task: Task,
    market: Market,
    asked: Asked,
    now: datetime,
    taken: list[str] | None = None,
    shut: set[str] | None = None,
) -> Promise | None:
    """The earliest certain start of one task, or None: it fits now, it never does, or it is held back for another reason."""
    spec = TaskSpec.from_form(task.spec)
    if spec.num_nodes > 1 or waiting.over(task, spec, now) is not None or waiting.held_back(task, now) is not None:
        return None
    question = asking.of_queued(task, now=now, past_due=asked.past_due(task), spec=spec, asked=asked)
    empty, table, places = market.table.as_if_empty(), market.table, []
    for request in question.requests:
        rows = feasible(request, question.policy, empty, market.paths)
        rows = rows[np.argsort(-table.cores[rows].astype(np.int64), kind="stable")][:PLACES]
        for number in (int(row) for row in rows):
            if shut and market.live[table.rows[number].node].region in shut:
                continue
            cards = int(card_count(request, table, slice(number, number + 1))[0])
            needs = Held(request.cores_milli, request.memory_mib, request.disk_gib, cards)
            places.append((table.rows[number].node, free(table, number), needs))
    moment = int(now.timestamp())
    found = backfill.promise(task.id, places, running.latest_ends({node for node, _, _ in places}), taken or (), moment)
    return None if found is None or found.start <= moment else found
