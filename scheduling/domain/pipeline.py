"""Where the stages of a pipeline run: the exact set of best plans, by labels.

A stage has *options*: ways to run it, each with a place (one region, or parts of an array in several), seconds and cost.
Between two stages the output travels; time is the slowest part's, cost is the sum. A plan's time is its longest path, its
cost the sum of everything. No plan of the front is worse than another in both.

* **chains and in-trees** (each stage feeds at most one other): one label set per (stage, option), extended in topological
  order, joined by (max of times, sum of costs), dominated labels dropped. Exact.
* **other graphs**: labels carry the options and times of all stages that are still awaited; equal frontiers are pruned by
  ε-dominance (1 %), so the front is within 1 % per step, and its plans say `exact=False`.

Every plan that is returned is one feasible plan, priced again as a whole from its choices (:func:`priced`): a total is
never a sum of minima of different plans.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from scheduling.domain.columns import Floats

EPSILON = 0.01
MOST_LABELS = 20_000
PARTS = 8
"""An array is dealt to regions in steps of an eighth."""


@dataclass(frozen=True)
class Option:
    """One way to run a stage: `parts` = (region, share of the stage) ascending by region, Σ shares = 1."""

    parts: tuple[tuple[int, float], ...]
    seconds: float
    cost: float


@dataclass(frozen=True)
class Stage:
    """`after`: earlier stages whose output it needs. `inputs`: (region, GB) that it reads besides. `output_gb`: what it gives on."""

    name: str
    options: tuple[Option, ...]
    after: tuple[int, ...] = ()
    inputs: tuple[tuple[int, float], ...] = ()
    output_gb: float = 0.0


@dataclass(frozen=True)
class Links:
    """[from, to]: seconds and cost per GB, and the seconds before the first byte."""

    seconds_per_gb: Floats
    cost_per_gb: Floats
    latency_s: Floats

    def move(self, gb: float, source: Option, target: Option) -> tuple[float, float]:
        """(seconds, cost) of `gb` from where `source` runs to where `target` runs; every part sends to every part."""
        if gb <= 0:
            return 0.0, 0.0
        seconds = cost = 0.0
        for a, given in source.parts:
            for b, taken in target.parts:
                size = gb * given * taken
                seconds = max(seconds, float(self.latency_s[a, b] + size * self.seconds_per_gb[a, b]))
                cost += float(size * self.cost_per_gb[a, b])
        return seconds, cost


@dataclass(frozen=True)
class Plan:
    """One option per stage, and what that comes to. `exact`: no better plan was pruned on the way."""

    choice: tuple[int, ...]
    seconds: float
    cost: float
    exact: bool = True


Label = tuple[float, float, tuple[int, ...]]
"""(seconds until this stage has ended, cost of it and all before it, choice of these stages by number)."""


def priced(stages: Sequence[Stage], links: Links, choice: Sequence[int]) -> tuple[float, float]:
    """(seconds, cost) of one plan as a whole."""
    ends: list[float] = []
    cost = 0.0
    for number, stage in enumerate(stages):
        option = stage.options[choice[number]]
        begin = 0.0
        for region, gb in stage.inputs:
            seconds, paid = links.move(gb, Option(((region, 1.0),), 0, 0), option)
            begin, cost = max(begin, seconds), cost + paid
        for before in stage.after:
            seconds, paid = links.move(stages[before].output_gb, stages[before].options[choice[before]], option)
            begin, cost = max(begin, ends[before] + seconds), cost + paid
        ends.append(begin + option.seconds)
        cost += option.cost
    return max(ends, default=0.0), cost


def front(stages: Sequence[Stage], links: Links) -> list[Plan]:
    """The best plans by (seconds, cost), fastest first. ValueError for stages out of order or without options."""
    _check(stages)
    if not stages:
        return []
    whole = _is_in_tree(stages)
    labels = _of_tree(stages, links) if whole else _of_graph(stages, links)
    plans = []
    for _, _, choice in labels:
        seconds, cost = priced(stages, links, choice)
        plans.append(Plan(choice, seconds, cost, whole))
    return _best(plans)


def pick(plans: Sequence[Plan], weight_of_time: float) -> Plan:
    """The plan of least time^w · cost^(1−w); the fastest of equals. ValueError without plans."""
    if not plans:
        raise ValueError("no plan to choose from")

    def score(plan: Plan) -> tuple[float, float, tuple[int, ...]]:
        value = weight_of_time * math.log(plan.seconds + 1e-9) + (1 - weight_of_time) * math.log(plan.cost + 1e-9)
        return (round(value, 12), plan.seconds, plan.choice)

    return min(plans, key=score)


def _check(stages: Sequence[Stage]) -> None:
    for number, stage in enumerate(stages):
        if not stage.options:
            raise ValueError(f"stage {stage.name} has no option")
        if any(not 0 <= before < number for before in stage.after):
            raise ValueError(f"stage {stage.name} comes before a stage that it needs")


def _is_in_tree(stages: Sequence[Stage]) -> bool:
    """Does each stage feed one other at most, and the last one only collect?"""
    fed = [before for stage in stages for before in stage.after]
    return len(fed) == len(set(fed))


def _best(plans: list[Plan]) -> list[Plan]:
    kept: list[Plan] = []
    for plan in sorted(plans, key=lambda p: (p.seconds, p.cost, p.choice)):
        if not kept or plan.cost < kept[-1].cost:
            kept.append(plan)
    return kept


# -- trees ----------------------------------------------------------------------------------------------------------------
def _of_tree(stages: Sequence[Stage], links: Links) -> list[Label]:
    tables: dict[int, list[list[Label]]] = {}  # stage → per option its labels
    for number, stage in enumerate(stages):
        tables[number] = [_tree_labels(stages, links, tables, number, o) for o in range(len(stage.options))]
        for before in stage.after:
            del tables[before]
    labels: list[Label] = [(0.0, 0.0, ())]
    for root in sorted(tables):  # several ends: their times are joined like those of a join
        merged = _kept([label for option in tables[root] for label in option])
        labels = _joined(labels, merged)
    order = _order_of_choice(stages)
    return [(seconds, cost, tuple(choice[i] for i in order)) for seconds, cost, choice in labels]


def _tree_labels(
    stages: Sequence[Stage], links: Links, tables: dict[int, list[list[Label]]], number: int, position: int
) -> list[Label]:
    stage = stages[number]
    option = stage.options[position]
    begin, cost = 0.0, option.cost
    for region, gb in stage.inputs:
        seconds, paid = links.move(gb, Option(((region, 1.0),), 0, 0), option)
        begin, cost = max(begin, seconds), cost + paid
    labels: list[Label] = [(begin, cost, ())]
    for before in stage.after:
        source = stages[before]
        arriving: list[Label] = []
        for o, known in enumerate(tables[before]):
            seconds, paid = links.move(source.output_gb, source.options[o], option)
            arriving += [(end + seconds, spent + paid, choice) for end, spent, choice in known]
        labels = _joined(labels, _kept(arriving))
    return [(end + option.seconds, spent, (*choice, position)) for end, spent, choice in labels]


def _order_of_choice(stages: Sequence[Stage]) -> list[int]:
    """Labels list choices in the order of the tree's walk; where stage i's is in it."""
    walked: list[int] = []

    def walk(number: int) -> None:
        for before in stages[number].after:
            walk(before)
        walked.append(number)

    fed = {before for stage in stages for before in stage.after}
    for root in range(len(stages)):
        if root not in fed:
            walk(root)
    return [walked.index(number) for number in range(len(stages))]


def _joined(one: list[Label], two: list[Label]) -> list[Label]:
    return _kept([(max(a[0], b[0]), a[1] + b[1], a[2] + b[2]) for a in one for b in two])


def _kept(labels: list[Label]) -> list[Label]:
    kept: list[Label] = []
    for label in sorted(labels):
        if not kept or label[1] < kept[-1][1]:
            kept.append(label)
    return kept


# -- other graphs ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Partial:
    choice: tuple[int, ...]
    ends: tuple[float, ...]
    cost: float


def _of_graph(stages: Sequence[Stage], links: Links) -> list[Label]:
    awaited_until = [
        max((later for later, stage in enumerate(stages) if number in stage.after), default=-1)
        for number in range(len(stages))
    ]
    partials = [_Partial((), (), 0.0)]
    for number in range(len(stages)):
        grown = [_extend(stages, links, part, o) for part in partials for o in range(len(stages[number].options))]
        partials = _pruned(grown, [i for i in range(number + 1) if awaited_until[i] > number])
    return [(max(part.ends), part.cost, part.choice) for part in partials]


def _extend(stages: Sequence[Stage], links: Links, part: _Partial, position: int) -> _Partial:
    number = len(part.choice)
    stage = stages[number]
    option = stage.options[position]
    begin, cost = 0.0, part.cost + option.cost
    for region, gb in stage.inputs:
        seconds, paid = links.move(gb, Option(((region, 1.0),), 0, 0), option)
        begin, cost = max(begin, seconds), cost + paid
    for before in stage.after:
        source = stages[before]
        seconds, paid = links.move(source.output_gb, source.options[part.choice[before]], option)
        begin, cost = max(begin, part.ends[before] + seconds), cost + paid
    return _Partial((*part.choice, position), (*part.ends, begin + option.seconds), cost)


def _pruned(partials: list[_Partial], awaited: list[int]) -> list[_Partial]:
    """Per choice of the awaited stages, those that no other beats (within 1 %) in all awaited ends, the latest end and the cost."""
    groups: dict[tuple[int, ...], list[_Partial]] = {}
    for part in sorted(partials, key=lambda p: (p.cost, max(p.ends), p.choice)):
        groups.setdefault(tuple(part.choice[i] for i in awaited), []).append(part)
    kept: list[_Partial] = []
    for group in groups.values():
        found: list[tuple[float, ...]] = []
        for part in group:
            vector = (part.cost, max(part.ends), *[part.ends[i] for i in awaited])
            if not any(all(u <= v * (1 + EPSILON) for u, v in zip(held, vector, strict=True)) for held in found):
                found.append(vector)
                kept.append(part)
    kept.sort(key=lambda p: (p.cost, max(p.ends), p.choice))
    return kept[:MOST_LABELS]


# -- options of an array --------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Supply:
    """What one region offers a stage: seconds for a share s are `wait_s` + s × `work_s` ÷ speed of what is free."""

    region: int
    wait_s: float
    seconds: float  # for the whole stage
    cost: float  # for the whole stage


def options_of(supplies: Sequence[Supply], *, most_regions: int = 1) -> tuple[Option, ...]:
    """One option per supply, and, for an array of independent parts, every deal of eighths over up to `most_regions`
    regions. Of options in the same regions only those that no other beats in seconds and cost stay.
    """
    made = [Option(((s.region, 1.0),), s.wait_s + s.seconds, s.cost) for s in supplies]
    for count in range(2, most_regions + 1):
        for some in combinations(supplies, count):
            if len({s.region for s in some}) == count:
                made += [_dealt(some, deal) for deal in _deals(PARTS, count)]
    groups: dict[tuple[int, ...], list[Option]] = {}
    for option in sorted(made, key=lambda o: (o.seconds, o.cost, o.parts)):
        same = groups.setdefault(tuple(region for region, _ in option.parts), [])
        if not same or option.cost < same[-1].cost:
            same.append(option)
    return tuple(option for same in groups.values() for option in same)


def _dealt(some: Sequence[Supply], deal: Sequence[int]) -> Option:
    shares = [part / PARTS for part in deal]
    return Option(
        tuple(sorted((s.region, share) for s, share in zip(some, shares, strict=True))),
        max(s.wait_s + share * s.seconds for s, share in zip(some, shares, strict=True)),
        sum(share * s.cost for s, share in zip(some, shares, strict=True)),
    )


def _deals(parts: int, count: int) -> Iterator[tuple[int, ...]]:
    """All ways to deal `parts` to `count` regions, each at least one."""
    if count == 1:
        yield (parts,)
        return
    for first in range(1, parts - count + 2):
        for rest in _deals(parts - first, count - 1):
            yield (first, *rest)


def straight(regions: int, *, seconds_per_gb: float, cost_per_gb: float) -> Links:
    """Links that are all alike, and free inside a region: for tests and first guesses."""
    apart = 1.0 - np.eye(regions)
    return Links(apart * seconds_per_gb, apart * cost_per_gb, np.zeros((regions, regions)))
