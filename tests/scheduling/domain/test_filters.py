"""Each filter names its tier, its reason, what was asked and the best there is; a place counts once; what helps really helps."""

from dataclasses import replace
from typing import Any

import pytest

from scheduling.domain import explain, filters
from scheduling.domain.columns import Row, build
from scheduling.domain.demand import Card
from scheduling.domain.placement import decide
from scheduling.domain.reasons import ENDED, WAITING, EndReason, Tier, WaitReason, is_retryable
from scheduling.domain.request import Paths, Policy, Request
from tests.scheduling.domain.markets import NOW, a_card_row, a_market, a_request, a_row, a_wish, paths

POLICY = Policy(("cost", "time"), "cheapest")

# name → (request's fields, the market, tier, reason, asked, best, the field that helps; None = nothing of the spec does)
ONE_CAUSE: dict[str, tuple[dict[str, Any], list[Row], str, str, str, str, str | None]] = {
    "region not wanted": ({"regions": ("west",)}, [a_row()], "region", "region_not_wanted", "", "", "placement.regions"),
    "region of infra": ({"region": "west"}, [a_row()], "region", "region_not_wanted", "", "", "resources.infra"),
    "region avoided": ({"avoid": ("east",)}, [a_row()], "region", "region_avoided", "", "", "placement.avoid"),
    "too far": (
        {"max_latency_us": 10_000, "latency_to": "west"}, [a_row(), a_row("n2", region="north")],
        "region", "link_over_latency", "10", "20", "placement.max_latency_ms",
    ),
    "SCU short": ({"scu_micro": 2_000_000}, [a_row()], "region", "region_scu_short", "2", "0.01", "resources.scu"),
    "zone of infra": ({"zone": "b"}, [a_row()], "zone", "region_not_wanted", "", "", "resources.infra"),
    "zone avoided": ({"avoid": ("east/a",)}, [a_row()], "zone", "region_avoided", "", "", "placement.avoid"),
    "SCU of a zone": (
        {"scu_micro": 1_000_000, "cards": (Card("A100-80GB", 2),)}, [a_card_row(zone="b", scu_card={"custom": 0.4}), a_card_row("g2", "H100", 2)],
        "zone", "fingerprint_below", "1", "0.8", "resources.scu",
    ),
    "node of infra": ({"node": "n9"}, [a_row()], "node", "region_not_wanted", "", "", "resources.infra"),
    "node avoided": ({"avoid": ("east/a/n1",)}, [a_row()], "node", "region_avoided", "", "", "placement.avoid"),
    "provider avoided": ({"avoid": ("provider:p1",)}, [a_row()], "node", "region_avoided", "", "", "placement.avoid"),
    "cores": ({"cores_milli": 9_500}, [a_row(), a_row("n2", cores_milli=500)], "node", "cores_short", "9.5", "8", "resources.cpus"),
    "memory": ({"memory_mib": 32_768}, [a_row()], "node", "memory_short", "32", "16", "resources.memory"),
    "disk": ({"disk_gib": 500}, [a_row()], "node", "disk_short", "500", "100", "resources.disk_size"),
    "kind of card": (
        {"cards": (Card("H100", 1),)}, [a_card_row()], "node", "card_kind_differs", "H100:1", "A100-80GB", "resources.accelerators",
    ),
    "virtual is no card": (
        {"cards": (Card("A100-80GB", 1),)}, [a_card_row("v", "virtual", virtual=True)],
        "node", "card_kind_differs", "A100-80GB:1", "virtual", None,
    ),
    "memory of a card": (
        {"cards": (Card("", 1, 100_000, None),)}, [a_card_row()], "node", "card_kind_differs", "100000MiB+:1", "A100-80GB", "resources.accelerators",
    ),
    "cards": ({"cards": (Card("A100-80GB", 4),)}, [a_card_row()], "node", "cards_short", "4", "2", "resources.accelerators"),
    "no cards at all": ({"cards": (Card("A100-80GB", 1),)}, [a_row()], "node", "cards_short", "1", "0", None),
    "price": ({"max_price_micro": 40_000}, [a_row()], "node", "price_over_max", "0.04", "0.05", "max_price"),
    "quote's price": ({"cap_nano": 40_000_000}, [a_row()], "node", "quote_outdated", "0.04", "0.05", "quote"),
    "quote's transfer": (
        {"cap_transfer_micro": 0, "data": (("west", 10**9),)}, [a_row()], "node", "quote_outdated", "0.00", "0.02", "quote",
    ),
    "currency": ({"currency": "USD"}, [a_row()], "node", "currency_differs", "USD", "", None),
    "not sold as spot": ({"rental": "spot"}, [a_row(core_spot=None)], "node", "offer_closed_now", "spot", "", "resources.use_spot"),
    "green": ({"min_green_ppm": 600_000}, [a_row(green_ppm=590_000)], "node", "green_under_min", "0.6", "0.59", "placement.min_green"),
    "reliability": ({"min_reliability_ppm": 990_000}, [a_row(reliability_ppm=970_000)], "node", "reliability_under_min", "0.99", "0.97",
                    "placement.min_reliability"),
    "reliability not known": ({"min_reliability_ppm": 1}, [a_row(reliability_ppm=None)], "node", "reliability_under_min", "0.000001", "",
                              "placement.min_reliability"),
    "green not known": ({"min_green_ppm": 1}, [a_row(green_ppm=None)], "node", "green_under_min", "0.000001", "", "placement.min_green"),
    "unverified": ({}, [a_row(verified=False)], "node", "unverified", "", "", "placement.verified"),
    "window": ({}, [a_row(open_now=False)], "node", "offer_closed_now", "2026-11-02T06:13:20Z", "", None),
    "offer ends": ({}, [a_row(until=NOW + 1_800)], "node", "offer_ends_early", "2026-11-02T07:13:20Z", "2026-11-02T06:43:20Z", "max_duration"),
    "deadline": ({"deadline": NOW + 600}, [a_row()], "node", "deadline_passed", "600", "3601", "placement.deadline"),
    "suspect": ({}, [a_row(alive="suspect")], "node", "node_suspect", "", "", None),
    "unknown": ({}, [a_row(alive="unknown")], "node", "node_suspect", "", "", None),
    "draining": ({}, [a_row(takes_work=False)], "node", "node_draining", "", "", None),
    "lease class": (
        {"lease_class": "fast"}, [a_row(lease_classes=("standard",))], "node", "lease_class_unsupported", "fast", "", "on_disconnect.lease",
    ),
    "failed there": ({"excluded": ("n1",)}, [a_row()], "node", "excluded_after_failure", "", "", "retry"),
    "past due": ({"past_due": True}, [a_row(refuses_past_due=True)], "node", "tenant_refused", "", "", None),
}  # fmt: skip


