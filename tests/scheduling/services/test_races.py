"""Many at once: never more is booked than there is, each task is placed once (S3, P18)."""

import random
import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import IntegrityError, connection, connections, transaction

from scheduling.domain.fairness import Held
from scheduling.models import Attempt, Lease, NodeState, Task
from scheduling.services import booking, capacity, cycle
from tests.cast import Person
from tests.factories.market import a_node
from tests.factories.work import a_job
from tests.scheduling.services.works import NOW, heard, submit

pytestmark = pytest.mark.django_db(transaction=True)

THREADS = 50
ROUNDS = 500


def at_once(work: list[Callable[[], None]], threads: int) -> list[BaseException]:
    """Run `work` on so many threads, each with a connection of its own; what was raised."""
    lock, raised = threading.Lock(), []

    def turn() -> None:
        try:
            while True:
                with lock:
                    if not work:
                        return
                    one = work.pop()
                one()
        except BaseException as error:
            raised.append(error)
        finally:
            connections.close_all()

    running = [threading.Thread(target=turn) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return raised


def test_fifty_threads_never_book_more_than_the_last_eight_cards(ada: Person, sol: Person) -> None:
    """P18, S3: 500 rounds of 1–4 cards; Σ booked ≤ 8 at every commit, and what stays is exactly what is booked."""
    node = a_node(sol, gpus=8, cores=64, memory_gib=512, disk_gib=2_000)
    job = a_job(ada)
    tasks = [Task(job=job, name=f"t{i}", spec=job.tasks.get().spec, queued_at=NOW) for i in range(ROUNDS)]
    Task.objects.bulk_create(tasks)
    chance = random.Random(20_261_130)
    seen: list[int] = []
    outcomes = {"booked": 0, "full": 0}
    lock = threading.Lock()

    def round_of(task: Task, cards: int, release: bool) -> Callable[[], None]:
        def book() -> None:
            needs = Held(100, 100, 1, cards)
            with transaction.atomic():
                if not booking.take(node_id=node.id, needs=needs):
                    with lock:
                        outcomes["full"] += 1
                    _free_one(node.id)
                    return
                Task.objects.filter(id=task.id).update(fence=1)
                attempt = Attempt.objects.create(task_id=task.id, node=node, number=1, fence=1, assigned_at=NOW)
                _lease(node.id, attempt.id, needs)
                seen.append(_booked(node.id))
            with lock:
                outcomes["booked"] += 1
            if release:
                _free_one(node.id)

        return book

    work = [round_of(task, chance.randint(1, 4), chance.random() < 0.5) for task in tasks]
    raised = at_once(work, THREADS)
    assert raised == []
    assert max(seen) <= 8
    assert outcomes["booked"] + outcomes["full"] == ROUNDS
    assert outcomes["booked"] > 8
    state = NodeState.objects.get(node=node)
    assert state.free_cards == 8 - _booked(node.id)


def _lease(node_id: int, attempt_id: int, needs: Held) -> Lease:
    return Lease.objects.create(
        attempt_id=attempt_id, node_id=node_id, fence=1, lease_class="standard", action="replace", cores_milli=needs.cores_milli,
        memory_mib=needs.memory_mib, disk_gib=needs.disk_gib, cards=needs.cards, prices={}, created_at=NOW, accept_by=NOW, expires_at=NOW,
    )  # fmt: skip


def _booked(node_id: int) -> int:
    return sum(Lease.objects.filter(node_id=node_id, capacity_freed=False).values_list("cards", flat=True))


def _free_one(node_id: int) -> None:
    with transaction.atomic():
        held = Lease.objects.select_for_update(skip_locked=True).filter(node_id=node_id, capacity_freed=False)
        lease = held.order_by("id").first()
        if lease is not None:
            capacity.free(lease=lease, now=NOW)


def test_a_raw_lease_beyond_the_last_card_is_refused_by_the_database(ada: Person, sol: Person) -> None:
    node = a_node(sol, gpus=2)
    job = a_job(ada)
    task = job.tasks.get()
    Task.objects.filter(id=task.id).update(fence=1)
    attempt = Attempt.objects.create(task=task, node=node, number=1, fence=1, assigned_at=NOW)
    with pytest.raises(IntegrityError) as caught, transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO scheduling_lease (public_id, attempt_id, node_id, fence, state, lease_class, action, grace_ms, cores_milli, memory_mib,"
            " disk_gib, cards, card_model, devices, prices, secret_hash, created_at, accept_by, expires_at, capacity_freed) VALUES"
            " ('lse_raw', %s, %s, 1, 'pending', 'standard', 'replace', 0, 100, 100, 1, 3, '', '[]', '{}', '', now(), now(), now(), false)",
            [attempt.id, node.id],
        )  # fmt: skip
    cause: Any = caught.value.__cause__
    assert cause.sqlstate == "23514"
    assert Lease.objects.count() == 0


def test_two_workers_race_on_one_queue_and_place_each_task_once(ada: Person, cleo: Person, sol: Person) -> None:
    """S3, second half."""
    for i in range(4):
        a_node(sol, name=f"n{i}", cores=8)
    heard()
    tasks = [submit(who, name=f"job-{i}").tasks.get().public_id for i in range(12) for who in (ada, cleo)]
    results: list[cycle.CycleResult] = []
    raised = at_once([lambda: results.append(cycle.run(now=NOW)) for _ in range(4)], 4)
    assert raised == []
    placed = [task for result in results for task in result.placed]
    assert sorted(placed) == sorted(tasks)
    assert Attempt.objects.count() == Lease.objects.count() == 24
    assert {task.fence for task in Task.objects.all()} == {1}
    for state in NodeState.objects.all():
        held = sum(Lease.objects.filter(node=state.node).values_list("cores_milli", flat=True))
        assert state.free_cores_milli == state.total_cores_milli - held >= 0


def test_a_taken_place_leads_to_the_next_candidate(ada: Person, sol: Person) -> None:
    """A place that is taken between decision and booking costs nothing but another decision."""
    cheap = a_node(sol, name="cheap", cores=1, prices={"core": "0.10"})
    other = a_node(sol, name="other", cores=1, prices={"core": "0.20"})
    heard()
    job = submit(ada, placement={"pick": "cheapest"})
    taken = threading.Event()

    def clock() -> Any:
        if not taken.is_set():  # the moment between decision and booking
            taken.set()
            thread = threading.Thread(target=_take_all, args=(cheap.id,))
            thread.start()
            thread.join()
        return NOW

    assert list(cycle.run(now=NOW, clock=clock).placed.values()) == [other.public_id]
    assert job.tasks.get().state == "placed"


def _take_all(node_id: int) -> None:
    booking.take(node_id=node_id, needs=Held(1_000, 1, 1, 0))
    connections.close_all()
