"""Identifiers and secrets: the only place of the server that draws randomness.

A public id is ``prefix_`` + 26 characters of Crockford base 32: 48 bits of Unix milliseconds, then 80 random bits (the
layout of ULID), so ids of one
kind sort by age. Secrets are random text; only their SHA-256 digest is stored.
"""

import hashlib
import secrets
import time
from datetime import datetime

from portal.kit import public_ids


def public_id(prefix: str, *, at: datetime | None = None) -> str:
    """A new id such as ``job_01KB…``; `at` dates it (default: the present)."""
    milliseconds = int(at.timestamp() * 1000) if at else time.time_ns() // 1_000_000
    return public_ids.compose(prefix, milliseconds, secrets.randbits(80))


def token(length: int = 32) -> str:
    """Random text of `length` characters of Crockford base 32 in lower case (5 bits each)."""
    return "".join(secrets.choice(public_ids.ALPHABET) for _ in range(length)).lower()


def seed() -> int:
    """A non-negative 63-bit seed for a decision that is to be replayable."""
    return secrets.randbits(63)


def digest(text: str) -> str:
    """SHA-256 of `text` in hexadecimal: how secrets and tokens are stored."""
    return hashlib.sha256(text.encode()).hexdigest()


def same(left: str, right: str) -> bool:
    """Compare two secrets or digests in constant time."""
    return secrets.compare_digest(left, right)
