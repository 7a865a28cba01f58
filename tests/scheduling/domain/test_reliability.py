"""The published formula, and three in a row."""

from datetime import timedelta

from scheduling.domain.reliability import Ending, doubtful, score
from tests.cast import THEN

DAY, HOUR = timedelta(days=1), timedelta(hours=1)


def endings(*ages_and_faults):
    return [Ending(THEN - age, fault, not fault) for age, fault in ages_and_faults]


def test_below_twenty_there_is_no_figure():
    assert score(endings(*[(HOUR, False)] * 19), THEN) == (None, 19)
    assert score(endings(*[(HOUR, False)] * 20), THEN) == (1_000_000, 20)
    assert score(endings(*[(31 * DAY, True)] * 50), THEN) == (None, 0)


def test_an_old_fault_weighs_half_after_ten_days():
    fresh = score(endings(*[(timedelta(0), False)] * 19, (timedelta(0), True)), THEN)[0]
    old = score(endings(*[(timedelta(0), False)] * 19, (10 * DAY, True)), THEN)[0]
    assert fresh == 950_000
    assert old == round(1e6 * 19 / 19.5)


def test_three_faults_in_a_row_within_a_day_are_doubtful():
    assert doubtful(endings((HOUR, True), (2 * HOUR, True)), THEN) == 0
    assert doubtful(endings((HOUR, True), (2 * HOUR, True), (3 * HOUR, True)), THEN) == 3
    assert doubtful(endings((HOUR, True), (2 * HOUR, False), (3 * HOUR, True), (4 * HOUR, True)), THEN) == 0
    assert doubtful(endings((HOUR, True), (2 * HOUR, True), (25 * HOUR, True)), THEN) == 0


def test_a_tenants_own_failure_neither_counts_nor_clears():
    between = [*endings((HOUR, True), (3 * HOUR, True), (4 * HOUR, True)), Ending(THEN - 2 * HOUR, fault=False)]
    assert doubtful(between, THEN) == 3
