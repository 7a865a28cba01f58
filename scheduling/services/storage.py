"""What is stored only for a while: outputs, logs, checkpoints, metrics."""

from datetime import datetime

from scheduling.services import artefacts, checkpoints, logs, metrics


def expire(*, now: datetime) -> int:
    """Delete what is past its date, a batch of each per call; returns how many."""
    return artefacts.expire(now=now) + logs.expire(now=now) + checkpoints.expire(now=now) + metrics.expire(now=now)
