"""Terms of an offer: what is read, and every fault at once (P37)."""

from datetime import UTC, datetime

import pytest

from marketplace.domain import green, pricing
from marketplace.domain.pricing import Price, read_terms
from portal.kit.errors import InvalidInput

NOW = datetime(2026, 11, 2, 8, tzinfo=UTC)


def read(data, complete=True):
    return read_terms(data, currency="CNY", timezone="Asia/Shanghai", now=NOW, complete=complete)


def refused(data, complete=True):
    with pytest.raises(InvalidInput) as error:
        read(data, complete)
    return {finding.path: finding.code for finding in error.value.errors}


def test_prices_and_a_factor_for_interruptible_ones():
    terms = read({"prices": {"core": "0.10", "card": 2}, "spot_factor": "0.6", "spot_prices": {"card": "1"}})
    assert terms.prices == {
        ("core", "fixed"): Price(100_000),
        ("card", "fixed"): Price(2_000_000),
        ("core", "spot"): Price(60_000),
        ("card", "spot"): Price(1_000_000),
    }
    assert terms.currency == "CNY"


def test_what_is_not_said_is_not_there():
    terms = read({}, complete=False)
    assert terms.prices == {}
    assert (terms.hours, terms.windows, terms.green_given, terms.until_given, terms.refuse_past_due) == (
        None, None, False, False, None
    )  # fmt: skip


def test_the_rest_of_the_terms():
    terms = read(
        {
            "prices": {"core": "0.1"},
            "hours": [{"from": "22:00", "to": "07:00"}],
            "windows": [{"from": "00:00", "to": "24:00", "factor": "0.5"}],
            "green_ratio": "0.8",
            "until": "2027-01-31T00:00:00Z",
            "refuse_past_due": False,
            "currency": "USD",
        }
    )
    assert terms.hours[0].timezone == "Asia/Shanghai"
    assert terms.windows[0].factor_ppm == 500_000
    assert (terms.green_ratio_ppm, terms.currency, terms.refuse_past_due) == (800_000, "USD", False)
    assert terms.until == datetime(2027, 1, 31, tzinfo=UTC)
    assert read({"prices": {"core": "0"}, "until": terms.until}).until == terms.until


@pytest.mark.parametrize(
    "price",
    ["-1", "1e12", "1000000000000", "NaN", "Infinity", "0.1234567", "", "cheap", 0.1, True, None, [], "1000000.000001"],
)
def test_p37_absurd_prices_are_refused(price):
    assert refused({"prices": {"core": price}}) == {"prices.core": "bad_price"}


@pytest.mark.parametrize(
    ("data", "faults"),
    [
        ([], {"terms": "not_an_object"}),
        ({}, {"prices.core": "missing"}),
        ({"prices": {"card": "1"}}, {"prices.core": "missing"}),
        ({"prices": "0.1"}, {"prices": "not_an_object"}),
        ({"prices": {"core": "1", "gpu": "1"}}, {"prices.gpu": "unknown_field"}),
        ({"prices": {"core": "1"}, "colour": 1}, {"colour": "unknown_field"}),
        ({"prices": {"core": "1"}, "currency": "XAU"}, {"currency": "unknown_currency"}),
        ({"prices": {"core": "1"}, "spot_factor": "1.5"}, {"spot_factor": "bad_factor"}),
        ({"prices": {"core": "1"}, "spot_factor": "x"}, {"spot_factor": "bad_factor"}),
        ({"prices": {"core": "1"}, "green_ratio": "1.1"}, {"green_ratio": "out_of_range"}),
        ({"prices": {"core": "1"}, "green_ratio": "-0.1"}, {"green_ratio": "out_of_range"}),
        ({"prices": {"core": "1"}, "until": "2020-01-01T00:00:00Z"}, {"until": "bad_time"}),
        ({"prices": {"core": "1"}, "until": "2030-01-01"}, {"until": "bad_time"}),
        ({"prices": {"core": "1"}, "until": "soon"}, {"until": "bad_time"}),
        ({"prices": {"core": "1"}, "until": "9999-12-31T23:59:59-14:00"}, {"until": "bad_time"}),
        ({"prices": {"core": "1"}, "until": "0001-01-01T00:00:00+14:00"}, {"until": "bad_time"}),
        ({"prices": {"core": "1"}, "green_ratio": "1e999999999"}, {"green_ratio": "out_of_range"}),
        ({"prices": {"core": "1"}, "refuse_past_due": "yes"}, {"refuse_past_due": "not_a_boolean"}),
        ({"prices": {"core": "1"}, "hours": [{"from": "x", "to": "07:00"}]}, {"hours[0].from": "bad_time"}),
        ({"prices": {"core": "1"}, "tiers": []}, {"tiers": "not_an_object"}),
        ({"prices": {"core": "1"}, "tiers": {"card": []}}, {"tiers.card": "no_price"}),
        ({"prices": {"core": "1"}, "tiers": {"core": []}}, {"tiers.core": "bad_tiers"}),
        ({"prices": {"core": "1"}, "tiers": {"core": [{"up_to_h": 5, "price": "1"}]}}, {"tiers.core": "bad_tiers"}),
        ({"prices": {"core": "1"}, "tiers": {"core": [{"price": "1"}]}}, {"tiers.core": "bad_tiers"}),
        (
            {"prices": {"core": "1"}, "tiers": {"core": [{"up_to_h": 5, "price": "1"}, {"up_to_h": 5, "price": "1"}, {"up_to_h": None, "price": "1"}]}},
            {"tiers.core": "bad_tiers"},
        ),
        ({"prices": {"core": "-1"}, "green_ratio": 2, "x": 1}, {"prices.core": "bad_price", "green_ratio": "out_of_range", "x": "unknown_field"}),
    ],
)  # fmt: skip
def test_every_fault_is_named(data, faults):
    assert refused(data) == faults


def test_graduated_prices():
    rows = [{"up_to_h": 100, "price": "0.10"}, {"up_to_h": None, "price": "0.08"}]
    price = read({"prices": {"core": "0.10"}, "tiers": {"core": rows}}).prices["core", "fixed"]
    assert price.tiers == ((100, 100_000), (None, 80_000))
    assert pricing.tiers_of(pricing.tiers_json(price.tiers)) == price.tiers
    assert price.times(500_000) == Price(50_000, ((100, 50_000), (None, 40_000)))


@pytest.mark.parametrize(
    ("resource", "model", "rental", "text"),
    [
        ("core", "", "fixed", "core:-:fixed"),
        ("card", "A100-80GB", "spot", "card:A100-80GB:spot"),
        ("card", "odd:name", "fixed", "card:odd:name:fixed"),
    ],
)
def test_skus(resource, model, rental, text):
    assert pricing.sku(resource, model, rental) == text
    assert pricing.parse_sku(text) == (resource, model or "-", rental)


@pytest.mark.parametrize("text", ["", "core", "disk:-:fixed", "core:-:free", "core::fixed"])
def test_what_is_no_sku(text):
    with pytest.raises(ValueError, match="no sku"):
        pricing.parse_sku(text)


def test_green_ratio_declared_before_published_and_unknown_stays_unknown():
    assert green.effective(800_000, 100_000) == (800_000, green.Origin.DECLARED)
    assert green.effective(0, 100_000) == (0, green.Origin.DECLARED)
    assert green.effective(None, 100_000) == (100_000, green.Origin.REGION)
    assert green.effective(None, None) == (None, green.Origin.UNKNOWN)
