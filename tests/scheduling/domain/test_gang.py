"""A gang's nodes are the best set of one zone: equal to looking at every set."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.domain import gang, objectives
from scheduling.domain.columns import Row, Table, build
from scheduling.domain.request import Paths, Policy, Request
from scheduling.domain.search import Problem

NOW = 1_790_000_000
COLUMNS = ("cost", "time")


def market(rows: list[tuple[int, int, int]]) -> Table:
    """Nodes as (zone, price, SCU)."""
    return build(
        [
            Row(
                f"n{i}", f"o{i}", f"n{i}", "east", f"z{zone}", "sol", "CNY", core_fixed=price * 1_000, cores_milli=1_000, memory_mib=9_000,
                disk_gib=900, total_cores_milli=1_000, total_memory_mib=9_000, total_disk_gib=900, verified=True, scu_cpu={"custom": float(power)},
            )
            for i, (zone, price, power) in enumerate(rows)
        ]
    )  # fmt: skip


REQUEST = Request("custom", 1_000, 100, 1, (), "fixed", "CNY", 36_000, NOW, work_micro=1_000_000)


def best(table: Table, size: int, pick: str) -> tuple[float, float]:
    problem = Problem(REQUEST, Policy(COLUMNS, "knee"), table, Paths({}))
    rows = problem.feasible(slice(0, len(table)))
    vectors = problem.vectors(rows)
    cost, time = (vectors[:, list(problem.columns).index(name)] for name in COLUMNS)
    zones = table.zone_of(rows)
    sets = [
        (max(time[list(s)]), sum(cost[list(s)]))
        for s in combinations(range(len(rows)), size)
        if len({zones[i] for i in s}) == 1
    ]
    return min(sets) if pick == "fastest" else min(sets, key=lambda one: (one[1], one[0]))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(1, 9), st.integers(1, 5)), min_size=3, max_size=10),
    st.integers(2, 3),
    st.sampled_from(["cheapest", "fastest"]),
)
def test_it_equals_brute_force(rows: list[tuple[int, int, int]], size: int, pick: str) -> None:
    table = market(rows)
    found = gang.choose(REQUEST, Policy(COLUMNS, pick), table, Paths({}), size=size)
    if max([row[0] for row in rows].count(zone) for zone in (0, 1)) < size:
        assert found is None
        return
    assert found is not None
    assert (found.time, pytest.approx(found.cost)) == (best(table, size, pick)[0], best(table, size, pick)[1])
    assert len({table.rows[row].zone for row in found.rows}) == 1
    assert len({table.rows[row].node for row in found.rows}) == size


def test_weights_and_the_knee_take_a_set_that_no_other_beats() -> None:
    table = market([(0, 1, 1), (0, 1, 1), (0, 3, 2), (0, 3, 2), (0, 9, 5), (0, 9, 5), (1, 2, 1)])
    fast = gang.choose(REQUEST, Policy(COLUMNS, "weights", {"time": 9.0, "cost": 0.1}), table, Paths({}), size=2)
    cheap = gang.choose(REQUEST, Policy(COLUMNS, "weights", {"time": 0.1, "cost": 9.0}), table, Paths({}), size=2)
    knee = gang.choose(REQUEST, Policy(COLUMNS, "knee"), table, Paths({}), size=2)
    assert fast is not None
    assert cheap is not None
    assert knee is not None
    assert fast.time < knee.time or fast == knee
    assert cheap.cost <= knee.cost <= fast.cost
    assert gang.zone_short(REQUEST, table, Paths({}), Policy(COLUMNS, "knee"), size=9) == (2, 6)
    assert objectives.columns_of(Policy(COLUMNS, "knee"))
