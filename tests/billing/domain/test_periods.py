"""Periods tile time, in every zone, through clock changes and changes of zone."""

import itertools
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.domain import periods
from billing.domain.periods import PeriodEvent, PeriodState
from portal.kit.errors import InvalidTransition
from portal.kit.intervals import Interval

ZONES = [
    "UTC", "Asia/Shanghai", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Kiritimati",
    "America/Asuncion", "Africa/Cairo", "Asia/Gaza", "America/Sao_Paulo", "Pacific/Apia",
]  # fmt: skip
moments = st.datetimes(datetime(1990, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC))


def hours(month, zone):
    start, end = periods.first_instant(month, zone), periods.first_instant(periods.after(month), zone)
    return (end - start) // timedelta(hours=1)


@pytest.mark.parametrize(
    ("zone", "month", "wanted"),
    [
        ("Europe/Berlin", "2026-10", 745),
        ("America/New_York", "2026-03", 743),
        ("America/New_York", "2026-11", 721),
        ("Asia/Shanghai", "2026-10", 744),
    ],
)
def test_p34_months_with_a_clock_change_have_an_hour_more_or_less(zone, month, wanted):
    assert hours(month, zone) == wanted


def test_a_midnight_that_happens_twice_counts_the_first_time():
    # Havana, 2026-11-01: at 01:00 the clock goes back to 00:00
    first = periods.first_instant("2026-11", "America/Havana")
    assert first == datetime(2026, 11, 1, 4, tzinfo=UTC)
    assert datetime(2026, 11, 1, 0, tzinfo=ZoneInfo("America/Havana"), fold=1).astimezone(UTC) == first + timedelta(
        hours=1
    )


def test_a_midnight_that_never_happens_is_the_jump_itself():
    # Asunción, 2017-10-01: at 00:00 the clock goes to 01:00
    jump = periods.first_instant("2017-10", "America/Asuncion")
    assert jump.astimezone(ZoneInfo("America/Asuncion")).hour == 1
    assert (jump - timedelta(microseconds=1)).astimezone(ZoneInfo("America/Asuncion")).month == 9


@given(moments, st.sampled_from(ZONES))
def test_the_first_period_is_the_local_month_of_its_moment(moment, zone):
    month = periods.containing(moment, zone)
    assert moment in month.interval
    assert month.name == f"{moment.astimezone(ZoneInfo(zone)):%Y-%m}"


@given(moments, st.lists(st.sampled_from(ZONES), min_size=1, max_size=30))
def test_p1_periods_tile_time_whatever_zones_they_open_in(moment, zones):
    chain = [periods.containing(moment, zones[0])]
    for zone in zones:
        chain.append(periods.following(chain[-1], zone))
    for zone in zones:
        chain.insert(0, periods.preceding(chain[0], zone))
    for before, after in itertools.pairwise(chain):
        assert before.interval.end == after.interval.start
        assert periods.after(before.name) == after.name
        assert periods.before(after.name) == before.name
        assert timedelta(days=26) < after.interval.end - after.interval.start < timedelta(days=33)


@pytest.mark.parametrize(
    "text",
    ["2026", "2026-00", "2026-13", "26-10", "2026-1", "2026-10-01", "０２６６-10", "", "0000-01", "9999-12", "abcd-ef"],
)
def test_what_is_no_month_is_refused(text):
    with pytest.raises(ValueError, match="is not a month"):
        periods.split_name(text)


def test_no_month_closes_before_its_grace_is_over():
    october = Interval(datetime(2026, 9, 30, 16, tzinfo=UTC), datetime(2026, 10, 31, 16, tzinfo=UTC))
    assert not periods.may_close(october, october.end + timedelta(hours=72) - timedelta(microseconds=1))
    assert periods.may_close(october, october.end + timedelta(hours=72))


ARROWS = {
    (PeriodState.OPEN, PeriodEvent.ENDED): PeriodState.GRACE,
    (PeriodState.GRACE, PeriodEvent.CLOSING_BEGAN): PeriodState.CLOSING,
    (PeriodState.CLOSING, PeriodEvent.CLOSED): PeriodState.CLOSED,
}


@pytest.mark.parametrize("state", PeriodState)
@pytest.mark.parametrize("event", PeriodEvent)
def test_every_pair_of_the_machine(state, event):
    if (state, event) in ARROWS:
        assert periods.advance(state, event) is ARROWS[state, event]
    else:
        with pytest.raises(InvalidTransition):
            periods.advance(state, event)
