"""Silence, by a fake clock: unreachable, lapsed, heard again; and a soft store that forgets."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest

from billing.models import AttemptEnding, UsageRecord
from billing.selectors.usage import job_cost
from marketplace.models import Node
from portal import softstate
from portal.audit.models import AuditEvent
from portal.celery import TIMETABLE
from portal.kit.errors import StaleFence
from portal.settings import LEASE_CLASSES_REAL
from scheduling.domain.attempt import Phase
from scheduling.domain.reasons import EndReason
from scheduling.gateways import alive
from scheduling.models import Attempt, Lease, NodeState, SweepState, Task
from scheduling.services import capacity, leases, recovery
from tests.cast import THEN, Person
from tests.factories.market import a_node
from tests.factories.running import Work, a_placed, a_queued, a_running, a_sync, place

S = timedelta(seconds=1)


@dataclass
class World:
    """A market under a clock of its own: `witness` is a healthy node, so that we are not deaf."""

    witness: Node
    now: datetime = THEN
    silent_market: bool = False

    @property
    def ms(self) -> int:
        return int(self.now.timestamp() * 1000)

    def until(self, moment: datetime) -> recovery.Swept:
        """Let time pass, with a heartbeat of the witness and a sweep at least every two seconds."""
        swept = recovery.Swept()
        while self.now < moment:
            self.now = min(moment, self.now + 2 * S)
            swept = self.sweep()
        return swept

    def sweep(self) -> recovery.Swept:
        if not self.silent_market:
            alive.sync(node=self.witness.public_id, quiet_ms=0, at_ms=self.ms)
        return recovery.sweep(now=self.now, at_ms=self.ms)

    def settle(self) -> None:
        """The first sweeps: the store is known and nodes have been heard for long enough."""
        self.sweep()
        self.until(self.now + 6 * S)

    def holds(self, work: Work) -> None:
        """What `accept` writes after commit, at this clock."""
        lease = work.fresh().lease
        times = leases.times(lease.lease_class)
        alive.keep(
            node=work.node.public_id,
            leases=[alive.Renewed(work.name, lease.fence, times.ttl_ms)],
            at_ms=self.ms,
        )

    def runs(self, of: Person, node: Node, **spec: Any) -> Work:
        work = a_running(of, node, now=self.now, **spec)
        self.holds(work)
        return work


@pytest.fixture
def world(sol: Person, settings: Any) -> World:
    settings.IDLEWILD_LEASE_CLASSES = {name: dict(row) for name, row in LEASE_CLASSES_REAL.items()}
    world = World(a_node(sol, name="witness"))
    world.settle()
    return world


def states(work: Work) -> tuple[str, str, str]:
    row = work.fresh()
    return row.state, row.lease.state, row.task.state


G = timedelta(seconds=30)
CELLS = [
    *[(action, name) for action in ("replace", "stop") for name in ("fast", "standard", "tolerant")],
    ("wait", "tolerant"),
]
HALF = S / 2


@pytest.mark.parametrize(("action", "lease_class"), CELLS)
def test_every_cell_of_the_table_of_silence(
    world: World, ada: Person, sol: Person, action: str, lease_class: str
) -> None:
    """P14: half a second below and above each limit."""
    times = leases.times(lease_class)
    grace = G if action == "wait" else timedelta(0)
    work = world.runs(
        ada,
        a_node(sol),
        on_disconnect=action,
        lease_class=lease_class,
        wait_for_s=int(grace.total_seconds()),
    )
    heard = world.now
    ttl, lapse = timedelta(milliseconds=times.ttl_ms), timedelta(milliseconds=times.lapse_ms) + grace
    world.until(heard + ttl - HALF)
    assert states(work) == ("running", "active", "running")
    world.until(heard + ttl + HALF)
    assert states(work) == ("unreachable", "active", "running")
    world.until(heard + lapse - HALF)
    assert states(work) == ("unreachable", "active", "running")
    world.until(heard + lapse + HALF)
    assert states(work) == ("lost", "expired", "failed" if action == "stop" else "queued")
    row = work.fresh()
    assert (row.reason, row.fault) == ("node_lost", "provider")
    assert Attempt.objects.count() == 1


@pytest.mark.parametrize(("action", "lease_class"), CELLS)
def test_back_in_time_is_the_same_attempt_and_too_late_is_fenced(
    world: World, ada: Person, sol: Person, action: str, lease_class: str
) -> None:
    times = leases.times(lease_class)
    grace = G if action == "wait" else timedelta(0)
    work = world.runs(
        ada, a_node(sol), on_disconnect=action, lease_class=lease_class, wait_for_s=int(grace.total_seconds())
    )
    lapse = timedelta(milliseconds=times.lapse_ms) + grace
    world.until(world.now + lapse - HALF)
    assert states(work)[0] == "unreachable"
    answer = work.sync(world.now, seq=1, at_ms=world.ms)
    [renewal] = answer.renewals
    assert renewal.deadline_ms == times.deadline_ms + int(grace.total_seconds() * 1000)
    assert states(work) == ("running", "active", "running")
    world.until(world.now + lapse + HALF)
    assert states(work)[0] == "lost"
    answer = work.sync(world.now, seq=2, at_ms=world.ms)
    assert (answer.renewals, [held.attempt for held in answer.fenced]) == ((), [work.name])
    with pytest.raises(StaleFence):
        work.finish(world.now)


def test_renewals_keep_a_lease_alive_and_the_rows_follow(world: World, ada: Person, sol: Person) -> None:
    work = world.runs(ada, a_node(sol))
    for seq in range(1, 40):
        world.now += 3 * S - S / 100
        assert len(work.sync(world.now, seq=seq, at_ms=world.ms).renewals) == 1
        world.sweep()
    assert states(work) == ("running", "active", "running")
    assert Lease.objects.get().expires_at > world.now


def test_a_thousand_flaps_restart_nothing(world: World, ada: Person, sol: Person) -> None:
    """The node is away for 5 s and back for 1, a thousand times."""
    work = world.runs(ada, a_node(sol))
    for seq in range(1, 1001):
        world.now += 5 * S
        if seq % 10 == 0:
            world.sweep()
        elif seq % 10 == 5:
            alive.sync(node=world.witness.public_id, quiet_ms=0, at_ms=world.ms)
        assert len(work.sync(world.now, seq=seq, at_ms=world.ms).renewals) == 1
        world.now += S
    assert states(work) == ("running", "active", "running")
    assert Attempt.objects.count() == 1


def test_power_off_is_seen_in_time_and_never_runs_again(world: World, ada: Person, sol: Person) -> None:
    """P6: `ps` and the page say unreachable within 17 s (the TTL and one round), lost within 20 s; limits from the settings."""
    times = leases.times("standard")
    work = world.runs(ada, a_node(sol))
    off = world.now
    assert shown(ada, work)["attempt"]["state"] == "running"
    world.until(off + timedelta(milliseconds=times.ttl_ms) + S)
    assert world.now <= off + 17 * S
    assert states(work)[0] == "unreachable"
    assert shown(ada, work)["state"] == "running"
    assert (shown(ada, work)["attempt"]["state"], shown(ada, work)["attempt"]["node"]["id"]) == (
        "unreachable",
        work.node.public_id,
    )
    assert "Node silent" in ada.browser().get(f"/jobs/{work.job.public_id}").content.decode()
    world.until(off + timedelta(milliseconds=times.lapse_ms) + 3 * S)
    assert world.now <= off + 20 * S
    assert states(work) == ("lost", "expired", "queued")
    assert (shown(ada, work)["state"], shown(ada, work)["attempt"]) == ("queued", None)
    world.until(off + 60 * S)
    assert states(work)[0] == "lost"


def shown(of: Person, work: Work) -> Any:
    """The row of this job in the list that `ps` prints."""
    [row] = of.program().get("/api/v1/jobs").json()["items"]
    assert row["id"] == work.job.public_id
    return row


def test_stop_means_no_new_attempt_even_if_interruptions_are_retried(world: World, ada: Person, sol: Person) -> None:
    """P15."""
    work = world.runs(ada, a_node(sol), on_disconnect="stop", retry_on=("interruption", "error"))
    world.until(world.now + 20 * S)
    task = work.task
    assert (task.state, task.reason, task.fence) == ("failed", "node_lost", 1)
    assert work.fresh().task.job.state == "failed"
    assert Task.objects.filter(state="queued").count() == 0


def test_a_lost_attempt_is_metered_as_proven_and_billed_nothing(world: World, ada: Person, sol: Person) -> None:
    node = a_node(sol)
    work = world.runs(ada, node)
    world.until(world.now + 4 * S)
    assert work.use(4_000_000, world.now) == "stored"
    world.until(world.now + 20 * S)
    assert AttemptEnding.objects.get().billed is False
    assert sum(UsageRecord.objects.values_list("qty_us", flat=True)) == 4_000_000
    cost = job_cost(work.job.public_id)
    assert cost.total.minor == 0
    assert [line.wire()["amount"] for line in cost.lines] == ["0.00"]
    assert work.use(9_000_000, world.now, seq=2) == "rejected_stale"
    assert UsageRecord.objects.filter(state="ok").count() == 1
    again = Work(work.job, node, place(work.job, node, now=world.now))
    assert again.attempt.fence == 2
    again.accept(world.now)
    world.holds(again)


def test_the_store_forgets_everything_and_no_job_is_lost(world: World, ada: Person, sol: Person) -> None:
    work, dead = world.runs(ada, a_node(sol)), world.runs(ada, a_node(sol))
    world.until(world.now + 8 * S)
    work.sync(world.now, seq=1, at_ms=world.ms)
    flush()
    swept = world.sweep()
    assert (swept.lapsed, swept.quiet) == (0, "the soft store has lost something")
    lost_at = world.now
    for seq in range(2, 9):
        world.until(world.now + 2 * S)
        work.sync(world.now, seq=seq, at_ms=world.ms)
    assert states(work) == ("running", "active", "running")
    assert states(dead)[0] == "running"
    world.until(lost_at + 17 * S + S)
    assert states(dead)[0] == "lost"  # it died meanwhile: TTL + margin after the loss was seen
    assert states(work)[0] in ("running", "unreachable")


def test_one_entry_is_missing_and_that_lease_counts_as_renewed_now(world: World, ada: Person, sol: Person) -> None:
    work = world.runs(ada, a_node(sol))
    alive.forget(node=work.node.public_id, attempts=[work.name])
    began = world.now
    world.until(began + 15 * S)
    assert states(work)[0] == "running"
    world.until(began + 29 * S)
    assert states(work)[0] == "running"
    world.until(began + 34 * S)
    assert states(work)[0] == "lost"


def test_an_old_dump_with_another_process_is_noticed(world: World, ada: Person, sol: Person) -> None:
    work = world.runs(ada, a_node(sol))
    world.until(world.now + 14 * S)
    SweepState.objects.update(run_id="the process before the restart")
    assert world.sweep().quiet == "the soft store has lost something"
    world.until(world.now + 14 * S)
    assert states(work)[0] != "lost"


def test_while_no_node_is_heard_nothing_lapses_for_ten_minutes(world: World, ada: Person, sol: Person) -> None:
    work = world.runs(ada, a_node(sol))
    began, world.silent_market = world.now, True
    world.until(began + 9 * 60 * S)
    assert states(work) == ("unreachable", "active", "running")
    world.until(began + 11 * 60 * S)
    row = work.fresh()
    assert (row.state, row.reason, row.fault) == ("failed", "platform_fault", "platform")
    assert row.task.state == "queued"


def test_after_an_outage_of_ours_jobs_go_on(world: World, ada: Person, sol: Person) -> None:
    work = world.runs(ada, a_node(sol))
    world.now += 60 * S  # no sweep, no sync: all servers were down
    assert world.sweep().lapsed == 0
    world.until(world.now + 4 * S)
    assert states(work)[0] == "unreachable"
    work.sync(world.now, at_ms=world.ms)
    assert states(work)[0] == "running"
    world.until(world.now + 8 * S)
    assert states(work)[0] == "running"


def test_a_sweep_that_was_paused_waits_before_it_judges(world: World, ada: Person, sol: Person) -> None:
    work = world.runs(ada, a_node(sol))
    world.now += 30 * S
    alive.sync(node=world.witness.public_id, quiet_ms=0, at_ms=world.ms)
    swept = recovery.sweep(now=world.now, at_ms=world.ms)
    assert (swept.lapsed, swept.quiet) == (0, "hearing again")
    world.until(world.now + 6 * S)
    assert states(work)[0] == "lost"


def test_an_unanswered_assignment_is_placed_again_at_once(world: World, ada: Person, sol: Person) -> None:
    node = a_node(sol)
    work = a_placed(ada, node, now=world.now)
    world.until(world.now + 2 * S)
    assert states(work)[0] == "assigned"
    swept = world.until(world.now + 2 * S)
    assert swept.not_accepted == 1
    assert states(work) == ("assignment_expired", "expired", "queued")
    assert work.task.excluded_nodes == [node.public_id]
    assert NodeState.objects.get(node=node).free_cores_milli == 8_000
    assert AttemptEnding.objects.count() == 0


def test_a_stop_nobody_confirms_is_revoked_and_frees_when_the_job_must_be_gone(
    world: World, ada: Person, sol: Person
) -> None:
    node = a_node(sol)
    work = world.runs(ada, node)
    leases.ask_stop(attempt_id=work.attempt.id, reason=EndReason.CANCELLED_BY_TENANT, actor=ada.id, now=world.now)
    asked, seq = world.now, 0
    while world.now < asked + 46 * S:
        world.until(world.now + 2 * S)
        seq += 1
        answer = work.sync(world.now, seq=seq, at_ms=world.ms)
    assert states(work) == ("cancelling", "revoked", "running")
    assert [held.attempt for held in answer.fenced] == [work.name]
    assert NodeState.objects.get(node=node).free_cores_milli == 7_000
    world.until(world.now + 18 * S)
    assert states(work) == ("cancelled", "revoked", "cancelled")
    assert NodeState.objects.get(node=node).free_cores_milli == 8_000


def test_every_ended_report_is_dropped_and_nothing_is_stranded(world: World, ada: Person, sol: Person) -> None:
    """P20: 30 leases with a card each have ended on a node that is alive, and no report of it arrives: terminal within 60 s, 0 cards held."""
    node = a_node(sol, gpus=30, cores=64, memory_gib=64)
    works = []
    for number in range(30):
        job = a_queued(ada, now=world.now, name=f"j{number}")
        work = Work(job, node, place(job, node, now=world.now, cards=1, named=False))
        work.accept(world.now)
        work.report(Phase.RUN, world.now)
        world.holds(work)
        works.append(work)
    state = NodeState.objects.get(node=node)
    assert (state.free_cores_milli, state.free_cards) == (34_000, 0)
    for seq in range(1, 20):  # the agent is there, and names none of them: they are over
        a_sync(node, world.now, seq=seq, at_ms=world.ms)
        world.until(world.now + 3 * S)
    assert {states(work)[:2] for work in works} == {("lost", "expired")}
    state.refresh_from_db()
    assert (state.free_cores_milli, state.free_cards) == (64_000, 30)
    assert capacity.reconcile(now=world.now) == 0


def test_cards_booked_for_nobody_are_given_back(world: World, sol: Person) -> None:
    """P19: 3 of 8 cards; mended within 60 s (the timetable asks every 30), one audit event, the counter back to 0."""
    assert timedelta(seconds=TIMETABLE["scheduling.reconcile"][1]) <= 60 * S
    node = a_node(sol, gpus=8)
    NodeState.objects.filter(node=node).update(free_cards=5)
    assert capacity.reconcile(now=world.now) == 1
    assert (capacity.drift(), NodeState.objects.get(node=node).free_cards) == (1, 8)
    assert capacity.reconcile(now=world.now + 30 * S) == 0
    assert capacity.drift() == 0
    assert AuditEvent.objects.filter(deed="capacity.mend", target=node.public_id).count() == 1


def test_an_agent_restarted_twenty_times_keeps_process_and_lease(world: World, ada: Person, sol: Person) -> None:
    """P21 as the portal sees it: twenty starts, one attempt, no second lost or doubled."""
    node = a_node(sol)
    work = world.runs(ada, node)
    began = world.now
    for start in range(20):
        world.until(world.now + 3 * S)
        first = a_sync(node, world.now, seq=world.ms, incarnation=None, at_ms=world.ms, leases=[(work.name, 1)])
        assert (first.incarnation, len(first.renewals)) == (start + 2, 1)
        used = int((world.now - began) / timedelta(microseconds=1))
        assert work.use(used, world.now, seq=start + 1) == "stored"
    assert states(work) == ("running", "active", "running")
    assert sum(UsageRecord.objects.values_list("qty_us", flat=True)) == 60_000_000


def test_the_store_is_away_and_leases_live_on_in_postgresql(
    world: World, ada: Person, sol: Person, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, silent = world.runs(ada, a_node(sol)), world.runs(ada, a_node(sol))

    def away() -> Any:
        raise ConnectionError("no store")

    monkeypatch.setattr(softstate, "_client", away)
    for script in (alive._SYNC, alive._SET, alive._LOOK, alive._FORGET):
        monkeypatch.setattr(script, "_script", None)
    seq = 0
    for _ in range(24):
        world.now += 3 * S
        seq += 1
        answer = work.sync(world.now, seq=seq, at_ms=world.ms)
        assert [(one.ttl_ms, one.renew_ms) for one in answer.renewals] == [(60_000, 15_000)]
        recovery.sweep(now=world.now, at_ms=world.ms)
    assert states(work)[0] == "running"
    assert states(silent)[0] == "lost"
    assert seq == 24


def test_a_job_that_never_got_a_node_costs_nothing_and_a_cancelled_one_only_until_its_cancel(
    world: World, ada: Person, sol: Person
) -> None:
    """P36."""
    never = a_queued(ada, name="never")
    work = world.runs(ada, a_node(sol))
    hour = timedelta(hours=1)
    leases.ask_stop(
        attempt_id=work.attempt.id, reason=EndReason.CANCELLED_BY_TENANT, actor=ada.id, now=world.now + hour
    )
    work.finish(world.now + hour, reason="cancelled_by_tenant", readings=[("core", 1_000, 3_600_000_000)])
    assert job_cost(never.public_id).total.text() == "0.00"
    for later in (hour, timedelta(days=30)):
        world.now += later
        world.sweep()
        assert job_cost(work.job.public_id).total.text() == "0.10"
    assert work.use(7_200_000_000, world.now, seq=2) == "rejected_stale"
    assert job_cost(work.job.public_id).total.text() == "0.10"


def test_exclusions_are_forgotten_after_ten_minutes_of_waiting(world: World, ada: Person) -> None:
    task = a_queued(ada).tasks.get()
    Task.objects.filter(id=task.id).update(excluded_nodes=["nod_x"], waiting_since=world.now)
    assert recovery.forget_exclusions(now=world.now + timedelta(minutes=9)) == 0
    assert recovery.forget_exclusions(now=world.now + timedelta(minutes=11)) == 1
    assert Task.objects.get(id=task.id).excluded_nodes == []


def flush() -> None:
    softstate._client().flushdb()
