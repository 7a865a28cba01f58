"""The cycle places what fits, explains what does not, and never blocks one job by another."""

from datetime import timedelta
from typing import Any

import pytest

from marketplace.services import offers
from scheduling.domain import placement
from scheduling.domain.asleep import Asleep
from scheduling.domain.reasons import EndReason
from scheduling.models import Attempt, JobEvent, Lease, NodeState, PlacementDecision, Task
from scheduling.selectors import jobs, snapshot
from scheduling.services import cycle, leases
from tests.cast import Person
from tests.factories.market import a_link, a_node
from tests.scheduling.services.works import NOW, heard, submit

pytestmark = pytest.mark.django_db


def test_a_job_is_placed_with_attempt_lease_and_decision(ada: Person, sol: Person) -> None:
    node = a_node(sol, gpus=2, prices={"core": "0.10", "card": "2.00"})
    heard()
    job = submit(ada, resources={"accelerators": "A100-80GB:1", "cpus": 2}, max_price="3")
    result = cycle.run(now=NOW)
    task = job.tasks.get()
    assert result.placed == {task.public_id: node.public_id}
    job.refresh_from_db()
    assert (job.state, task.state, task.fence) == ("running", "placed", 1)
    attempt = Attempt.objects.get()
    assert (attempt.state, attempt.fence, attempt.node_id, attempt.isolation) == ("assigned", 1, node.id, "full")
    lease = Lease.objects.get()
    assert (lease.cores_milli, lease.cards, lease.card_model, len(lease.devices)) == (2_000, 1, "A100-80GB", 1)
    assert lease.prices["currency"] == "CNY"
    assert lease.prices["rental"] == "fixed"
    assert {name: item["unit_price_micro"] for name, item in lease.prices["items"].items()} == {
        "core": 100_000,
        "card": 2_000_000,
    }
    assert lease.prices["items"]["card"]["sku"] == "card:A100-80GB:fixed"
    free = NodeState.objects.get(node=node)
    assert (free.free_cores_milli, free.free_cards, free.free_memory_mib) == (6_000, 1, 32 * 1024 - 1024)
    decision = PlacementDecision.objects.get()
    assert decision.choice["node"] == node.public_id
    assert decision.choice["price_per_hour"] == "2.20"
    assert placement.replay(decision.inputs).node == node.public_id
    assert placement.digest(decision.inputs) == decision.digest
    assert list(job.events.order_by("sequence").values_list("type", flat=True)) == [
        "job.queued",
        "attempt.assigned",
        "job.running",
    ]
    assert cycle.run(now=NOW).placed == {}


def test_replaying_stored_decisions_gives_the_same_node(ada: Person, sol: Person) -> None:
    for i, region in enumerate(("east", "west", "north")):
        a_node(sol, region=region, name=f"n{i}", prices={"core": f"0.{i + 1}"})
    for a in ("east", "west", "north"):
        for b in ("east", "west", "north"):
            if a != b:
                a_link(a, b)
    heard()
    picks: list[dict[str, Any]] = [
        {"pick": "knee"}, {"pick": "cheapest"}, {"pick": "fastest"}, {"pick": "greenest"}, {"pick": "weights", "weights": {"cost": 1, "time": 2}},
    ]  # fmt: skip
    for pick in picks:
        submit(
            ada,
            placement=pick,
            inputs=[{"url": "https://example.org/x", "path": "x", "size_bytes": 10**9, "region": "west"}],
        )
        cycle.run(now=NOW)
    decisions = PlacementDecision.objects.all()
    assert len(decisions) == len(picks)
    for decision in decisions:
        assert placement.replay(decision.inputs).node == decision.choice["node"]


