"""How long a job will run, from what ran before in its project, and how sure that is.

Past runs of the same name, else of the same command, are turned into work (seconds × SCU of the place): their median, divided by the
SCU of another place, is the time there. Where no run had an SCU the median of the seconds stands, whatever the place.

| runs | spread (half of the middle half ÷ median) | confidence |
|---|---|---|
| 5 or more | below 0.15 | high |
| 3 or more | below 0.40 | medium |
| else, at least one | | low |
| none | | unknown: `max_duration` is assumed, and that is said |
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from scheduling.domain.learning import middle

MOST_RUNS: Final = 20
HIGH_RUNS, HIGH_SPREAD = 5, 0.15
MEDIUM_RUNS, MEDIUM_SPREAD = 3, 0.40


class Basis(StrEnum):
    """Whose runs they were."""

    NAME = "name"
    COMMAND = "command"
    NONE = "none"


class Confidence(StrEnum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Run:
    """One that succeeded. `scu`: of what it had, None = not known."""

    seconds: float
    scu: float | None = None


@dataclass(frozen=True)
class Prediction:
    """Seconds that such runs took (the middle half in between), and the work behind them in millionths of an SCU-hour.

    `assumed_s`: what is counted with while nothing is known.
    """

    basis: Basis
    confidence: Confidence
    runs: int
    assumed_s: int
    low_s: int | None = None
    seconds: int | None = None
    high_s: int | None = None
    work_micro: int | None = None

    def form(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "basis": self.basis.value,
            "confidence": self.confidence.value,
            "runs": self.runs,
            "assumed_s": self.assumed_s,
            "low_s": self.low_s,
            "seconds": self.seconds,
            "high_s": self.high_s,
            "work_micro": self.work_micro,
        }


def predict(runs: Sequence[Run], *, basis: Basis, max_duration_s: int) -> Prediction:
    """What `runs` (newest first) say about the next one."""
    recent = list(runs)[:MOST_RUNS]
    if not recent:
        return Prediction(Basis.NONE, Confidence.UNKNOWN, 0, max_duration_s)
    works = [run.seconds * run.scu for run in recent if run.scu]
    sample = works if 2 * len(works) >= len(recent) and works else [run.seconds for run in recent]
    center = middle(sample)
    low, high = _quarter(sample, 1), _quarter(sample, 3)
    spread = (high - low) / 2 / center if center > 0 else 0.0
    usual = min(middle([run.seconds for run in recent]), float(max_duration_s))
    return Prediction(
        basis=basis,
        confidence=_confidence(len(sample), spread),
        runs=len(recent),
        assumed_s=max_duration_s,
        low_s=max(1, round(usual * low / center)) if center > 0 else 1,
        seconds=max(1, round(usual)),
        high_s=max(1, round(usual * high / center)) if center > 0 else 1,
        work_micro=max(1, round(center / 3_600 * 1_000_000)) if sample is works else None,
    )


def _confidence(count: int, spread: float) -> Confidence:
    if count >= HIGH_RUNS and spread < HIGH_SPREAD:
        return Confidence.HIGH
    return Confidence.MEDIUM if count >= MEDIUM_RUNS and spread < MEDIUM_SPREAD else Confidence.LOW


def _quarter(values: Sequence[float], which: int) -> float:
    ordered = sorted(values)
    return ordered[round((len(ordered) - 1) * which / 4)]
