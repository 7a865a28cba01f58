"""Without the market: each institution alone on machines bought for its own peak, so that nothing of it ever waits."""

from collections.abc import Sequence

from benchmarks.reuse.pool import INSTITUTIONS, Job, Pool, peak


def silos(work: Sequence[Job]) -> list[int]:
    """Machines that each institution owns: its own peak."""
    return [peak(job for job in work if job.owner == owner) for owner in range(INSTITUTIONS)]


def alone(work: Sequence[Job], sizes: Sequence[int], horizon: float) -> tuple[float, list[float]]:
    """(share of all machines in use, p95 of each institution's waiting time)."""
    used, waits = 0.0, []
    for owner, size in enumerate(sizes):
        mine = [job for job in work if job.owner == owner]
        out = Pool(size, 0, horizon).run(mine)
        used += out.used
        waits.append(out.p95(owner) if mine else 0.0)
    return used / (sum(sizes) * horizon), waits


def smallest(work: Sequence[Job], sizes: Sequence[int], limits: Sequence[float], horizon: float) -> int:
    """Machines that would do for all together without guests: nobody's p95 is worse than alone."""
    low, high = max(job.needs for job in work), sum(sizes)
    while low < high:
        middle = (low + high) // 2
        out = Pool(middle, 0, horizon).run(work)
        if all(out.p95(owner) <= limit for owner, limit in enumerate(limits) if owner in out.waits):
            high = middle
        else:
            low = middle + 1
    return low