@pytest.mark.parametrize("name", ONE_CAUSE)
def test_one_cause_is_named_with_its_numbers_and_what_helps_makes_it_start(name: str) -> None:
    fields, rows, tier, reason, asked, best, field = ONE_CAUSE[name]
    request, table = a_request(**fields), build(rows)
    decision = decide(request, POLICY, table, paths())
    assert decision.row is None
    assert decision.tiers is not None
    (found,) = [r for counted in decision.tiers if counted.tier == tier for r in counted.refused if r.reason == reason]
    assert (found.asked, found.best) == (asked, best)
    assert found.nodes >= 1
    helps = explain.helps(request, table, paths())
    assert sorted({h.field for h in helps}) == (field or "").split()
    for help_ in helps:
        assert decide(help_.request, POLICY, table, paths()).row is not None
        assert help_.form()["nodes"] == help_.nodes >= 1


def test_a_place_counts_once_at_its_first_failing_filter() -> None:
    for seed in range(40):
        rows = a_market(seed)
        request, _ = a_wish(seed + 1)
        table = build(rows)
        region, zone, node = filters.explain(
            request, table, filters.Regions(request, table, paths()), filters.Zones(request, table)
        )
        assert region.seen == len(table.regions)
        for counted in (region, zone, node):
            assert counted.seen == counted.kept + sum(r.count for r in counted.refused)
        total = sum(r.nodes for counted in (region, zone, node) for r in counted.refused)
        assert total + node.kept == len(rows)
        kept = filters.kept(
            request,
            table,
            filters.Regions(request, table, paths()),
            filters.Zones(request, table),
            slice(0, len(table)),
        )
        assert len(kept) == node.kept


