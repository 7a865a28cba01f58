"""The link database and what is believed of a link."""

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.domain import linkstate
from scheduling.domain.linkstate import Belief, Measured, Report, Trend, eased, effective, merge, observe

measured = st.builds(
    Measured,
    st.integers(1, 2_000_000),
    st.integers(0, 500_000),
    st.one_of(st.none(), st.integers(1, 100_000)),
)
reports = st.builds(
    Report,
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from(["east", "west"]),
    st.integers(0, 5),
    st.lists(st.tuples(st.sampled_from(["east", "west", "north"]), measured), max_size=2).map(tuple),
    st.integers(0, 100_000),
)
databases = st.lists(reports, max_size=6).map(lambda found: merge(*[{one.origin: one} for one in found]))


@given(databases, databases, databases)
def test_merging_commutes_associates_and_repeats_harmlessly(one, two, three):
    assert merge(one, two) == merge(two, one)
    assert merge(merge(one, two), three) == merge(one, merge(two, three))
    assert merge(one, one) == one


@given(st.lists(reports, max_size=8), st.randoms())
def test_any_order_of_reports_gives_the_same_database(found, chance):
    shuffled = list(found)
    chance.shuffle(shuffled)
    assert merge(*[{r.origin: r} for r in found]) == merge(*[{r.origin: r} for r in shuffled])


def test_the_higher_sequence_wins_even_when_it_came_first():
    new = Report("a", "east", 7, (("west", Measured(10)),), 1_000)
    late = Report("a", "east", 6, (("west", Measured(99)),), 2_000)
    assert merge({"a": new}, {"a": late}) == {"a": new}


@given(st.floats(1, 1e6), st.floats(1, 1e6))
def test_bad_news_counts_whole_and_good_news_by_a_fifth_at_most(held, seen):
    new = float(eased(np.array([held]), np.array([seen]), worse_is_more=True)[0])
    if seen >= held:
        assert new == seen
    elif abs(math.log(seen / held)) > linkstate.SNAP:
        assert math.log(held / new) == pytest.approx(0.2 * math.log(held / seen))
    else:
        assert new == seen


def test_a_link_ten_times_slower_is_believed_at_once_and_forgiven_over_many_periods():
    belief = observe(None, Measured(10_000), seen_ms=0)
    belief = observe(belief, Measured(100_000), seen_ms=5_000)
    assert belief.base_us == 100_000
    history = []
    for period in range(2, 40):
        belief = observe(belief, Measured(10_000), seen_ms=period * 5_000)
        history.append(belief.base_us)
    assert history == sorted(history, reverse=True)
    assert history[:2] == [100_000, 100_000]  # much better news counts from the third in a row on
    assert history[2] > 60_000
    assert history[-1] == 10_000  # snapped


def test_a_repeated_or_older_report_changes_nothing():
    belief = observe(None, Measured(10_000), seen_ms=5_000)
    assert observe(belief, Measured(99_000), seen_ms=5_000) is belief
    assert observe(belief, Measured(99_000), seen_ms=4_000) is belief


def test_a_link_that_flaps_is_damped_and_takes_no_good_news_until_it_was_quiet():
    belief = observe(None, Measured(10_000), seen_ms=0)
    at = 0
    for _ in range(4):
        for rtt in (100_000, 10_000, 10_000, 10_000, 10_000):
            at += 5_000
            belief = observe(belief, Measured(rtt), seen_ms=at)
    assert belief.damped
    assert belief.base_us == 100_000
    for _ in range(12):
        at += 5_000
        belief = observe(belief, Measured(10_000), seen_ms=at)
    assert belief.base_us == 100_000
    for _ in range(700):
        at += 5_000
        belief = observe(belief, Measured(10_000), seen_ms=at)
    assert not belief.damped
    assert belief.base_us == 10_000


def test_two_good_periods_of_four_bring_no_traffic_back():
    belief = observe(None, Measured(10_000), seen_ms=0)
    for period in range(1, 9):
        belief = observe(belief, Measured(100_000 if period % 4 in (1, 2) else 10_000), seen_ms=period * 5_000)
        assert belief.base_us == 100_000


def test_loss_makes_a_link_count_longer_and_narrower():
    clean, lossy = Measured(40_000, 0, 10_000), Measured(40_000, 50_000, 10_000)
    assert clean.base_us == 40_000
    assert lossy.base_us == pytest.approx(40_000 * 6)
    assert clean.capacity_mbps() == 10_000
    assert lossy.capacity_mbps() == pytest.approx(32 * 1.22 * 1448 * 8 / (40_000 * math.sqrt(0.05)))
    assert Measured(40_000, 50_000).capacity_mbps() is None


