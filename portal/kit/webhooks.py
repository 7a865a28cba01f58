"""What senders and receivers of webhooks agree on: the signature, the times of retries, the types.

``Idlewild-Signature: t=<unix seconds>,v1=<hex>`` with hex = HMAC-SHA256(secret, ``t.`` + raw body). While a secret is
being replaced there are two ``v1``, of the new and of the old one; one that fits is enough. A receiver refuses a `t`
that is more than five minutes from its own clock, so that a recorded request cannot be played again later.
"""

import hashlib
import hmac
from collections.abc import Sequence
from datetime import datetime, timedelta

TOLERANCE_S = 300
SECRET_OVERLAP = timedelta(hours=24)
"""After a rotation the old secret signs too, so long."""
MINUTE, HOUR = 60, 3_600
BACK_OFF_S = (10, MINUTE, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 6 * HOUR, 12 * HOUR, 24 * HOUR)
"""Before the second, third … ninth try; after that a delivery has failed, and can be sent again by hand."""
DISABLED_AFTER = timedelta(days=5)
"""An endpoint that took nothing for so long gets nothing more; its admins are told."""

TYPES = (
    "job.queued",
    "job.running",
    "job.done",
    "job.failed",
    "job.cancelled",
    "attempt.started",
    "attempt.ended",
    "budget.threshold",
    "budget.exhausted",
    "invoice.open",
    "invoice.past_due",
    "invoice.paid",
    "invoice.void",
    "payout.sent",
    "payout.paid",
    "payout.failed",
    "node.listed",
    "node.disconnected",
    "node.returned",
    "node.retired",
    "offer.repriced",
    "offer.withdrawn",
    "endpoint.test",
)


def signature(secrets: Sequence[str], body: bytes, *, at: int) -> str:
    """The value of the header for `body` sent at Unix second `at`; one ``v1`` per secret, newest first."""
    return ",".join([f"t={at}", *(f"v1={_hex(secret, body, at)}" for secret in secrets)])


def is_signed(header: str, secret: str, body: bytes, *, now: int) -> bool:
    """What a receiver checks: one signature fits, and the time is near."""
    parts = [part.partition("=") for part in header.split(",")]
    times = [value for name, _equals, value in parts if name.strip() == "t"]
    if len(times) != 1 or not times[0].isdigit() or abs(now - int(times[0])) > TOLERANCE_S:
        return False
    wanted = _hex(secret, body, int(times[0]))
    return any(hmac.compare_digest(value, wanted) for name, _equals, value in parts if name.strip() == "v1")


def next_try(*, tries: int, now: datetime) -> datetime | None:
    """When to try again after the `tries`-th failure (from 1); None: it has failed for good."""
    return now + timedelta(seconds=BACK_OFF_S[tries - 1]) if tries <= len(BACK_OFF_S) else None


def _hex(secret: str, body: bytes, at: int) -> str:
    return hmac.new(secret.encode(), b"%d." % at + body, hashlib.sha256).hexdigest()
