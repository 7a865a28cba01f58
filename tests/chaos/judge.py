"""What must be true after any number of kills: counted in the database and among the processes, each rule a function that returns what breaks it."""

import itertools
from collections import Counter
from collections.abc import Iterable
from typing import Any

from tests.chaos.tenant import Tenant
from tests.chaos.world import World

TERMINAL = ("job.done", "job.failed", "job.cancelled")


def leases_and_processes(world: World) -> list[str]:
    """While long jobs run on a healed market: a live lease without a supervisor, a supervisor without a live lease."""
    from scheduling.models import Attempt

    live = set(
        Attempt.objects.filter(state__in=["running", "cancelling", "unreachable"]).values_list("public_id", flat=True)
    )
    there = set(supervised(world))
    return [f"lease of {name} has no process" for name in sorted(live - there)] + [
        f"process of {name} has no lease" for name in sorted(there - live)
    ]


def supervised(world: World) -> Iterable[str]:
    """Attempts whose supervisors live, read from their command lines."""
    for machine in world.machines:
        for process in machine.supervisors():
            for word in process.cmdline():
                found = next((part for part in word.split("/") if part.startswith("att_")), None)
                if found:
                    yield found


def unsettled(world: World) -> list[str]:
    """What has not come to rest yet: tasks that wait though nothing is broken, leases and processes without each other."""
    from scheduling.models import Task

    waiting = Task.objects.filter(state__in=["queued", "placed", "waiting"]).values_list(
        "public_id", "state", "waiting"
    )
    return [f"task {name} is {state}: {why}" for name, state, why in waiting] + leases_and_processes(world)


def settled(world: World) -> bool:
    return not unsettled(world)


def verdict(world: World, tenant: Tenant) -> list[str]:
    """Everything that is wrong at the end, when all jobs have ended."""
    wrong: list[str] = [*tenant.failures]
    for rule in (
        _nothing_lost,
        _one_end,
        _one_result,
        _capacity_back,
        _no_second_twice,
        _billed_by_the_table,
        _own_retries,
        _nobody_left,
    ):
        wrong += [f"{rule.__name__.strip('_')}: {found}" for found in rule(world, tenant)]
    return wrong


def _nothing_lost(world: World, tenant: Tenant) -> list[str]:
    from scheduling.models import Job

    there = dict(Job.objects.values_list("public_id", "state"))
    wrong = [f"{job} was answered for and is not there" for job in tenant.jobs if job not in there]
    wrong += [f"{job} was made twice or by nobody" for job in there if job not in tenant.jobs]
    return wrong + [f"{job} is {state}" for job, state in there.items() if state not in ("done", "failed", "cancelled")]


def _one_end(world: World, tenant: Tenant) -> list[str]:
    from scheduling.models import JobEvent

    ends = Counter(JobEvent.objects.filter(type__in=TERMINAL).values_list("job__public_id", flat=True))
    return [f"{job} has {ends[job]} terminal events" for job in tenant.jobs if ends[job] != 1]


def _one_result(world: World, tenant: Tenant) -> list[str]:
    from scheduling.models import Attempt, Task

    accepted = Counter(Attempt.objects.filter(result_accepted=True).values_list("task_id", "rank"))
    wrong = [f"task {key} has {count} results" for key, count in accepted.items() if count > 1]
    done = Attempt.objects.filter(task__state="done", result_accepted=True).values_list("task_id", flat=True)
    return wrong + [
        f"task {name} is done without a result"
        for name in Task.objects.filter(state="done").exclude(id__in=done).values_list("public_id", flat=True)
    ]


def _capacity_back(world: World, tenant: Tenant) -> list[str]:
    from portal import clock
    from scheduling.models import Lease, NodeState
    from scheduling.services import capacity

    drift = capacity.reconcile(now=clock.now())
    wrong = [f"inventory_drift is {drift}"] if drift else []
    wrong += [f"lease {lease.public_id} still holds capacity" for lease in Lease.objects.filter(capacity_freed=False)]
    return wrong + [
        f"{state.node.name} has not all free"
        for state in NodeState.objects.select_related("node")
        if state.free_cores_milli != state.total_cores_milli
    ]


def _no_second_twice(world: World, tenant: Tenant) -> list[str]:
    """Stored facts of one attempt don't overlap, and two attempts of a task don't either: metered = proven."""
    from billing.models import UsageRecord

    rows: dict[Any, list[Any]] = {}
    for row in UsageRecord.objects.filter(state="ok").exclude(resource="network_byte").order_by("started_at"):
        rows.setdefault((row.job_ref, row.task_name, row.resource), []).append(row)
    wrong = []
    for key, facts in rows.items():
        for earlier, later in itertools.pairwise(facts):
            if later.started_at < earlier.ended_at and later.qty_us and earlier.qty_us:
                wrong.append(
                    f"{key}: {earlier.attempt_ref} until {earlier.ended_at:%T.%f}, {later.attempt_ref} from {later.started_at:%T.%f}"
                )
    return wrong


def _billed_by_the_table(world: World, tenant: Tenant) -> list[str]:
    from billing.domain.endings import REASONS
    from billing.models import AttemptEnding, UsageRecord

    endings = {row.attempt_ref: row for row in AttemptEnding.objects.all()}
    wrong = [
        f"{row.attempt_ref} ended {row.reason} by {row.fault}, billed is {row.billed}"
        for row in endings.values()
        if (row.fault, row.billed) != REASONS[row.reason]
    ]
    used = set(UsageRecord.objects.filter(state="ok").values_list("attempt_ref", flat=True))
    return wrong + [f"{name} was metered and has no ending" for name in sorted(used - endings.keys())]


def _own_retries(world: World, tenant: Tenant) -> list[str]:
    """What the platform or a provider did never ends a tenant's job."""
    from scheduling.models import Job

    wrong = []
    for job in Job.objects.all():
        kind = tenant.jobs.get(job.public_id, "")
        if job.state == "failed" and kind != "fails":
            wrong.append(f"{job.public_id} ({kind}) failed: {job.reason}")
        if job.state == "done" and kind == "fails":
            wrong.append(f"{job.public_id} exits 3 and is done")
    return wrong


def _nobody_left(world: World, tenant: Tenant) -> list[str]:
    return [
        f"{process.pid} still supervises on {machine.name}"
        for machine in world.machines
        for process in machine.supervisors()
    ]


def takeovers(done: list[Any]) -> dict[str, list[float]]:
    """Deed → seconds from the kill until what ran there ran elsewhere, for each attempt that the deed ended."""
    from scheduling.models import Attempt

    found: dict[str, list[float]] = {}
    for deed in done:
        for name in deed.attempts:
            lost = Attempt.objects.select_related("task").get(public_id=name)
            again = (
                Attempt.objects.filter(task=lost.task, fence__gt=lost.fence, started_at__isnull=False)
                .order_by("fence")
                .first()
            )
            if lost.state in ("lost", "failed") and again is not None and again.started_at is not None:
                found.setdefault(deed.name, []).append(again.started_at.timestamp() - deed.at)
    return found
