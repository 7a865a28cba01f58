"""The pick and the front are exact: equal to looking at every row, in whatever order the rows come."""

import json
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.domain import frontier, objectives, pareto, placement, search, summaries
from scheduling.domain.columns import build
from scheduling.domain.demand import Card
from scheduling.domain.placement import decide, decide_in_order, digest, in_order, replay
from scheduling.domain.request import Paths, Policy, Request
from scheduling.domain.search import Problem
from tests.scheduling.domain.markets import (
    a_card_row,
    a_market,
    a_request,
    a_row,
    a_wish,
    brute_force,
    dearer,
    paths,
    vector_of,
)

SEEDS = st.integers(0, 10**9)


@given(SEEDS, SEEDS)
@settings(max_examples=300, deadline=None)
def test_the_pick_equals_brute_force_and_lies_on_the_front(market: int, wish: int) -> None:
    table = build(a_market(market, free=market % 2 == 0))
    request, policy = a_wish(wish)
    front, ordered = brute_force(request, policy, table, paths())
    decision = decide(request, policy, table, paths())
    if not ordered:
        assert decision.row is None
        return
    assert decision.row == ordered[0]
    problem = decision.problem
    vectors = {tuple(v) for v in problem.vectors(np.array(sorted(front)))}
    assert {tuple(v) for v in decision.front.vectors} == vectors
    assert len(decision.front.rows) == len(vectors), "one row per identical vector"
    assert decision.position is not None, "the choice is a point of the front"
    by_groups = frontier.front_by_groups(problem)
    assert by_groups.rows.tolist() == decision.front.rows.tolist()
    if policy.pick != "knee":
        assert [int(r) for r in search.pick(problem, k=5).rows] == ordered[:5]


@given(SEEDS, SEEDS)
@settings(max_examples=60, deadline=None)
def test_the_order_of_rows_has_no_influence(market: int, wish: int) -> None:
    rows = a_market(market)
    request, policy = a_wish(wish)
    shuffled = rows[:]
    random.Random(wish).shuffle(shuffled)
    first, second = (decide(request, policy, build(r), paths()) for r in (rows, shuffled))
    assert first.node == second.node
    if first.row is not None:
        assert first.points() == second.points()
        assert digest(first.inputs()) == digest(second.inputs())


@given(SEEDS, SEEDS)
@settings(max_examples=100, deadline=None)
def test_a_dominated_node_never_changes_a_pick_by_weights(market: int, wish: int) -> None:
    rows = a_market(market)
    request, policy = a_wish(wish)
    policy = replace(policy, pick="weights", weights={"cost": 0.6, "time": 0.4})
    before = decide(request, policy, build(rows), paths())
    chance = random.Random(wish)
    losers = [dearer(chance.choice(rows), f"loser{i}") for i in range(3)]
    assert decide(request, policy, build([*rows, *losers]), paths()).node == before.node


@given(SEEDS, SEEDS)
@settings(max_examples=100, deadline=None)
def test_no_loser_that_leaves_changes_a_pick_by_weights(market: int, wish: int) -> None:
    rows = a_market(market)
    request, policy = a_wish(wish)
    policy = replace(policy, pick="weights", weights={"cost": 0.6, "time": 0.3, "green": 0.1})
    winner = decide(request, policy, build(rows), paths()).node
    if winner is None:
        return
    left = [row for row in rows if row.node == winner or random.Random(row.node + str(wish)).random() < 0.5]
    assert decide(request, policy, build(left), paths()).node == winner


@given(SEEDS, SEEDS, st.integers(2, 9))
@settings(max_examples=100, deadline=None)
def test_another_currency_scale_gives_the_same_pick(market: int, wish: int, factor: int) -> None:
    rows = a_market(market)
    request, policy = a_wish(wish)

    def times(value: int | None) -> int | None:
        return None if value is None else value * factor

    scaled = [
        replace(
            r,
            core_fixed=times(r.core_fixed),
            core_spot=times(r.core_spot),
            card_fixed=times(r.card_fixed),
            card_spot=times(r.card_spot),
        )
        for r in rows
    ]
    links = Paths(
        {ends: replace(p, price_micro_per_gb=p.price_micro_per_gb * factor) for ends, p in paths().links.items()}
    )
    dear = replace(request, max_price_micro=times(request.max_price_micro))
    assert decide(dear, policy, build(scaled), links).node == decide(request, policy, build(rows), paths()).node


