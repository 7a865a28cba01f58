"""The clocks of an agent. Deadlines count on CLOCK_BOOTTIME, which goes on in suspend: a lease does too. Metering counts on
CLOCK_MONOTONIC, which stops: a suspended machine computes nothing. The wall clock decides nothing at all."""

from __future__ import annotations

import time
from pathlib import Path


def boot_ms() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def monotonic_us() -> int:
    return time.monotonic_ns() // 1000


def boot_id() -> str:
    """Changes with every start of the machine: the same boot id and start time name a process for good."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
