"""What the database refuses, whoever asks: capacity, ended rows, fences (migration 0002)."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from scheduling.models import Attempt, Lease, LogChunk, NodeState
from tests.cast import THEN, Person
from tests.factories.market import a_node
from tests.factories.running import a_queued, a_running, book


def refused_with(error: IntegrityError, state: str, constraint: str = "") -> None:
    cause: Any = error.__cause__
    assert cause.sqlstate == state
    if constraint:
        assert cause.diag.constraint_name == constraint


def insert_raw(attempt: Attempt, node_id: int, *, cards: int = 0, cores: int = 0, devices: str = "[]") -> None:
    """A lease by raw SQL, without booking anything."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO scheduling_lease (public_id, attempt_id, node_id, fence, state, lease_class, action, grace_ms, cores_milli,"
            " memory_mib, disk_gib, cards, card_model, devices, prices, secret_hash, created_at, accept_by, expires_at, capacity_freed)"
            " VALUES (%s, %s, %s, %s, 'pending', 'standard', 'replace', 0, %s, 0, 0, %s, '', %s, '{}', '', now(), now(), now(), false)",
            [f"lse_raw{attempt.id}", attempt.id, node_id, attempt.fence, cores, cards, devices],
        )


def bare_attempt(of: Person, node: Any) -> Attempt:
    job = a_queued(of)
    task = job.tasks.get()
    task.fence = 1
    task.save()
    return Attempt.objects.create(task=task, node=node, number=1, fence=1, assigned_at=THEN)


def test_a_lease_beyond_capacity_is_refused_even_by_raw_sql(ada: Person, sol: Person) -> None:
    node = a_node(sol, gpus=8)
    attempt = bare_attempt(ada, node)
    for beyond in ({"cards": 9}, {"cores": 8_001}):
        with pytest.raises(IntegrityError) as refusal, transaction.atomic():
            insert_raw(attempt, node.id, **beyond)
        refused_with(refusal.value, "23514", "lease_fits_node")
    insert_raw(attempt, node.id, cards=8, cores=8_000)
    other = bare_attempt(ada, node)
    with pytest.raises(IntegrityError) as refusal, transaction.atomic():
        insert_raw(other, node.id, cards=1)
    refused_with(refusal.value, "23514", "lease_fits_node")


def test_a_card_is_promised_once(ada: Person, sol: Person) -> None:
    node = a_node(sol, gpus=8)
    insert_raw(bare_attempt(ada, node), node.id, cards=1, devices='["GPU-3"]')
    with pytest.raises(IntegrityError) as refusal, transaction.atomic():
        insert_raw(bare_attempt(ada, node), node.id, cards=2, devices='["GPU-2", "GPU-3"]')
    refused_with(refusal.value, "23514", "lease_cards_free")
    insert_raw(bare_attempt(ada, node), node.id, cards=1, devices='["GPU-4"]')


def test_a_node_without_a_capacity_row_takes_no_lease(ada: Person, sol: Person) -> None:
    node = a_node(sol, capacity=False)
    with pytest.raises(IntegrityError) as refusal, transaction.atomic():
        insert_raw(bare_attempt(ada, node), node.id)
    refused_with(refusal.value, "23514")


def test_what_a_lease_promised_does_not_change(ada: Person, sol: Person) -> None:
    lease = a_running(ada, a_node(sol)).fresh().lease
    for change in ({"cores_milli": 1}, {"fence": 9}, {"prices": {}}):
        with pytest.raises(IntegrityError) as refusal, transaction.atomic():
            Lease.objects.filter(id=lease.id).update(**change)
        refused_with(refusal.value, "23514", "lease_terms_fixed")


def test_what_has_ended_stays_ended(ada: Person, sol: Person) -> None:
    work = a_running(ada, a_node(sol))
    work.finish(THEN + timedelta(seconds=1))
    for rows, change, constraint in (
        (Lease.objects.filter(attempt=work.attempt), {"state": "active"}, "lease_ends_once"),
        (Lease.objects.filter(attempt=work.attempt), {"capacity_freed": False}, "lease_freed_once"),
        (Attempt.objects.filter(id=work.attempt.id), {"state": "running"}, "attempt_ends_once"),
        (Attempt.objects.filter(id=work.attempt.id), {"reason": "node_lost"}, "attempt_ends_once"),
    ):
        with pytest.raises(IntegrityError) as refusal, transaction.atomic():
            rows.update(**change)
        refused_with(refusal.value, "23514", constraint)


def test_a_fence_only_grows_and_an_attempt_has_its_tasks(ada: Person, sol: Person) -> None:
    work = a_running(ada, a_node(sol))
    task = work.task
    with pytest.raises(IntegrityError) as refusal, transaction.atomic():
        type(task).objects.filter(id=task.id).update(fence=0)
    refused_with(refusal.value, "23514", "task_fence_grows")
    with pytest.raises(IntegrityError) as refusal, transaction.atomic():
        Attempt.objects.create(task=task, node=work.node, number=9, fence=9, rank=1, assigned_at=THEN)
    refused_with(refusal.value, "23514", "attempt_fence_of_task")


def test_capacity_bears_its_transaction_and_a_heartbeat_is_no_change(sol: Person) -> None:
    node = a_node(sol)
    before = NodeState.objects.get(node=node)
    NodeState.objects.filter(node=node).update(last_sync_at=THEN)
    assert NodeState.objects.get(node=node).version == before.version
    assert book(node, cores_milli=1)
    after = NodeState.objects.get(node=node)
    assert after.version == before.version + 1
    assert after.changed_in > 0


def test_log_chunks_are_written_once(ada: Person, sol: Person) -> None:
    attempt = a_running(ada, a_node(sol)).attempt
    LogChunk.objects.create(
        attempt=attempt, stream="stdout", offset=0, length=1, sha256="0" * 64, object_name="x", received_at=THEN
    )
    with pytest.raises(Exception, match="written once"), transaction.atomic():
        LogChunk.objects.update(length=2)