@given(SEEDS, SEEDS)
@settings(max_examples=100, deadline=None)
def test_bounds_are_not_above_any_row_below(market: int, wish: int) -> None:
    table = build(a_market(market))
    request, policy = a_wish(wish)
    problem = Problem(request, policy, table, paths())
    rows = problem.feasible(slice(0, len(table)))
    vectors = problem.vectors(rows)
    for tier in problem.tiers:
        low = problem.lower(tier)
        possible = problem.possible(tier)
        for row, vector in zip(rows, vectors, strict=True):
            group = int(np.searchsorted(tier.starts, row, side="right")) - 1
            assert possible[group]
            assert (low[group] <= vector).all()


@given(SEEDS, SEEDS)
@settings(max_examples=120, deadline=None)
def test_a_stored_decision_can_be_made_again(market: int, wish: int) -> None:
    request, policy = a_wish(wish)
    decision = decide(request, policy, build(a_market(market)), paths())
    if decision.row is None:
        return
    inputs = decision.inputs()
    stored = json.loads(json.dumps(inputs))
    again = replay(stored)
    assert again.node == decision.node
    assert digest(stored) == digest(inputs)
    assert again.chosen()["cost"] == decision.chosen()["cost"]


def test_a_search_opens_only_the_zones_it_needs() -> None:
    rows = [a_row(f"n{i}", zone=f"z{i % 50:02d}", core_fixed=10_000 + (i % 50) * 1_000) for i in range(1_000)]
    table = build(rows)
    problem = Problem(a_request(), Policy(("cost",), "cheapest"), table, paths())
    found = search.pick(problem)
    assert found.opened <= search.FIRST_GROUPS
    assert found.looked_at <= search.FIRST_GROUPS * 20
    assert {table.rows[int(r)].zone for r in found.rows} == {"z00"}
    assert frontier.front_by_groups(problem).opened < 50


def test_a_level_is_the_same_reduction_for_every_tier() -> None:
    table = build(a_market(7))
    region, zone, cell = summaries.levels(table)
    assert len(region) == 3
    assert 3 < len(zone) < len(cell)
    for g in range(len(region)):
        inside = [z for z in range(len(zone)) if region.starts[g] <= zone.starts[z] < region.stops[g]]
        assert region.cores[g] == max(zone.cores[z] for z in inside)
        assert region.core_price["fixed"][g] == min(zone.core_price["fixed"][z] for z in inside)


def test_the_front_of_nothing_and_of_one() -> None:
    assert not len(pareto.front(np.zeros((0, 3))))
    assert pareto.front(np.array([[1.0, 2.0]])).tolist() == [True]
    assert not len(pareto.representatives(np.zeros((0, 2)), np.zeros(2), np.zeros(0, dtype=np.int64)))


@given(st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=60))
@settings(max_examples=200, deadline=None)
def test_the_front_is_exact_with_duplicates_and_flat_columns(points: list[tuple[int, ...]]) -> None:
    vectors = np.array(points, dtype=np.float64)
    expected = [not any(all(a <= b for a, b in zip(u, v, strict=True)) and u != v for u in points) for v in points]
    assert pareto.front(vectors).tolist() == expected


def test_at_most_twelve_points_stand_for_a_front_and_the_best_are_among_them() -> None:
    steps = np.linspace(0.01, 1, 200)
    vectors = np.column_stack([steps, 1 / steps])
    shown = pareto.representatives(vectors, np.zeros(2), np.array([50]))
    assert len(shown) == 12
    assert {0, 50, 199} <= set(shown.tolist())
    assert int(np.argmin(pareto.bends(vectors, np.zeros(2)))) in shown


def test_equal_offers_go_to_the_fuller_node_then_to_the_smaller_id() -> None:
    policy = Policy(("cost", "time"), "cheapest")
    rows = [a_row("b"), a_row("a"), a_row("c", cores_milli=4_000)]
    assert decide(a_request(), policy, build(rows), paths()).node == "c"
    assert decide(a_request(), policy, build(rows[:2]), paths()).node == "a"


