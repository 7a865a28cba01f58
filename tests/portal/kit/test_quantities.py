"""Resource-microseconds, printed as hours."""

from fractions import Fraction

import pytest

from portal.kit.quantities import hours, hours_text, qty_us


def test_floor_once_on_the_cumulative_counter() -> None:
    assert [qty_us(700, us) for us in (1_000_003, 2_000_005, 3_000_009)] == [700_002, 1_400_003, 2_100_006]


def test_hours() -> None:
    assert hours(8_400_000_000) == Fraction(7, 3)
    assert hours_text(8_400_000_000) == "2.33"
    assert hours_text(-1_800_000_000, 1) == "-0.5"
    assert hours_text(5_400_000_000, 0) == "2"
    assert hours_text(0) == "0.00"


@pytest.mark.parametrize(("count", "time"), [(-1, 0), (0, -1)])
def test_nothing_negative(count: int, time: int) -> None:
    with pytest.raises(ValueError, match="not negative"):
        qty_us(count, time)
