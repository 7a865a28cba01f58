"""Usage: allocation × unfrozen time, as whole cumulative counters.

`qty_us = count_milli × unfrozen microseconds // 1000`, rounded down **once, on the cumulative counter**: the difference of two
reports is exact to the microsecond, and no rounding accumulates. CPU time and peak memory are shown, never billed.

Traps: time counts only while the tree may run, and **only up to the lease's deadline**. When the supervisor was itself stopped
(a paused machine) it finds out late; what ran past the deadline is not proven and not counted. And time of a suspended
machine is none: the clock is CLOCK_MONOTONIC.
"""

from __future__ import annotations

from .protocol import Counter, Resource, Resources


class RunClock:
    """Adds up unfrozen and frozen time of a job, in microseconds."""

    def __init__(self) -> None:
        self._ran_us = 0
        self._frozen_us = 0
        self._since: int | None = None
        self._running = False

    def start(self, now_us: int) -> None:
        if self._since is None:
            self._since, self._running = now_us, True

    def freeze(self, now_us: int, overrun_us: int = 0) -> None:
        """The tree stands still; the last `overrun_us` of the running time were past the deadline."""
        if self._running:
            self._ran_us += max(0, self._span(now_us) - overrun_us)
            self._since, self._running = now_us, False

    def thaw(self, now_us: int) -> None:
        if self._since is not None and not self._running:
            self._frozen_us += self._span(now_us)
            self._since, self._running = now_us, True

    def end(self, now_us: int, overrun_us: int = 0) -> None:
        if self._running:
            self.freeze(now_us, overrun_us)
        elif self._since is not None:
            self._frozen_us += self._span(now_us)
        self._since, self._running = None, False

    def ran_us(self, now_us: int, overrun_us: int = 0) -> int:
        return self._ran_us + (max(0, self._span(now_us) - overrun_us) if self._running else 0)

    def frozen_us(self, now_us: int) -> int:
        return self._frozen_us + (self._span(now_us) if self._since is not None and not self._running else 0)

    def _span(self, now_us: int) -> int:
        return max(0, now_us - (self._since if self._since is not None else now_us))


def allocation(resources: Resources) -> dict[Resource, int]:
    """`count_milli` of each resource; what is not allocated is not metered."""
    counts = {
        Resource.CORE: resources.cores_milli,
        Resource.CARD: 1000 * len(resources.devices),
        Resource.MEMORY_GIB: resources.memory_mib * 1000 // 1024,
        Resource.STORAGE_GIB: resources.disk_mib * 1000 // 1024,
    }
    return {resource: count for resource, count in counts.items() if count}


def counters(resources: Resources, ran_us: int, network_bytes: int | None = None) -> tuple[Counter, ...]:
    """`network_bytes` None: the job has no network, so nothing is metered."""
    carried = () if network_bytes is None else (Counter(Resource.NETWORK_BYTE, 0, network_bytes),)
    return carried + tuple(
        Counter(resource=resource, count_milli=count, qty_us=count * ran_us // 1000)
        for resource, count in allocation(resources).items()
    )
