"""From samples of counters to what a chart shows: use of CPU in cores, memory, network per second."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

MOST_POINTS = 240


@dataclass(frozen=True)
class Sample:
    """Seconds since the first sample; counters since the start; the memory of that moment."""

    at_s: float
    cpu_us: int
    memory_bytes: int
    network_bytes: int


@dataclass(frozen=True)
class Point:
    """What was used between two samples, at the time of the later one."""

    at_s: float
    cores_milli: int
    memory_bytes: int
    network_bytes_s: int


def points(samples: Sequence[Sample], most: int = MOST_POINTS) -> list[Point]:
    """At most `most` points, evenly thinned out; counters that fall (never of an honest agent) count as 0."""
    step = max(1, -(-len(samples) // most))
    kept = list(samples[::step])
    if samples and kept[-1] != samples[-1]:
        kept.append(samples[-1])
    found = []
    for before, after in pairwise(kept):
        seconds = after.at_s - before.at_s
        if seconds <= 0:
            continue
        cores = max(0, after.cpu_us - before.cpu_us) / seconds / 1_000
        carried = max(0, after.network_bytes - before.network_bytes) / seconds
        found.append(Point(after.at_s, round(cores), after.memory_bytes, round(carried)))
    return found
