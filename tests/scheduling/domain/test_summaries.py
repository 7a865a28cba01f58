"""Summaries after any changes are those of a full build, bit for bit; a tier more needs no other rule."""

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.domain import frontier, kernels, loops, search, summaries
from scheduling.domain.columns import Table, build
from scheduling.domain.placement import decide
from scheduling.domain.search import Problem
from scheduling.domain.summaries import TIERS, Level, Tier
from tests.scheduling.domain.markets import a_market, a_request, a_wish, paths

LOOPED = kernels.of_loops("loops", freshen=loops.freshen, worse_than=loops.worse_than, filtered=loops.filtered)
SEEDS = st.integers(0, 10**9)


def _halves(table: Table, inside: Level) -> np.ndarray:
    return np.array(sorted({0, len(inside) // 2}), dtype=np.int64)


SUPER_REGION = Tier("super-region", _halves)


def same(mine: summaries.Summaries, theirs: summaries.Summaries) -> bool:
    return len(mine) == len(theirs) and all(a.same(b) for a, b in zip(mine, theirs, strict=True))


@pytest.mark.parametrize("made", [kernels.PLAIN, LOOPED], ids=lambda made: made.name)
@given(seed=SEEDS, more=st.booleans())
@settings(max_examples=40, deadline=None)
def test_taken_capacity_is_told_by_all_tiers(made: kernels.Kernels, seed: int, more: bool) -> None:
    table, chance = build(a_market(seed)), random.Random(seed)
    tiers = summaries.build(table, kernels=made, tiers=(*TIERS, SUPER_REGION) if more else TIERS)
    for _ in range(30):
        tiers.take(
            chance.randrange(len(table)),
            cores=chance.choice((100, 900)),
            memory=256,
            disk=3,
            cards=chance.choice((0, 1)),
        )
    assert same(tiers, summaries.build(table, tiers=(*TIERS, SUPER_REGION) if more else TIERS))


@given(seed=SEEDS)
@settings(max_examples=40, deadline=None)
def test_any_changed_rows_are_told_by_all_tiers(seed: int) -> None:
    table, chance = build(a_market(seed)), np.random.default_rng(seed)
    tiers = summaries.build(table)
    rows = np.unique(chance.integers(0, len(table), 9))
    table.decay[rows] = chance.random(len(rows)).astype(np.float32)
    table.term[rows] = chance.integers(0, len(table.terms), len(rows))
    table.green[rows] = chance.integers(0, 10_000, len(rows))
    table.risk[rows] = 7
    tiers.refresh(rows)
    assert same(tiers, summaries.build(table))


def test_a_copy_is_ones_own() -> None:
    table = build(a_market(5))
    tiers = summaries.build(table)
    copy = tiers.copied()
    for row in range(len(table)):
        copy.take(row, cores=10**6, memory=10**6, disk=10**4, cards=9)
    assert int(copy[0].cores.max()) == 0
    assert same(tiers, summaries.build(table))
    assert not same(copy, tiers)
    assert copy.nbytes == tiers.nbytes > 0
    assert table.nbytes > 28 * len(table)


@given(market=SEEDS, wish=SEEDS)
@settings(max_examples=60, deadline=None)
def test_a_fourth_tier_changes_no_answer(market: int, wish: int) -> None:
    table = build(a_market(market))
    request, policy = a_wish(wish)
    usual = decide(request, policy, table, paths())
    more = summaries.build(table, tiers=(*TIERS, SUPER_REGION), kernels=LOOPED)
    other = decide(request, policy, table, paths(), tiers=more)
    assert other.node == usual.node
    assert [level.name for level in more] == ["super-region", "region", "zone", "cell"]
    problem = Problem(request, policy, table, paths(), tiers=more)
    assert frontier.front_by_groups(problem).rows.tolist() == usual.front.rows.tolist()


@given(market=SEEDS, wish=SEEDS)
@settings(max_examples=60, deadline=None)
def test_following_few_groups_at_a_time_changes_no_answer(market: int, wish: int) -> None:
    """As at 16 M nodes: no tier is looked at whole."""
    table = build(a_market(market, 200))
    request, policy = a_wish(wish)
    request = replace(request, cards=())
    policy = replace(policy, pick="weights", weights={"cost": 0.4, "time": 0.3, "green": 0.3})
    problem = Problem(request, policy, table, paths())
    usual = search.pick(problem).rows.tolist()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "AT_ONCE", 0)
        patch.setattr(search, "MORE_GROUPS", 1)
        patch.setattr(search, "MORE_ROWS", 1)
        found = search.pick(problem)
    assert found.rows.tolist() == usual
    assert [looked.tier for looked in found.tiers] == ["region", "zone", "cell"]


def test_an_empty_market_has_no_groups() -> None:
    table = build(())
    tiers = summaries.build(table)
    assert [len(level) for level in tiers] == [0, 0, 0]
    problem = Problem(a_request(), a_wish(1)[1], table, paths(), tiers=tiers)
    assert not len(search.pick(problem).rows)
    assert not len(frontier.front_by_groups(problem).rows)
