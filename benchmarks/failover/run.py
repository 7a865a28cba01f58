"""How long it takes until work goes on elsewhere: after a silent death, after a failure that is seen, after a leader's death.

    .venv/bin/python benchmarks/failover/run.py [--quick] [--json] [--only PART …] [--samples N]

It runs a whole market of its own (tests/chaos/world: PostgreSQL, Valkey, two webs, workers, two beats, real agents with real jobs) and kills one thing after
the other. Nothing is left running. See README.md beside this file.
"""

import argparse
import contextlib
import json
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.failover import baseline  # noqa: E402 the tree is not installed
from benchmarks.start.run import commit, machine, percentile  # noqa: E402
from tests.chaos.monkey import _each, _kill_family  # noqa: E402
from tests.chaos.tenant import Tenant  # noqa: E402
from tests.chaos.world import Machine, World  # noqa: E402

SAMPLES, QUICK_SAMPLES = 20, 2
LONG = "while :; do sleep 1; done"
PER_NODE = 2
QUICK_BUDGET_S = {"standard": 10.0, "fast": 10.0}
"""With the tests' scaled lease table a silent node lapses after 3.6 s."""


@dataclass(frozen=True)
class Part:
    """What is measured: its budget in seconds (of the slowest, or of the 95th percentile from 100 samples on), and how."""

    name: str
    what: str
    budget_s: float
    measure: Callable[["Bench", int], list[float]]


@dataclass
class Bench:
    world: World
    tenant: Tenant
    jobs: dict[str, list[str]] = field(default_factory=dict)  # lease class → jobs that run on

    def running(self, **more: Any) -> list[Any]:
        from scheduling.models import Attempt

        return list(Attempt.objects.filter(state="running", **more).select_related("task__job", "node", "lease"))

    def hold_running(self, lease: str, count: int) -> None:
        """So many jobs of the class run on."""
        mine = self.jobs.setdefault(lease, [])
        while len(mine) < count:
            mine.append(self.tenant.submit(f"keeps-{lease}", LONG, on_disconnect={"lease": lease}))
        self.world.wait(
            lambda: len([one for one in self.running() if one.task.job.public_id in mine]) == count,
            240,
            f"{count} jobs of class {lease} run",
        )

    def end(self, lease: str) -> None:
        for job in self.jobs.pop(lease, []):
            self.tenant.cancel(job)
        self.world.wait(lambda: not self.tenant.open(), 120, "the jobs end")

    def again_after(self, attempt: Any, at: float, within: float) -> float:
        """Seconds from `at` until the attempt's task runs elsewhere."""
        from scheduling.models import Attempt

        def next_one() -> Any:
            return (
                Attempt.objects.filter(task_id=attempt.task_id, fence__gt=attempt.fence, started_at__isnull=False)
                .order_by("fence")
                .first()
            )

        found = self.world.wait(next_one, within, f"{attempt.public_id} goes on elsewhere")
        return float(found.started_at.timestamp() - at)

    def crowded(self, lease: str) -> Machine | None:
        """The node with the most jobs of that class."""
        counts: dict[int, int] = {}
        for attempt in self.running(lease__lease_class=lease):
            counts[attempt.node_id] = counts.get(attempt.node_id, 0) + 1
        there = max(counts, key=lambda node: counts[node], default=None)
        return next((one for one in self.world.machines if one.node.id == there), None)

    def all_back(self) -> None:
        from scheduling.selectors import alive

        names = [one.node.public_id for one in self.world.machines]
        now = lambda: int(time.time() * 1000)  # noqa: E731 - the store and we share a clock here
        self.world.wait(
            lambda: [*alive.ages_ms(names, now_ms=now()).values()] == [0] * len(names), 120, "every node is heard"
        )


# --- what is killed -----------------------------------------------------------------------------------------------------------
def kill_node(bench: Bench, machine_: Machine, *, away: float) -> float:
    tree = machine_.tree()
    at = time.time()
    _each(tree, signal.SIGSTOP)
    _each([*tree, *machine_.tree()], signal.SIGKILL)
    machine_.service.down_until = time.monotonic() + away
    return at


