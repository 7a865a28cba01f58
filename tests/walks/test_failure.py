"""A failure: the whole node dies in mid-job; the job runs elsewhere under the next fence, and the lost attempt costs nothing.

Once with the scaled lease table, once with the real one (class standard: running elsewhere within 20 s).
"""

import time
from collections.abc import Callable
from datetime import timedelta

import pytest

from billing.models import AttemptEnding, UsageRecord
from billing.selectors.usage import job_cost
from portal import clock
from portal.kit.errors import StaleFence
from scheduling.models import Attempt, Job, NodeState
from scheduling.services import logs, reports
from tests.cast import Person
from tests.walks.conftest import Agent, eventually, listed
from tests.walks.test_job import ended, submit

COUNT = "i=0; while [ $i -lt {n} ]; do echo line $i; i=$((i+1)); sleep 1; done"


def running(job: Job) -> Attempt | None:
    """The running attempt of the job, once it has printed something."""
    attempt = Attempt.objects.select_related("node", "lease").filter(task__job=job, state="running").first()
    return attempt if attempt is not None and logs.sizes(attempt=attempt)["stdout"] else None


def walk(ada: Person, first: Agent, second: Agent, *, usage_within: float) -> float:
    """Run, kill the node that runs it, see it end elsewhere; the seconds from the kill until it ran again."""
    job = submit(ada, COUNT.format(n=8))
    attempt = eventually(lambda: running(job), what="the job runs and prints")
    victim, other = (first, second) if attempt.node_id == first.node.id else (second, first)
    proven = (
        eventually(
            lambda: UsageRecord.objects.filter(attempt_ref=attempt.public_id, resource="core").first(),
            within=usage_within,
            what="a first usage report",
        )
        if usage_within
        else None
    )
    killed = time.monotonic()
    assert victim.kill() >= 3  # agent, supervisor, sandbox
    again = eventually(
        lambda: Attempt.objects.filter(task__job=job, fence__gt=attempt.fence, state="running").first(),
        within=60,
        every=0.05,
        what="running elsewhere",
    )
    seconds = time.monotonic() - killed
    assert again.node_id == other.node.id

    attempt.refresh_from_db()
    assert (attempt.state, attempt.reason, attempt.fault) == ("lost", "node_lost", "provider")
    assert attempt.replaced_by_id == again.id
    for speak in (
        lambda: reports.accepted(node=victim.node, attempt=attempt.public_id, fence=attempt.fence, now=clock.now()),
    ):
        with pytest.raises(StaleFence):
            speak()

    eventually(lambda: ended(job), what="the job ends")
    assert job.state == "done"
    lost = UsageRecord.objects.filter(attempt_ref=attempt.public_id, resource="core", state="ok")
    metered = sum(lost.values_list("qty_us", flat=True))
    if proven is not None:
        assert metered >= proven.qty_us
        ran = (attempt.proven_until - attempt.started_at) + timedelta(milliseconds=500)
        assert metered <= attempt.lease.cores_milli * int(ran / timedelta(microseconds=1)) // 1000
    ending = AttemptEnding.objects.get(attempt_ref=attempt.public_id)
    assert (ending.reason, ending.billed) == ("node_lost", False)
    won = sum(
        UsageRecord.objects.filter(attempt_ref=again.public_id, resource="core", state="ok").values_list(
            "qty_us", flat=True
        )
    )
    assert won > 0
    billed = {line.wire()["quantity"] for line in job_cost(job.public_id).lines}
    assert billed
    state = NodeState.objects.get(node_id=victim.node.id)
    assert state.free_cores_milli == state.total_cores_milli
    assert logs.read(attempt=attempt, stream="stdout").data.startswith(b"line 0\n")  # kept though the node is gone
    return seconds


def test_a_failure(ada: Person, a_machine: Callable[..., Agent]) -> None:
    first, second = a_machine("one", wait=False), a_machine("two", region="west")
    listed(first, second)
    walk(ada, first, second, usage_within=30)
    # The old machine comes back with what it remembers: it is told 410, and the books stay as they are.
    before = UsageRecord.objects.filter(state="ok").count()
    victim = (
        first if not NodeState.objects.filter(node=first.node).exists() or first.process.poll() is not None else second
    )
    victim.up()
    eventually(lambda: "connected" in victim.product.log(victim.name).rpartition("incarnation 1")[2], what="it is back")
    time.sleep(3)
    assert UsageRecord.objects.filter(state="ok").count() == before
    assert {"lost", "succeeded"} <= set(Attempt.objects.values_list("state", flat=True))


@pytest.mark.real_time
@pytest.mark.timeout(300)
def test_running_elsewhere_within_twenty_seconds(ada: Person, a_machine: Callable[..., Agent]) -> None:
    first, second = a_machine("one", wait=False), a_machine("two", region="west")
    listed(first, second)
    seconds = walk(ada, first, second, usage_within=0)
    print(f"\nrunning elsewhere after {seconds:.1f} s")
    assert seconds <= 20.0


@pytest.mark.real_time
@pytest.mark.timeout(300)
def test_an_agent_that_is_killed_and_started_again_loses_no_second(
    ada: Person, a_machine: Callable[..., Agent]
) -> None:
    """P21 on a real agent: only the agent dies; the same process goes on under the same lease, its log has no gap."""
    machine = a_machine("one", own_jobs=False)
    job = submit(ada, COUNT.format(n=25))
    attempt = eventually(lambda: running(job), what="the job runs and prints")
    for starts in range(2, 5):
        machine.restart()
        eventually(
            lambda starts=starts: machine.product.log(machine.name, 20_000).count("connected to") == starts,
            what="the agent is back",
        )
    eventually(lambda: ended(job), within=120, what="the job ends")
    assert job.state == "done"
    assert Attempt.objects.filter(task__job=job).count() == 1
    attempt.refresh_from_db()
    lines = logs.read(attempt=attempt, stream="stdout").data.decode().split()[1::2]
    assert lines == [str(n) for n in range(25)]
    metered = sum(
        UsageRecord.objects.filter(attempt_ref=attempt.public_id, resource="core").values_list("qty_us", flat=True)
    )
    ran = attempt.stats["ran_us"] * attempt.lease.cores_milli // 1000
    assert abs(metered - ran) <= 100_000 * attempt.lease.cores_milli // 1000
