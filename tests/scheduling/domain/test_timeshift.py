"""When to start, and where: hours of a series, starts within an hour, many tasks under a capacity."""

import csv
import gzip
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.domain import timeshift
from scheduling.domain.timeshift import Work
from tests import reference

values = st.lists(st.floats(0, 1_000), min_size=1, max_size=30).map(np.array)


@given(values, st.integers(1, 8), st.integers(0, 12))
def test_contiguous_is_the_least_of_all_starts(series, hours, slack):
    if hours > len(series):
        return
    best, delay = timeshift.contiguous(series, hours, slack)
    for start in range(len(series) - hours + 1):
        sums = [
            series[start + d : start + d + hours].sum() for d in range(slack + 1) if start + d + hours <= len(series)
        ]
        assert best[start] == pytest.approx(min(sums), abs=1e-6)
        assert sums[delay[start]] == pytest.approx(min(sums), abs=1e-6)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=9), st.integers(1, 4), st.integers(0, 5))
def test_interruptible_is_the_least_of_all_sets_of_hours(numbers, hours, slack):
    series = np.array(numbers, dtype=float)
    if hours > len(series):
        return
    found = timeshift.interruptible(series, hours, slack)
    for start in range(len(series) - hours + 1):
        window = series[start : start + hours + slack]
        assert found[start] == min(sum(some) for some in combinations(window, hours))
    chosen = timeshift.cheapest_hours(series, hours, slack)
    assert series[chosen].sum() == found[0]
    assert (np.diff(chosen) > 0).all()


