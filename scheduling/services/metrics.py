"""Samples of what attempts use: kept for 30 days, shown as a chart."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from scheduling.models import Attempt, AttemptMetric
from scheduling.services import live

KEPT_FOR = timedelta(days=30)
EXPIRE_BATCH = 5_000


@dataclass(frozen=True)
class Told:
    """One sample as an agent told it."""

    age: timedelta
    ran_us: int
    cpu_us: int
    memory_bytes: int
    network_bytes: int


def store(*, attempt: Attempt, samples: Sequence[Told], now: datetime) -> int:
    """Keep samples of a live attempt (the caller has checked its fence); none is older than the attempt's start."""
    begun = attempt.accepted_at or now
    AttemptMetric.objects.bulk_create(
        AttemptMetric(
            attempt=attempt,
            at=max(begun, now - one.age),
            ran_us=one.ran_us,
            cpu_us=one.cpu_us,
            memory_bytes=one.memory_bytes,
            network_bytes=one.network_bytes,
        )
        for one in samples
    )
    live.changed(f"job.{attempt.task.job.public_id}")
    return len(samples)


def expire(*, now: datetime) -> int:
    """Delete samples older than 30 days, a batch per call."""
    old = AttemptMetric.objects.filter(at__lt=now - KEPT_FOR).order_by("at").values_list("id", flat=True)[:EXPIRE_BATCH]
    return AttemptMetric.objects.filter(id__in=list(old)).delete()[0]
