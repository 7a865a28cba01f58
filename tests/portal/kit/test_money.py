"""Money: three types, one rounding, no float, no mixing."""

import itertools
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.kit.money import (
    CURRENCIES,
    MAX_UNIT_PRICE_MICRO,
    Exact,
    Money,
    UnitPrice,
    currency,
    half_up,
    micro_text,
    parse_micro,
    rate,
    rate_bytes,
    split,
)

codes = st.sampled_from(sorted(CURRENCIES))
whole = st.integers(-(10**18), 10**18)


@given(st.fractions())
def test_half_up_is_the_nearest_and_symmetric(value: Fraction) -> None:
    rounded = half_up(value)
    assert abs(rounded - value) <= Fraction(1, 2)
    assert half_up(-value) == -rounded


def test_half_goes_away_from_zero() -> None:
    assert [half_up(Fraction(n, 2)) for n in (1, -1, 3, -3, 4)] == [1, -1, 2, -2, 2]


@given(whole, codes)
def test_money_text_and_back(minor: int, code: str) -> None:
    money = Money(minor, code)
    if abs(minor) < 10**14:
        assert Money.parse(money.text(), code) == money
    assert Decimal(money.text()).scaleb(currency(code).exponent) == minor


def test_money_prints_the_currencys_places() -> None:
    assert Money(-5, "CNY").text() == "-0.05"
    assert Money(1235, "JPY").text() == "1235"
    assert Money(1230, "KWD").text() == "1.230"
    assert Money(1234, "USD").wire() == {"amount": "12.34", "currency": "USD"}


@pytest.mark.parametrize("make", [lambda: Money(1.5, "USD"), lambda: UnitPrice(1.0, "USD"), lambda: Money(True, "USD")])
def test_floats_and_booleans_are_refused(make) -> None:
    with pytest.raises(TypeError, match="whole numbers"):
        make()


def test_exact_takes_only_a_fraction() -> None:
    with pytest.raises(TypeError, match="Fraction"):
        Exact(0.5, "USD")


def test_currencies_never_mix() -> None:
    for act in (
        lambda: Money(1, "USD") + Money(1, "CNY"),
        lambda: Money(1, "USD") - Money(1, "CNY"),
        lambda: Money(1, "USD") < Money(1, "CNY"),
        lambda: Money(1, "USD") <= Money(1, "CNY"),
        lambda: Exact(Fraction(1), "USD") + Exact(Fraction(1), "CNY"),
    ):
        with pytest.raises(ValueError, match="cannot be added or compared"):
            act()
    with pytest.raises(ValueError, match="not one of"):
        Money(1, "DOGE")


def test_arithmetic_of_one_currency() -> None:
    assert Money(1, "USD") + Money(2, "USD") - Money(5, "USD") == -Money(2, "USD")
    assert Money(1, "USD") < Money(2, "USD")
    assert Money(2, "USD") <= Money(2, "USD")
    assert (Exact(Fraction(1, 3), "USD") + -Exact(Fraction(1, 3), "USD")).to_money() == Money(0, "USD")


@pytest.mark.parametrize("text", ["-1", "1000000000000", "NaN", "0.1234567", "Infinity", "four", "1e20"])
def test_absurd_prices_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"price|six|amount|number|large"):
        UnitPrice.parse(text, "USD")


def test_prices_print_without_needless_zeros() -> None:
    assert UnitPrice.parse("0.0035", "USD").text() == "0.0035"
    assert UnitPrice(4_000_000, "USD").text() == "4.00"
    assert micro_text(-1) == "-0.000001"
    assert UnitPrice(MAX_UNIT_PRICE_MICRO, "USD").text() == "1000000.00"


def test_amounts_are_read_from_text_only() -> None:
    with pytest.raises(TypeError, match="text"):
        parse_micro(0.1)
    with pytest.raises(ValueError, match="2 decimal places"):
        Money.parse("0.001", "CNY")


def test_rating_is_exact_where_int64_and_floats_are_not() -> None:
    month = rate(2_678_400_000_000, UnitPrice(4_000_000, "CNY"))
    assert month.to_money() == Money(297_600, "CNY")
    assert rate(17_999_000, UnitPrice(1_000_000, "CNY")).micro() == 5000
    assert rate(17_999_000, UnitPrice(1_000_000, "CNY")).to_money() == Money(0, "CNY")
    assert rate(-3_600_000_000, UnitPrice(1_000_000, "CNY"), discount_ppm=250_000).to_money() == Money(-75, "CNY")
    assert rate_bytes(50 * 10**9, UnitPrice(20_000, "USD")).to_money() == Money(100, "USD")


@pytest.mark.parametrize("discount", [-1, 1_000_001])
def test_a_discount_is_a_share(discount: int) -> None:
    with pytest.raises(ValueError, match="discount"):
        rate(1, UnitPrice(1, "CNY"), discount)


@given(whole, st.lists(st.integers(0, 10**9), min_size=1, max_size=20).filter(any))
def test_a_split_loses_no_cent(total: int, weights: list[int]) -> None:
    parts = split(total, weights)
    assert sum(parts) == total
    for part, weight in zip(parts, weights, strict=True):
        assert abs(part - Fraction(total * weight, sum(weights))) < 1
    ranked = sorted(zip(weights, (abs(p) for p in parts), strict=True))
    assert all(a[1] <= b[1] for a, b in itertools.pairwise(ranked) if a[0] < b[0])


@pytest.mark.parametrize("weights", [[0, 0], [1, -1, 3], []])
def test_a_split_needs_weights(weights: list[int]) -> None:
    with pytest.raises(ValueError, match=r"weights|min"):
        split(1, weights)


@pytest.mark.parametrize(
    "text", ["1e999999999", "-1e999999999", "1e-999999999", "1_000", "\uff11", "NaN", "Infinity", "", ".", "1e", "0x10", "9" * 5_000]
)  # fmt: skip
def test_what_decimal_reads_beyond_numbers_is_no_amount(text: str) -> None:
    """1e999999999 overflowed at the first product, and 1e-999999999 became 0 there."""
    with pytest.raises(ValueError):
        parse_micro(text)
    with pytest.raises(ValueError):
        Money.parse(text, "CNY")


@pytest.mark.parametrize(("text", "micro"), [("1e-6", 1), ("+.5", 500_000), ("2.", 2_000_000), ("1E3", 10**9)])
def test_numbers_as_people_write_them(text: str, micro: int) -> None:
    assert parse_micro(text) == micro
