"""Quotes: their machine, and one place as people and stored decisions see it.

=======  ==========  =========
state    event       becomes
=======  ==========  =========
open     used        used
open     lapsed      expired
=======  ==========  =========

What is used or expired stays so. A point shows figures in whole numbers, its differences to the choice, and why it was chosen.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import numpy as np

from portal.kit.machine import step
from portal.kit.money import micro_text
from scheduling.domain import objectives
from scheduling.domain.demand import Objective, Pick
from scheduling.domain.objectives import Amounts
from scheduling.domain.search import Found, Problem


class QuoteState(StrEnum):
    OPEN = "open"
    USED = "used"
    EXPIRED = "expired"


class QuoteEvent(StrEnum):
    USED = "used"
    LAPSED = "lapsed"


class QuoteEffect(StrEnum):
    """A quote reserves nothing, so its end has no effects."""


TABLE: Mapping[tuple[QuoteState, QuoteEvent], tuple[QuoteState, tuple[QuoteEffect, ...]]] = {
    (QuoteState.OPEN, QuoteEvent.USED): (QuoteState.USED, ()),
    (QuoteState.OPEN, QuoteEvent.LAPSED): (QuoteState.EXPIRED, ()),
}


def advance(state: QuoteState, event: QuoteEvent) -> QuoteState:
    """The state after `event`; InvalidTransition when the quote is over already."""
    return step(TABLE, state, event)[0]


ROLES = {
    Objective.COST: "cheapest",
    Objective.TIME: "fastest",
    Objective.GREEN: "greenest",
    Objective.TRANSFER: "least_transfer",
}


def amounts(problem: Problem, row: int) -> Amounts:
    """Exact figures of one row."""
    return objectives.amounts(problem.request, problem.table, problem.regions, row)


def point(problem: Problem, row: int, *, index: int, roles: Sequence[str] = ()) -> dict[str, Any]:
    """One point of a front: where it is, what it costs (low, expected, high), how long, how green, what is moved."""
    place, figures = problem.table.rows[row], amounts(problem, row)
    request = problem.request
    return {
        "index": index,
        "node": place.node,
        "name": place.name,
        "offer": place.offer,
        "region": place.region,
        "zone": place.zone,
        "provider": place.provider,
        "provider_name": place.provider_name,
        "isolation": place.isolation,
        "virtual": place.virtual and figures.cards > 0,
        "card_model": place.card_model if figures.cards else "",
        "cards": figures.cards,
        "cores_milli": request.cores_milli,
        "rental": request.rental,
        "currency": request.currency,
        "hour_nano": figures.hour_nano,
        "price_per_hour": micro_text(figures.hour_micro),
        "cost": {
            "low": micro_text(figures.low_micro),
            "expected": micro_text(figures.expected_micro),
            "high": micro_text(figures.high_micro),
        },
        "expected_micro": figures.expected_micro,
        "high_micro": figures.high_micro,
        "expected_s": figures.expected_s,
        "time_s": figures.time_s,
        "green_ppm": figures.green_ppm,
        "transfer_micro": figures.transfer_micro,
        "transfer": problem.paths.lines(request.data, place.region),
        "scu": format(figures.scu, ".4g") if figures.scu else None,
        "roles": list(roles),
    }


def points(problem: Problem, front: Found, shown: Sequence[int], choice: int | None) -> list[dict[str, Any]]:
    """The shown points of `front` (positions) with their roles; `choice` is a position too."""
    roles = roles_of(problem, front)
    made = []
    for index, position in enumerate(shown):
        named = [*roles.get(position, ()), *(["choice"] if position == choice else [])]
        made.append(point(problem, int(front.rows[position]), index=index, roles=named))
    return made


def roles_of(problem: Problem, front: Found) -> dict[int, list[str]]:
    """Position in the front → what it is best in."""
    roles: dict[int, list[str]] = {}
    for column, name in enumerate(problem.columns):
        values = front.vectors[:, column]
        if len(values) and values.max() > values.min():
            order = np.lexsort((*front.vectors.T[::-1], values))
            roles.setdefault(int(order[0]), []).append(ROLES[Objective(name)])
    return roles


def difference(other: dict[str, Any], chosen: dict[str, Any]) -> dict[str, Any]:
    """What the other point costs, takes and burns more (positive) or less than the chosen one."""
    greens = (other["green_ppm"], chosen["green_ppm"])
    return {
        **{key: other[key] for key in ("node", "name", "offer", "region", "zone", "provider_name", "roles")},
        "cost_micro": other["expected_micro"] - chosen["expected_micro"],
        "time_s": other["time_s"] - chosen["time_s"],
        "green_ppm": None if None in greens else greens[0] - greens[1],
        "transfer_micro": other["transfer_micro"] - chosen["transfer_micro"],
    }


def why(problem: Problem, chosen: dict[str, Any], others: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Data of the sentence that says why this point: the policy, and what the best of each column would have cost instead."""
    policy = problem.policy
    against: dict[str, Any] = {}
    for other in others:
        for role in other["roles"]:
            if role != "choice" and other["node"] != chosen["node"]:
                against.setdefault(role, difference(other, chosen))
    return {
        "code": "only_point" if not others else f"pick_{Pick.KNEE.value if policy.pick == Pick.ASK else policy.pick}",
        "optimize": list(problem.columns),
        "weights": {name: weight for name, weight in policy.weights.items()},
        "against": against,
        "best_in": [role for role in chosen["roles"] if role != "choice"],
    }
