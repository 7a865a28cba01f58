"""The split of work over regions and links, and how it moves."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.domain import routing
from scheduling.domain.routing import Elements, Graph, Strategies


def ring(regions: int, seed: int) -> tuple[Elements, Strategies, np.ndarray]:
    """Regions in a ring with a few chords; the last third of them brings most of the work."""
    chance = np.random.default_rng(seed)
    ends = [(i, (i + 1) % regions) for i in range(regions)] + [
        (i, (i + regions // 2) % regions) for i in range(regions // 3)
    ]
    base = chance.uniform(5, 50, len(ends))
    graph = Graph(regions, np.array(ends, dtype=np.int64), base)
    strategies = routing.strategies_of(graph, near=min(6, regions))
    elements = Elements(
        np.concatenate((base, np.full(regions, 15.0))),
        np.concatenate((chance.uniform(50, 150, len(ends)), chance.uniform(50, 150, regions))),
    )
    demand = chance.uniform(5, 60, regions)
    demand[-regions // 3 :] *= 3
    return elements, strategies, demand


@given(st.integers(3, 12), st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_shares_sum_to_the_demand_and_the_same_input_gives_the_same_bytes(regions, seed):
    elements, strategies, demand = ring(regions, seed)
    one, two = (routing.split(elements, strategies, demand) for _ in range(2))
    assert np.add.reduceat(one.share, strategies.starts) == pytest.approx(np.ones(regions))
    assert one.share.tobytes() == two.share.tobytes()
    assert (one.share > 0).all()
    even = routing.cost(elements, strategies, strategies.even() * demand[strategies.source])
    assert one.cost <= even * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_the_split_is_near_the_least_cost_and_says_how_near(seed):
    elements, strategies, demand = ring(12, seed)
    quick = routing.split(elements, strategies, demand)
    long = routing.split(elements, strategies, demand, steps=4_000)
    assert long.gap / long.cost < 1e-3
    assert quick.cost <= long.cost * 1.05
    assert quick.cost - quick.gap <= long.cost
    again = routing.split(elements, strategies, demand, start=quick.share)
    assert again.cost <= quick.cost


def test_marginal_cost_is_the_slope_of_what_all_pay():
    base = np.array([2.0])
    for load in (0.0, 0.3, 0.89, 0.9, 0.95, 1.4):
        at, near = np.array([load]), np.array([load + 1e-6])
        slope = ((near * routing.delay(base, near)) - (at * routing.delay(base, at)))[0] / 1e-6
        assert slope == pytest.approx(float(routing.marginal(base, at)[0]), rel=1e-3)


def test_two_equal_ways_are_shared_equally_instead_of_all_running_to_one():
    elements = Elements(np.array([10.0, 10.0]), np.array([100.0, 100.0]))
    strategies = Strategies(np.array([0, 0]), np.array([[0], [1]]), 1)
    start = np.array([0.99, 0.01])
    found = routing.split(elements, strategies, np.array([120.0]), start=start)
    assert found.share == pytest.approx([0.5, 0.5], abs=0.01)
    assert not routing.crowded(elements, strategies, found.share * 120).any()
    assert routing.crowded(elements, strategies, start * 120).tolist() == [True, False]


def test_a_price_counts_beside_the_delay():
    elements = Elements(np.array([10.0, 10.0]), np.array([1e6, 1e6]))
    dear = Strategies(np.array([0, 0]), np.array([[0], [1]]), 1, np.array([40.0, 0.0]))
    assert routing.split(elements, dear, np.array([1.0]), steps=300).share[1] > 0.99


def test_a_source_without_a_way_is_refused():
    elements = Elements(np.array([1.0]), np.array([1.0]))
    with pytest.raises(ValueError, match="at least one strategy"):
        routing.split(elements, Strategies(np.array([0]), np.array([[0]]), 2), np.array([1.0, 1.0]))


def test_small_changes_are_not_committed():
    strategies = Strategies(np.array([0, 0, 1, 1]), np.array([[0], [1], [0], [1]]), 2)
    held = np.array([0.5, 0.5, 0.5, 0.5])
    wanted = np.array([0.51, 0.49, 0.6, 0.4])
    assert routing.committed(held, wanted, strategies).tolist() == [0.5, 0.5, 0.6, 0.4]


def test_a_move_takes_eleven_bounded_steps():
    held, wanted = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    steps = []
    while held[0] > 0.1:
        new = routing.stepped(held, wanted)
        steps.append(float(held[0] - new[0]))
        held = new
    assert len(steps) == 11
    assert max(steps) == pytest.approx(0.2)


def test_moves_use_only_part_of_what_a_link_has_to_spare():
    wanted = np.array([100.0, 1.0, 5.0])
    assert routing.movable(wanted, spare_bytes=np.array([50.0, 50.0, -3.0])).tolist() == [15.0, 1.0, 0.0]


def test_a_running_attempt_moves_only_for_three_times_the_price():
    assert not routing.pays(saved_s=89, move_s=30)
    assert routing.pays(saved_s=91, move_s=30)
    assert not routing.pays(saved_s=2.9, move_s=0)


def test_ways_through_a_network_start_with_the_nearest_and_take_a_second_path():
    graph = Graph(4, np.array([[0, 1], [1, 2], [0, 2], [2, 3]]), np.array([1.0, 1.0, 2.5, 1.0]))
    strategies = routing.strategies_of(graph, near=3)
    mine = strategies.crosses[strategies.source == 0].tolist()
    none = 4 + 4
    assert mine[0] == [4 + 0] + [none] * (strategies.crosses.shape[1] - 1)  # itself, no link
    ways = [[element for element in row if element != none] for row in mine]
    assert [0, 5] in ways
    assert [2, 1, 5] in ways
    assert [0, 1, 6] in ways
    assert [2, 6] in ways
    assert all(7 not in way for way in ways)  # region 3 is not among the three nearest


def test_regions_that_no_link_reaches_serve_themselves():
    graph = Graph(3, np.array([[0, 1]]), np.array([1.0]))
    strategies = routing.strategies_of(graph, near=2, ways=2)
    alone = strategies.crosses[strategies.source == 2].tolist()
    assert alone[0][0] == 1 + 2
    assert math.isfinite(routing.cost(Elements(np.ones(4), np.ones(4)), strategies, np.zeros(len(strategies.source))))


def test_the_leading_way_is_the_largest_share():
    strategies = Strategies(np.array([0, 0, 1]), np.array([[0], [1], [0]]), 2)
    assert routing.leading(np.array([0.4, 0.6, 1.0]), strategies).tolist() == [1, 2]
