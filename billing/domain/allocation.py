"""Split bills: who bears which cost, to the last minor unit.

A cost has a place: (organisation, department, project). A rule takes what stands at its source and lays it over departments by largest remainder: in equal
parts, by fixed weights, or by what each of them used. What is laid over leaves the source as a negative amount, so

    net + moved = final        Σ moved = 0        Σ final = Σ net

Rules are applied in order, each to what the earlier ones left. A rule whose targets have no weight moves nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from portal.kit.money import PPM, half_up, split


class Method(StrEnum):
    EQUAL = "equal"
    WEIGHTS = "weights"
    USAGE = "usage"


class Source(StrEnum):
    DEPARTMENT = "department"
    PROJECT = "project"


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where a cost stands. `project` is an id; empty for what was moved here."""

    organisation: str
    department: str
    project: str = ""
    project_name: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """One shared cost: its source in one organisation, the method, and (department, weight) pairs."""

    name: str
    organisation: str
    source_kind: Source
    source: str
    method: Method
    weights: tuple[tuple[str, int], ...] = ()

    def takes(self, place: Place) -> bool:
        """Whether a cost at `place` is shared by this rule."""
        if place.organisation != self.organisation:
            return False
        return (place.department if self.source_kind is Source.DEPARTMENT else place.project) == self.source


@dataclass(frozen=True, slots=True)
class Share:
    """One row of a split bill, in minor units. `moved` is negative at a source; `share_ppm` is the final cost's share of the whole."""

    place: Place
    net: int
    moved: int
    rules: tuple[str, ...]
    share_ppm: int

    @property
    def final(self) -> int:
        return self.net + self.moved


def split_bill(costs: Mapping[Place, int], rules: Sequence[Rule]) -> list[Share]:
    """The rows of a split bill, in the order of their places; what was moved to a department is a row of its own, without project."""
    moved: dict[Place, int] = {}
    named: dict[Place, list[str]] = {}
    for rule in rules:
        sources = {place: costs[place] + moved.get(place, 0) for place in sorted(costs) if rule.takes(place)}
        shared = sum(sources.values())
        targets = _targets(rule, costs, sources)
        if not shared or not targets:
            continue
        for place, amount in sources.items():
            _move(moved, named, place, -amount, rule.name)
        parts = split(shared, [weight for _, weight in targets])
        for (department, _), part in zip(targets, parts, strict=True):
            _move(moved, named, Place(rule.organisation, department), part, rule.name)
    places = sorted({*costs, *moved})
    finals = {place: costs.get(place, 0) + moved.get(place, 0) for place in places}
    shares = _parts_of_a_million(list(finals.values()))
    return [
        Share(place, costs.get(place, 0), moved.get(place, 0), tuple(named.get(place, ())), share)
        for place, share in zip(places, shares, strict=True)
    ]


def telescope(total: int, weights: Iterable[int]) -> list[int]:
    """`total` laid over `weights` of any sign so that the parts add up: differences of rounded cumulative amounts. All 0 where the weights add up to 0."""
    known = list(weights)
    whole, reached, before = sum(known), 0, 0
    parts = []
    for weight in known:
        reached += weight
        mark = half_up(Fraction(total * reached, whole)) if whole else 0
        parts.append(mark - before)
        before = mark
    return parts


def _targets(rule: Rule, costs: Mapping[Place, int], sources: Mapping[Place, int]) -> list[tuple[str, int]]:
    """(department, weight) of who bears a rule's cost: weights above 0 only, in the order of names."""
    used: dict[str, int] = {}
    for place, amount in costs.items():
        if place.organisation == rule.organisation and place not in sources:
            used[place.department] = used.get(place.department, 0) + amount
    if rule.method is Method.WEIGHTS:
        return sorted((name, weight) for name, weight in rule.weights if weight > 0)
    chosen = {name for name, _ in rule.weights} or set(used)
    if rule.method is Method.EQUAL:
        return [(name, 1) for name in sorted(chosen)]
    return [(name, used[name]) for name in sorted(chosen) if used.get(name, 0) > 0]


def _move(moved: dict[Place, int], named: dict[Place, list[str]], place: Place, amount: int, rule: str) -> None:
    moved[place] = moved.get(place, 0) + amount
    named.setdefault(place, []).append(rule)


def _parts_of_a_million(amounts: Sequence[int]) -> list[int]:
    """Each amount's share of the whole, in parts per million that add up; all 0 where there is no positive whole."""
    return telescope(PPM, amounts) if sum(amounts) > 0 else [0] * len(amounts)
