"""Metering: what becomes of a fact, and cuts that lose nothing."""

import hashlib
import itertools
import json
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta, timezone
from types import MappingProxyType
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.domain import metering
from billing.domain.metering import Known, Neighbour, Oddity, RecordState, Resource, UsageFact
from portal.kit.intervals import Interval

START = datetime(2026, 10, 5, 8, 30, tzinfo=UTC)
NOW = START + timedelta(hours=1)


def fact(**values) -> UsageFact:
    known = {
        "attempt_ref": "att_1",
        "fence": 3,
        "resource": "card",
        "seq": 5,
        "started_at": START,
        "ended_at": START + timedelta(minutes=1),
        "count_milli": 1000,
        "qty_us": 60_000_000,
        "sku": "card:A100:fixed",
        "price_version_ref": "prv_1",
        "unit_price_micro": 4_000_000,
        "currency": "CNY",
        "organisation_id": 1,
    }
    return UsageFact(**(known | values))


NOTHING = Known()


def judge(known: Known = NOTHING, now: datetime = NOW, **values):
    return metering.judge(fact(**values), known, now=now)


def test_a_sane_fact_is_kept_as_it_is():
    found = judge()
    assert (found.state, found.oddity) == (RecordState.OK, Oddity.NONE)
    assert (found.started_at, found.ended_at, found.qty_us) == (START, START + timedelta(minutes=1), 60_000_000)


@pytest.mark.parametrize(
    ("values", "oddity"),
    [
        ({"resource": "gold"}, Oddity.UNKNOWN_RESOURCE),
        ({"currency": "ISK"}, Oddity.UNKNOWN_CURRENCY),
        ({"currency": "rmb"}, Oddity.UNKNOWN_CURRENCY),
        ({"unit_price_micro": -1}, Oddity.BAD_PRICE),
        ({"unit_price_micro": 10**12 + 1}, Oddity.BAD_PRICE),
        ({"tiers": ((10, 5), (None, -1))}, Oddity.BAD_PRICE),
        ({"discount_ppm": 1_000_001}, Oddity.BAD_PRICE),
        ({"qty_us": -1}, Oddity.BAD_QUANTITY),
        ({"count_milli": -1}, Oddity.BAD_QUANTITY),
        ({"ended_at": START - timedelta(microseconds=1)}, Oddity.BACKWARDS),
        ({"ended_at": NOW + timedelta(minutes=5, microseconds=1)}, Oddity.IN_THE_FUTURE),
        (
            {"started_at": NOW - timedelta(days=91), "ended_at": NOW - timedelta(days=90, microseconds=1)},
            Oddity.TOO_OLD,
        ),
    ],
)
def test_what_cannot_be_believed_is_quarantined_and_kept_as_sent(values, oddity):
    found = judge(**values)
    assert (found.state, found.oddity) == (RecordState.QUARANTINED, oddity)
    assert found.qty_us == values.get("qty_us", 60_000_000)


def test_an_unknown_tenant_is_quarantined():
    assert judge(Known(tenant=False)).oddity is Oddity.UNKNOWN_TENANT


def test_an_old_fence_a_shut_attempt_and_a_neighbour_of_another_fence_are_stale():
    elsewhere = Neighbour(4, START - timedelta(minutes=1), START, fence=4)
    for known in (Known(stale=True), Known(closed=True), Known(neighbours=(elsewhere,))):
        assert judge(known).state is RecordState.REJECTED_STALE


def test_what_ends_after_its_attempt_is_clipped_and_what_begins_after_it_is_stale():
    found = judge(Known(ended_at=START + timedelta(seconds=20)))
    assert (found.oddity, found.ended_at, found.qty_us) == (
        Oddity.PAST_THE_END,
        START + timedelta(seconds=20),
        20_000_000,
    )
    assert judge(Known(ended_at=START - timedelta(seconds=1))).state is RecordState.REJECTED_STALE
    assert judge(Known(ended_at=START + timedelta(hours=1))).oddity is Oddity.NONE


def test_an_end_just_ahead_is_clamped_to_what_was_observed():
    found = judge(now=START + timedelta(seconds=30))
    assert (found.ended_at, found.qty_us, found.oddity) == (START + timedelta(seconds=30), 30_000_000, Oddity.NONE)
    ahead = judge(now=START - timedelta(minutes=1))
    assert (ahead.started_at, ahead.ended_at, ahead.qty_us) == (START, START, 0)


def test_more_than_the_allocation_is_clipped_and_noted():
    found = judge(qty_us=120_000_000)
    assert (found.qty_us, found.oddity) == (60_000_000, Oddity.OVER_ALLOCATION)
    assert judge(qty_us=50_000_000).qty_us == 50_000_000, "frozen time is less, and fine"


def test_bytes_have_no_allocation():
    found = judge(resource="network_byte", qty_us=10**12, count_milli=0, ended_at=START)
    assert (found.qty_us, found.oddity, found.state) == (10**12, Oddity.NONE, RecordState.OK)


def test_an_overlap_with_a_neighbour_is_quarantined_and_a_seam_is_not():
    before = Neighbour(4, START - timedelta(minutes=1), START, fence=3)
    after = Neighbour(6, START + timedelta(minutes=1), START + timedelta(minutes=2), fence=3)
    assert judge(Known(neighbours=(before, after))).state is RecordState.OK
    over = replace(before, ended_at=START + timedelta(microseconds=1))
    assert judge(Known(neighbours=(over,))).oddity is Oddity.OVERLAP


