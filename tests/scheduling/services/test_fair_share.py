"""Fairness on the running product: weights, owner first, room made by spot work only, planned starts, one engine at a time."""

import threading
import time
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connections

from portal.accounts.services import organisations
from portal.audit.models import AuditEvent
from portal.kit.errors import InvalidInput
from scheduling.domain import placement
from scheduling.domain.attempt import Phase
from scheduling.models import Attempt, EngineLeader, Lease, NodeState, PlacementDecision
from scheduling.selectors import asking, explain, snapshot
from scheduling.services import cycle, engine, leader, planned, room
from tests.cast import Person
from tests.factories.market import a_node
from tests.factories.running import Work
from tests.scheduling.services.works import NOW, heard, submit


def running(attempt: Attempt, *, now: Any = NOW) -> Work:
    """The agent's side of an attempt that the cycle has made; its process runs."""
    work = Work(attempt.task.job, attempt.node, attempt)
    work.accept(now)
    work.report(Phase.RUN, now)
    return work


@pytest.mark.django_db
def test_weights_share_what_is_scarce(ada: Person, cleo: Person, sol: Person, staff: Person) -> None:
    organisations.set_share_weight(organisation=ada.organisation, milli=3_000, by=staff.id, now=NOW)
    assert AuditEvent.objects.filter(deed="organisation.weight").count() == 1
    node = a_node(sol, cores=8)
    heard()
    for _ in range(8):
        submit(cleo)
    for _ in range(8):
        submit(ada)
    cycle.run(now=NOW)
    held = [lease.attempt.task.job.organisation_id for lease in Lease.objects.filter(node=node)]
    assert held.count(ada.organisation.id) == 6
    assert held.count(cleo.organisation.id) == 2
    call_command("share_weight", ada.organisation.public_id, "0.5")
    ada.organisation.refresh_from_db()
    assert ada.organisation.share_weight_milli == 500
    for wrong in (("nobody", "1"), (ada.organisation.slug, "much"), (ada.organisation.slug, "1001")):
        with pytest.raises(CommandError):
            call_command("share_weight", *wrong)
    with pytest.raises(InvalidInput):
        organisations.set_share_weight(organisation=ada.organisation, milli=0, by=staff.id, now=NOW)


@pytest.mark.django_db
def test_an_owners_nodes_serve_its_own_jobs_first_though_others_are_cheaper(
    ada: Person, sol: Person, cleo: Person
) -> None:
    mine = a_node(sol, cores=2, prices={"core": "0.50"})
    other = a_node(cleo, cores=8, prices={"core": "0.10"})
    heard()
    for _ in range(8):
        submit(ada)  # would like the whole market, and came first
    own = [submit(sol, placement={"pick": "cheapest"}) for _ in range(3)]
    cycle.run(now=NOW)
    places = [Attempt.objects.get(task__job=job).node_id for job in own]
    assert places.count(mine.id) == 2
    assert places.count(other.id) == 1
    assert Lease.objects.filter(attempt__task__job__organisation=ada.organisation).count() == 7


@pytest.mark.django_db
def test_what_an_owner_holds_of_its_own_nodes_does_not_count_against_its_share(
    sol: Person, cleo: Person, ada: Person
) -> None:
    a_node(sol, cores=4)
    heard()
    for _ in range(4):
        submit(sol)
    cycle.run(now=NOW)
    a_node(cleo, cores=2, prices={"core": "0.10"})
    heard()
    theirs = [submit(who) for who in (sol, ada)]
    cycle.run(now=NOW)
    assert [job.tasks.get().state for job in theirs] == ["placed", "placed"]


@pytest.mark.django_db
def test_a_fixed_price_job_takes_the_place_of_an_interruptible_one(
    ada: Person, cleo: Person, ben: Person, sol: Person
) -> None:
    """The victim is billed to the stop and queued again; what it frees waits for the job that displaced it."""
    node = a_node(sol, cores=2, terms={"spot_factor": "0.5"})
    heard()
    spot = submit(ada, resources={"use_spot": True, "cpus": 2})
    cycle.run(now=NOW)
    work = running(Attempt.objects.get())
    young, later = NOW + timedelta(seconds=60), NOW + timedelta(seconds=200)
    fixed = submit(cleo, resources={"cpus": 2}, now=young)
    heard(now=young)
    cycle.run(now=young)
    assert fixed.tasks.get().waiting["reason"] == "cores_short"  # nobody is pushed around in the first two minutes
    heard(now=later)
    cycle.run(now=later)
    task = fixed.tasks.get()
    assert task.waiting["reason"] == "preempting"
    state = NodeState.objects.get(node=node)
    assert (state.kept_for, state.kept_until) == (task.public_id, later + room.KEPT_FOR)
    attempt = work.fresh()
    assert (attempt.state, attempt.stop_reason, attempt.displaced_by, attempt.actor) == (
        "cancelling", "preempted", fixed.public_id, room.ACTOR,
    )  # fmt: skip
    eager = submit(ada, resources={"cpus": 1}, now=later, priority=9)
    work.finish(later, reason="preempted", exit_code=None)
    ended = work.fresh()
    assert (ended.state, ended.reason, ended.fault) == ("cancelled", "preempted", "none")
    assert spot.tasks.get().state == "queued"
    cycle.run(now=later)
    placed = Attempt.objects.get(task=task)
    assert placed.node_id == node.id
    assert eager.tasks.get().state == "queued"
    assert eager.tasks.get().waiting["tiers"][2]["refused"][0]["reason"] in ("node_kept", "cores_short")
    state.refresh_from_db()
    assert (state.kept_for, state.kept_until, state.free_cores_milli) == ("", None, 0)
    decision = PlacementDecision.objects.get(attempt=placed)
    assert placement.replay(decision.inputs).node == node.public_id