def test_each_simple_pick_takes_the_best_of_its_column() -> None:
    rows = [
        a_row("cheap", core_fixed=10_000, green_ppm=0, scu_cpu={"custom": 0.01}),
        a_row("fast", core_fixed=90_000, green_ppm=0, scu_cpu={"custom": 0.09}),
        a_row("green", core_fixed=90_000, green_ppm=1_000_000, scu_cpu={"custom": 0.01}),
    ]
    for pick, node in (("cheapest", "cheap"), ("fastest", "fast"), ("greenest", "green")):
        decision = decide(a_request(work_micro=10_000), Policy(("cost", "time", "green"), pick), build(rows), paths())
        assert decision.node == node


def test_a_chosen_point_is_taken_again_while_it_fits() -> None:
    rows = [a_row("cheap", core_fixed=10_000), a_row("dear")]
    policy = Policy(("cost",), "cheapest", prefer="dear")
    assert decide(a_request(), policy, build(rows), paths()).node == "dear"
    gone = [rows[0], replace(rows[1], takes_work=False)]
    assert decide(a_request(), policy, build(gone), paths()).node == "cheap"


def test_kinds_of_cards_are_tried_in_the_order_of_a_list() -> None:
    rows = [a_card_row("a", "A100-80GB", card_fixed=1_000_000), a_card_row("h", "H100", card_fixed=9_000_000)]
    request = a_request(cards=(Card("H100", 1), Card("A100-80GB", 1)))
    policy = Policy(("cost",), "cheapest")
    free, ordered = in_order(request, False), in_order(request, True)
    assert decide_in_order(free, policy, build(rows), paths()).node == "a"
    assert decide_in_order(ordered, policy, build(rows), paths()).node == "h"
    assert decide_in_order(ordered, policy, build(rows[:1]), paths()).node == "a"


def test_prices_compare_as_integers() -> None:
    table = build([a_row("n", core_fixed=3_200_000)])
    policy = Policy(("cost",), "cheapest")
    assert decide(a_request(max_price_micro=3_200_000), policy, table, paths()).node == "n"
    refused = decide(a_request(max_price_micro=3_199_999), policy, table, paths())
    assert refused.row is None
    assert refused.tiers is not None
    (refusal,) = refused.tiers[2].refused
    assert (refusal.reason, refusal.asked, refusal.best, refusal.unit) == (
        "price_over_max",
        "3.199999",
        "3.20",
        "CNY/h",
    )


def test_cost_is_price_times_time_plus_transfer_to_the_last_digit() -> None:
    request = a_request(cores_milli=2_000, data=(("west", 50 * 10**9),), max_duration_s=7_200)
    decision = decide(request, Policy(("cost",), "cheapest"), build([a_row("n", core_fixed=50_000)]), paths())
    chosen = decision.chosen()
    # 2 cores × 0.05 × 2 h + 50 GB × 0.02
    assert chosen["cost"] == {"low": "1.00", "expected": "1.20", "high": "1.20"}
    assert chosen["transfer"] == [
        {"link": "west→east", "bytes": 50 * 10**9, "price_micro_per_gb": 20_000, "micro": 1_000_000}
    ]
    assert chosen["price_per_hour"] == "0.10"


def test_data_gravity_flips_where_transfer_equals_the_saving() -> None:
    """P46: 50 GB in A, 0.02 per GB; A 1.00/h, B 0.80/h: A up to 5 h, B beyond."""
    rows = [a_row("a", region="east", core_fixed=1_000_000), a_row("b", region="west", core_fixed=800_000)]
    policy = Policy(("cost",), "cheapest")
    for hours, node in ((4.9, "a"), (5.1, "b")):
        request = a_request(data=(("east", 50 * 10**9),), max_duration_s=int(hours * 3_600))
        assert decide(request, policy, build(rows), paths()).node == node


def test_an_unknown_link_counts_with_the_worst_known() -> None:
    assert paths().between("moon", "east").price_micro_per_gb == 20_000
    assert paths().between("moon", "east").rtt_us == 40_000
    assert paths().between("", "east").price_micro_per_gb == 0


