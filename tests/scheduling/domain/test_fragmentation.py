"""Packing: fragments by hand, and everything that is kept equals what is computed anew."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.domain.fragmentation import Demand, Packing, Shape, nodes

WHOLE = Shape(4_000, 1_024, 1)
HALF = Shape(2_000, 1_024, 1, 500)
PAIR = Shape(8_000, 1_024, 2)
CPU = Shape(1_000, 1_024)
T4 = Shape(1_000, 0, 1, 1000, ("T4",))
ALL = (WHOLE, HALF, PAIR, CPU, T4)


def a_cluster(*rows):
    return nodes(rows or [(16_000, 65_536, 2, "T4"), (16_000, 65_536, 4, "A10"), (64_000, 65_536, 0, "")])


def packing(free=None, shapes=ALL, shares=(1, 1, 1, 1, 1), **weights):
    free = free or a_cluster()
    return Packing(free, list(shapes), Demand(shapes, list(shares), free.model), **weights)


def by_hand(cores, memory, cards, model, shapes, shares):
    """F of one node, in plain Python."""
    asked = [(shape, share / sum(shares)) for shape, share in zip(shapes, shares, strict=True)]
    free = [card for card in cards if card > 0]
    total = 0.0
    for shape, p in asked:
        suits = [card for card in free if card >= shape.share_milli]
        fits = cores >= shape.cores_milli and memory >= shape.memory_mib and len(suits) >= shape.cards
        fits = fits and (not shape.models or model in shape.models)
        total += p * (sum(free) - sum(suits) if fits and shape.cards else sum(free))
    return total


cards = st.lists(st.sampled_from([-1, 0, 250, 500, 900, 1000]), min_size=4, max_size=4)


@settings(max_examples=60, deadline=None)
@given(cards, st.integers(0, 20_000), st.integers(0, 4_096), st.sampled_from(["T4", "A10"]))
def test_fragments_are_those_computed_by_hand(free, cores, memory, model):
    demand = Demand(ALL, (3, 1, 2, 5, 1), ["T4", "A10"])
    row = demand.models[model]
    found = demand.fragments(np.array([cores]), np.array([memory]), np.array([free]), np.array([row]))[0]
    assert found == pytest.approx(by_hand(cores, memory, free, model, ALL, (3, 1, 2, 5, 1)), abs=0.01)


def test_a_half_goes_where_a_half_is_left():
    made = packing()
    first = made.choose(1)
    made.place(1, first)
    assert made.choose(1) == first, "the second half of the card"
    made.place(1, first)
    assert sorted(made.free.cards[first])[0] in (-1, 0)


def test_a_task_without_card_strands_none():
    assert packing(a_cluster((4_000, 65_536, 1, "T4"), (64_000, 65_536, 0, ""))).choose(3) == 1


def test_models_and_room_are_limits():
    made = packing(a_cluster((16_000, 65_536, 2, "A10"), (500, 65_536, 8, "T4")))
    assert made.choose(4) is None
    assert made.choose(2) == 0
    made.place(2, 0)
    assert made.choose(2) is None
    with pytest.raises(ValueError, match="no room"):
        made.place(2, 0)


@pytest.mark.parametrize("weights", [{}, {"fragments": 0.0, "left": 1.0}])
def test_kept_keys_equal_those_of_a_fresh_look(weights):
    random = np.random.default_rng(3)
    rows = [
        (int(random.integers(8, 65)) * 1000, 65_536, int(n), m)
        for n, m in zip(random.choice([0, 2, 8], 40), random.choice(["T4", "A10"], 40), strict=True)
    ]
    made = packing(nodes(rows), **weights)
    for kind in random.integers(0, len(ALL), 200):
        node = made.choose(int(kind))
        if node is None:
            continue
        fresh = Packing(made.free, list(ALL), made.demand, **weights)
        assert fresh.choose(int(kind)) == node
        assert fresh.key[kind, node] == pytest.approx(made.key[kind, node])
        made.place(int(kind), node)
    assert (made.free.cores >= 0).all()
    assert (made.free.cards >= -1).all()


def test_a_demand_without_cards_finds_everything_useless():
    demand = Demand((CPU,), (1,), ["T4"])
    assert demand.fragments(np.array([1]), np.array([1]), np.array([[1000, -1]]), np.array([0]))[0] == 1000


def test_placing_without_having_chosen_looks_first():
    made = packing()
    made.place(0, 1)
    assert made.free.cores[1] == 12_000
    assert nodes([]).cards.shape == (0, 1)
