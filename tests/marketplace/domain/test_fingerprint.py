"""When a measurement counts."""

import math
from dataclasses import replace

import pytest

from marketplace.domain import fingerprint as rules
from marketplace.domain.fingerprint import Judgement, Peak, Verdict, judge
from tests.factories.hardware import SomeMetric

GOOD = (SomeMetric("gemm_1024", value=120.0), SomeMetric("triad", unit="gb_s", value=18.0))


def changed(**values):
    return (replace(GOOD[0], **values), GOOD[1])


def test_a_stable_measurement_is_accepted():
    assert judge(GOOD, short=False) == Judgement(Verdict.ACCEPTED)


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_numbers_that_are_none_are_refused(value):
    assert judge(changed(value=value), short=True) == Judgement(Verdict.REFUSED, "unreadable")
    assert judge((), short=True).verdict is Verdict.REFUSED


@pytest.mark.parametrize(
    ("values", "word"), [({"cv_ppm": 100_000}, "spread"), ({"passes": 2}, "passes"), ({"clean_ppm": 799_999}, "clean")]
)
def test_a_shaky_one_is_unstable_and_says_why(values, word):
    judgement = judge(changed(**values), short=False)
    assert judgement.verdict is Verdict.UNSTABLE
    assert word in judgement.reason
    assert judge(changed(**values), short=True).verdict is Verdict.ACCEPTED, "the short suite is labelled instead"


def test_more_than_a_cited_peak_is_forged():
    fast = (SomeMetric("gpu_fp16", value=330_000.0), SomeMetric("gpu_triad", value=1_000.0))
    cited = {"A100-80GB": Peak(312, 2.039, "data sheet")}
    assert judge(fast, short=True, models=["A100-80GB"], peaks=cited) == Judgement(Verdict.REFUSED, "report_forged")
    slower = (replace(fast[0], value=327_000.0), fast[1])
    assert judge(slower, short=True, models=["A100-80GB"], peaks=cited).verdict is Verdict.ACCEPTED, "5 % are allowed"
    assert judge(fast, short=True, models=["Unheard-Of"], peaks=cited).verdict is Verdict.ACCEPTED, "P25: no bound"
    wide = (SomeMetric("gpu_triad", value=2_200.0),)
    assert judge(wide, short=True, models=["A100-80GB"], peaks=cited).reason == "report_forged"


def test_no_peak_of_the_table_refuses_anybody_before_it_cites_a_source():
    assert not any(peak.binds for peak in rules.PEAKS.values())


def test_metrics_are_stored_as_reported_and_come_back_as_profiles():
    stored = rules.stored_metrics(
        (*GOOD, SomeMetric("gpu_fp16", value=312_000.0), SomeMetric("stream_server", value=1.25))
    )
    assert stored["operators"]["gemm_1024"]["value"] == "120.0"
    assert rules.profile_of(stored, "cpu").metrics() == (0.12, 0.018, 1.25)
    assert rules.profile_of(stored, "card").metrics() == (312.0, None, 1.25)
    assert rules.profile_of({}, "cpu").metrics() == (None, None, None)
    assert rules.profile_of({"cpu": {"fp16_tflops": "fast"}}, "cpu").fp16_tflops is None
