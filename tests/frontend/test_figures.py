"""Figures as people read them, in both languages."""

from datetime import timedelta
from fractions import Fraction

import pytest
from django.utils import translation

from frontend.presenters import figures, money_lines
from portal.kit.money import Exact, Money


@pytest.mark.parametrize(
    ("language", "amount", "shown"),
    [
        ("en", Money(128407, "USD"), "US$1,284.07"),
        ("zh-hans", Money(128407, "USD"), "US$1,284.07"),
        ("en", Money(128407, "CNY"), "CN¥1,284.07"),
        ("zh-hans", Money(128407, "CNY"), "¥1,284.07"),
        ("en", Money(1235, "JPY"), "JP¥1,235"),
        ("en", Money(1234567, "KWD"), "KWD\N{NO-BREAK SPACE}1,234.567"),
        ("en", Money(-5, "EUR"), "-€0.05"),
        ("en", Exact(Fraction(1, 200), "EUR"), "€0.01"),
        ("en", None, "–"),
    ],
)
def test_money(language: str, amount: Money | Exact | None, shown: str) -> None:
    with translation.override(language):
        assert figures.money(amount) == shown


@pytest.mark.parametrize(
    ("micro", "shown"),
    [(3_500, "US$0.0035"), (4_000_000, "US$4.00"), (0, "US$0.00"), (1_234_567_890_000, "US$1,234,567.89")],
)
def test_a_unit_price_has_all_its_places(micro: int, shown: str) -> None:
    assert figures.unit_price(micro, "USD") == shown


def test_an_estimate_never_shows_zero_for_something() -> None:
    assert figures.estimate(2_917, "USD") == "US$0.002917"
    assert figures.estimate(17_000, "USD") == "US$0.02"
    assert figures.estimate(0, "USD") == "US$0.00"
    assert figures.rounded_up(2_917, "USD") == "US$0.01"
    assert figures.rounded_up(2_000_000, "JPY") == "JP¥2"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0 s"),
        (45, "45 s"),
        (200, "3 min 20 s"),
        (7_500, "2 h 5 min"),
        (90_000, "1 day 1 h"),
        (180_000, "2 days 2 h"),
    ],
)
def test_duration_keeps_two_parts(seconds: int, shown: str) -> None:
    with translation.override("en"):
        assert figures.duration(timedelta(seconds=seconds)) == shown
        assert figures.duration(seconds) == shown


def test_shares_sizes_hours() -> None:
    assert figures.percent(None) == "–"
    assert figures.percent(714_285) == "71\N{NO-BREAK SPACE}%"
    assert figures.size(50_000_000_000) == "46.6\N{NO-BREAK SPACE}GiB"
    assert figures.size(512) == "512\N{NO-BREAK SPACE}B"
    assert figures.hours(3_600_000_000) == "1.0000"
    assert figures.cores(500) == "0.5"
    assert figures.cores(8_000) == "8"
    assert figures.ratio(1_120) == "1.12"


def test_months_have_names() -> None:
    with translation.override("en"):
        assert money_lines.month_text("2026-05") == "May 2026"
