"""Anomalies and savings: robust, explained, to the minor unit."""

from hypothesis import given
from hypothesis import strategies as st

from billing.domain import anomalies, savings
from billing.domain.savings import Bought, Proposal
from portal.kit.money import Money
from portal.kit.quantities import US_PER_HOUR


def days(*amounts):
    return [(f"day {place}", amount) for place, amount in enumerate(amounts)]


def test_a_day_far_above_its_usual_is_found_and_explained():
    (found,) = anomalies.find(days(100, 105, 95, 100, 98, 102, 100, 101, 900, 950, 100), minimum=50)
    assert (found.since, found.until, found.days, found.usual, found.actual) == ("day 8", "day 9", 2, 100, 1850)
    assert found.excess == 1650
    assert found.score_milli > 3500


def test_one_bad_day_does_not_hide_the_next_and_new_work_is_no_anomaly_before_a_week():
    found = anomalies.find(days(*[100] * 8, 5000, 100, 100, 5000), minimum=10)
    assert [anomaly.since for anomaly in found] == ["day 8", "day 11"]
    assert anomalies.find(days(0, 0, 0, 1000, 1000), minimum=1) == []
    assert anomalies.find(days(*[100] * 8, 109), minimum=50) == [], "within a tenth of the usual"
    assert anomalies.find(days(*[1] * 8, 20), minimum=50) == [], "too small to matter"
    assert anomalies.find([], minimum=1) == []


@given(st.lists(st.integers(0, 10**6), max_size=60), st.integers(1, 10**5))
def test_every_anomaly_is_above_the_minimum_and_inside_the_series(amounts, minimum):
    for found in anomalies.find(days(*amounts), minimum=minimum):
        assert found.excess >= minimum
        assert 1 <= found.days <= len(amounts)


def test_the_median_of_two_is_their_mean():
    assert [anomalies.median(values) for values in ([], [3], [4, 1], [9, 1, 5])] == [0, 3, 2, 5]


def bought(rental="fixed", price=4_000_000, hours=10, model="A100", provider="Sol", zone="east-1", resource="card"):
    return Bought(resource, model, rental, provider, zone, price, hours * US_PER_HOUR)


def test_proposals_are_sums_with_a_reason_the_largest_first():
    rows = [
        bought(), bought(price=3_000_000, provider="Luna", zone="west-1"), bought("spot", 1_000_000, 1),
        bought(resource="core", model="", price=35_000), bought(hours=0, price=1),
    ]  # fmt: skip
    found = savings.propose(rows, {"out_of_memory": Money(250, "CNY"), "exit_nonzero": Money(0, "CNY")}, currency="CNY")
    assert [(saving.kind, saving.subject, saving.where, saving.saved.minor) for saving in found] == [
        (Proposal.SPOT, "card A100, fixed", "spot", 5000),
        (Proposal.CHEAPER_PLACE, "card A100, fixed", "Luna, west-1", 1000),
        (Proposal.FAILED_WORK, "out_of_memory", "out_of_memory", 250),
    ]
