"""Rating: order-independent, summed before it is rounded, split without loss."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.domain import endings, invoicing, payout, rail, rating, statement, tax, tiers
from billing.domain.grants import Allowance, Hours
from billing.domain.rating import Part
from portal.kit.money import CURRENCIES, Exact, Money
from portal.kit.quantities import US_PER_HOUR

START = datetime(2026, 10, 5, tzinfo=UTC)
STEPS = ((100, 1_000_000), (500, 800_000), (None, 500_000))


def part(**values) -> Part:
    known = {
        "record_id": 1,
        "attempt_ref": "att_1",
        "resource": "card",
        "seq": 1,
        "started_at": START,
        "ended_at": START + timedelta(hours=1),
        "qty_us": US_PER_HOUR,
        "sku": "card:A100:fixed",
        "price_version_ref": "prv_1",
        "unit_price_micro": 4_000_000,
        "currency": "CNY",
        "project_ref": "prj_1",
        "provider_ref": "org_1",
        "job_ref": "job_1",
    }
    return Part(**(known | values))


def shape(lines):
    return [(line.key, line.qty_us, line.amount) for line in lines]


@st.composite
def some_parts(draw):
    found = []
    for number in range(draw(st.integers(0, 12))):
        start = START + timedelta(minutes=draw(st.integers(0, 40_000)))
        found.append(
            part(
                record_id=number,
                attempt_ref=f"att_{draw(st.integers(0, 4))}",
                seq=number,
                started_at=start,
                ended_at=start + timedelta(minutes=draw(st.integers(1, 600))),
                qty_us=draw(st.integers(0, 400 * US_PER_HOUR)),
                sku=draw(st.sampled_from(["card:A100:fixed", "core:-:spot"])),
                project_ref=draw(st.sampled_from(["prj_1", "prj_2"])),
                provider_ref=draw(st.sampled_from(["org_1", "org_2"])),
                unit_price_micro=draw(st.integers(0, 10_000_000)),
                tiers=draw(st.sampled_from([(), STEPS])),
                discount_ppm=draw(st.sampled_from([0, 125_000, 1_000_000])),
                unbilled_reason=draw(st.sampled_from(["", "", "node_lost"])),
                green_ratio_ppm=draw(st.sampled_from([None, 0, 615_000, 1_000_000])),
            )
        )
    return found


@given(some_parts(), st.randoms(use_true_random=False))
def test_r1_the_order_of_arrival_does_not_matter(parts, chance):
    shuffled = list(parts)
    chance.shuffle(shuffled)
    assert shape(rating.lines(shuffled)) == shape(rating.lines(parts))


@given(some_parts())
def test_r2_rounding_moves_a_total_by_at_most_half_a_cent_a_line(parts):
    lines = rating.lines(parts)
    exact = sum((line.exact.value for line in lines), Fraction(0))
    printed = sum(line.amount.minor for line in lines)
    assert abs(exact * 100 - printed) <= Fraction(len(lines), 2)
    assert sum(line.qty_us for line in lines) == sum(each.qty_us for each in parts), (
        "every microsecond is in exactly one line"
    )
    assert all(line.amount.minor == 0 for line in lines if line.key.unbilled_reason)


@given(some_parts(), st.integers(0, 1_000_000), st.sampled_from([0, 60_000, 130_000]), st.integers(0, 10_000))
def test_r3_r5_printed_lines_add_up_and_every_line_is_fee_plus_share(parts, fee_ppm, tax_ppm, credit):
    lines = rating.lines(parts)
    net = [invoicing.NetLine(line.key.provider_ref, line.amount.minor, tax_ppm) for line in lines]
    totals = invoicing.add_up(net, fee_ppm=fee_ppm, credit_minor=credit)
    assert totals.subtotal_minor == sum(line.amount.minor for line in lines)
    assert totals.subtotal_minor + totals.tax_minor == totals.total_minor - totals.to_credit_minor
    assert totals.total_minor - totals.credit_used_minor == totals.payable_minor >= 0
    assert all(
        share.fee_minor + share.seller_minor == line.amount_minor
        for share, line in zip(totals.shares, net, strict=True)
    )
    assert totals.fee_minor == sum(share.fee_minor for share in totals.shares)


@given(some_parts(), st.integers(0, 500 * US_PER_HOUR))
def test_a_graduated_amount_never_falls_when_usage_grows(parts, position):
    for each in parts:
        some = [replace(each, tiers=STEPS, discount_ppm=0, unbilled_reason="")]
        more = [replace(some[0], qty_us=some[0].qty_us + US_PER_HOUR)]
        low = sum((line.exact.value for line in rating.lines(some, positions={each.sku: position})), Fraction(0))
        high = sum((line.exact.value for line in rating.lines(more, positions={each.sku: position})), Fraction(0))
        assert low <= high


@given(st.lists(st.integers(0, 10**13), min_size=1, max_size=30), st.integers(0, 10**7))
def test_estimates_telescope(steps, price):
    reached, total = 0, 0
    for step in steps:
        before = rating.estimate_micro(reached, price, "CNY")
        reached += step
        total += rating.estimate_micro(reached, price, "CNY") - before
    assert total == rating.estimate_micro(reached, price, "CNY")


@given(st.integers(-(10**9), 10**9), st.lists(st.integers(0, 40), max_size=12), st.sampled_from(sorted(CURRENCIES)))
def test_proration_adds_up(price, days, code):
    whole = max(1, sum(days))
    parts = rating.prorate(Money(price, code), days, whole)
    if sum(days):
        assert sum(each.minor for each in parts) == price
    assert len(parts) == len(days)


@given(st.integers(0, 10**15), st.integers(0, 10**9), st.sampled_from(sorted(CURRENCIES)))
def test_r6_minor_units_are_exact_for_every_exponent(quantity, price, code):
    amount = rating.exact("core", quantity, price, code).to_money()
    exact = Fraction(quantity * price, US_PER_HOUR * 10**6) * 10 ** CURRENCIES[code].exponent
    assert abs(amount.minor - exact) <= Fraction(1, 2)
    assert Money.parse(amount.text(), code) == amount


def test_bytes_are_priced_per_decimal_gigabyte_and_discounted():
    line = rating.exact("network_byte", 2_500_000_000, 80_000, "CNY")
    assert line == Exact(Fraction(2, 10), "CNY")
    assert rating.exact("network_byte", 2_500_000_000, 80_000, "CNY", 500_000) == Exact(Fraction(1, 10), "CNY")


def test_a_discount_is_taken_before_the_line_is_rounded():
    (line,) = rating.lines([part(discount_ppm=125_000, qty_us=US_PER_HOUR // 3)])
    assert (line.list_amount.text(), line.amount.text()) == ("1.33", "1.17")


def test_the_green_share_is_weighted_by_quantity_and_unknown_stays_unknown():
    known = part(green_ratio_ppm=800_000, qty_us=3 * US_PER_HOUR)
    other = part(record_id=2, seq=2, green_ratio_ppm=400_000)
    unknown = part(record_id=3, seq=3, green_ratio_ppm=None, qty_us=4 * US_PER_HOUR)
    (line,) = rating.lines([known, other, unknown])
    assert (line.green_ratio_ppm, line.green_known_ppm) == (700_000, 500_000)
    (line,) = rating.lines([unknown])
    assert (line.green_ratio_ppm, line.green_known_ppm) == (None, 0)


def test_unbilled_time_has_a_line_per_attempt_and_takes_no_place_in_the_tiers():
    lost = part(
        attempt_ref="att_0", qty_us=90 * US_PER_HOUR, tiers=STEPS, unbilled_reason="node_lost", node_ref="nod_1"
    )
    done = part(record_id=2, seq=2, qty_us=100 * US_PER_HOUR, tiers=STEPS, ended_at=START + timedelta(days=5))
    lines = rating.lines([lost, done])
    assert [(line.key.tier, line.amount.text(), line.key.node_ref, line.key.attempt_ref) for line in lines] == [
        (1, "100.00", "", ""),
        (0, "0.00", "nod_1", "att_0"),
    ]


def test_the_place_in_the_tiers_goes_across_providers_and_slices_keep_their_records_price():
    cheap = part(qty_us=80 * US_PER_HOUR, tiers=STEPS, provider_ref="org_1")
    dear = part(
        record_id=2, seq=2, qty_us=40 * US_PER_HOUR, tiers=((100, 2_000_000), (None, 1_500_000)), provider_ref="org_2",
        price_version_ref="prv_2", ended_at=START + timedelta(days=9),
    )  # fmt: skip
    found = {
        (line.key.provider_ref, line.key.tier): (line.qty_us // US_PER_HOUR, line.key.price_micro)
        for line in rating.lines([cheap, dear])
    }
    assert found == {("org_1", 1): (80, 1_000_000), ("org_2", 1): (20, 2_000_000), ("org_2", 2): (20, 1_500_000)}


def test_a_negative_line_is_what_was_billed_taken_back():
    back = part(unit_price_micro=800_000, tiers=STEPS).changed(sign=-1, fixed_tier=2)
    (line,) = rating.lines([back])
    assert (line.qty_us, line.amount.text(), line.key.tier, line.green_known_ppm) == (-US_PER_HOUR, "-0.80", 2, 0)


def test_nothing_used_makes_no_line_and_nothing_lost_neither():
    assert rating.lines([part(qty_us=0)]) == []
    assert rating.lines([part(qty_us=0, unbilled_reason="node_lost")]) == []


def test_the_share_of_a_job_in_a_line():
    (line,) = rating.lines([part(), part(record_id=2, seq=2, job_ref="job_2", qty_us=5)])
    share = rating.only(line, job_ref="job_2")
    assert share is not None
    assert (share.qty_us, share.key) == (5, line.key)
    assert rating.only(line, job_ref="job_3") is None


def test_a_line_takes_its_names_from_its_latest_record():
    old = part(project_name="Old", ended_at=START + timedelta(hours=2))
    new = part(
        record_id=2,
        seq=2,
        project_name="New",
        started_at=START - timedelta(hours=1),
        ended_at=START + timedelta(hours=3),
    )
    older = part(record_id=3, seq=3, project_name="Older")
    (line,) = rating.lines([new, old, older])
    assert (line.named.project_name, line.first, line.last) == ("New", new.started_at, new.ended_at)
    late = rating.Line(line.key, new, new.started_at, new.ended_at)
    late.add(older, 1)
    assert late.named is new


# --- tiers -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rows",
    [
        [(10, 1)],
        [(None, 1), (None, 2)],
        [(10, 1), (10, 2), (None, 3)],
        [(0, 1), (None, 2)],
        [(10, -1), (None, 2)],
        [(10, 1), (None, 10**12 + 1)],
    ],
)
def test_tiers_that_do_not_rise_to_an_open_end_are_refused(rows):
    with pytest.raises(ValueError):
        tiers.parse(rows)


def test_tiers_are_read_from_maps_and_pairs():
    assert tiers.parse([{"up_to_h": 1, "price_micro": 2}, [None, 1]]) == ((1, 2), (None, 1))
    assert tiers.parse([]) == ()
    assert tiers.slices((), 7, position_us=9, qty_us=5) == [tiers.Slice(0, 5, 7)]
    assert tiers.slices((), 7, position_us=9, qty_us=0) == []


# --- fee, tax, rail ----------------------------------------------------------------------------------------------------

nets = st.lists(st.tuples(st.sampled_from(["org_1", "org_2", "org_3"]), st.integers(-(10**6), 10**6)), max_size=20)


@given(nets, st.integers(0, 1_000_000))
def test_p7_one_fee_per_provider_laid_over_its_lines(lines, fee_ppm):
    found = payout.shares(lines, fee_ppm)
    for provider, below in {(name, net < 0) for name, net in lines if net}:
        group = [i for i, (name, net) in enumerate(lines) if name == provider and net and (net < 0) == below]
        exact = Fraction(sum(lines[i][1] for i in group) * fee_ppm, 10**6)
        assert abs(sum(found[i].fee_minor for i in group) - exact) <= Fraction(1, 2)
        for i in group:
            assert abs(found[i].fee_minor - Fraction(lines[i][1] * fee_ppm, 10**6)) <= 1 + Fraction(1, 2)


def test_rates_that_are_none_are_refused():
    for wrong in (-1, 1_000_001):
        with pytest.raises(ValueError, match="fee"):
            payout.shares([], wrong)
    with pytest.raises(ValueError, match="tax"):
        tax.of_lines([(1, -1)])


def test_tax_is_taken_once_per_rate():
    assert tax.of_lines([(9, 60_000)] * 3 + [(100, 0), (50, 130_000)]) == [
        tax.Tax(60_000, 27, 2),
        tax.Tax(130_000, 50, 7),
    ]


def test_a_price_that_includes_tax_is_taken_apart():
    assert tax.included(10_000, 60_000) == (9434, 566)


def test_the_rail_takes_whole_steps_from_its_minimum_on():
    assert rail.chargeable(Money(49, "USD")) == Money(0, "USD")
    assert rail.chargeable(Money(50, "USD")) == Money(50, "USD")
    assert rail.chargeable(Money(1239, "BHD")) == Money(1230, "BHD")
    assert rail.chargeable(Money(-100, "USD")) == Money(0, "USD")


# --- endings -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("reason", "row"), endings.REASONS.items())
def test_every_reason_says_whose_fault_and_whether_it_is_billed(reason, row):
    fault, billed = row
    known = {"attempt_ref": "att_1", "reason": reason, "message": "", "ended_at": START}
    ending = endings.decide(fault=fault, billed=billed, **known)
    assert (ending.fault, ending.billed) == row
    assert billed == (fault in {endings.Fault.TENANT, endings.Fault.NONE})
    with pytest.raises(ValueError, match="billed is"):
        endings.decide(fault=fault, billed=not billed, **known)


def test_a_reason_that_is_none_is_refused():
    with pytest.raises(ValueError, match="not a reason"):
        endings.decide(attempt_ref="a", reason="bored", fault="none", billed=True, message="", ended_at=START)


# --- print -------------------------------------------------------------------------------------------------------------


def test_a_line_is_printed_the_same_everywhere():
    (line,) = rating.lines([part(hardware_model="A100", discount_ppm=50_000, green_ratio_ppm=615_000, virtual=True)])
    printed = statement.printed(line, position=3, tax_rate_ppm=60_000)
    assert (printed.unit, printed.quantity, printed.unit_price, printed.label) == ("card-hour", "1.0000", "4.00", "")
    assert printed.description == "card A100, fixed, virtual"
    wire = printed.wire()
    assert (wire["n"], wire["amount"], wire["list_amount"], wire["discount"], wire["green_ratio"]) == (
        3,
        "3.80",
        "4.00",
        "0.05",
        "0.615",
    )
    assert (wire["tier"], wire["correction_of"], wire["hardware_model"]) == (None, None, "A100")
    assert wire["first_at"] == "2026-10-05T00:00:00Z"


def test_a_correction_and_a_line_of_nothing_say_so():
    (line,) = rating.lines([part(sku="odd", correction_of="2026-10", unbilled_reason="node_lost", node_ref="nod_1")])
    printed = statement.printed(line, position=1, tax_rate_ppm=0)
    assert printed.description == "card, Correction Oct, node_lost"
    assert printed.wire()["green_ratio"] is None
    assert statement.correction_label("2026-01") == "Correction Jan"


def test_quantities_and_rates_as_text():
    assert statement.quantity_text("network_byte", 2_500_000_000, 4) == "2.5000"
    assert statement.quantity_text("card", -1, 4) == "0.0000"
    assert statement.quantity_text("card", -US_PER_HOUR, 4) == "-1.0000"
    assert [statement.percent_text(ppm) for ppm in (60_000, 62_500, 0, 1_000_000)] == ["6", "6.25", "0", "100"]
    assert statement.canonical({"b": "绿", "a": 1}) == '{"a":1,"b":"绿"}'.encode()


def test_granted_hours_cover_their_part_at_0_and_take_no_place_in_tiers():
    grant = Hours(
        ref="hrg_1", giver_ref="org_1", resource="card", left_us=3 * US_PER_HOUR // 2, priority=50, starts_at=START, expires_at=None,
        given_at=START,
    )  # fmt: skip
    steps = ((1, 4_000_000), (None, 2_000_000))
    parts = [
        part(record_id=n, seq=n, ended_at=START + timedelta(hours=n), tiers=steps, **({"provider_ref": "org_2"} if n == 3 else {}))
        for n in (1, 2, 3)
    ]  # fmt: skip
    for order in (parts, parts[::-1]):
        lines = rating.lines(order, allowance=Allowance([grant]))
        assert [(line.key.grant_ref, line.key.tier, line.qty_us, line.amount.minor) for line in lines] == [
            ("hrg_1", 0, 3 * US_PER_HOUR // 2, 0),
            ("", 1, US_PER_HOUR // 2, 200),
            ("", 1, US_PER_HOUR // 2, 200),
            ("", 2, US_PER_HOUR // 2, 100),
        ]
        assert statement.printed(lines[0], position=1, tax_rate_ppm=0).description == "card, fixed, granted hours"
    zero = part(unbilled_reason="node_lost")
    (line,) = rating.lines([zero], allowance=Allowance([grant]))
    assert (line.key.grant_ref, line.key.unbilled_reason) == ("", "node_lost")