def test_a_waiting_reason_is_written_once_and_again_when_it_changes(ada: Person, sol: Person) -> None:
    """P41: an hour of one cycle a second, one row; a second when the reason changes.

    3,600 times the queue is read, the task asked about and its reason kept or not; the market is loaded anew once a minute, in whole cycles.
    """
    a_node(sol)
    job = submit(ada, max_price="0.01")
    looked = 0
    for minute in range(60):
        now = NOW + timedelta(minutes=minute)
        heard(now=now)
        market = snapshot.load(now=now)
        looked += cycle.run(now=now).waiting
        one = cycle._Cycle(market, now, lambda: NOW)
        for second in range(1, 60):
            one.now, one.refused, one.asleep = now + timedelta(seconds=second), {}, Asleep()
            for task in jobs.queue():
                cycle._turn(one, task)
        looked += one.result.waiting
    assert looked == 3_600
    assert JobEvent.objects.filter(job=job, type="task.waiting").count() == 1
    task = job.tasks.get()
    assert task.waiting["reason"] == "price_over_max"
    assert (task.waiting["asked"], task.waiting["best"], task.waiting["unit"]) == ("0.01", "0.10", "CNY/h")
    assert task.waiting_since == NOW
    cycle.run(now=NOW + timedelta(hours=2))  # nobody was heard meanwhile, but the price still comes first
    NodeState.objects.update(free_cores_milli=500)
    heard(now=NOW + timedelta(hours=3))
    cycle.run(now=NOW + timedelta(hours=3))
    assert JobEvent.objects.filter(job=job, type="task.waiting").count() == 2
    assert job.tasks.get().waiting["reason"] == "cores_short"


def test_five_hundred_impossible_jobs_do_not_hold_up_a_possible_one(ada: Person, cleo: Person, sol: Person) -> None:
    """P42."""
    a_node(sol)
    heard()
    for i in range(12):
        submit(ada, resources={"cpus": 100 + i}, priority=9)
    seed = Task.objects.order_by("-id").first()
    assert seed is not None
    copies = [_copy(seed, i) for i in range(500)]
    Task.objects.bulk_create(copies)
    good = submit(ada, priority=0)
    result = cycle.run(now=NOW)
    assert list(result.placed) == [good.tasks.get().public_id]
    assert result.waiting == 512


def _copy(task: Task, index: int) -> Task:
    form = {**task.spec, "resources": {**task.spec["resources"], "cores_milli": 200_000 + index}}
    return Task(job=task.job, name=f"copy-{index}", spec=form, state="queued", queued_at=task.queued_at)


def test_failed_nodes_and_times_to_wait_are_kept_to(ada: Person, sol: Person) -> None:
    first, second = a_node(sol, prices={"core": "0.10"}), a_node(sol, prices={"core": "0.20"})
    heard()
    job = submit(ada, placement={"pick": "cheapest"})
    Task.objects.filter(job=job).update(excluded_nodes=[first.public_id], not_before=NOW + timedelta(seconds=30))
    assert cycle.run(now=NOW).placed == {}
    assert job.tasks.get().waiting == {
        "reason": "start_later",
        "tier": "task",
        "tiers": [],
        "asked": "2026-11-02T09:00:30Z",
    }
    later = NOW + timedelta(seconds=30)
    heard(now=later)
    assert list(cycle.run(now=later).placed.values()) == [second.public_id]


def test_a_node_that_is_not_heard_gets_no_new_work(ada: Person, sol: Person) -> None:
    a_node(sol)
    job = submit(ada)
    assert cycle.run(now=NOW).placed == {}
    assert job.tasks.get().waiting["reason"] == "node_suspect"
    heard()
    assert len(cycle.run(now=NOW).placed) == 1


def test_a_price_raised_between_decision_and_booking_is_not_paid(ada: Person, sol: Person) -> None:
    from scheduling.selectors import asking
    from scheduling.services import booking

    node = a_node(sol, prices={"core": "0.10"})
    heard()
    job = submit(ada)
    task = jobs.queue()[0]
    market = snapshot.load(now=NOW)
    decision = placement.decide_in_order(
        asking.of_queued(task, now=NOW, past_due=False).requests,
        asking.of_queued(task, now=NOW, past_due=False).policy,
        market.table,
        market.paths,
    )
    offers.reprice(offer=node.offers.get(), terms={"prices": {"core": "0.90"}}, by=sol.id, now=NOW)
    assert booking.book(task=task, decision=decision, market=market, now=NOW).outcome is booking.Outcome.TAKEN
    assert Lease.objects.count() == 0
    assert NodeState.objects.get(node=node).free_cores_milli == 8_000
    cycle.run(now=NOW)
    lease = Lease.objects.get(attempt__task__job=job)
    assert lease.prices["items"]["core"]["unit_price_micro"] == 900_000


