"""`make chaos`: a running market, and hundreds of kills, freezes, cuts and restarts; then every promise is counted.

    python -m tests.chaos [--deeds 300] [--seed 1] [--real] [--namespaces] [--machines 4] [--json FILE]

`--real` uses the real lease classes (seconds), else the tests' scaled table. `--namespaces` puts each node into a network namespace of its own and takes its
link down (root only); without it the user-space relay between node and platform is cut. Same seed, same order of deeds; when each one meets which job is the
machine's affair. Exit code 0 = nothing is wrong.
"""

import argparse
import json
import statistics
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.chaos import judge
from tests.chaos.monkey import Monkey
from tests.chaos.tenant import Tenant
from tests.chaos.world import World

LONG = 4
SETTLE_S = 300.0
DRAIN_S = 300.0


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def run(options: argparse.Namespace) -> dict[str, Any]:
    """One whole run; what it found."""
    began = time.monotonic()
    scale_s = 15.0 if options.real else 3.0
    with World(real_time=options.real, machines=options.machines, namespaces=options.namespaces) as world:
        tenant = Tenant(
            world.person.key().text, lambda: [f"http://127.0.0.1:{port}" for port in world.ports.values()], options.seed
        )
        long = [tenant.submit("long", "while :; do sleep 1; done") for _ in range(LONG)]
        tenant.start()
        monkey = Monkey(world, options.seed, scale_s)
        say(f"the market runs after {time.monotonic() - began:.0f} s; {options.deeds} deeds, seed {options.seed}")
        while len(monkey.done) < options.deeds:
            monkey.round()
            if len(monkey.done) % 50 == 0 and len(monkey.done):
                say(f"{len(monkey.done)} deeds, {len(tenant.jobs)} jobs")
            pause = monkey.chance.uniform(0.1, 0.5) * scale_s / 3
            until = time.monotonic() + pause
            while time.monotonic() < until:
                monkey.mend()
                time.sleep(0.05)
        monkey.mend(all_of_it=True)
        tenant.stop()
        say("all is mended; what runs must settle")
        world.wait(lambda: judge.settled(world), SETTLE_S, lambda: judge.unsettled(world))
        for job in long:
            tenant.cancel(job)
        world.wait(lambda: not tenant.open(), DRAIN_S, "every job ends")
        world.wait(lambda: not any(machine.supervisors() for machine in world.machines), 60, "every process ends")
        wrong = judge.verdict(world, tenant)
        return {
            "seed": options.seed,
            "deeds": dict(Counter(deed.name for deed in monkey.done)),
            "jobs": len(tenant.jobs),
            "attempts": attempts(),
            "asked_again": tenant.unanswered,
            "takeover_s": {name: spread(values) for name, values in judge.takeovers(monkey.done).items()},
            "wrong": wrong,
            "seconds": round(time.monotonic() - began, 1),
        }


def attempts() -> dict[str, int]:
    from scheduling.models import Attempt

    return dict(
        Counter(f"{state} {reason}".strip() for state, reason in Attempt.objects.values_list("state", "reason"))
    )


def spread(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {
        "n": len(ordered), "p50": round(statistics.median(ordered), 2), "p95": round(ordered[int(0.95 * (len(ordered) - 1))], 2), "max": round(ordered[-1], 2)
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos", description="Kill a running market, and count what it promised."
    )
    parser.add_argument("--deeds", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--machines", type=int, default=4)
    parser.add_argument("--real", action="store_true", help="the real lease classes")
    parser.add_argument("--namespaces", action="store_true", help="nodes in network namespaces of their own (root)")
    parser.add_argument("--json", type=Path, help="also write what was found here")
    options = parser.parse_args()
    found = run(options)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps(found, indent=2))
    return 1 if found["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
