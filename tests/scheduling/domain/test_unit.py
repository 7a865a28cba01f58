"""The unit at work: a job asks for SCU instead of a card, data goes where bandwidth is, and a green limit is a limit."""

from dataclasses import replace

from marketplace.domain.scu import WEIGHTS, Profile, scu
from scheduling.domain.columns import build
from scheduling.domain.demand import Card
from scheduling.domain.placement import decide
from scheduling.domain.request import Policy
from tests.scheduling.domain.markets import a_request, a_row, paths

ANY = (Card("", 1),)
ONLY_COST, ONLY_TIME = Policy(("cost",), "cheapest"), Policy(("time",), "fastest")


def of(profile: Profile, share: float = 1.0) -> dict[str, float]:
    """SCU by kind of work, as the market's rows hold it."""
    found = {kind: scu(profile, kind) for kind in WEIGHTS}
    return {kind: share * value for kind, value in found.items() if value}


STRONG = of(Profile(989.0, 0.5, 0.1))  # much arithmetic, little bandwidth
WIDE = of(Profile(200.0, 3.35, 10.0))


def test_a_task_that_moves_data_never_lands_on_arithmetic_without_bandwidth():
    rows = [
        a_row("strong", core_fixed=100_000, scu_cpu=STRONG, total_cores_milli=8_000),
        a_row("wide", core_fixed=100_000, scu_cpu=WIDE, total_cores_milli=8_000),
    ]
    for policy in (ONLY_TIME, ONLY_COST, Policy(("cost", "time"), "knee")):
        moves = a_request(task_type="data", work_micro=1_000_000, cores_milli=8_000)
        assert decide(moves, policy, build(rows), paths()).node == "wide"
    computes = replace(moves, task_type="training")
    raw = {row.node: row.scu_cpu for row in rows}
    assert raw["strong"]["data"] < raw["wide"]["data"] / 5, "the plain product would call it the larger one"
    assert decide(computes, ONLY_TIME, build(rows), paths()).node is not None


def test_eight_scu_of_training_need_no_card_by_name():
    a100, h100, t4 = (of(Profile(*m, 1.25)) for m in ((312.0, 2.039), (989.0, 3.35), (65.0, 0.32)))
    card = {"card_fixed": 2_000_000, "core_fixed": 1, "cards": 8, "total_cards": 8}
    rows = [
        a_row("a100", card_model="A100-80GB", scu_card=a100, **card),
        a_row("h100", card_model="H100", scu_card=h100, **{**card, "card_fixed": 5_000_000}),
        a_row("t4", card_model="T4", scu_card=t4, **card),
    ]
    asked = a_request(task_type="training", scu_micro=8_000_000, cards=(Card("", 8),), work_micro=1_000_000)
    assert decide(asked, ONLY_COST, build(rows), paths()).node == "a100", "8 × 1 SCU; the cheaper per SCU-hour"
    assert decide(asked, ONLY_TIME, build(rows), paths()).node == "h100"
    more = replace(asked, scu_micro=9_000_000)
    assert decide(more, ONLY_COST, build(rows), paths()).node == "h100"
    most = decide(replace(asked, scu_micro=20_000_000), ONLY_COST, build(rows), paths(), explain=True)
    assert most.node is None
    assert {r["reason"] for tier in most.tiers for r in tier.form()["refused"]} == {"region_scu_short"}


def test_half_a_share_is_no_limit_and_a_limit_is_no_share():
    """P47: X 1.00/h green 0.59, Y 3.00/h green 0.60."""
    x = a_row("x", core_fixed=1_000_000, green_ppm=590_000)
    y = a_row("y", core_fixed=3_000_000, green_ppm=600_000)
    weights = Policy(("cost", "green"), "weights", {"cost": 0.9, "green": 0.1})
    limited = a_request(min_green_ppm=600_000)
    assert decide(limited, weights, build([x, y]), paths()).node == "y"
    alone = decide(limited, weights, build([x]), paths(), explain=True)
    assert alone.node is None
    refused = [r for tier in alone.tiers for r in tier.form()["refused"]]
    assert [(r["reason"], r["best"]) for r in refused] == [("green_under_min", "0.59")]
    assert decide(a_request(), weights, build([x, y]), paths()).node == "x"