def test_a_task_past_its_deadline_or_without_capacity_for_too_long_ends(ada: Person, sol: Person) -> None:
    a_node(sol)
    late = submit(ada, placement={"deadline": "30m"}, max_price="0.01", max_duration="10m")
    lost = submit(ada, retry={"duration": "10m"}, max_price="0.01")
    never = submit(ada, retry={"on_events": ["interruption"]}, max_price="0.01")
    heard()
    assert cycle.run(now=NOW).ended == 1
    never.refresh_from_db()
    assert (never.state, never.reason) == ("failed", "no_capacity")
    assert cycle.run(now=NOW + timedelta(minutes=31)).ended == 2
    late.refresh_from_db()
    lost.refresh_from_db()
    assert (late.state, late.reason) == ("failed", "deadline_passed")
    assert (lost.state, lost.reason) == ("failed", "no_capacity")


def test_a_spot_job_waits_where_nothing_is_sold_as_spot(ada: Person, sol: Person) -> None:
    """P28: it never runs at the fixed price."""
    a_node(sol)
    cheap = a_node(sol, prices={"core": "0.10"}, terms={"spot_factor": "0.5"})
    NodeState.objects.filter(node=cheap).update(free_cores_milli=500)
    heard()
    job = submit(ada, resources={"use_spot": True})
    cycle.run(now=NOW)
    task = job.tasks.get()
    assert task.state == "queued"
    assert {r["reason"] for t in task.waiting["tiers"] for r in t["refused"]} == {"offer_closed_now", "cores_short"}
    NodeState.objects.filter(node=cheap).update(free_cores_milli=8_000)
    cycle.run(now=NOW)
    lease = Lease.objects.get()
    assert (lease.prices["rental"], lease.prices["items"]["core"]["unit_price_micro"]) == ("spot", 50_000)
    assert lease.prices["items"]["core"]["sku"] == "core:-:spot"


def test_transfer_between_regions_is_in_the_lease(ada: Person, sol: Person) -> None:
    """P48: size × price of the link."""
    a_node(sol, region="east")
    a_node(sol, region="west", prices={"core": "9.00"})
    a_link("west", "east", price=20_000)
    heard()
    submit(
        ada,
        placement={"pick": "cheapest"},
        inputs=[{"url": "https://example.org/x", "path": "x", "size_bytes": 50 * 10**9, "region": "west"}],
    )
    cycle.run(now=NOW)
    lease = Lease.objects.get()
    assert (lease.prices["transfer"]["link"], lease.prices["transfer"]["bytes"], lease.prices["transfer"]["price_micro_per_gb"]) == (
        "west→east", 50 * 10**9, 20_000,
    )  # fmt: skip
    assert PlacementDecision.objects.get().transfer["micro"] == 1_000_000


def test_turns_alternate_between_organisations(ada: Person, cleo: Person, sol: Person) -> None:
    node = a_node(sol, cores=4)
    heard()
    for _ in range(4):
        submit(ada)
    mine = submit(cleo)
    NodeState.objects.filter(node=node).update(free_cores_milli=2_000)
    placed = cycle.run(now=NOW).placed
    assert mine.tasks.get().public_id in placed
    assert len(placed) == 2


@pytest.mark.parametrize(("strategy", "region"), [("failover", "east"), ("eager_next_region", "west")])
def test_the_next_attempt_goes_where_job_recovery_says(ada: Person, sol: Person, strategy: str, region: str) -> None:
    a_node(sol, region="east", name="first", prices={"core": "0.10"})
    a_node(sol, region="east", name="near", prices={"core": "0.50"})
    a_node(sol, region="west", name="far", prices={"core": "0.20"})
    heard()
    submit(ada, placement={"pick": "cheapest"}, resources={"job_recovery": {"strategy": strategy}})
    cycle.run(now=NOW)
    first = Attempt.objects.get()
    assert first.node.name == "first"
    leases.ask_stop(attempt_id=first.id, reason=EndReason.NODE_DRAINED, actor="system", now=NOW)
    NodeState.objects.filter(node=first.node).update(open=False)
    cycle.run(now=NOW)
    second = Attempt.objects.get(fence=2)
    assert second.node.zone.region.slug == region
    leases.ask_stop(attempt_id=second.id, reason=EndReason.NODE_DRAINED, actor="system", now=NOW)
    NodeState.objects.filter(node=second.node).update(open=False)
    later = NOW + timedelta(minutes=1)
    heard(now=later)
    cycle.run(now=later)
    assert Attempt.objects.get(fence=3).node.name in {"near", "far"} - {second.node.name}
