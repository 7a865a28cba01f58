"""A gang starts whole, in one zone, behind a barrier; one member's death replaces it whole."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from agent import protocol as wire
from portal.kit.errors import InvalidInput, Unavailable
from portal.outbox.services import relay
from scheduling.domain.attempt import Phase
from scheduling.models import Attempt, Lease, NodeState
from scheduling.selectors import explain
from scheduling.services import cycle, gangs, quotes
from tests.cast import Person
from tests.factories.market import a_node
from tests.factories.running import Work
from tests.scheduling.services.works import NOW, heard, spec, submit

pytestmark = pytest.mark.django_db


def of(task_id: int, fence: int) -> list[Work]:
    rows = Attempt.objects.filter(task_id=task_id, fence=fence).select_related("task__job", "node").order_by("rank")
    return [Work(row.task.job, row.node, row) for row in rows]


def test_all_in_one_zone_or_none(ada: Person, sol: Person) -> None:
    for number in range(2):
        a_node(sol, zone="a", name=f"a{number}", cores=2, prices={"core": "0.10"})
    job = submit(ada, num_nodes=3, resources={"cpus": 2})
    a_node(sol, zone="b", name="b0", cores=2)
    heard()
    cycle.run(now=NOW)
    waits = job.tasks.get().waiting
    assert (waits["reason"], waits["asked"], waits["best"]) == ("gang_incomplete", "3", "2")
    assert waits["tiers"][0]["refused"][0]["reason"] == "zone_short"
    assert Lease.objects.count() == 0
    told = explain.job(job, now=NOW)
    assert (told["reason"]["code"], told["helps"][0]["change"]) == ("gang_incomplete", "num_nodes 2")
    assert "zones" in told["text"]
    for number in range(1, 3):
        a_node(sol, zone="b", name=f"b{number}", cores=2)
    heard()
    cycle.run(now=NOW)
    made = Attempt.objects.order_by("rank")
    assert [one.rank for one in made] == [0, 1, 2]
    assert {one.node.zone.slug for one in made} == {"b"}
    assert {one.fence for one in made} == {1}
    assert len({one.node_id for one in made}) == 3
    assert {state.free_cores_milli for state in NodeState.objects.filter(node__zone__slug="b")} == {0}


def test_nothing_starts_before_all_have_arrived_and_each_knows_the_others(ada: Person, sol: Person) -> None:
    for number in range(2):
        a_node(sol, name=f"n{number}", cores=2)
    heard()
    job = submit(ada, num_nodes=2, resources={"cpus": 2})
    cycle.run(now=NOW)
    first, second = of(job.tasks.get().id, 1)
    first.accept(NOW)
    with pytest.raises(Unavailable):
        gangs.arrived(attempt=first.name, address="10.0.0.1")
    taken = second.accept(NOW)
    gangs.arrived(attempt=second.name, address="10.0.0.2")
    gangs.arrived(attempt=first.name, address="10.0.0.1")  # asked again
    told = gangs.environment(second.fresh(), taken.spec)
    assert told["IDLEWILD_NODE_RANK"] == told["SKYPILOT_NODE_RANK"] == "1"
    assert told["IDLEWILD_NUM_NODES"] == "2"
    assert told["IDLEWILD_NODE_IPS"] == "10.0.0.1\n10.0.0.2"
    for work in (first, second):
        work.report(Phase.RUN, NOW)
    first.finish(NOW)
    assert job.tasks.get().state == "running"
    second.finish(NOW)
    assert job.tasks.get().state == "done"
    job.refresh_from_db()
    assert job.state == "done"


def test_the_door_tells_the_first_to_ask_again_and_the_last_who_the_others_are(ada: Person, sol: Person) -> None:
    for number in range(2):
        a_node(sol, name=f"n{number}", cores=2)
    heard()
    job = submit(ada, num_nodes=2, resources={"cpus": 2}, outputs=[{"name": "model", "path": "/job/m"}])
    cycle.run(now=NOW)
    first, second = of(job.tasks.get().id, 1)

    def ask(work: Work, address: str) -> Any:
        headers = {
            wire.HEADER_WIRE: "1",
            "Authorization": wire.authorization(work.node.public_id, "node-secret-of-the-tests"),
        }
        body = {"boot_id": "boot-1", "incarnation": 1, "fence": 1}
        return Client(REMOTE_ADDR=address).post(
            wire.accept_path(work.name), json.dumps(body), content_type="application/json", headers=headers
        )

    early = ask(first, "10.0.0.1")
    assert (early.status_code, early.json()["code"]) == (503, "GANG_WAITS")
    last, again = ask(second, "10.0.0.2"), ask(first, "10.0.0.1")
    assert [last.status_code, again.status_code] == [200, 200]
    specs = [wire.AssignmentSpec.from_wire(answer.json()) for answer in (again, last)]
    assert [one.envs["IDLEWILD_NODE_RANK"] for one in specs] == ["0", "1"]
    assert {one.envs["IDLEWILD_NODE_IPS"] for one in specs} == {"10.0.0.1\n10.0.0.2"}
    assert [len(one.outputs) for one in specs] == [1, 0]


def test_one_members_death_replaces_the_gang(ada: Person, sol: Person) -> None:
    for number in range(3):
        a_node(sol, name=f"n{number}", cores=2)
    heard()
    job = submit(ada, num_nodes=2, resources={"cpus": 2})
    cycle.run(now=NOW)
    first, second = of(job.tasks.get().id, 1)
    for work in (first, second):
        work.accept(NOW)
        work.report(Phase.RUN, NOW)
    first.finish(NOW, reason="start_failed")
    assert job.tasks.get().state == "running"
    relay(now=NOW)
    stopped = second.fresh()
    assert (stopped.state, stopped.actor) == ("cancelling", gangs.ACTOR)
    second.finish(NOW, reason="preempted", exit_code=None)
    task = job.tasks.get()
    assert (task.state, task.failures) == ("queued", {"start_failed": 1})
    later = NOW + timedelta(seconds=1)
    heard(now=later)
    cycle.run(now=later)
    again = of(task.id, 2)
    assert [work.attempt.rank for work in again] == [0, 1]
    assert first.node.id not in {work.node.id for work in again}  # it could not start it


def test_a_quote_is_for_one_node(ada: Person, sol: Person) -> None:
    with pytest.raises(InvalidInput):
        quotes.make(actor_org=ada.organisation, project=None, spec=spec(num_nodes=2), by=ada.id, now=NOW)
