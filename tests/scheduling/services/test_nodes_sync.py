"""The sync of a node: renewals, news, the answer that got lost, the assignment that was answered too late."""

from datetime import timedelta

import pytest

from marketplace.models import Node
from marketplace.services import nodes
from portal.kit.errors import Conflict
from scheduling.domain.reasons import EndReason
from scheduling.gateways import alive
from scheduling.models import Attempt, NodeState
from scheduling.selectors import alive as seen
from scheduling.services import leases, nodes_sync
from tests.cast import THEN, Person
from tests.factories.market import a_node
from tests.factories.running import Work, a_placed, a_running, a_sync

S = timedelta(seconds=1)
MS = int(THEN.timestamp() * 1000)


def held(work: Work, at_ms: int = MS) -> Work:
    """What accept writes after commit."""
    ttl = leases.times("standard").ttl_ms
    alive.keep(node=work.node.public_id, leases=[alive.Renewed(work.name, work.attempt.fence, ttl)], at_ms=at_ms)
    return work


def test_one_sync_renews_all_leases_of_a_node(ada: Person, sol: Person) -> None:
    node = a_node(sol)
    works = [held(a_running(ada, node, name=f"j{n}")) for n in range(3)]
    answer = a_sync(node, THEN + S, at_ms=MS + 1000, leases=[(work.name, 1) for work in works])
    assert {one.attempt for one in answer.renewals} == {work.name for work in works}
    look = alive.look(attempts={work.name: node.public_id for work in works}, at_ms=MS + 1000)
    assert look is not None
    ttl = leases.times("standard").ttl_ms
    assert {entry.left_ms for entry in look.entries.values()} == {ttl}


def test_a_renewal_whose_answer_was_lost_is_not_repeated_until_it_is_acknowledged(ada: Person, sol: Person) -> None:
    work = held(a_running(ada, a_node(sol)))
    assert len(work.sync(THEN + S, seq=1, at_ms=MS + 1000).renewals) == 1
    lost = work.sync(THEN + 2 * S, seq=2, acknowledges=0, at_ms=MS + 2000, hold_ms=5_000)
    assert (lost.renewals, lost.fenced, lost.hold_ms) == ((), (), 0)
    look = alive.look(attempts={work.name: work.node.public_id}, at_ms=MS + 2000)
    assert look is not None
    assert look.entries[work.name].left_ms == leases.times("standard").ttl_ms - 1000  # still from the first
    assert len(work.sync(THEN + 3 * S, seq=3, at_ms=MS + 3000).renewals) == 1


def test_the_hold_never_makes_a_renewal_late(ada: Person, sol: Person) -> None:
    node = a_node(sol)
    idle = a_sync(node, THEN, hold_ms=60_000)
    assert idle.hold_ms == nodes_sync.HOLD_FEW_MS
    work = held(a_running(ada, node))
    busy = work.sync(THEN, seq=2, at_ms=MS, hold_ms=60_000)
    assert busy.hold_ms == leases.times("standard").renew_ms * 60 // 100
    assert work.sync(THEN, seq=3, at_ms=MS, hold_ms=100).hold_ms == 100


def test_a_heard_node_is_known_and_a_silent_one_ages(sol: Person) -> None:
    node = a_node(sol)
    assert seen.ages_ms([node.public_id], now_ms=MS) == {}
    a_sync(node, THEN, at_ms=MS, hold_ms=2_000)
    assert seen.ages_ms([node.public_id, "nod_x"], now_ms=MS + 1_500) == {node.public_id: 0}
    assert seen.ages_ms([node.public_id], now_ms=MS + 5_000) == {node.public_id: 3_000}


def test_a_frozen_job_is_shown_and_thawed(ada: Person, sol: Person) -> None:
    work = held(a_running(ada, a_node(sol)))
    work.sync(THEN, seq=1, at_ms=MS, frozen=True)
    assert work.fresh().frozen
    work.sync(THEN, seq=2, at_ms=MS, frozen=False)
    assert not work.fresh().frozen


def test_a_cancel_is_news_once_and_repeated_until_the_end(ada: Person, sol: Person) -> None:
    work = held(a_running(ada, a_node(sol)))
    leases.ask_stop(attempt_id=work.attempt.id, reason=EndReason.PREEMPTED, actor="system", now=THEN)
    first = work.sync(THEN, seq=1, at_ms=MS, hold_ms=300)
    assert (first.hold_ms, [one.reason for one in first.cancels]) == (0, ["preempted"])
    second = work.sync(THEN, seq=2, at_ms=MS, hold_ms=300)
    assert (second.hold_ms > 0, len(second.cancels), len(second.renewals)) == (True, 1, 1)
    work.finish(THEN + S, reason="preempted")
    after = work.sync(THEN + S, seq=3, at_ms=MS)
    assert (after.cancels, [one.attempt for one in after.fenced]) == ((), [work.name])
    assert work.task.state == "queued"