def test_the_reason_names_what_the_others_would_have_cost() -> None:
    rows = [
        a_row("cheap", core_fixed=10_000, scu_cpu={"custom": 0.01}, green_ppm=100_000),
        a_row("fast", core_fixed=90_000, scu_cpu={"custom": 0.05}, green_ppm=200_000),
        a_row("green", core_fixed=90_000, scu_cpu={"custom": 0.01}, green_ppm=900_000),
    ]
    decision = decide(a_request(work_micro=10_000), Policy(("cost", "time", "green"), "cheapest"), build(rows), paths())
    why, alternatives = decision.why(), decision.alternatives()
    assert why["code"] == "pick_cheapest"
    assert set(why["against"]) == {"fastest", "greenest"}
    assert why["against"]["fastest"]["cost_micro"] > 0
    assert why["against"]["fastest"]["time_s"] < 0
    assert len(alternatives) == 2
    single = decide(a_request(), Policy(("cost",), "knee"), build(rows[:1]), paths())
    assert single.why()["code"] == "only_point"
    assert single.alternatives() == []


def test_a_vector_holds_what_the_table_says() -> None:
    row = a_row("n", region="west", core_fixed=100_000, scu_cpu={"custom": 0.08}, green_ppm=250_000, queue_s=4)
    request = a_request(work_micro=10_000, data=(("east", 10**9),))
    cost, time, green, transfer = vector_of(request, Policy(("cost", "time", "green", "transfer"), "knee"), [row], "n")
    # 0.01 SCU-hours on 1/8 of 0.08 SCU = 1 h; 1 GB over 500 Mbit/s = 16 s
    assert transfer == pytest.approx(20_000)
    assert cost == pytest.approx(100_000 + 20_000)
    assert time == pytest.approx(1 + 4 + 16 + 3_600)
    assert green == pytest.approx(0.75)


def test_a_request_survives_its_form() -> None:
    request = a_request(cards=(Card("H100", 2),), data=(("east", 5),), excluded=("n1",), max_price_micro=5)
    assert Request.from_form(json.loads(json.dumps(request.form()))) == request


def test_columns_put_the_pick_first_and_add_weighted_ones() -> None:
    assert objectives.columns_of(Policy(("time",), "cheapest")) == ("cost", "time")
    assert objectives.columns_of(Policy(("time",), "weights", {"green": 1.0})) == ("time", "green")


def test_a_thousand_stored_decisions_choose_the_same_node_again() -> None:
    """Placement page §9, 18: through JSON, whatever the market became since."""
    chosen = 0
    for seed in range(1_000):
        request, policy = a_wish(seed)
        decision = decide(request, policy, build(a_market(seed + 7, 25, free=seed % 3 == 0)), paths())
        if decision.row is None:
            continue
        chosen += 1
        assert replay(json.loads(json.dumps(decision.inputs()))).node == decision.node, seed
    assert chosen > 300


def test_a_decision_says_how_much_it_looked_at_and_what_a_bound_cut() -> None:
    rows = [a_row(f"n{i:05d}", zone=f"z{i % 60:02d}", core_fixed=10_000 + (i % 60) * 1_000) for i in range(3_000)]
    seen = decide(a_request(), Policy(("cost", "time"), "cheapest"), build(rows), paths()).seen()
    assert seen["front"] == 1
    assert seen["looked_at"] < 3_000
    assert [group["tier"] for group in seen["groups"]] == ["region", "zone", "cell"]
    assert sum(group["cut_by_bound"] for group in seen["groups"]) > 40


def test_a_very_large_front_is_thinned_before_its_knee_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [a_row(f"n{i:03d}", core_fixed=10_000 + 40 * i, scu_cpu={"custom": 0.01 + 0.0001 * i}) for i in range(300)]
    request, policy = a_request(work_micro=10_000), Policy(("cost", "time"), "knee")
    whole = decide(request, policy, build(rows), paths())
    monkeypatch.setattr(placement, "MOST_FRONT", 40)
    thin = decide(request, policy, build(rows), paths())
    assert len(thin.front.rows) <= 40 < len(whole.front.rows)
    assert thin.row is not None
    assert thin.node in {whole.problem.table.rows[int(row)].node for row in whole.front.rows}
    assert replay(json.loads(json.dumps(thin.inputs()))).node == thin.node
