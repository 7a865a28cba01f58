"""When a measurement counts (execution page §5): median of clean iterations, spread below a tenth, no more than
possible.

| the report | verdict |
|---|---|
| no metric, or a value that is not a positive number | refused `unreadable` |
| above 1.05 × a published peak that cites the vendor's data sheet | refused `report_forged` |
| short suite, or no run that the portal timed, where the operator demands both | refused `not_checked` |
| short suite (one pass; the embedded profile's) | accepted, labelled short; its profile claims no more than the portal's clock allows |
| (full suite) a claim above 1.15 × what the portal's clock measured, or a like operator above 6 × it | refused `claim_above_measured` |
| spread (CV) of an operator ≥ 10 %, fewer than 3 passes, or clean share < 0.8 | unstable: the previous one stays |
| else | accepted |

Valid for 14 days; from day 7 the node is asked to measure again. Cards unknown to the peak table are listed as
measured, "no bound". Operators of the network and the disk (`rtt_`, `stream_`, `disk_`) depend on others too: their spread is
shown and refuses nobody.

The runs of the short suite last milliseconds: the way to the portal is most of their time, so its claims are not compared, and a strict
portal takes no short suite.

The processors' SCU counts the *checked* figures: what the portal timed itself (:mod:`marketplace.domain.challenge`), times what
a soak left of it (`soak_keep`, the speed at the end of minutes under load over that of the beginning).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, Protocol

from marketplace.domain import challenge
from marketplace.domain.challenge import Checked
from marketplace.domain.scu import Profile

VALID_FOR = timedelta(days=14)
MEASURE_AGAIN_AFTER = timedelta(days=7)
MAX_CV_PPM = 100_000
MIN_CLEAN_PPM = 800_000
MIN_PASSES = 3
OUTSIDE = ("rtt_", "stream_", "disk_", "soak_")
CHECKED = {
    challenge.Kind.GEMM: "checked_gemm",
    challenge.Kind.MEMORY: "checked_memory",
    challenge.Kind.STREAM: "stream_server",
}
"""Kind of run → the operator that claims its speed."""
FREE = {challenge.Kind.GEMM: "gemm_2048", challenge.Kind.MEMORY: "triad"}
"""Kind of run → the like operator that only the node timed."""
RISE_SUSPECT = 1.1
"""A fingerprint above the last one by more than this is measured once more, unannounced."""
RECHECK_EVERY = timedelta(days=3)
SOAK_S = 300
PEAK_TOLERANCE = 1.05
NO_BOUND: Mapping[str, float] = {}


class Verdict(StrEnum):
    ACCEPTED = "accepted"
    UNSTABLE = "unstable"
    REFUSED = "refused"


class MetricLike(Protocol):
    """One operator as the wire brings it."""

    @property
    def name(self) -> str: ...
    @property
    def unit(self) -> str: ...
    @property
    def value(self) -> float: ...
    @property
    def p95(self) -> float: ...
    @property
    def p99(self) -> float: ...
    @property
    def cv_ppm(self) -> int: ...
    @property
    def clean_ppm(self) -> int: ...
    @property
    def passes(self) -> int: ...
    @property
    def p50_ms(self) -> float: ...
    @property
    def p95_ms(self) -> float: ...
    @property
    def p99_ms(self) -> float: ...


@dataclass(frozen=True)
class Judgement:
    verdict: Verdict
    reason: str = ""


@dataclass(frozen=True)
class Peak:
    """The most a card can do by its data sheet. Without a vendor's source it is `unverified`, and no bound."""

    fp16_tflops: float
    memory_tbps: float
    source: str = ""

    @property
    def binds(self) -> bool:
        return bool(self.source)


PEAKS_VERSION = "1"
PEAKS: Mapping[str, Peak] = {
    "A100-80GB": Peak(312, 2.039),
    "A100-40GB": Peak(312, 1.555),
    "H100": Peak(989, 3.35),
    "H200": Peak(989, 4.8),
    "L40S": Peak(362, 0.864),
    "RTX4090": Peak(165, 1.008),
    "T4": Peak(65, 0.320),
    "V100": Peak(125, 0.897),
    "MI300X": Peak(1307, 5.3),
}
"""Model → peak. No row cites a vendor's data sheet yet, so none refuses anybody (execution page §5)."""


def judge(
    metrics: Sequence[MetricLike],
    *,
    short: bool,
    models: Sequence[str] = (),
    peaks: Mapping[str, Peak] = PEAKS,
    checked: Sequence[Checked] = (),
    share: float = 1.0,
    demand_check: bool = False,
) -> Judgement:
    """What becomes of a report; see the table. `share` is what the node sells of the threads that measured."""
    if not metrics or any(not math.isfinite(metric.value) or metric.value <= 0 for metric in metrics):
        return Judgement(Verdict.REFUSED, "unreadable")
    if demand_check and (short or not {challenge.Kind.GEMM, challenge.Kind.MEMORY} <= {run.kind for run in checked}):
        return Judgement(Verdict.REFUSED, "not_checked")
    if not short and _claims_too_much(metrics, checked, share):  # beside other work an honest short run is slow, too
        return Judgement(Verdict.REFUSED, "claim_above_measured")
    profile = card_profile(metrics)
    for model in models:
        peak = peaks.get(model)
        if peak and peak.binds and _above(profile, peak):
            return Judgement(Verdict.REFUSED, "report_forged")
    if short:
        return Judgement(Verdict.ACCEPTED)
    for metric in metrics:
        if metric.name.startswith(OUTSIDE):
            continue
        if metric.cv_ppm >= MAX_CV_PPM:
            return Judgement(
                Verdict.UNSTABLE, f"{metric.name}: spread {metric.cv_ppm / 10_000:.1f} %, less than 10 % is needed"
            )
        if metric.passes < MIN_PASSES:
            return Judgement(Verdict.UNSTABLE, f"{metric.name}: {metric.passes} passes, {MIN_PASSES} are needed")
        if metric.clean_ppm < MIN_CLEAN_PPM:
            return Judgement(
                Verdict.UNSTABLE, f"{metric.name}: {metric.clean_ppm / 10_000:.0f} % clean, 80 % are needed"
            )
    return Judgement(Verdict.ACCEPTED)