def test_two_causes_at_once_are_not_helped_by_one_change() -> None:
    request = a_request(max_price_micro=1, min_green_ppm=900_000)
    assert explain.helps(request, build([a_row()]), paths()) == []


def test_when_only_a_window_is_closed_its_opening_is_told() -> None:
    table = build(
        [a_row(open_now=False, opens_at=NOW + 7_200), a_row("n2", open_now=False, opens_at=NOW + 60, core_fixed=10**6)]
    )
    assert explain.opens_at(a_request(max_price_micro=60_000), table, paths()) == NOW + 7_200
    assert explain.opens_at(a_request(max_price_micro=1), table, paths()) is None
    assert explain.opens_at(a_request(), build([a_row()]), paths()) is None


def test_a_delay_without_a_link_is_refused_as_not_known() -> None:
    request = a_request(max_latency_us=10_000, latency_to="moon")
    decision = decide(request, POLICY, build([a_row()]), Paths({}))
    assert decision.tiers is not None
    assert [r.reason for r in decision.tiers[0].refused] == ["link_expired"]


def test_an_empty_market_refuses_without_a_reason() -> None:
    decision = decide(a_request(scu_micro=1), POLICY, build([]), paths())
    assert decision.row is None
    assert decision.tiers is not None
    assert [counted.seen for counted in decision.tiers] == [0, 0, 0]
    assert explain.helps(a_request(), build([]), paths()) == []


def test_cards_are_matched_by_name_by_memory_or_as_virtual() -> None:
    rows = [a_card_row("a", "A100-80GB"), a_card_row("v", "virtual", virtual=True, card_memory_mib=1_024), a_row("c")]
    table = build(rows)

    def nodes(card: Card) -> list[str]:
        request = a_request(cards=(card,))
        problem = decide(request, POLICY, table, paths()).problem
        return [table.rows[int(r)].node for r in problem.feasible(slice(0, len(table)))]

    assert nodes(Card("A100-80GB", 1)) == ["a"]
    assert nodes(Card("virtual", 1, virtual=True)) == ["v"]
    assert nodes(Card("", 1, 40_000, 90_000)) == ["a"]
    assert nodes(Card("", 1, 40_000, 50_000)) == []
    assert nodes(Card("nothing", 1)) == []


def test_relaxing_never_loses_a_place() -> None:
    for seed in range(30):
        table = build(a_market(seed))
        request, policy = a_wish(seed)
        free: Request = replace(request, max_price_micro=None, min_green_ppm=0, verified=False)
        assert len(decide(free, policy, table, paths()).problem.feasible(slice(0, len(table)))) >= len(
            decide(request, policy, table, paths()).problem.feasible(slice(0, len(table)))
        )


def test_every_reason_has_a_sentence_and_a_tier() -> None:
    assert set(WAITING) == set(WaitReason)
    assert set(ENDED) == set(EndReason)
    assert all(row.text and row.tier in Tier for row in WAITING.values())


def test_what_is_retried_follows_the_table() -> None:
    usual = {"no-capacity", "interruption"}
    assert is_retryable(EndReason.NODE_LOST, usual)
    assert not is_retryable(EndReason.EXIT_NONZERO, usual)
    assert is_retryable(EndReason.EXIT_NONZERO, {"error"})
    assert not is_retryable(EndReason.CANCELLED_BY_TENANT, {"error", *usual})
    assert [r.value for r in EndReason if not ENDED[r].billed and ENDED[r].attempt_state] == [
        "node_lost", "node_rebooted", "not_accepted", "node_drained", "device_error", "start_failed", "start_timeout", "report_forged",
        "platform_fault", "upload_failed",
    ]  # fmt: skip
