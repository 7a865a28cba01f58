"""`make drill`: the disaster, timed. A market runs and is backed up; every server process is killed and the database's folder deleted; it is brought back.

    python -m tests.chaos.drill [--seconds 20] [--seed 1] [--json FILE]

RPO = how much of what was committed before the disaster is gone (seconds, and jobs that had been answered for). RTO = from the disaster until the platform
answers, until the nodes are heard again, and until a new job runs. Nodes and their jobs live on meanwhile, as they would. Afterwards every promise is counted
as after chaos. Exit code 0 = nothing is wrong and both are within their limits.
"""

import argparse
import json
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

import psutil

from portal.stack import backup
from tests.chaos import judge
from tests.chaos.__main__ import say
from tests.chaos.monkey import _each
from tests.chaos.tenant import Tenant
from tests.chaos.world import World, answers

RPO_S, RTO_S = 1.0, 120.0


def run(options: argparse.Namespace) -> dict[str, Any]:
    with World(machines=2) as world:
        folder = world.folder / "backup"
        backup.prepare(folder)
        receiver = backup.follow_database(world.postgres, folder)
        began = time.monotonic()
        backup.take_database(world.postgres, folder)
        took = time.monotonic() - began
        tenant = Tenant(
            world.person.key().text, lambda: [f"http://127.0.0.1:{port}" for port in world.ports.values()], options.seed
        )
        tenant.patience_s = 2 * RTO_S
        tenant.start()
        say(f"base backup in {took:.1f} s; the market works for {options.seconds} s")
        until = time.monotonic() + options.seconds
        while time.monotonic() < until:
            world.tend()
            time.sleep(0.1)
        at, began = time.time(), time.monotonic()
        disaster(world)
        receiver.wait(10)
        say("disaster: every server process is dead, the database's folder is gone")
        last = backup.restore_database(world.postgres, folder)
        world.valkey.start()
        world.valkey.wait_ready()
        restored = time.monotonic() - began
        for service in world.services.values():
            service.down_until = 0.0
        world.wait(lambda: all(answers(port) for port in world.ports.values()), 120, "the web processes answer")
        answered = time.monotonic() - began
        world.wait(lambda: heard(world), 120, "the nodes are heard")
        again = time.monotonic() - began
        fresh = tenant.submit("fresh", "sleep 1")
        world.wait(lambda: state_of(fresh) in ("running", "done"), 120, "a new job runs")
        works = time.monotonic() - began
        tenant.stop()
        gone = lost_jobs(tenant)
        world.wait(lambda: not tenant.open(), 300, "every job ends")
        world.wait(lambda: not any(machine.supervisors() for machine in world.machines), 60, "every process ends")
        wrong = judge.verdict(world, tenant)
        rpo = max(0.0, at - last.timestamp()) if last else float("inf")
        claims = [
            {"id": "rpo_s", "value": round(rpo, 3), "target": RPO_S, "ok": rpo <= RPO_S},
            {"id": "rpo_jobs", "value": len(gone), "target": 0, "ok": not gone},
            {"id": "rto_s", "value": round(works, 1), "target": RTO_S, "ok": works <= RTO_S},
        ]
        times = {
            "base_backup": took,
            "restored": restored,
            "answers": answered,
            "nodes_heard": again,
            "job_runs": works,
        }
        return {
            "claims": claims,
            "seconds": {name: round(value, 2) for name, value in times.items()},
            "jobs": len(tenant.jobs),
            "wrong": wrong,
        }


def disaster(world: World) -> None:
    """All of the platform at once; not the providers' machines."""
    doomed = [world.postgres.process, world.valkey.process]
    doomed += [service.process for name, service in world.services.items() if not name.startswith("machine")]
    family = []
    for process in doomed:
        if process is not None and process.poll() is None:
            family += [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    _each(family, signal.SIGSTOP)  # as one
    _each(family, signal.SIGKILL)
    for process in doomed:
        if process is not None:
            process.wait(10)
    shutil.rmtree(world.postgres.data)
    shutil.rmtree(world.valkey.folder)


def heard(world: World) -> bool:
    """Each node has spoken since the soft store was lost."""
    from scheduling.selectors import alive

    names = [machine.node.public_id for machine in world.machines]
    return len(alive.ages_ms(names, now_ms=0)) == len(names)


def state_of(job: str) -> str:
    from scheduling.models import Job

    return str(Job.objects.values_list("state", flat=True).get(public_id=job))


def lost_jobs(tenant: Tenant) -> list[str]:
    """Jobs that had been answered for and are not there; they are forgotten here, so that the judge counts the rest."""
    from scheduling.models import Job

    there = set(Job.objects.values_list("public_id", flat=True))
    gone = [job for job in tenant.jobs if job not in there]
    for job in gone:
        del tenant.jobs[job]
    return gone


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.drill", description="Back up, lose everything, bring it back; timed."
    )
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="also write what was found here")
    options = parser.parse_args()
    found = run(options)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps(found, indent=2))
    return 1 if found["wrong"] or not all(claim["ok"] for claim in found["claims"]) else 0


if __name__ == "__main__":
    sys.exit(main())
