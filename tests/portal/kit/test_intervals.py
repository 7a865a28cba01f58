"""Intervals are half-open and aware."""

import itertools
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.kit.intervals import Interval

T0 = datetime(2026, 10, 1, tzinfo=UTC)


def at(seconds: int) -> datetime:
    return T0 + timedelta(seconds=seconds)


def test_the_end_does_not_belong() -> None:
    hour = Interval(at(0), at(3600))
    assert at(0) in hour
    assert at(3599) in hour
    assert at(3600) not in hour
    assert hour.microseconds == 3_600_000_000


def test_naive_and_backward_intervals_are_refused() -> None:
    with pytest.raises(ValueError, match="aware"):
        Interval(datetime(2026, 1, 1), at(0))
    with pytest.raises(ValueError, match="before it starts"):
        Interval(at(1), at(0))


def test_clip() -> None:
    assert Interval(at(0), at(10)).clip(Interval(at(5), at(20))) == Interval(at(5), at(10))
    assert Interval(at(0), at(5)).clip(Interval(at(5), at(20))) is None


@given(st.integers(0, 100), st.integers(0, 100), st.lists(st.integers(-10, 210)))
def test_cut_tiles_the_interval(start: int, length: int, marks: list[int]) -> None:
    whole = Interval(at(start), at(start + length))
    parts = whole.cut(at(m) for m in marks)
    assert parts[0].start == whole.start
    assert parts[-1].end == whole.end
    assert sum(p.microseconds for p in parts) == whole.microseconds
    assert all(a.end == b.start for a, b in itertools.pairwise(parts))