def test_news_in_an_answer_that_got_lost_are_news_again(ada: Person, sol: Person) -> None:
    node = a_node(sol)
    work = a_placed(ada, node)
    assert a_sync(node, THEN, seq=1, hold_ms=300).hold_ms == 0
    assert a_sync(node, THEN, seq=2, hold_ms=300).hold_ms == 300
    assert a_sync(node, THEN, seq=4, acknowledges=2, hold_ms=300).hold_ms == 0
    assert work.fresh().state == "assigned"


def test_an_accept_that_was_answered_too_late_is_given_up_at_once(ada: Person, sol: Person) -> None:
    node = a_node(sol)
    work = a_placed(ada, node)
    work.accept(THEN)
    patience = timedelta(milliseconds=2 * leases.times("standard").accept_ms)
    a_sync(node, THEN + patience - S / 10, seq=1)
    assert work.fresh().state == "leased"
    a_sync(node, THEN + patience, seq=2)
    row = work.fresh()
    assert (row.state, row.reason, row.fault, row.task.state) == ("failed", "platform_fault", "platform", "queued")
    assert NodeState.objects.get(node=node).free_cores_milli == 8_000


def test_a_running_attempt_that_is_not_named_is_not_given_up(ada: Person, sol: Person) -> None:
    node = a_node(sol)
    work = held(a_running(ada, node))
    a_sync(node, THEN + 60 * S, seq=1, at_ms=MS)
    assert work.fresh().state == "running"


def test_a_drained_node_gets_its_order_and_takes_no_more_work(ada: Person, sol: Person) -> None:
    node = a_node(sol)
    nodes.drain(node=node, by=sol.id, now=THEN, deadline=THEN + 60 * S)
    nodes_sync.state_changed(node=node.public_id, now=THEN)
    assert NodeState.objects.get(node=node).open is False
    [order] = a_sync(node, THEN).orders
    assert (order.kind, order.deadline_ms) == ("drain", 60_000)
    Node.objects.filter(id=node.id).update(state="listed", drain_deadline=None)
    nodes_sync.state_changed(node=node.public_id, now=THEN)
    assert NodeState.objects.get(node=node).open is True
    assert a_sync(node, THEN, seq=2).orders == ()


def test_what_the_market_wants_is_ordered(sol: Person) -> None:
    node = a_node(sol)
    nodes.want(node=node, order="fingerprint", by=sol.id, now=THEN)
    assert [order.kind for order in a_sync(node, THEN).orders] == ["fingerprint"]


def test_a_new_start_opens_a_node_its_agent_had_closed(sol: Person) -> None:
    node = a_node(sol)
    nodes_sync.leave(node=node, deadline=S, now=THEN)
    assert NodeState.objects.get(node=node).open is False
    answer = a_sync(node, THEN, incarnation=None)
    assert (answer.incarnation, NodeState.objects.get(node=node).open) == (2, True)
    a_sync(node, THEN, seq=2, draining=True)
    assert NodeState.objects.get(node=node).open is False


def test_a_first_sync_that_was_overtaken_supersedes_nobody(sol: Person) -> None:
    node = a_node(sol)
    assert a_sync(node, THEN, incarnation=None, seq=2, acknowledges=0).incarnation == 2
    assert a_sync(node, THEN + S, incarnation=None, seq=1).incarnation == 2
    assert a_sync(node, THEN + 2 * S, incarnation=None, seq=3, acknowledges=0).incarnation == 3
    assert a_sync(node, THEN + 60 * S, incarnation=None, seq=1).incarnation == 4
    assert a_sync(node, THEN + 61 * S, incarnation=None, seq=1, boot_id="boot-2").incarnation == 5


def test_an_older_start_is_superseded(sol: Person) -> None:
    node = a_node(sol)
    a_sync(node, THEN, incarnation=None)
    with pytest.raises(Conflict) as refusal:
        a_sync(node, THEN, incarnation=1)
    assert refusal.value.code == "SUPERSEDED"
    assert Attempt.objects.count() == 0