def _above(profile: Profile, peak: Peak) -> bool:
    compute, memory = profile.fp16_tflops or 0.0, profile.memory_tbps or 0.0
    return compute > PEAK_TOLERANCE * peak.fp16_tflops or memory > PEAK_TOLERANCE * peak.memory_tbps


def share_of(cores_milli: int) -> float:
    """What a node sells of the threads that it measures with: 1, or a part of one core."""
    return min(1.0, cores_milli / 1000)


def measured(checked: Sequence[Checked], kind: str) -> float | None:
    """The middle of what the portal measured in the runs of a kind."""
    values = sorted(run.measured for run in checked if run.kind == kind)
    return values[len(values) // 2] if values else None


def _claims_too_much(metrics: Sequence[MetricLike], checked: Sequence[Checked], share: float) -> bool:
    claims = {metric.name: metric.value for metric in metrics}
    for kind, name in CHECKED.items():
        seen = measured(checked, kind)
        claim = claims.get(name)
        if claim is None:
            continue
        part = share if kind is challenge.Kind.GEMM else 1.0
        if seen is None or challenge.above(claim, seen * part):
            return True
        if claims.get(FREE.get(kind, ""), 0.0) > challenge.FREE_CLAIM * seen * part:
            return True
    return False


def allowed(checked: Sequence[Checked], share: float) -> dict[str, float]:
    """Operator → the most that its claim counts for, by what the portal timed."""
    most = {}
    for kind, name in CHECKED.items():
        seen = measured(checked, kind)
        if seen is not None:
            most[name] = challenge.CLAIM * seen * (share if kind is challenge.Kind.GEMM else 1.0)
    return most


def rises(before: Profile, after: Profile) -> bool:
    """Is some metric more than a tenth above the last measurement?"""
    pairs = zip(before.metrics(), after.metrics(), strict=True)
    return any(old and new and new > RISE_SUSPECT * old for old, new in pairs)


def _best(
    metrics: Sequence[MetricLike], prefix: str, divisor: float, most: Mapping[str, float] = NO_BOUND
) -> float | None:
    values = [
        min(metric.value, most.get(metric.name, math.inf)) / divisor
        for metric in metrics
        if metric.name.startswith(prefix)
    ]
    return max(values) if values else None


def cpu_profile(metrics: Sequence[MetricLike], most: Mapping[str, float] = NO_BOUND) -> Profile:
    """Of the node's processors: checked GEMM and memory (unchecked: the best GEMM, the triad), the stream to the portal (GB/s).

    `most` bounds operators (:func:`allowed`).
    """
    compute = _best(metrics, "checked_gemm", 1000.0, most) or _best(metrics, "gemm", 1000.0)
    kept = min(_best(metrics, "soak_keep", 1.0) or 1.0, 1.0)
    memory = _best(metrics, "checked_memory", 1000.0, most) or _best(metrics, "triad", 1000.0)
    return Profile(None if compute is None else compute * kept, memory, _best(metrics, "stream", 1.0, most))


def card_profile(metrics: Sequence[MetricLike]) -> Profile:
    """Of one card, where the suite measured it (``gpu_fp16``, ``gpu_triad``)."""
    return Profile(
        _best(metrics, "gpu_fp16", 1000.0), _best(metrics, "gpu_triad", 1000.0), _best(metrics, "stream", 1.0)
    )


def stored_metrics(metrics: Sequence[MetricLike], most: Mapping[str, float] = NO_BOUND) -> dict[str, Any]:
    """As kept: numbers as decimal text, so that they stay as reported; beside them the two profiles, bounded by `most`."""
    return {
        "operators": {
            metric.name: {
                "unit": metric.unit,
                "value": repr(metric.value),
                "p95": repr(metric.p95),
                "p99": repr(metric.p99),
                "cv_ppm": metric.cv_ppm,
                "clean_ppm": metric.clean_ppm,
                "passes": metric.passes,
                "ms": [repr(metric.p50_ms), repr(metric.p95_ms), repr(metric.p99_ms)],
            }
            for metric in metrics
        },
        "cpu": _texts(cpu_profile(metrics, most)),
        "card": _texts(card_profile(metrics)),
    }


def profile_of(stored: Mapping[str, Any], part: str) -> Profile:
    """The profile ("cpu" or "card") of stored metrics."""
    texts = stored.get(part) or {}
    return Profile(*(_number(texts.get(name)) for name in ("fp16_tflops", "memory_tbps", "network_gb_s")))


def _texts(profile: Profile) -> dict[str, str | None]:
    names = ("fp16_tflops", "memory_tbps", "network_gb_s")
    return {name: None if value is None else repr(value) for name, value in zip(names, profile.metrics(), strict=True)}


def _number(text: Any) -> float | None:
    try:
        return None if text is None else float(text)
    except (TypeError, ValueError):
        return None