def silent_death(lease: str) -> Callable[[Bench, int], list[float]]:
    def measure(bench: Bench, samples: int) -> list[float]:
        took: list[float] = []
        count = PER_NODE * (len(bench.world.machines) - 1)
        while len(took) < samples:
            bench.hold_running(lease, count)
            bench.all_back()
            victim = bench.crowded(lease)
            assert victim is not None
            mine = bench.running(node_id=victim.node.id, lease__lease_class=lease)
            at = kill_node(bench, victim, away=30 if bench.world.real_time else 8)
            took += [bench.again_after(attempt, at, 90) for attempt in mine]
            victim.service.down_until = 0.0
        bench.end(lease)
        return took

    return measure


def observed(bench: Bench, samples: int) -> list[float]:
    """A supervisor dies; its agent sees it at once."""
    took: list[float] = []
    bench.hold_running("standard", PER_NODE)
    while len(took) < samples:
        bench.hold_running("standard", PER_NODE)
        attempt = bench.running()[0]
        where = next(one for one in bench.world.machines if one.node.id == attempt.node_id)
        mine = [process for process in where.supervisors() if attempt.public_id in " ".join(process.cmdline())]
        at = time.time()
        for process in mine:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        took.append(bench.again_after(attempt, at, 60))
    bench.end("standard")
    return took


def engine_leader(bench: Bench, samples: int) -> list[float]:
    """The worker process that leads the engine dies with its pool."""
    from scheduling.services import leader

    took: list[float] = []
    while len(took) < samples:
        row = bench.world.wait(lambda: (seen := leader.seen()) and seen.holder and seen, 60, "an engine leads")
        pid = int(row.holder.split(".")[0])
        workers = [one for name, one in bench.world.services.items() if name.startswith("worker-cycle") and one.pid]
        holder = next(
            (
                one
                for one in workers
                if pid in {child.pid for child in psutil.Process(one.pid).children(recursive=True)}
            ),
            None,
        )
        if holder is None:
            bench.world.tend()
            time.sleep(0.5)
            continue
        at = time.time()
        _kill_family(holder)
        holder.down_until = time.monotonic() + 20
        found = bench.world.wait(
            lambda row=row: (seen := leader.seen()) and seen.takeovers > row.takeovers and seen,
            60,
            "another engine leads",
        )
        took.append(found.since.timestamp() - at)
        holder.down_until = 0.0
        bench.world.wait(lambda one=holder: one.pid is not None, 60, "the worker is back")
        time.sleep(4)
    return took


def beat_leader(bench: Bench, samples: int) -> list[float]:
    """Both beats in turn: the longest pause of the sweep that follows a kill. One of two kills meets the passive one."""
    took: list[float] = []
    turn = 0
    while len(took) < samples:
        turn += 1
        service = bench.world.services[f"beat-{1 + turn % 2}"]
        bench.world.wait(lambda one=service: one.pid is not None and sweeps_go_on(), 60, "the sweep goes on")
        _kill_family(service)
        service.down_until = time.monotonic() + 25
        took.append(longest_pause(bench, 18))
        service.down_until = 0.0
    return [pause for pause in took if pause > 1.0] or took


def longest_pause(bench: Bench, seconds: float) -> float:
    """The longest time without a sweep within the next `seconds`, an unfinished one counted as far as it has come."""
    until, last, longest = time.monotonic() + seconds, swept_at(), 0.0
    mark = time.time()
    while time.monotonic() < until:
        bench.world.tend()
        now = swept_at()
        if now != last:
            last, mark = now, time.time()
        longest = max(longest, time.time() - mark)
        time.sleep(0.05)
    return longest


def swept_at() -> Any:
    from scheduling.models import SweepState

    return SweepState.objects.values_list("swept_at", flat=True).first()


def sweeps_go_on() -> bool:
    first = swept_at()
    time.sleep(1.0)
    return bool(swept_at() != first)


def double_fault(bench: Bench, samples: int) -> list[float]:
    """A node dies, and a beat with it: each of the two in turn, so that half of the kills meet the leader."""
    took: list[float] = []
    turn = 0
    while len(took) < samples:
        turn += 1
        bench.hold_running("standard", PER_NODE * (len(bench.world.machines) - 1))
        bench.all_back()
        victim = bench.crowded("standard")
        assert victim is not None
        mine = bench.running(node_id=victim.node.id)
        beat = bench.world.services[f"beat-{1 + turn % 2}"]
        _kill_family(beat)
        beat.down_until = time.monotonic() + 40
        at = kill_node(bench, victim, away=50)
        took += [bench.again_after(attempt, at, 120) for attempt in mine]
        victim.service.down_until = beat.down_until = 0.0
    bench.end("standard")
    return took


