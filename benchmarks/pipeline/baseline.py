"""The rivals: all stages in the tenant's region with its cheaper offer; all stages in the best single region; everything tried."""

from itertools import product

from benchmarks.pipeline.worlds import World
from scheduling.domain import pipeline
from scheduling.domain.pipeline import Links, Plan


def at_home(made: World, links: Links) -> Plan:
    """Every stage in the tenant's own region, each at the region's cheapest offer."""
    return _inside(made, links, made.home)


def best_region(made: World, links: Links, weight_of_time: float) -> Plan:
    """All stages in one region: the best of all regions by the same score."""
    regions = {region for option in made.stages[0].options for region, _ in option.parts}
    return pipeline.pick([_inside(made, links, region) for region in sorted(regions)], weight_of_time)


def _inside(made: World, links: Links, region: int) -> Plan:
    choice = []
    for stage in made.stages:
        here = [i for i, option in enumerate(stage.options) if option.parts == ((region, 1.0),)]
        choice.append(min(here, key=lambda i: (stage.options[i].cost, stage.options[i].seconds)))
    return Plan(tuple(choice), *pipeline.priced(made.stages, links, choice))


def everything(made: World, links: Links) -> list[tuple[float, float]]:
    """The front by trying every combination."""
    every = product(*[range(len(stage.options)) for stage in made.stages])
    best: list[tuple[float, float]] = []
    for seconds, cost in sorted({pipeline.priced(made.stages, links, choice) for choice in every}):
        if not best or cost < best[-1][1]:
            best.append((seconds, cost))
    return best
