"""What scheduling tells by webhooks: jobs, attempts, nodes; one terminal event per job, whatever happens to it."""

import os
from collections import Counter
from datetime import timedelta

import pytest

from marketplace.services import nodes
from portal.accounts.models import WebhookDelivery, WebhookEvent
from portal.accounts.services import webhooks
from scheduling.domain.reasons import EndReason
from scheduling.models import JobEvent, NodeState
from scheduling.services import jobs, leases, presence
from tests.cast import THEN, Person
from tests.factories.market import a_node
from tests.factories.running import Work, a_queued, a_running, a_sync, place
from tests.portal.accounts.receiver import Receiver

S = timedelta(seconds=1)
TERMINAL = {"job.done", "job.failed", "job.cancelled"}


@pytest.fixture
def told(ada: Person, sol: Person) -> None:
    for who in (ada, sol):
        webhooks.create(organisation=who.organisation, url="https://x.org", types=[], by=who.id, now=THEN)


def types(subject: str) -> list[str]:
    return list(WebhookEvent.objects.filter(subject=subject).order_by("sequence").values_list("type", flat=True))


def test_a_jobs_life_is_told_in_order_with_its_objects(ada: Person, sol: Person, told: None) -> None:
    work = a_running(ada, a_node(sol))
    work.finish(THEN + S)
    assert types(work.job.public_id) == ["job.running", "attempt.started", "attempt.ended", "job.done"]
    ended = WebhookEvent.objects.get(type="attempt.ended")
    assert ended.data["job"]["id"] == work.job.public_id
    assert (ended.data["attempt"], ended.data["reason"], ended.data["billed"]) == (work.name, "finished", True)
    sequences = WebhookEvent.objects.values_list("sequence", flat=True).order_by("id")
    assert list(sequences) == sorted(set(sequences))
    assert WebhookDelivery.objects.values("endpoint__organisation").distinct().count() == 1  # the tenant's alone


def test_a_lost_node_and_a_second_attempt(ada: Person, sol: Person, told: None) -> None:
    node = a_node(sol)
    work = a_running(ada, node)
    work.finish(THEN + S, reason="node_drained")
    again = Work(work.job, node, place(work.job, node, now=THEN + 2 * S))
    again.accept(THEN + 2 * S)
    again.finish(THEN + 3 * S, reason="exit_nonzero", exit_code=3)
    seen = types(work.job.public_id)
    assert [one for one in seen if one in TERMINAL] == ["job.failed"]
    assert seen.count("attempt.ended") == 2


def test_p12_exactly_one_terminal_event_per_job(ada: Person, sol: Person, told: None) -> None:
    """P12: jobs, half of them preempted once, a tenth failing; counted here and at a real receiver. All 500: P12_JOBS=500."""
    count = int(os.environ.get("P12_JOBS", "60"))
    node = a_node(sol, cores=8)
    seen: Counter[str] = Counter()
    for number in range(count):
        now = THEN + number * 20 * S
        work = a_running(ada, node, now=now, resources=_small())
        if number % 2:
            leases.ask_stop(attempt_id=work.attempt.id, reason=EndReason.PREEMPTED, actor="system", now=now + S)
            work.finish(now + 2 * S, reason="preempted", exit_code=143)
            work = Work(work.job, node, place(work.job, node, now=now + 3 * S))
            work.accept(now + 3 * S)
        if number % 10:
            work.finish(now + 9 * S)
        else:
            work.finish(now + 9 * S, reason="exit_nonzero", exit_code=1)
        work.finish(now + 9 * S, **({} if number % 10 else {"reason": "exit_nonzero", "exit_code": 1}))  # said again
        [end] = JobEvent.objects.filter(job=work.job, type__in=TERMINAL)
        seen[end.type] += 1
    assert seen == {"job.done": count - count // 10, "job.failed": count // 10}
    with Receiver() as receiver:
        endpoint = ada.organisation.webhooks.get()
        webhooks.change(endpoint=endpoint, url=receiver.url, by=ada.id, now=THEN)
        WebhookDelivery.objects.exclude(event__type__in=TERMINAL).delete()
        while webhooks.deliver(now=THEN + timedelta(days=1)):
            pass
        assert Counter(receiver.types()) == seen
        assert len({one.event["data"]["job"]["id"] for one in receiver.got}) == count


def _small() -> object:
    from scheduling.domain.demand import Resources

    return Resources(cores_milli=100, memory_mib=64, disk_gib=1)


def test_cancelled_once(ada: Person, told: None) -> None:
    job = a_queued(ada)
    for _ in range(2):
        jobs.cancel(job=job, by=ada.id, now=THEN + S)
    assert types(job.public_id) == ["job.cancelled"]


def test_a_nodes_life_is_told_to_its_provider(sol: Person, told: None) -> None:
    node, witness = a_node(sol), a_node(sol)
    at = lambda seconds: {"now": THEN + seconds * S, "at_ms": int((THEN + seconds * S).timestamp() * 1000)}  # noqa: E731
    a_sync(node, **at(0))
    a_sync(witness, **at(0))
    assert presence.look(now=THEN) == 0
    for seconds in (30, 60, 89, 91):
        a_sync(witness, seq=seconds, **at(seconds))
        presence.look(now=THEN + seconds * S)
    assert types(node.public_id) == ["node.disconnected"]
    assert types(witness.public_id) == []
    a_sync(node, seq=2, **at(95))
    a_sync(witness, seq=95, **at(95))
    assert presence.look(now=THEN + 95 * S) == 1
    assert presence.look(now=THEN + 95 * S) == 0
    nodes.retire(node=node, by=sol.id, now=THEN + 96 * S)
    assert types(node.public_id) == ["node.disconnected", "node.returned", "node.retired"]


def test_nobody_heard_is_our_own_fault_and_a_blink_is_nothing(sol: Person, told: None) -> None:
    node, witness = a_node(sol), a_node(sol)
    for seconds in (0, 60, 120, 300):
        assert presence.look(now=THEN + seconds * S) == 0
    assert not NodeState.objects.exclude(silent_since=None).exists()
    late = THEN + 400 * S
    a_sync(witness, now=late, at_ms=int(late.timestamp() * 1000))
    assert presence.look(now=late) == 0
    assert NodeState.objects.get(node=node).silent_since == late
    a_sync(node, now=late + S, at_ms=int((late + S).timestamp() * 1000))
    a_sync(witness, seq=2, now=late + S, at_ms=int((late + S).timestamp() * 1000))
    assert presence.look(now=late + S) == 0
    assert NodeState.objects.get(node=node).silent_since is None
    assert WebhookEvent.objects.count() == 0