@given(
    st.lists(st.floats(1, 500), min_size=30, max_size=30).map(np.array),
    st.integers(0, 3_599),
    st.integers(60, 20_000),
    st.integers(0, 40_000),
)
def test_no_other_second_is_a_better_start(series, into, duration, slack):
    found = timeshift.best_start(series, into_hour_s=into, duration_s=duration, slack_s=slack)
    assert 0 <= found.delay_s <= slack
    tried = np.arange(0, slack + 1, max(1, slack // 200))
    means = timeshift.mean_over(series, tried + into, duration)
    assert found.mean <= means.min() + 1e-6
    assert found.mean_now == pytest.approx(means[0])
    assert found.saved >= -1e-9


def test_a_start_may_be_chosen_by_carbon_price_or_their_product():
    delays = np.array([0, 10, 20])
    means, factors = np.array([10.0, 4.0, 6.0]), np.array([1.0, 1.0, 0.5])
    assert timeshift.cheapest_start(delays, means=means, factors=None) == 1
    assert timeshift.cheapest_start(delays, means=None, factors=factors) == 2
    assert timeshift.cheapest_start(delays, means=means, factors=factors) == 2
    assert timeshift.cheapest_start(delays, means=None, factors=None) == 0


def test_part_hours_weigh_both_ends():
    series = np.array([100.0, 200.0, 0.0, 300.0])
    assert timeshift.mean_over(series, np.array([1_800]), 3_600)[0] == 150
    start = timeshift.best_start(series, into_hour_s=1_800, duration_s=3_600, slack_s=7_200)
    assert (start.delay_s, start.mean, start.mean_now) == (5_400, 0.0, 150.0)
    assert start.saved == 1


def test_beyond_the_forecast_the_last_week_repeats():
    week = np.arange(200.0)
    assert timeshift.repeated(week, 400)[200:].tolist() == [*range(32, 200), *range(32, 64)]
    assert timeshift.repeated(np.array([1.0, 2.0]), 5).tolist() == [1, 2, 1, 2, 1]
    assert timeshift.repeated(week, 3).tolist() == week.tolist()
    with pytest.raises(ValueError, match="empty"):
        timeshift.repeated(np.array([]), 3)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="does not fit"):
        timeshift.contiguous(np.ones(3), 4, 0)
    with pytest.raises(ValueError, match="within an hour"):
        timeshift.best_start(np.ones(3), into_hour_s=3_600, duration_s=1, slack_s=0)


def test_a_plan_fills_the_green_hours_of_the_green_zone_and_no_more():
    carbon = np.array([[500.0, 500, 500, 500, 500], [100.0, 10, 10, 100, 100]])
    work = [Work(0, 1, 1.0, 0, 3) for _ in range(3)]
    found = timeshift.plan(work, carbon, np.array([1.0, 1.0]), np.array([9.0, 1.0]), carbon_weight=1, cost_weight=0)
    assert found.zone.tolist() == [1, 1, 1]
    assert found.start.tolist() == [1, 2, 0]
    assert (found.carbon, found.cost, found.delay_h) == (120, 3, 1)
    home = timeshift.plan(
        work, carbon, np.ones(2), np.array([1.0, 1.0]), carbon_weight=1, cost_weight=0, may_move=False
    )
    assert home.zone.tolist() == [0, 0, 0]
    assert sorted(home.start.tolist()) == [0, 1, 2]


def test_a_price_and_a_wait_hold_work_back():
    carbon = np.array([[500.0] * 6, [100.0] * 6])
    one = [Work(0, 1, 1.0, 0, 2)]
    dear = np.array([1.0, 9.0])
    room = np.array([1.0, 1.0])
    green = timeshift.plan(one, carbon, dear, room, carbon_weight=1, cost_weight=1)
    assert green.zone.tolist() == [1]
    cheap = timeshift.plan(one, carbon, dear, room, carbon_weight=1, cost_weight=100)
    assert cheap.zone.tolist() == [0]
    late = np.array([[500.0, 500, 1, 1, 1, 1]])
    patient = timeshift.plan(one, late, np.ones(1), np.ones(1), carbon_weight=1, cost_weight=0)
    hurried = timeshift.plan(one, late, np.ones(1), np.ones(1), carbon_weight=1, cost_weight=0, wait_weight=300)
    assert (patient.start.tolist(), hurried.start.tolist()) == ([2], [0])


def test_without_room_before_the_deadline_it_runs_at_home_when_there_is_some():
    carbon = np.ones((1, 8))
    work = [Work(0, 2, 1.0, 0, 0) for _ in range(4)]
    found = timeshift.plan(work, carbon, np.ones(1), np.ones(1), carbon_weight=1, cost_weight=0)
    assert found.start.tolist() == [0, 2, 4, -1]  # the last would end with the series


@pytest.mark.parametrize("zone", ["SE-SE3", "DE", "ES", "US-CAL-CISO"])
def test_the_published_savings_are_reproduced_hour_by_hour(zone):
    """All four files of a zone, both columns. Our table of the year lacks its last hour, which the published figures knew:
    that one value is taken out of the last row of one file, and every other row of all four checks it.
    """
    series = _column(reference.path("energy/carbon_intensity_hourly_2022_20zones.csv.gz"), zone)
    tail = _column(reference.path(f"reference/timeshift_2022/{zone}_job24_slack24.csv.gz"), "interrupt")[-1]
    series = np.append(series, series[-24:].max() - (series[-24:].sum() - tail))
    for hours, slack in ((1, 24), (6, 24), (24, 24), (24, 168)):
        oracle = reference.path(f"reference/timeshift_2022/{zone}_job{hours}_slack{slack}.csv.gz")
        published = _column(oracle, "non_interrupt"), _column(oracle, "interrupt")
        rows = len(published[0])
        best, _ = timeshift.contiguous(series, hours, slack)
        split = timeshift.interruptible(series, hours, slack)
        assert len(best) == rows + 1
        assert np.abs(best[:rows] - published[0]).max() <= 0.0101
        assert np.abs(split[:rows] - published[1]).max() <= 0.0101


def _column(path, name):
    with gzip.open(path, "rt") as rows:
        return np.array([float(row[name]) for row in csv.DictReader(rows)])
