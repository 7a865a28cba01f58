"""A job that stores its state is moved to another region and goes on there: preempted, drained, or its node dead.

Whatever happens, it loses at most one interval of work, and the lost attempt costs nothing where the fault is not its own.
"""

from collections.abc import Callable
from typing import Any

import pytest

from billing.models import AttemptEnding
from marketplace.services import nodes
from portal import clock
from scheduling.models import Attempt, Checkpoint, Job
from scheduling.services import logs
from tests.cast import Person
from tests.walks.conftest import Agent, eventually, listed
from tests.walks.test_job import ended, submit

STEP_S = 0.1
WORK = """
mkdir -p ckpt; i=$(cat ckpt/step 2>/dev/null || echo 0)
echo "begins at $i resume ${IDLEWILD_RESUME:-no}"
while [ $i -lt 600 ] && ! [ -e ckpt/enough ]; do i=$((i+1)); echo $i > new; mv new ckpt/step; echo $i; sleep 0.1; done
"""
INTERVAL_S = 3


def steps(attempt: Attempt) -> list[int]:
    text = logs.read(attempt=attempt, stream="stdout").data.decode()
    return [int(line) for line in text.splitlines() if line.isdigit()]


def with_checkpoints(job: Job, count: int, attempt: Attempt | None = None) -> Callable[[], Attempt | None]:
    def look() -> Attempt | None:
        stored = Checkpoint.objects.filter(task__job=job, complete=True)
        if attempt is not None:
            stored = stored.filter(attempt=attempt)
        newest = stored.order_by("-number").values_list("number", flat=True).first()
        if newest is None or stored.count() < count:
            return None
        return Attempt.objects.select_related("node__zone__region").get(task__job=job, state="running")

    return look


def running_again(job: Job, fence: int) -> Callable[[], Attempt | None]:
    def look() -> Attempt | None:
        row = Attempt.objects.select_related("node__zone__region").filter(task__job=job, fence__gt=fence).first()
        return row if row is not None and row.state == "running" and steps(row) else None

    return look


@pytest.mark.timeout(400)
def test_drained_then_killed_it_goes_on_where_it_was(ada: Person, sol: Person, a_machine: Callable[..., Agent]) -> None:
    machines = [a_machine("one", wait=False), a_machine("two", region="west", wait=False), a_machine("three")]
    listed(*machines)
    by_node: dict[int, Any] = {machine.node.id: machine for machine in machines}
    job = submit(ada, WORK, checkpoint={"path": "/job/ckpt", "interval": f"{INTERVAL_S}s"})

    first = eventually(with_checkpoints(job, 1), what="a first checkpoint")
    node = by_node[first.node_id].node
    node.refresh_from_db()
    moment = clock.now()
    nodes.drain(node=node, deadline=moment, by=sol.id, now=moment)
    second = eventually(running_again(job, first.fence), what="it runs on elsewhere")
    first.refresh_from_db()
    assert (first.state, first.reason) == ("cancelled", "node_drained")
    begun = logs.read(attempt=second, stream="stdout").data.decode().splitlines()[0]
    reached = steps(first)[-1]
    assert begun == f"begins at {reached} resume 1" or int(begun.split()[2]) >= reached - 2  # the last one was stored

    stored = Checkpoint.objects.filter(attempt=second, complete=True)
    eventually(lambda: stored.exists(), what="a checkpoint of the second attempt")
    assert by_node[second.node_id].kill() >= 3
    third = eventually(running_again(job, second.fence), what="it runs on after the node's death")
    second.refresh_from_db()
    assert (second.state, second.reason) == ("lost", "node_lost")
    done, begun_at = steps(second)[-1], steps(third)[0] - 1
    assert third.resumed_from
    lost_s = (done - begun_at) * STEP_S
    assert lost_s <= INTERVAL_S, f"{lost_s:.1f} s of work were lost"
    print(f"\n{lost_s:.1f} s of work lost at an interval of {INTERVAL_S} s")

    from scheduling.services import jobs

    jobs.cancel(job=job, by=ada.id, now=clock.now())
    eventually(lambda: ended(job), what="the job ends")
    billed = dict(AttemptEnding.objects.values_list("reason", "billed"))
    assert (billed["node_drained"], billed["node_lost"]) == (False, False)  # the gaps cost nothing
