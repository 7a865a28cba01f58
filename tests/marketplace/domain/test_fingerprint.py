"""When a measurement counts."""

import math
from dataclasses import replace

import pytest

from marketplace.domain import fingerprint as rules
from marketplace.domain.challenge import Checked
from marketplace.domain.fingerprint import Judgement, Peak, Verdict, judge
from marketplace.domain.scu import Profile
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


CHECKED = (
    *GOOD,
    SomeMetric("checked_gemm", value=100.0),
    SomeMetric("checked_memory", unit="gb_s", value=10.0),
    SomeMetric("stream_server", unit="gb_s", value=0.5, cv_ppm=900_000),
)
TIMED = (Checked("gemm", 95.0), Checked("memory", 9.0), Checked("stream", 0.5))


def test_what_the_portal_timed_is_what_counts():
    assert judge(CHECKED, short=False, checked=TIMED, demand_check=True) == Judgement(Verdict.ACCEPTED)
    profile = rules.cpu_profile((*CHECKED, SomeMetric("gemm_256", value=500.0)))
    assert profile.metrics() == (0.1, 0.01, 0.5)
    soaked = rules.cpu_profile((*CHECKED, SomeMetric("soak_keep", unit="share", value=0.7)))
    assert soaked.fp16_tflops == pytest.approx(0.07), "what is left after minutes under load"
    assert rules.cpu_profile((*CHECKED, SomeMetric("soak_keep", value=1.3))).fp16_tflops == 0.1


@pytest.mark.parametrize(("checked", "short"), [((), False), (TIMED[:1], False), (TIMED[1:], False), (TIMED, True)])
def test_without_both_timed_runs_a_strict_portal_refuses(checked, short):
    metrics = GOOD if not checked else CHECKED
    judgement = judge(metrics, short=short, checked=checked, demand_check=True)
    assert judgement == Judgement(Verdict.REFUSED, "not_checked")


@pytest.mark.parametrize(
    ("name", "value"),
    [("checked_gemm", 110.0), ("checked_memory", 11.0), ("stream_server", 0.6), ("gemm_2048", 600.0), ("triad", 60.0)],
)
def test_a_claim_above_the_portals_clock_is_refused(name, value):
    metrics = (*(m for m in CHECKED if m.name != name), SomeMetric(name, value=value))
    assert judge(metrics, short=False, checked=TIMED) == Judgement(Verdict.REFUSED, "claim_above_measured")


def test_a_claim_without_its_run_is_refused():
    assert judge(CHECKED, short=False, checked=TIMED[1:]).reason == "claim_above_measured"


def test_a_short_suite_is_taken_but_counts_for_no_more_than_the_portals_clock_allows():
    """Beside other work (a laptop that also runs the portal) the node's own clock and the portal's differ widely."""
    proud = tuple(replace(m, value=10 * m.value) for m in CHECKED)
    assert judge(proud, short=True, checked=TIMED).verdict is Verdict.ACCEPTED
    most = rules.allowed(TIMED, 0.5)
    assert most == pytest.approx({"checked_gemm": 1.15 * 47.5, "checked_memory": 1.15 * 9, "stream_server": 1.15 * 0.5})
    profile = rules.cpu_profile(proud, most)
    assert profile.metrics() == pytest.approx((1.15 * 0.0475, 1.15 * 0.009, 1.15 * 0.5))
    assert rules.stored_metrics(proud, most)["cpu"]["fp16_tflops"] == repr(profile.fp16_tflops)


def test_half_a_core_may_claim_half():
    half = tuple(replace(m, value=50.0) if m.name == "checked_gemm" else m for m in CHECKED)
    assert judge(half, short=False, checked=TIMED, share=rules.share_of(500)).verdict is Verdict.ACCEPTED
    assert judge(CHECKED, short=False, checked=TIMED, share=rules.share_of(500)).reason == "claim_above_measured"
    assert (rules.share_of(4_000), rules.share_of(250)) == (1.0, 0.25)


def test_the_middle_of_several_runs_counts():
    runs = [Checked("gemm", value) for value in (1.0, 100.0, 90.0)]
    assert rules.measured(runs, "gemm") == 90.0
    assert rules.measured(runs, "memory") is None


def test_a_sudden_rise_is_noticed():
    assert rules.rises(Profile(1.0, 1.0, None), Profile(1.0, 1.11, None))
    assert not rules.rises(Profile(1.0, 1.0, None), Profile(1.1, 1.05, 5.0))