@pytest.mark.django_db
def test_kept_room_is_everybodys_again_after_a_minute(ada: Person, cleo: Person, sol: Person) -> None:
    node = a_node(sol, cores=2)
    NodeState.objects.filter(node=node).update(kept_for="tsk_gone", kept_until=NOW + timedelta(seconds=60))
    heard()
    job = submit(ada)
    cycle.run(now=NOW)
    assert job.tasks.get().waiting["reason"] == "node_kept"
    told = explain.job(job, now=NOW)
    assert told["reason"]["code"] == "node_kept"
    heard(now=NOW + timedelta(seconds=60))
    assert len(cycle.run(now=NOW + timedelta(seconds=60)).placed) == 1


@pytest.mark.django_db
def test_spot_never_makes_room_for_spot_and_fixed_never_gives_way(ada: Person, cleo: Person, sol: Person) -> None:
    a_node(sol, cores=2, terms={"spot_factor": "0.5"})
    heard()
    submit(ada, resources={"cpus": 2})
    cycle.run(now=NOW)
    running(Attempt.objects.get())
    later = NOW + timedelta(hours=1)
    heard(now=later)
    wanting = [submit(cleo, resources={"cpus": 2, "use_spot": spot}, now=later, priority=9) for spot in (True, False)]
    cycle.run(now=later)
    assert {job.tasks.get().waiting["reason"] for job in wanting} == {"cores_short"}
    assert Attempt.objects.get().state == "running"


@pytest.mark.django_db
def test_a_large_job_gets_a_planned_start_and_small_ones_only_fill_the_gap(
    ada: Person, cleo: Person, sol: Person
) -> None:
    """Without it, small jobs would overtake it for ever."""
    node = a_node(sol, cores=8)
    heard()
    submit(cleo, resources={"cpus": 6}, max_duration="1h")
    cycle.run(now=NOW)
    large = submit(ada, resources={"cpus": 8}, max_duration="2h")
    cycle.run(now=NOW)
    promise = planned.of(task=large.tasks.get(), market=snapshot.load(now=NOW), asked=asking.Asked(), now=NOW)
    assert promise is not None
    assert (promise.node, promise.start) == (node.public_id, int((NOW + timedelta(hours=1)).timestamp()))
    long, short = submit(cleo, max_duration="3h"), submit(cleo, max_duration="30m")
    cycle.run(now=NOW)
    assert long.tasks.get().state == "queued"
    assert long.tasks.get().waiting["reason"] == "node_kept"
    assert short.tasks.get().state == "placed"


@pytest.mark.django_db
def test_the_lead_is_kept_by_asking_and_lost_by_silence() -> None:
    """The next that asks takes over as soon as five seconds have passed."""
    assert leader.lead(holder="a", now=NOW)
    assert not leader.lead(holder="b", now=NOW + timedelta(seconds=4))
    assert leader.lead(holder="a", now=NOW + timedelta(seconds=4))
    assert not leader.lead(holder="b", now=NOW + timedelta(seconds=8))
    assert leader.lead(holder="b", now=NOW + timedelta(seconds=9))
    seen = leader.seen()
    assert seen is not None
    assert (seen.holder, seen.takeovers, str(seen)[:1]) == ("b", 2, "b")
    leader.resign(holder="b")
    assert leader.lead(holder="c", now=NOW + timedelta(seconds=9))


@pytest.mark.django_db(transaction=True)
def test_an_engine_that_does_not_lead_stays_out_of_the_way(ada: Person, sol: Person) -> None:
    a_node(sol)
    heard()
    submit(ada)
    assert leader.lead(holder="another", now=NOW)
    assert engine.turn(clock=lambda: NOW) == []
    heard(now=NOW + leader.HOLDS_FOR)
    results: list[Any] = []

    def takes_over() -> None:
        results.extend(engine.turn(clock=lambda: NOW + leader.HOLDS_FOR))
        connections.close_all()

    began = time.monotonic()
    thread = threading.Thread(target=takes_over)
    thread.start()
    thread.join()
    assert time.monotonic() - began < 8
    assert [len(result.placed) for result in results] == [1]
    assert EngineLeader.objects.get().takeovers == 2


@pytest.mark.django_db
def test_stored_decisions_of_a_batch_replay_to_the_same_node(ada: Person, cleo: Person, sol: Person) -> None:
    """Decided once, placed many times; each stored with what was free when it was decided."""
    for number in range(3):
        a_node(sol, name=f"n{number}", cores=4, prices={"core": f"0.1{number}"})
    heard()
    for _ in range(6):
        submit(ada, placement={"pick": "cheapest"})
        submit(cleo, placement={"pick": "knee"})
    assert len(cycle.run(now=NOW).placed) == 12
    for decision in PlacementDecision.objects.all():
        assert placement.replay(decision.inputs).node == decision.choice["node"]
        assert placement.digest(decision.inputs) == decision.digest
