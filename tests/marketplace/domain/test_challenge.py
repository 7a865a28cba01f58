"""Runs that the portal orders: what the agent computes is what the portal expects, and what was not computed shows."""

import base64
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from agent import challenge as agent
from marketplace.domain import challenge as rules
from marketplace.domain.challenge import Kind, Opened, Run, check, leaves, plan, wanted, word, work

RUNS = [
    Run(Kind.GEMM, "n1", 40, 2),
    Run(Kind.GEMM, "n2", 65, 3),
    Run(Kind.MEMORY, "n3", 1 << 15, 5),
    Run(Kind.MEMORY, "n4", 5000, 3),
]


def computed(run: Run, threads: int = 1) -> agent.Work:
    with ThreadPoolExecutor(threads) as pool:
        made = agent.Work(run.kind.value, run.nonce, run.size, run.parts, pool)
        made.run()
    return made


def opened(made: agent.Work, asked) -> list[Opened]:
    return [Opened(one["leaf"], one["data"], tuple(one["path"])) for one in made.open(list(asked))]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: f"{run.kind}-{run.size}")
@pytest.mark.parametrize("threads", [1, 3])
def test_every_leaf_of_an_honest_run_is_right(run, threads):
    made = computed(run, threads)
    everything = list(range(leaves(run)))
    assert len(made.pieces) == len(everything)
    assert check(run, made.tree.root, everything, opened(made, everything)) == ""
    asked = wanted(run, 11)
    assert len(asked) == min(rules.OPENED, leaves(run))
    assert asked == wanted(run, 11)


def test_products_are_whole_numbers_in_any_order():
    left, right = rules.matrix("n", "a0", 300), rules.matrix("n", "b0", 300)
    exact = left.astype(np.int64) @ right.astype(np.int64)
    assert np.array_equal(left @ right, exact)
    assert np.array_equal(left[:, ::-1] @ right[::-1], exact)
    assert {int(x) for x in np.unique(left)} == set(range(-8, 9))
    assert 64 * 2500 < 2**24


def test_a_word_depends_on_far_places():
    run = RUNS[2]
    whole = np.frombuffer(b"".join(bytes(piece) for piece in computed(run).pieces), dtype="<u8")
    assert [word(run, place) for place in (0, 1, run.size - 1)] == [int(whole[i]) for i in (0, 1, run.size - 1)]


@pytest.mark.parametrize("run", RUNS[::2], ids=lambda run: run.kind)
def test_each_way_of_showing_something_else_is_named(run):
    made = computed(run)
    asked = [0, leaves(run) - 1]
    honest = opened(made, asked)
    assert check(run, made.tree.root, asked, honest[:1]) == "other_leaves"
    assert check(run, made.tree.root, asked, [honest[0], honest[0]]) == "other_leaves"
    assert check(run, made.tree.root, asked, [replace(honest[0], data="***"), honest[1]]) == "unreadable"
    assert check(run, "0" * 64, asked, honest) == "other_root"
    assert check(run, made.tree.root, asked, [replace(honest[0], path=()), honest[1]]) == "other_root"
    longer = replace(honest[0], path=(*honest[0].path, "0" * 64))
    assert check(run, made.tree.root, asked, [longer, honest[1]]) == "other_root"
    odd = replace(honest[0], path=("no digest", *honest[0].path[1:]))
    assert check(run, made.tree.root, asked, [odd, honest[1]]) == "other_root"


@pytest.mark.parametrize("run", RUNS[::2], ids=lambda run: run.kind)
def test_a_promise_over_a_wrong_result_is_seen(run):
    made = computed(run)
    made.pieces = [memoryview(bytes(len(piece))) for piece in made.pieces]
    made.tree = agent.Tree(agent._leaf(piece) for piece in made.pieces)
    assert check(run, made.tree.root, [1], opened(made, [1])) == "wrong_result"
    made.pieces = [memoryview(bytes(8)) for _ in made.pieces]
    made.tree = agent.Tree(agent._leaf(piece) for piece in made.pieces)
    assert check(run, made.tree.root, [0], opened(made, [0])) == "wrong_result"


def test_a_tenth_left_out_is_found_in_four_of_five_runs():
    run = Run(Kind.GEMM, "n", 400, 2)
    missing = set(range(leaves(run) // 10))
    caught = sum(bool(missing & set(wanted(run, seed))) for seed in range(500))
    assert 0.74 < caught / 500 < 0.88


@pytest.mark.parametrize("expected", [0.001, 5.0, 90.0, 3_000.0, math.nan, math.inf, -1.0])
@pytest.mark.parametrize("kind", list(Kind))
def test_plans_stay_in_their_limits(kind, expected):
    for draw in (0.0, 0.5, 0.999):
        long, short = (plan(kind, nonce="n", draw=draw, expected=expected, short=s) for s in (False, True))
        assert 0 < work(short) <= work(long)
        if kind is Kind.GEMM:
            assert 1500 <= long.size < 2500
            assert 2 <= long.parts <= rules.MOST_SIDE
        elif kind is Kind.MEMORY:
            assert long.size % 4096 == 0
            assert long.size <= rules.MOST_WORDS
        else:
            assert long.size <= rules.MOST_STREAM
            assert wanted(long, 1) == ()


def test_sizes_cannot_be_foreseen_and_last_long_enough():
    sizes = {plan(Kind.GEMM, nonce="n", draw=d / 10, expected=60.0, short=False).size for d in range(10)}
    assert len(sizes) == 10
    for kind, speed in ((Kind.GEMM, 60.0), (Kind.MEMORY, 8.0)):
        run = plan(kind, nonce="n", draw=0.5, expected=speed, short=False)
        assert 2.0 <= work(run) / speed <= 8.0, "seconds at the speed that was expected"


def test_what_the_clock_allows():
    assert not rules.above(114.9, 100.0)
    assert rules.above(115.1, 100.0)
    assert len(rules.piece("s", 3, 100)) == 100
    assert base64.b64encode(rules.piece("s", 3, 9)) != base64.b64encode(rules.piece("s", 4, 9))
