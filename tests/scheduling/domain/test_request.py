"""What a decision is asked comes back from storage the same; links count as what is believed of them."""

import json
from fractions import Fraction

import pytest

from scheduling.domain.demand import Card
from scheduling.domain.linkstate import Effective
from scheduling.domain.request import Path, Paths, Request

GB = 10**9


def believed(*, mbps: float | None = 80.9, expired: bool = False) -> Effective:
    return Effective(base_us=25_000.7, mbps=mbps, age_ms=0, missed=0, expired=expired, worsening=False)


def test_a_request_comes_back_from_json_as_it_was() -> None:
    asked = Request(
        "training", 4_000, 8_192, 10, (Card("A100-80GB", 2), Card("L40S", 4)), "fixed", "CNY", 3_600, 1_800_000_000,
        data=(("west", GB), ("", 5)), regions=("east", "north"), avoid=("west",), excluded=("nod_1",), max_price_micro=7,
    )  # fmt: skip
    assert Request.from_form(json.loads(json.dumps(asked.form()))) == asked


@pytest.mark.parametrize(
    ("now", "counts"),
    [
        (believed(), Path(25_000, 80, 30_000)),
        (believed(mbps=0.2), Path(25_000, 1, 30_000)),  # never nothing: it was heard of
        (believed(mbps=None), Path(25_000, 1_000, 30_000)),  # the configured band stays
        (believed(expired=True), Path(None, None, 30_000, expired=True)),
    ],
)
def test_belief_replaces_delay_and_band_and_never_the_price(now: Effective, counts: Path) -> None:
    assert Path(40_000, 1_000, 30_000).believed(now) == counts


def test_what_is_not_known_of_a_link_counts_with_the_worst_that_is() -> None:
    paths = Paths(
        {
            ("west", "east"): Path(20_000, 500, 10_000),
            ("north", "east"): Path(None, None, 40_000),
            ("south", "east"): Path(None, None, 5_000, expired=True),
            ("north", "west"): Path(90_000, 100, 20_000),
        }
    )
    assert paths.between("west", "east") == Path(20_000, 500, 10_000)
    assert paths.between("north", "east") == Path(90_000, 100, 40_000)
    assert paths.between("south", "east") == Path(None, 100, 5_000, expired=True)
    assert paths.between("moon", "east") == Path(90_000, 100, 40_000)
    assert paths.between("east", "east") == paths.between("", "east") == Path(0, None, 0)
    assert paths.delays("south", ("east", "west")).tolist() == [-1, 90_000]
    assert paths.delays("", ("east", "west")).tolist() == [0, 0]


def test_what_is_on_its_way_over_a_link_comes_first() -> None:
    paths = Paths({("west", "east"): Path(20_000, 800, 10_000)}, pending={("west", "east"): 2 * GB})
    data = [("west", 3 * GB)]
    assert paths.staging_s(data, "east") == pytest.approx(50)
    paths.take([*data, ("east", GB), ("", GB)], "east")  # what is there, or outside, keeps no link busy
    assert paths.pending == {"west": {"east": 5 * GB}}
    assert paths.staging_s(data, "east") == pytest.approx(80)
    micro, seconds = paths.moving(data, ("east", "west"))
    assert micro.tolist() == pytest.approx([30_000, 0])
    assert seconds.tolist() == pytest.approx([80, 0])
    assert paths.transfer_micro(data, "east") == Fraction(30_000)
    assert paths.lines(data, "east") == [
        {"link": "west→east", "bytes": 3 * GB, "price_micro_per_gb": 10_000, "micro": 30_000}
    ]
