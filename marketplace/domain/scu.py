"""SCU, the standard compute unit of a (card or processor, task type): placement page §1.

``SCU = ∏ (mₖ / refₖ) ^ wₖ``, Σw = 1, over FP16 TFLOPS, memory TB/s and network GB/s of one card; reference is an
A100-80GB SXM. Only a weighted geometric mean is of degree 1 (two cards are 2 SCU), free of units, monotone, and ranks
alike for any reference. A metric that is missing or not positive, with a weight above 0, means *no SCU for that task
type*, not 0.

`scu_raw` is the first definition (compute × bandwidth), kept to compare. SCU ranks; it never enters money.

Decay tells how far a node stays behind (or is ahead of) its SCU in real work: :func:`decay` from the sums that ended
attempts leave. People see SCU without decay, placement multiplies by it.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

VERSION: Final = "1"
"""Of the weight vectors."""

WEIGHTS: Final[Mapping[str, tuple[float, float, float]]] = {
    "training": (0.6, 0.3, 0.1),
    "inference": (0.3, 0.6, 0.1),
    "data": (0.1, 0.5, 0.4),
    "simulation": (0.5, 0.5, 0.0),
    "render": (0.5, 0.5, 0.0),
    "custom": (0.5, 0.5, 0.0),
}
"""Task type → weights of (compute, memory, network)."""

HARDWARE_CLAMP: Final = (math.log(0.2), math.log(5.0))
NODE_CLAMP: Final = (math.log(0.3), math.log(1.2))
HARDWARE_PRIOR: Final = 1.0
NODE_PRIOR: Final = 4.0
FADE: Final = 0.98
"""What Σ and n keep per attempt."""


@dataclass(frozen=True)
class Profile:
    """The metrics of one card, or of a node's processors; None = not measured."""

    fp16_tflops: float | None = None
    memory_tbps: float | None = None
    network_gb_s: float | None = None

    def metrics(self) -> tuple[float | None, float | None, float | None]:
        return self.fp16_tflops, self.memory_tbps, self.network_gb_s


REFERENCE: Final = Profile(312.0, 2.039, 1.25)
"""A100-80GB SXM; network in GB/s."""


def scu(profile: Profile, task_type: str) -> float | None:
    """SCU of one card (or of a node's processors) for a task type; None when a metric that counts is unknown."""
    product = 1.0
    for value, reference, weight in zip(profile.metrics(), REFERENCE.metrics(), WEIGHTS[task_type], strict=True):
        if weight == 0:
            continue
        if value is None or not value > 0 or not math.isfinite(value) or reference is None:
            return None
        product *= (value / reference) ** weight
    return product


def scu_raw(profile: Profile) -> float | None:
    """Compute × bandwidth over the reference's: the first definition, of degree 2."""
    compute, memory, _network = profile.metrics()
    if not compute or not memory or compute <= 0 or memory <= 0:
        return None
    return compute * memory / (312.0 * 2.039)


def of_cores(node_scu: float | None, cores_milli: int, node_cores_milli: int) -> float | None:
    """The part of the processors' SCU that an allocation of cores gets."""
    if node_scu is None or node_cores_milli <= 0:
        return None
    return node_scu * cores_milli / node_cores_milli


@dataclass(frozen=True)
class Sums:
    """Faded sums over ended attempts with known work: of the logarithmic errors, and of their number."""

    total: float = 0.0
    count: float = 0.0

    def with_attempt(self, error: float) -> "Sums":
        """One more attempt; older ones fade by 2 %."""
        return Sums(self.total * FADE + error, self.count * FADE + 1.0)


def hardware_term(sums: Sums) -> float:
    """H of a (hardware type, task type)."""
    return _clamp(sums.total / (sums.count + HARDWARE_PRIOR), HARDWARE_CLAMP)


def node_term(residuals: Sums) -> float:
    """e of a node, from its errors less H."""
    return _clamp(residuals.total / (residuals.count + NODE_PRIOR), NODE_CLAMP)


def decay(hardware: float, node: float) -> float:
    """d = exp(H + e)."""
    return math.exp(hardware + node)


def _clamp(value: float, limits: tuple[float, float]) -> float:
    return min(max(value, limits[0]), limits[1])