def test_an_old_belief_counts_worse_each_period_and_expires():
    belief = observe(None, Measured(10_000, 0, 1_000), seen_ms=0)
    fresh = effective(belief, now_ms=15_000)
    assert (fresh.base_us, fresh.mbps, fresh.missed, fresh.expired) == (10_000, 1_000, 0, False)
    late = effective(belief, now_ms=15_001)
    assert (late.base_us, late.mbps, late.missed) == (15_000, 500, 1)
    assert not effective(belief, now_ms=65_000).expired
    assert effective(belief, now_ms=65_001).expired


def test_the_forecast_counts_when_it_is_worse_than_the_belief():
    belief, at = None, 0
    for rtt in (10_000, 10_000, 13_000, 17_000, 22_000, 29_000):
        at += 5_000
        belief = observe(belief, Measured(rtt), seen_ms=at)
    assert belief is not None
    now = effective(belief, now_ms=at)
    assert now.worsening
    assert now.base_us > 35_000


def test_several_origins_of_a_region_count_by_their_median_and_stale_ones_not_at_all():
    database = merge(
        *[
            {name: Report(name, "east", 1, (("west", Measured(rtt, 0, mbps)),), at)}
            for name, rtt, mbps, at in (
                ("a", 10_000, 900, 90_000),
                ("b", 90_000, None, 91_000),
                ("c", 12_000, 1_000, 92_000),
                ("d", 1, 1, 10_000),
            )
        ]
    )
    found, seen = linkstate.readings(database, now_ms=100_000)["east", "west"]
    assert (found.rtt_us, found.mbps, seen) == (12_000, 1_000, 92_000)
    old, _ = linkstate.readings(database, now_ms=900_000)["east", "west"]
    assert old.rtt_us == 12_000  # the newest of the stale


def test_what_is_sent_before_its_turn():
    assert linkstate.is_urgent(None, Measured(10_000))
    assert not linkstate.is_urgent(Measured(10_000), Measured(11_900))
    assert linkstate.is_urgent(Measured(10_000), Measured(12_300))
    assert linkstate.is_urgent(Measured(10_000), Measured(10_000, 5_000))
    assert linkstate.is_urgent(Measured(10_000, 0, 1_000), Measured(10_000, 0, 700))
    assert not linkstate.is_urgent(Measured(10_000, 0, 1_000), Measured(10_000, 0, None))


def test_avoidance_has_a_gap_between_leaving_and_coming_back():
    assert [linkstate.avoids(load, False) for load in (0.89, 0.91)] == [False, True]
    assert [linkstate.avoids(load, True) for load in (0.83, 0.81)] == [True, False]


def test_the_trend_sees_a_ramp_before_it_arrives():
    trend = Trend(0.5)
    for load in (0.5, 0.5, 0.55, 0.62, 0.70, 0.78):
        trend = trend.advance(load)
    assert trend.forecast(2) > 0.85
    calm = Trend(0.5)
    for _ in range(30):
        calm = calm.advance(0.5)
    assert calm.forecast(2) == pytest.approx(0.5)


@given(measured, st.integers(0, 10**12))
def test_a_belief_survives_being_stored(seen, at):
    belief = observe(observe(None, seen, seen_ms=at), Measured(5), seen_ms=at + 1)
    assert Belief.from_form(belief.form()) == belief


def test_a_stored_belief_that_is_damaged_is_refused():
    form = observe(None, Measured(5), seen_ms=1).form()
    with pytest.raises(ValueError, match="missing"):
        Belief.from_form([None, *form[1:]])
    with pytest.raises(ValueError, match="unpack"):
        Belief.from_form(form[1:])


def test_penalties_halve_in_a_quarter_of_an_hour():
    assert linkstate.penalty(1_000, passed_ms=15 * 60_000) == 500
    assert linkstate.penalty(1_000, passed_ms=-5) == 1_000


def test_noise_alone_never_damps_a_link():
    chance = random.Random(4)
    belief, at = None, 0
    for _ in range(2_000):
        at += 5_000
        belief = observe(belief, Measured(int(20_000 * math.exp(chance.gauss(0, 0.03)))), seen_ms=at)
    assert belief is not None
    assert not belief.damped
    assert belief.base_us < 23_000
