"""Daily spans on the wall clock of their zone."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marketplace.domain import windows
from marketplace.domain.windows import Span


def at(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


NIGHT = Span(22 * 60, 7 * 60, "Asia/Shanghai", 500_000)


@pytest.mark.parametrize(
    ("moment", "holds"),
    [
        ("2026-11-02T13:59", False),  # 21:59 in Shanghai
        ("2026-11-02T14:00", True),  # 22:00 belongs to it
        ("2026-11-02T18:00", True),
        ("2026-11-02T22:59", True),  # 06:59
        ("2026-11-02T23:00", False),  # 07:00 does not
    ],
)
def test_a_span_passes_midnight_and_is_half_open(moment, holds):
    assert NIGHT.holds(at(moment)) is holds


def test_clocks_change_with_the_wall():
    berlin = Span(2 * 60, 4 * 60, "Europe/Berlin")
    summer, winter = at("2026-10-24T01:00"), at("2026-10-26T01:00")
    assert berlin.holds(summer)
    assert berlin.holds(winter)
    lengths = {}
    for day in ("2026-10-24", "2026-10-25", "2026-03-29"):
        start = at(f"{day}T00:00") - timedelta(hours=4)
        minutes = [start + timedelta(minutes=m) for m in range(24 * 60)]
        lengths[day] = sum(berlin.holds(m) for m in minutes)
    assert lengths == {"2026-10-24": 120, "2026-10-25": 180, "2026-03-29": 60}


@pytest.mark.parametrize("span", [Span(0, 1440, "UTC"), Span(300, 300, "UTC")])
def test_a_whole_day(span):
    assert all(span.holds(at("2026-11-02T00:00") + timedelta(minutes=m)) for m in range(0, 1440, 7))


def test_no_hours_means_always_open():
    assert windows.is_open((), at("2026-11-02T00:00"))
    assert not windows.is_open((Span(60, 120, "UTC"),), at("2026-11-02T00:00"))


def test_the_first_window_that_holds_sets_the_price():
    dear = Span(0, 1440, "UTC", 2_000_000)
    assert windows.in_force((NIGHT, dear), at("2026-11-02T18:00")) is NIGHT
    assert windows.in_force((NIGHT, dear), at("2026-11-02T10:00")) is dear
    assert windows.in_force((NIGHT,), at("2026-11-02T10:00")) is None
    assert windows.priced(100_001, NIGHT) == 50_001, "half away from zero"
    assert windows.priced(100_001, None) == 100_001


def test_the_next_change():
    assert windows.next_change((NIGHT,), at("2026-11-02T13:30")) == at("2026-11-02T14:00")
    assert windows.next_change((NIGHT,), at("2026-11-02T14:00")) == at("2026-11-02T23:00")
    assert windows.next_change((), at("2026-11-02T14:00")) is None
    assert windows.next_change((Span(0, 0, "UTC"),), at("2026-11-02T14:00")) is None


def test_it_comes_back_from_storage_as_it_was():
    assert windows.stored([NIGHT.wire()]) == (NIGHT,)
    assert NIGHT.wire() == {"from": "22:00", "to": "07:00", "timezone": "Asia/Shanghai", "factor_ppm": 500_000}
    assert windows.stored([{"from": "00:00", "to": "24:00", "timezone": "UTC"}]) == (Span(0, 1440, "UTC"),)


@given(st.integers(0, 1439), st.integers(0, 1440))
def test_storage_keeps_every_span(start, end):
    span = Span(start, end, "UTC", 1)
    assert windows.stored([span.wire()]) == (span,)


def read(value, priced=True):
    return windows.read("windows", value, timezone="UTC", priced=priced)


def test_input_is_read_with_the_zone_of_the_organisation():
    spans, findings = read([{"from": "22:00", "to": "07:00", "factor": "0.5"}])
    assert (spans, findings) == ((Span(1320, 420, "UTC", 500_000),), [])


@pytest.mark.parametrize(
    ("value", "paths"),
    [
        ("22:00-07:00", {"windows"}),
        ([1], {"windows[0]"}),
        ([{"from": "25:00", "to": "07:00", "factor": "1"}], {"windows[0].from"}),
        ([{"from": "22:00", "factor": "1"}], {"windows[0].to"}),
        ([{"from": "22:00", "to": "07:00", "timezone": "Mars/Base", "factor": "1"}], {"windows[0].timezone"}),
        ([{"from": "22:00", "to": "07:00", "factor": "-1"}], {"windows[0].factor"}),
        ([{"from": "22:00", "to": "07:00", "factor": "NaN"}], {"windows[0].factor"}),
        ([{"from": "22:00", "to": "07:00", "factor": "0.1234567"}], {"windows[0].factor"}),
        ([{"from": "22:00", "to": "07:00", "factor_ppm": True}], {"windows[0].factor"}),
        ([{"from": "22:00", "to": "07:00"}], {"windows[0].factor"}),
        ([{"from": "22:00", "to": "07:00", "factor": "1", "colour": 1}], {"windows[0].colour"}),
        ([{"from": "22:00", "to": "07:00", "factor": "1"}] * 25, {"windows"}),
    ],
)
def test_bad_spans_name_their_place(value, paths):
    _spans, findings = read(value)
    assert {finding.path for finding in findings} == paths


def test_hours_take_no_factor():
    _spans, findings = read([{"from": "08:00", "to": "18:00", "factor": "1"}], priced=False)
    assert [finding.code for finding in findings] == ["unknown_field"]
