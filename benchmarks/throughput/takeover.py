"""Kill the process that leads and see how long nobody runs cycles. Prints JSON.

    python -m benchmarks.throughput.takeover 10

The leader is the worker process named in the leader's row; it gets SIGKILL. The next leader counts from the moment that its row is read here.
"""

import json
import os
import signal
import sys
import time
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
django.setup()

from portal import clock  # noqa: E402 models come after the set-up
from scheduling.models import EngineLeader  # noqa: E402

LOOK_S, LIMIT_S, REST_S = 0.05, 60.0, 2.0


def once() -> float:
    """Seconds from the kill to the next leader."""
    leader = _leader("")
    began = time.monotonic()
    os.kill(int(leader.holder.partition(".")[0]), signal.SIGKILL)
    _leader(leader.holder)
    return time.monotonic() - began


def _leader(other_than: str) -> EngineLeader:
    until = time.monotonic() + LIMIT_S
    while time.monotonic() < until:
        found = EngineLeader.objects.filter(id=1, until__gt=clock.now()).exclude(holder=other_than).first()
        if found is not None and found.holder:
            return found
        time.sleep(LOOK_S)
    raise SystemExit("nobody leads")


def taken_over(times: int) -> dict[str, Any]:
    """The list, and its slowest."""
    took = []
    for _ in range(times):
        took.append(round(once(), 2))
        time.sleep(REST_S)
    return {"seconds": took, "slowest": max(took)}


if __name__ == "__main__":
    print(json.dumps(taken_over(int(sys.argv[1]))))
