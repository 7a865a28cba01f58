"""Run times from what ran before, and how sure they are."""

import pytest

from scheduling.domain.prediction import Basis, Confidence, Run, predict


def said(*seconds, scu=2.0, most=86_400):
    return predict([Run(s, scu) for s in seconds], basis=Basis.NAME, max_duration_s=most)


@pytest.mark.parametrize(
    ("seconds", "confidence"),
    [
        ((100, 101, 99, 100, 102), Confidence.HIGH),
        ((100, 101, 99), Confidence.MEDIUM),
        ((100, 130, 80, 100, 160, 70), Confidence.MEDIUM),
        ((100, 1_000, 10, 500, 20), Confidence.LOW),
        ((100,), Confidence.LOW),
        ((), Confidence.UNKNOWN),
    ],
)
def test_more_runs_that_agree_make_it_surer(seconds, confidence):
    assert said(*seconds).confidence is confidence


def test_runs_become_work_so_that_another_place_takes_its_own_time():
    runs = [Run(100, 2.0), Run(200, 1.0), Run(400, 0.5)]
    made = predict(runs, basis=Basis.COMMAND, max_duration_s=1_000)
    assert made.work_micro == round(200 / 3_600 * 1e6), "the same work on three places"
    assert (made.seconds, made.low_s, made.high_s) == (200, 200, 200)
    assert made.form()["basis"] == "command"


def test_without_scu_the_seconds_stand():
    made = said(100, 120, 110, scu=None)
    assert (made.seconds, made.work_micro) == (110, None)
    assert made.low_s <= 110 <= made.high_s


def test_unknown_says_what_is_assumed():
    made = said(most=7_200)
    assert (made.basis, made.seconds, made.assumed_s, made.runs) == (Basis.NONE, None, 7_200, 0)


def test_never_longer_than_allowed_and_only_the_newest_count():
    assert said(500, 500, most=60).seconds == 60
    assert said(*[10] * 20, *[99_999] * 30).seconds == 10