def zone_death(bench: Bench, samples: int) -> list[float]:
    """Every node of a region at once; capacity elsewhere is kept free for it."""
    took: list[float] = []
    while len(took) < samples:
        bench.hold_running("standard", PER_NODE * 2)
        bench.all_back()
        doomed = [one for one in bench.world.machines if one.region == "west"]
        mine = [attempt for attempt in bench.running() if attempt.node_id in {one.node.id for one in doomed}]
        at = time.time()
        for one in doomed:
            kill_node(bench, one, away=40 if bench.world.real_time else 10)
        took += [bench.again_after(attempt, at, 120) for attempt in mine]
        for one in doomed:
            one.service.down_until = 0.0
        if not mine:
            bench.end("standard")
    bench.end("standard")
    return took


PARTS = (
    Part("observed", "a supervisor dies → running again", 3.0, observed),
    Part("standard", "a node dies silently → running elsewhere, class standard", 20.0, silent_death("standard")),
    Part("fast", "a node dies silently → running elsewhere, class fast", 10.0, silent_death("fast")),
    Part("engine", "the engine's leader dies → another leads", 8.0, engine_leader),
    Part("beat", "a beat dies → sweeps go on", 15.0, beat_leader),
    Part("zone", "a region's nodes die at once → running elsewhere", 20.0, zone_death),
    Part("double", "a node and a beat die together → running elsewhere", 32.0, double_fault),
)
QUICK_PARTS = ("observed", "standard", "engine")


def measured(parts: Sequence[Part], samples: int, *, quick: bool) -> dict[str, Any]:
    here = machine()
    claims, found = [], {}
    with World(real_time=not quick, machines=3 if quick else 4) as world:
        tenant = Tenant(
            world.person.key().text, lambda: [f"http://127.0.0.1:{port}" for port in world.ports.values()], 1
        )
        bench = Bench(world, tenant)
        for part in parts:
            took = part.measure(bench, samples)
            shown = percentile(took, 0.95) if len(took) >= 100 else max(took)
            budget = QUICK_BUDGET_S.get(part.name, part.budget_s) if quick else part.budget_s
            found[part.name] = {
                "n": len(took),
                "p50_s": round(percentile(took, 0.5), 2),
                "p95_s": round(percentile(took, 0.95), 2),
                "max_s": round(max(took), 2),
            }
            claims.append(
                {
                    "id": f"failover.{part.name}{'.quick' if quick else ''}", "what": f"{part.what}, {'p95' if len(took) >= 100 else 'slowest'} of {len(took)}",
                    "value": round(shown, 2), "unit": "s", "target": f"<= {budget:g}", "ok": shown <= budget,
                }
            )  # fmt: skip
            sys.stderr.write(f"{part.name}: {found[part.name]}\n")
    return {
        "claims": claims,
        "parts": found,
        "baselines": baseline.floors(),
        "seed": 1,
        "commit": commit(),
        "machine": here,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the tests' scaled lease table, few samples")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--samples", type=int, default=0, help=f"of each part ({SAMPLES})")
    parser.add_argument("--only", nargs="+", choices=[part.name for part in PARTS], help="these parts")
    options = parser.parse_args()
    names = options.only or (QUICK_PARTS if options.quick else [part.name for part in PARTS])
    result = measured(
        [part for part in PARTS if part.name in names],
        options.samples or (QUICK_SAMPLES if options.quick else SAMPLES),
        quick=options.quick,
    )
    if options.json:
        print(json.dumps(result, indent=1))
    else:
        for claim in result["claims"]:
            print(f"{'ok ' if claim['ok'] else 'NOT'} {claim['what']}: {claim['value']} s (target {claim['target']} s)")
        print(f"    {result['baselines']}")
    return 0 if all(claim["ok"] for claim in result["claims"]) else 1


if __name__ == "__main__":
    sys.exit(main())
