"""Decide: one request over one table → a :class:`Decision`, a value with everything that it was made from.

Pure and total-ordered: the same inputs give the same node. What is stored (:meth:`Decision.inputs`) is enough to decide again: :func:`replay` must return
the same node, whatever happened to the market since. Losers cannot change a winner, so a shortlist is kept; for `knee` the front itself is the input.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from scheduling.domain import filters, frontier, pareto, quote, search
from scheduling.domain.columns import Ints, Row, Table, build
from scheduling.domain.demand import Pick
from scheduling.domain.filters import Counted
from scheduling.domain.request import Paths, Policy, Request
from scheduling.domain.search import Found, Problem
from scheduling.domain.summaries import Summaries

SHORTLIST = 256
MOST_FRONT = 4_096
"""A larger front is thinned by its 1 % ε-front before it is stored as the input of a knee."""
EPSILON_OF_KNEE = 0.01
ALTERNATIVES = 5


@dataclass(frozen=True)
class Decision:
    """The outcome: `row` of the problem's table, or None; the front around it; who was refused (None when not asked for)."""

    problem: Problem
    row: int | None
    front: Found
    position: int | None  # of the choice in the front; None if the choice is not on it (a preferred node)
    shown: tuple[int, ...]  # positions of the front's representatives
    shortlist: Ints
    tiers: tuple[Counted, ...] | None
    looked_at: int

    @property
    def node(self) -> str | None:
        """The public id of the chosen node."""
        return None if self.row is None else self.problem.table.rows[self.row].node

    @property
    def place(self) -> int:
        """The chosen row; ValueError if nothing was chosen."""
        if self.row is None:
            raise ValueError("nothing was chosen")
        return self.row

    def points(self) -> list[dict[str, Any]]:
        """The shown points, the choice among them."""
        return self._points

    @cached_property
    def _points(self) -> list[dict[str, Any]]:
        return quote.points(self.problem, self.front, self.shown, self.position)

    def chosen(self) -> dict[str, Any]:
        """The choice as a point."""
        for made in self.points():
            if made["node"] == self.node:
                return made
        return quote.point(self.problem, self.place, index=len(self.shown), roles=("choice",))

    def seen(self) -> dict[str, Any]:
        """How much was looked at for it: nodes, cells opened, per tier the groups that could fit and those that a bound cut."""
        return {
            "looked_at": self.looked_at,
            "cells": self.front.opened,
            "front": len(self.front.rows),
            "groups": [
                {"tier": looked.tier, "able": looked.groups, "cut_by_bound": looked.cut} for looked in self.front.tiers
            ],
        }

    def alternatives(self) -> list[dict[str, Any]]:
        """Other points of the front with their differences to the choice."""
        chosen = self.chosen()
        others = [made for made in self.points() if made["node"] != chosen["node"]]
        others.sort(key=lambda made: (not made["roles"], made["index"]))
        return [quote.difference(other, chosen) for other in others[:ALTERNATIVES]]

    def why(self) -> dict[str, Any]:
        """Data of the reason sentence."""
        chosen = self.chosen()
        return quote.why(self.problem, chosen, [p for p in self.points() if p["node"] != chosen["node"]])

    def inputs(self) -> dict[str, Any]:
        """Everything that :func:`replay` needs, as plain JSON values."""
        table, request = self.problem.table, self.problem.request
        rows = [table.current(int(row)).form() for row in self.shortlist]
        return {
            "request": request.form(),
            "policy": _policy_form(self.problem.policy),
            "paths": self.problem.paths.form(
                request.data, request.latency_to, {row["region"] for row in rows}, pending=self.problem.pending
            ),
            "floors": {name: repr(value) for name, value in self.problem.floors.items()},
            "rows": rows,
        }


