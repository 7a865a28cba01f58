"""Days that cost far more than the days before them: found by robust statistics, so that one bad day does not hide the next.

A day is compared with up to 28 days before it that were not odd themselves. With m = their median and s = the larger of 1.4826 × MAD (the median absolute
deviation, which estimates a standard deviation), 10 % of m and one minor unit, a day is odd when it exceeds m by more than 3.5 × s and by at least a minimum
that the caller sets. At least seven days are needed before anything is judged. Odd days in a row are one anomaly. Whole numbers only.
"""

from collections.abc import Sequence
from dataclasses import dataclass

HISTORY, ENOUGH = 28, 7
LIMIT_MILLI = 3_500
MAD_MILLI = 1_483
FLOOR_PERCENT = 10


@dataclass(frozen=True, slots=True)
class Anomaly:
    """Odd days in a row: `[since, until]`, what was usual per day, what they cost, by how much more, and the largest score in thousandths of s."""

    since: str
    until: str
    days: int
    usual: int
    actual: int
    score_milli: int

    @property
    def excess(self) -> int:
        """How much more than usual."""
        return self.actual - self.usual * self.days


def find(series: Sequence[tuple[str, int]], *, minimum: int) -> list[Anomaly]:
    """The anomalies of a series of (day, amount) in order, days without cost included as 0."""
    usual_days: list[int] = []
    found: list[Anomaly] = []
    last = -2
    for place, (day, amount) in enumerate(series):
        recent = usual_days[-HISTORY:]
        middle = median(recent)
        score = _score(amount, recent, middle)
        if len(recent) < ENOUGH or score <= LIMIT_MILLI or amount - middle < minimum:
            usual_days.append(amount)
            continue
        if found and last == place - 1:
            before = found.pop()
            found.append(
                Anomaly(
                    before.since,
                    day,
                    before.days + 1,
                    before.usual,
                    before.actual + amount,
                    max(before.score_milli, score),
                )
            )
        else:
            found.append(Anomaly(day, day, 1, middle, amount, score))
        last = place
    return found


def median(values: Sequence[int]) -> int:
    """The middle value; of two, their mean rounded down; 0 of none."""
    ordered = sorted(values)
    if not ordered:
        return 0
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) // 2


def _score(amount: int, recent: Sequence[int], middle: int) -> int:
    """By how many s an amount exceeds the median, in thousandths."""
    deviation = median([abs(value - middle) for value in recent])
    spread = max(deviation * MAD_MILLI, middle * 10 * FLOOR_PERCENT, 1000)
    return (amount - middle) * 1_000_000 // spread
