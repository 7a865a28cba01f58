"""Plans of pipelines: equal to trying everything."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.domain import pipeline
from scheduling.domain.pipeline import Links, Option, Plan, Stage, Supply

REGIONS = 3


def world(chance, shape, most=4):
    """Stages with the given needs, options and links drawn."""
    stages = []
    for number, after in enumerate(shape):
        options = []
        for _ in range(int(chance.integers(1, most))):
            region = int(chance.integers(REGIONS))
            parts = ((region, 1.0),)
            if chance.random() < 0.3 and region < REGIONS - 1:
                parts = ((region, 0.25), (region + 1, 0.75))
            options.append(Option(parts, float(chance.integers(1, 40)), float(chance.integers(1, 40))))
        inputs = ((int(chance.integers(REGIONS)), float(chance.integers(0, 5))),) if chance.random() < 0.5 else ()
        stages.append(Stage(f"s{number}", tuple(options), after, inputs, float(chance.integers(0, 4))))
    apart = 1 - np.eye(REGIONS)
    links = Links(apart * chance.uniform(0, 5, (3, 3)), apart * chance.uniform(0, 5, (3, 3)), apart * 0.5)
    return stages, links


def everything(stages, links):
    """The front by trying every plan."""
    found = {pipeline.priced(stages, links, choice) for choice in product(*[range(len(s.options)) for s in stages])}
    best = []
    for seconds, cost in sorted(found):
        if not best or cost < best[-1][1] - 1e-9:
            best.append((seconds, cost))
    return best


SHAPES = [
    [()],
    [(), (0,)],
    [(), (0,), (1,)],
    [(), (), (0, 1)],
    [(), (), (1,), (0, 2)],
    [(), ()],
]
GRAPHS = [[(), (0,), (0,), (1, 2)], [(), (0,), (0,)], [(), (0,), (0, 1)]]


@given(st.integers(0, 100_000), st.sampled_from(SHAPES))
@settings(max_examples=80, deadline=None)
def test_chains_and_trees_equal_trying_everything(seed, shape):
    stages, links = world(np.random.default_rng(seed), shape)
    plans = pipeline.front(stages, links)
    assert np.array([(p.seconds, p.cost) for p in plans]) == pytest.approx(np.array(everything(stages, links)))
    assert all(plan.exact for plan in plans)
    for plan in plans:
        assert (plan.seconds, plan.cost) == pipeline.priced(stages, links, plan.choice)


@given(st.integers(0, 100_000), st.sampled_from(GRAPHS))
@settings(max_examples=40, deadline=None)
def test_other_graphs_are_within_a_percent_per_step_and_say_so(seed, shape):
    stages, links = world(np.random.default_rng(seed), shape, most=3)
    plans = pipeline.front(stages, links)
    assert not any(plan.exact for plan in plans)
    room = (1 + pipeline.EPSILON) ** len(stages)
    for seconds, cost in everything(stages, links):
        assert any(p.seconds <= seconds * room and p.cost <= cost * room for p in plans)


def test_a_total_is_one_feasible_plan_and_not_a_sum_of_minima():
    """The cheap region is slow, the fast one dear, and moving costs: no plan has both minima."""
    stage = Stage("a", (Option(((0, 1.0),), 100, 1), Option(((1, 1.0),), 10, 10)), output_gb=1)
    plans = pipeline.front(
        [stage, Stage("b", stage.options, (0,))], pipeline.straight(2, seconds_per_gb=5, cost_per_gb=3)
    )
    assert [(p.seconds, p.cost) for p in plans] == [(20, 20), (115, 14), (200, 2)]
    assert pipeline.pick(plans, 1.0).seconds == 20
    assert pipeline.pick(plans, 0.0).cost == 2


def test_an_array_over_two_regions_ends_with_its_slowest_part():
    supplies = [Supply(0, 0, 80, 8), Supply(1, 10, 80, 4)]
    options = pipeline.options_of(supplies, most_regions=2)
    both = [o for o in options if len(o.parts) == 2]
    assert Option(((0, 0.5), (1, 0.5)), 50, 6) in both
    assert all(a.seconds < b.seconds and a.cost > b.cost for a, b in pairwise(both))
    assert Option(((0, 1.0),), 80, 8) in options
    assert len(pipeline.options_of(supplies)) == 2


def test_dealing_to_three_regions():
    supplies = [Supply(r, 0, 90, 9) for r in range(3)]
    three = [o for o in pipeline.options_of(supplies, most_regions=3) if len(o.parts) == 3]
    assert min(o.seconds for o in three) == 90 * 3 / 8


def test_what_makes_no_pipeline_is_refused():
    links = pipeline.straight(1, seconds_per_gb=0, cost_per_gb=0)
    assert pipeline.front([], links) == []
    with pytest.raises(ValueError, match="no option"):
        pipeline.front([Stage("a", ())], links)
    with pytest.raises(ValueError, match="comes before"):
        pipeline.front([Stage("a", (Option(((0, 1.0),), 1, 1),), (0,))], links)
    with pytest.raises(ValueError, match="no plan"):
        pipeline.pick([], 0.5)


def test_equal_scores_take_the_faster_plan():
    plans = [Plan((0,), 4.0, 1.0), Plan((1,), 1.0, 4.0)]
    assert pipeline.pick(plans, 0.5).seconds == 1.0
