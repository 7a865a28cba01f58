"""What ended attempts teach: how far real work stays behind (or is ahead of) the SCU that was measured. Placement page §1.

For an attempt with a known work, ``y = ln(observed rate) − ln(SCU without decay)``, where the rate is SCU-hours of work per hour. A
tenant's wrong `work` must not devalue a node, so the mean of y of that job name **over hardware types** is taken off first; a name
that was seen on one type alone teaches nothing about hardware. What is left, r, feeds

* H of (hardware type, task type) = Σr / (n + 1), clamped to ln 0.2 … ln 5;
* e of the node, over all types = Σ(r − H) / (n + 4), clamped to ln 0.3 … ln 1.2.

``d = exp(H + e)``. Sums fade by 2 % per attempt. The name's mean corrects the finish times of that name.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from marketplace.domain.scu import Sums, hardware_term, node_term

SHORTEST_S: Final = 1
LARGEST: Final = math.log(1_000.0)
"""An attempt a thousand times off says that its work or its clock was wrong, and is not learned from."""


NOTHING: Final = Sums()


@dataclass(frozen=True)
class Known:
    """What is known before an attempt is learned from. `names`: hardware type → sums of y of this job name."""

    names: Mapping[str, Sums]
    hardware: Sums = NOTHING
    node: Sums = NOTHING


@dataclass(frozen=True)
class Learned:
    """The sums afterwards. `taught`: did it say something about hardware and node?"""

    name: Sums
    hardware: Sums
    node: Sums
    taught: bool


def error(*, work_scu_h: float, seconds: float, scu: float) -> float | None:
    """y of an attempt; None when it says nothing (no SCU, no time, or absurdly far off)."""
    if scu <= 0 or work_scu_h <= 0 or seconds < SHORTEST_S:
        return None
    y = math.log(work_scu_h / (seconds / 3_600.0)) - math.log(scu)
    return y if abs(y) <= LARGEST else None


def name_mean(names: Mapping[str, Sums]) -> float | None:
    """The mean of a job name over the hardware types it was seen on; None if it was never seen."""
    means = [sums.total / sums.count for sums in names.values() if sums.count > 0]
    return sum(means) / len(means) if means else None


def learn(y: float, *, hardware_type: str, known: Known) -> Learned:
    """The sums after an attempt with error `y` on a hardware type."""
    names = {**known.names, hardware_type: known.names.get(hardware_type, Sums()).with_attempt(y)}
    mean = name_mean(names)
    name = names[hardware_type]
    if mean is None or len(names) < 2:
        return Learned(name, known.hardware, known.node, taught=False)
    rest = y - mean
    hardware = known.hardware.with_attempt(rest)
    return Learned(name, hardware, known.node.with_attempt(rest - hardware_term(hardware)), taught=True)


def terms(hardware: Sums, node: Sums) -> tuple[float, float]:
    """(H, e)."""
    return hardware_term(hardware), node_term(node)


def corrected(work_scu_h: float, names: Mapping[str, Sums]) -> float:
    """The work of a job as its name's earlier runs showed it: a name that asks for half of what it does takes twice as long."""
    mean = name_mean(names)
    return work_scu_h if mean is None else work_scu_h * math.exp(-mean)


def middle(values: Sequence[float]) -> float:
    """The median."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
