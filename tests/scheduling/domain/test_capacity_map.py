"""The map's entries add up, count only what takes work, and are the same in any order and after any change."""

import random
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.domain import capacity_map
from scheduling.domain.columns import build
from tests.scheduling.domain.markets import a_card_row, a_market, a_row

SEEDS = st.integers(0, 10**9)


@given(SEEDS)
@settings(max_examples=60, deadline=None)
def test_zones_worked_out_anew_equal_the_whole_in_any_order(seed: int) -> None:
    rows = a_market(seed)
    table = build(rows)
    before = capacity_map.zones(table)
    row = random.Random(seed).randrange(len(table))
    table.take(row, cores=300, memory=100, disk=1, cards=1)
    zone = np.array([int(table.zone[row])])
    anew = {**before, **capacity_map.zones(table, zone)}
    shuffled = [table.current(i) for i in range(len(table))]
    random.Random(seed).shuffle(shuffled)
    assert anew == capacity_map.zones(build(shuffled))
    changed, gone = capacity_map.changed(before, anew)
    assert len(changed) <= 1
    assert gone == []


def test_an_entry_counts_what_is_there_and_what_is_free() -> None:
    rows = [
        a_row("a", green_ppm=None, scu_cpu={"training": 0.08}, queue_s=9, core_spot=None),
        a_card_row("b", cards=1, total_cards=2, scu_card={"training": 1.0}, core_fixed=40_000),
        a_card_row("b", model="H100", cards=1, total_cards=1, scu_card={"training": 2.0}),
        replace(a_row("c"), alive="suspect"),
        replace(a_row("d"), takes_work=False),
    ]
    (entry,) = capacity_map.zones(build(rows)).values()
    assert (entry["nodes"], entry["heard"], entry["taking_work"]) == (4, 3, 2)
    assert entry["cores_milli"] == [16_000, 32_000]
    assert entry["cards"] == [2, 3]
    assert entry["models"] == {"A100-80GB": [1, 2], "H100": [1, 1]}
    assert entry["scu_micro"]["training"] == [80_000 + 1_000_000 + 2_000_000, 80_000 + 2_000_000 + 2_000_000]
    assert entry["price_micro"]["CNY core fixed"] == 40_000
    assert entry["price_micro"]["CNY card spot"] == 2_000_000
    assert entry["green_ppm"] == [500_000, 500_000]
    assert entry["queue_s"] == 0


def test_together_is_the_sum_and_nothing_together_is_nothing() -> None:
    one = capacity_map.zones(build([a_row("a", core_fixed=30_000)]))["east/a"]
    two = capacity_map.zones(build([a_card_row("b", green_ppm=100_000)]))["east/a"]
    both = capacity_map.together([one, two])
    assert both["cores_milli"] == [16_000, 16_000]
    assert both["models"] == {"A100-80GB": [2, 2]}
    assert both["price_micro"]["CNY core fixed"] == 30_000
    assert both["green_ppm"] == [100_000, 500_000]
    empty = capacity_map.together([])
    assert empty["nodes"] == 0
    assert empty["green_ppm"] is None
    assert empty["queue_s"] is None
    silent = capacity_map.zones(build([replace(a_row("a", green_ppm=None), alive="unknown")]))["east/a"]
    assert silent["queue_s"] is None
    assert silent["green_ppm"] is None


def test_nodes_tell_their_free_capacity_in_short() -> None:
    table = build([a_card_row("b", cards=1), a_card_row("b", model="H100", cards=2), a_row("a")])
    assert capacity_map.nodes(table) == {"east/a/a": "8000,16384,100,0,0,7", "east/a/b": "8000,16384,100,3,0,7"}
    assert capacity_map.changed({"x": "1", "y": "2"}, {"y": "3"}) == ({"y": "3"}, ["x"])
    assert capacity_map.changed({}, {"x": None}) == ({"x": None}, []), "what is not known is told too"
    assert capacity_map.figures({"a/b": {"nodes": 1}}) == {"a/b|nodes": 1}
