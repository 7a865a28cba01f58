"""Watch tasks being placed, from outside: when each placement could first be read, and when its job had come. Prints JSON.

    python -m benchmarks.throughput.watch 15000 [seconds]

A placement counts from the moment its committed row is read here (every 50 ms), so what is measured is never earlier than what a tenant could see.
"""

import json
import os
import sys
import time
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
django.setup()

from django.db.models import Max  # noqa: E402 models come after the set-up

from portal import clock  # noqa: E402
from scheduling.models import Attempt  # noqa: E402

LOOK_S = 0.05
BACK = 300


def watched(count: int, limit_s: float) -> dict[str, Any]:
    """Wait for `count` placements after now."""
    first = Attempt.objects.aggregate(last=Max("id"))["last"] or 0
    print("ready", flush=True)
    seen: dict[int, float] = {}
    came: dict[int, float] = {}
    until = time.monotonic() + limit_s
    while len(seen) < count and time.monotonic() < until:
        now = clock.now().timestamp()
        rows = Attempt.objects.filter(
            id__gt=max(first, max(seen, default=0) - BACK)
        )  # ids may be committed out of order
        for attempt, created in rows.values_list("id", "task__job__created_at"):
            if attempt not in seen:
                seen[attempt], came[attempt] = now, created.timestamp()
        time.sleep(LOOK_S)
    return _figures(seen, came)


def _figures(seen: dict[int, float], came: dict[int, float]) -> dict[str, Any]:
    order = sorted(seen, key=lambda attempt: came[attempt])
    waits = [seen[attempt] - came[attempt] for attempt in order]
    half = sorted(waits[: len(waits) // 2])
    first, end = min(came.values(), default=0.0), max(seen.values(), default=0.0)
    rates = _rates(sorted(seen.values()))
    return {
        "placed": len(seen),
        "seconds": round(end - first, 3),
        "per_s": round(len(seen) / (end - first), 1) if end > first else 0.0,
        "first_half_p50_s": round(_at(half, 50), 3),
        "first_half_p95_s": round(_at(half, 95), 3),
        "all_p50_s": round(_at(sorted(waits), 50), 3),
        "all_p95_s": round(_at(sorted(waits), 95), 3),
        "slowest_10_s_per_s": rates,
    }


def _rates(moments: list[float], window: float = 10.0) -> float:
    """The fewest placements a second in any whole window between the first and the last."""
    if not moments or moments[-1] - moments[0] < window:
        return 0.0
    worst, start = float("inf"), moments[0]
    while start + window <= moments[-1]:
        worst = min(worst, sum(start <= moment < start + window for moment in moments) / window)
        start += 1.0
    return round(worst, 1)


def _at(ordered: list[float], percent: int) -> float:
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)] if ordered else 0.0


if __name__ == "__main__":
    print(json.dumps(watched(int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 600.0)))