def decide(
    request: Request,
    policy: Policy,
    table: Table,
    paths: Paths,
    *,
    tiers: Summaries | None = None,
    floors: Mapping[str, float] | None = None,
    explain: bool = False,
) -> Decision:
    """Choose a row for `request`. With `explain`, or when nothing fits, also count who was refused and why."""
    problem = Problem(request, policy, table, paths, tiers=tiers, floors=floors)
    front = frontier.front(problem)
    if not len(front.rows):
        counted = filters.explain(request, table, problem.regions, problem.zones)
        return Decision(problem, None, front, None, (), front.rows, counted, front.looked_at)
    front = _input_of_knee(problem, front)
    ranked = _rank(problem, front)
    row = int(ranked.rows[0])
    preferred = _preferred(problem, policy.prefer)
    if preferred is not None:
        row = preferred
    where = np.flatnonzero(front.rows == row)
    position = int(where[0]) if len(where) else None
    must = np.array([] if position is None else [position], dtype=np.int64)
    shown = pareto.representatives(front.vectors, problem.floor, must)
    return Decision(
        problem=problem,
        row=row,
        front=front,
        position=position,
        shown=tuple(int(i) for i in shown),
        shortlist=_shortlist(row, front, ranked),
        tiers=filters.explain(request, table, problem.regions, problem.zones) if explain else None,
        looked_at=front.looked_at + ranked.looked_at,
    )


def decide_in_order(
    requests: Sequence[Request],
    policy: Policy,
    table: Table,
    paths: Paths,
    *,
    tiers: Summaries | None = None,
    explain: bool = False,
) -> Decision:
    """The first request that finds a place (kinds of cards in the order the spec lists them); else the refusals of the last."""
    for request in requests[:-1]:
        decision = decide(request, policy, table, paths, tiers=tiers, explain=explain)
        if decision.row is not None:
            return decision
    return decide(requests[-1], policy, table, paths, tiers=tiers, explain=explain)


def in_order(request: Request, ordered: bool) -> list[Request]:
    """One request per kind of card when their order matters, else the request itself."""
    if not ordered or len(request.cards) < 2:
        return [request]
    return [replace(request, cards=(card,)) for card in request.cards]


def feasible(request: Request, policy: Policy, table: Table, paths: Paths) -> Ints:
    """All rows that fit, in table order."""
    return Problem(request, policy, table, paths).feasible(slice(0, len(table)))


def _rank(problem: Problem, front: Found) -> Found:
    """The best rows in the order of the candidate key."""
    if problem.policy.pick not in (Pick.KNEE, Pick.ASK):
        return search.pick(problem)
    sums = np.round(pareto.bends(front.vectors, problem.floor), 9)
    keys = (problem.table.rank_of(front.rows), problem.packing(front.rows), *front.vectors.T[::-1], sums)
    positions = np.lexsort(keys)
    return Found(front.rows[positions], front.vectors[positions], 0, 0)


def _input_of_knee(problem: Problem, front: Found) -> Found:
    """The points that a knee is looked for among: the front, or of a very large one its 1 % ε-front. They are stored."""
    if problem.policy.pick not in (Pick.KNEE, Pick.ASK) or len(front.rows) <= MOST_FRONT:
        return front
    kept = pareto.thinned(front.vectors, EPSILON_OF_KNEE)[:MOST_FRONT]
    return replace(front, rows=front.rows[kept], vectors=front.vectors[kept])


def _preferred(problem: Problem, node: str) -> int | None:
    if not node:
        return None
    rows = problem.feasible(np.array(problem.table.of_node(node), dtype=np.int64))
    return int(rows[0]) if len(rows) else None


def _shortlist(row: int, front: Found, ranked: Found) -> Ints:
    rows = np.concatenate((np.array([row], dtype=np.int64), front.rows[:MOST_FRONT], ranked.rows[:SHORTLIST]))
    return np.array(sorted({int(one) for one in rows}), dtype=np.int64)


def _policy_form(policy: Policy) -> dict[str, Any]:
    return {
        "optimize": list(policy.optimize),
        "pick": policy.pick,
        "weights": {name: repr(weight) for name, weight in policy.weights.items()},
        "prefer": policy.prefer,
        "version": policy.version,
    }


def digest(inputs: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON of stored inputs."""
    return hashlib.sha256(json.dumps(inputs, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def replay(inputs: Mapping[str, Any]) -> Decision:
    """Decide again on stored inputs."""
    stored = inputs["policy"]
    policy = Policy(
        optimize=tuple(stored["optimize"]),
        pick=stored["pick"],
        weights={name: float(weight) for name, weight in stored["weights"].items()},
        prefer=stored["prefer"],
        version=stored["version"],
    )
    table = build([Row.from_form(row) for row in inputs["rows"]])
    floors = {name: float(value) for name, value in inputs["floors"].items()}
    return decide(Request.from_form(inputs["request"]), policy, table, Paths.from_form(inputs["paths"]), floors=floors)
