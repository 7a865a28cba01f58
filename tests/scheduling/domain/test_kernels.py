"""The loops and the NumPy bodies give the same answers, also for nothing, for one, for duplicates and for flat columns."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.domain import kernels, loops, pareto
from scheduling.domain.kernels import PLAIN, Kernels

LOOPED = kernels.of_loops("loops", freshen=loops.freshen, worse_than=loops.worse_than, filtered=loops.filtered)
BOTH = pytest.mark.parametrize("made", [PLAIN, LOOPED], ids=lambda made: made.name)


def slow_front(vectors: np.ndarray) -> list[bool]:
    """The truth, in n² comparisons."""
    points = [tuple(vector) for vector in vectors]
    return [
        not any(other != one and all(a <= b for a, b in zip(other, one, strict=True)) for other in set(points))
        for one in points
    ]


@st.composite
def clouds(draw: st.DrawFn) -> np.ndarray:
    """0 to 70 vectors of 1 to 6 columns with few distinct values, some columns the same everywhere."""
    columns, rows = draw(st.integers(1, 6)), draw(st.integers(0, 70))
    chance = np.random.default_rng(draw(st.integers(0, 2**32)))
    vectors = chance.integers(0, draw(st.integers(1, 9)), (rows, columns)).astype(np.float64)
    for column in range(columns):
        if draw(st.booleans()):
            vectors[:, column] = 3.0
    return vectors / draw(st.sampled_from([1.0, 3.0, 7e9]))


@BOTH
@given(cloud=clouds())
@settings(max_examples=150, deadline=None)
def test_the_front_is_what_nothing_dominates(made: Kernels, cloud: np.ndarray) -> None:
    assert made.front(cloud).tolist() == slow_front(cloud)


@BOTH
@given(cloud=clouds(), cut=st.integers(0, 70))
@settings(max_examples=100, deadline=None)
def test_worse_is_what_a_point_dominates(made: Kernels, cloud: np.ndarray, cut: int) -> None:
    points, vectors = cloud[:cut], cloud[cut:]
    expected = [bool(((points <= v).all(axis=1) & (points < v).any(axis=1)).any()) for v in vectors]
    assert made.worse_than(vectors, points).tolist() == expected


@BOTH
def test_large_clouds_go_through_blocks(made: Kernels) -> None:
    chance = np.random.default_rng(7)
    cloud = chance.random((3_000, 4))
    cloud[500:600] = cloud[0]
    mask = made.front(cloud)
    assert (mask == PLAIN.front(cloud)).all()
    points = cloud[mask]
    assert not made.worse_than(points, cloud).any(), "nothing dominates a point of the front"
    assert made.worse_than(cloud[~mask], points).all(), "some point dominates everything else"


@BOTH
def test_a_group_is_freshened_from_its_members(made: Kernels) -> None:
    chance = np.random.default_rng(3)
    kinds = (np.uint32, np.uint32, np.uint16, np.uint8, np.uint16)
    columns = [chance.integers(0, 200, 40).astype(kind) for kind in kinds]
    entries = [np.zeros(3, dtype=kind) for kind in kinds]
    made.freshen(1, 10, 25, *columns, *entries)
    best = [column[10:25].max() for column in columns[:4]] + [columns[4][10:25].min()]
    assert [int(entry[1]) for entry in entries] == [int(one) for one in best]
    assert all(entry[0] == 0 for entry in entries)
    assert all(entry[2] == 0 for entry in entries)


def test_a_thinned_front_covers_the_whole_within_its_share() -> None:
    steps = np.linspace(0.01, 1, 400)
    vectors = np.column_stack([steps, 1 / steps])
    kept = pareto.thinned(vectors, 0.05)
    assert 2 < len(kept) < 200
    for vector in vectors:
        assert (vectors[kept] <= vector * 1.05).all(axis=1).any()
    assert len(pareto.thinned(vectors[:0], 0.05)) == 0