def test_the_key_holds_no_time_and_the_hash_holds_everything():
    one = fact(labels={"b": "2", "a": "1"})
    assert one.key == ("att_1", "card", 5)
    assert one.content_hash() == fact(labels={"a": "1", "b": "2"}).content_hash()
    assert one.content_hash() == fact(labels=MappingProxyType({"a": "1", "b": "2"})).content_hash()
    east = timezone(timedelta(hours=8))
    assert one.content_hash() == replace(one, started_at=START.astimezone(east)).content_hash()
    assert one.content_hash() != replace(one, ended_at=one.ended_at + timedelta(days=31)).content_hash()
    assert one.content_hash() != replace(one, green_ratio_ppm=0).content_hash()


def test_a_counter_that_falls_is_refused():
    with pytest.raises(ValueError, match="never falls"):
        metering.growth([5, 4])
    assert metering.growth([]) == []


spans = st.lists(st.tuples(st.integers(0, 128_000), st.integers(0, 10**11)), max_size=20)


@given(spans)
def test_u2_facts_add_up_to_the_floor_of_the_cumulative_sum(given_spans):
    readings = [metering.cumulative_qty(given_spans[: n + 1]) for n in range(len(given_spans))]
    facts = metering.growth(readings)
    assert sum(facts) == sum(count * us for count, us in given_spans) // 1000
    assert all(
        quantity <= metering.most(count, us) for quantity, (count, us) in zip(facts, given_spans, strict=True)
    ), "no fact is more than its allocation rounded up"


@given(
    quantity=st.integers(0, 10**16),
    length=st.integers(0, 40 * 86_400 * 10**6),
    cuts=st.lists(st.integers(-(10**12), 10**13), max_size=8),
)
def test_cuts_tile_time_and_lose_nothing(quantity, length, cuts):
    whole = Interval(START, START + timedelta(microseconds=length))
    parts = metering.cut(quantity, whole, [START + timedelta(microseconds=cut) for cut in cuts])
    assert sum(share for _, share in parts) == quantity
    assert (parts[0][0].start, parts[-1][0].end) == (whole.start, whole.end)
    assert all(a.end == b.start for (a, _), (b, _) in itertools.pairwise(parts))
    assert all(share >= 0 for _, share in parts)


@given(
    quantity=st.integers(0, 10**16),
    minutes=st.integers(1, 3 * 24 * 60),
    offset=st.integers(0, 59),
    month_minute=st.integers(0, 24 * 60),
)
def test_buckets_are_hours_cut_again_where_a_month_begins(quantity, minutes, offset, month_minute):
    start = START + timedelta(minutes=offset)
    whole = Interval(start, start + timedelta(minutes=minutes))
    turn = START + timedelta(minutes=month_minute)
    months = [Interval(turn - timedelta(days=30), turn), Interval(turn, turn + timedelta(days=30))]
    found = metering.buckets(quantity, whole, months)
    assert sum(share for _, share in found) == quantity
    for bucket, _ in found:
        assert bucket == turn or bucket.minute == 0
    before = sum(share for bucket, share in found if bucket < turn)
    inside = whole.clip(months[0])
    assert before == (metering.portion(quantity, whole, inside) if inside else 0)


def test_a_bucket_outside_every_known_month_is_its_hour():
    assert metering.buckets(7, Interval(START, START), []) == [(START.replace(minute=0), 7)]


@given(st.permutations(range(6)), st.data())
def test_u1_the_order_of_honest_facts_does_not_matter(order, data):
    """Contiguous facts judged in any order, each against the neighbours that are there already: the same quantity is kept."""
    facts = [
        fact(seq=n, started_at=START + timedelta(minutes=n), ended_at=START + timedelta(minutes=n + 1))
        for n in range(6)
    ]
    kept: dict[int, Neighbour] = {}
    total = 0
    for number in order:
        each = facts[number]
        beside = tuple(kept[n] for n in (number - 1, number + 1) if n in kept)
        found = metering.judge(each, Known(neighbours=beside), now=NOW)
        assert found.state is RecordState.OK
        kept[number] = Neighbour(number, found.started_at, found.ended_at, each.fence)
        total += found.qty_us
    assert total == 6 * 60_000_000


def test_resources_are_the_five_of_the_wire():
    assert [str(each) for each in Resource] == ["core", "card", "memory_gib", "storage_gib", "network_byte"]


@given(
    st.text(max_size=8), st.one_of(st.none(), st.integers(0, 10**6)), st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=3),
    st.booleans(), st.sampled_from([(), ((100, 5), (None, 3))]),
)  # fmt: skip
def test_the_hash_of_a_fact_is_that_of_its_sorted_json_without_what_came_later(name, ratio, labels, virtual, tiers):
    one = replace(
        fact(), project_name=name, green_ratio_ppm=ratio, labels=labels, virtual=virtual, tiers=tiers,
        started_at=START.astimezone(ZoneInfo("Asia/Shanghai")),
    )  # fmt: skip
    values = {field.name: getattr(one, field.name) for field in fields(UsageFact) if field.name not in metering.LATER}

    def plain(value):
        return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else dict(value)

    text = json.dumps(values, sort_keys=True, default=plain, ensure_ascii=False)
    assert one.content_hash() == hashlib.sha256(text.encode()).hexdigest()
    assert replace(one, power_mw=5).content_hash() != one.content_hash()
