"""What agents say: accepted, running, used, finished; and every way of saying it wrongly."""

from datetime import timedelta
from hashlib import sha256
from threading import Barrier, Thread

import pytest
from django.db import connections

from billing.models import AttemptEnding, UsageRecord
from portal.audit.models import AuditEvent
from portal.kit.errors import Conflict, InvalidInput, InvalidTransition, NotFound, StaleFence
from scheduling.domain.attempt import Phase
from scheduling.domain.demand import Resources
from scheduling.domain.reasons import EndReason
from scheduling.models import Artefact, Attempt, AttemptReport, JobEvent, Lease, NodeState
from scheduling.services import artefacts, leases, pieces, reports
from tests.cast import THEN, Person
from tests.factories.market import a_node
from tests.factories.running import Work, a_placed, a_queued, a_running, an_output, place

S = timedelta(seconds=1)


def state_of(work: Work) -> tuple[str, str, str, str]:
    row = work.fresh()
    job = row.task.job
    return row.state, row.lease.state, row.task.state, job.state


def test_a_job_goes_through_all_its_states(ada: Person, sol: Person) -> None:
    node = a_node(sol)
    work = a_placed(ada, node)
    assert state_of(work) == ("assigned", "pending", "placed", "queued")
    taken = work.accept(THEN)
    assert (taken.lease.lease_class, taken.spec.run, taken.region) == ("standard", "true", "east")
    assert state_of(work) == ("leased", "active", "placed", "running")
    work.report(Phase.STAGING, THEN + S)
    assert work.fresh().started_at is None
    work.report(Phase.RUN, THEN + 2 * S)
    assert state_of(work) == ("running", "active", "running", "running")
    assert work.use(3_000_000, THEN + 5 * S) == "stored"
    answer = work.finish(THEN + 6 * S, readings=[("core", 1_000, 4_000_000)])
    assert (answer.state, answer.repeated) == ("succeeded", False)
    assert state_of(work) == ("succeeded", "released", "done", "done")
    assert NodeState.objects.get(node=node).free_cores_milli == 8_000
    assert sum(UsageRecord.objects.values_list("qty_us", flat=True)) == 4_000_000
    assert AttemptEnding.objects.get(attempt_ref=work.name).billed is True
    types = list(JobEvent.objects.order_by("sequence").values_list("type", flat=True))
    assert types == ["attempt.accepted", "job.running", "attempt.started", "attempt.ended", "job.done"]
    assert [event.sequence for event in JobEvent.objects.order_by("sequence")] == [1, 2, 3, 4, 5]


def test_accept_may_be_asked_again_until_a_process_runs(ada: Person, sol: Person) -> None:
    """Also by a request that arrives twice: the secret stays, or the agent would be locked out."""
    work = a_placed(ada, a_node(sol))
    assert work.accept(THEN).secret == work.accept(THEN + S).secret
    assert len(work.secret) == 64
    work.report(Phase.RUN, THEN + 2 * S)
    with pytest.raises(Conflict) as refusal:
        work.accept(THEN + 3 * S)
    assert refusal.value.code == "TAKEN_BACK"


def test_an_assignment_that_was_taken_back_is_refused(ada: Person, sol: Person) -> None:
    work = a_placed(ada, a_node(sol))
    assert leases.ask_stop(attempt_id=work.attempt.id, reason=EndReason.CANCELLED_BY_TENANT, actor="usr", now=THEN)
    assert state_of(work) == ("cancelled", "revoked", "cancelled", "cancelled")
    with pytest.raises(Conflict) as refusal:
        work.accept(THEN + S)
    assert (refusal.value.code, refusal.value.extra) == ("TAKEN_BACK", {"state": "cancelled"})
    assert AttemptEnding.objects.count() == 0


def test_another_nodes_attempt_is_not_found_and_one_audit_event_says_so(ada: Person, sol: Person) -> None:
    work = a_placed(ada, a_node(sol))
    other = a_node(sol)
    before = AuditEvent.objects.count()
    with pytest.raises(NotFound):
        reports.accepted(node=other, attempt=work.name, fence=1, now=THEN)
    assert state_of(work)[0] == "assigned"
    assert list(
        AuditEvent.objects.order_by("-id").values_list("deed", flat=True)[: AuditEvent.objects.count() - before]
    ) == ["attempt.foreign"]
    with pytest.raises(NotFound):
        reports.accepted(node=other, attempt="att_" + "0" * 26, fence=1, now=THEN)
    assert AuditEvent.objects.count() == before + 1


@pytest.mark.parametrize("fence", [0, 2, 7])
def test_another_fence_is_refused_everywhere_and_changes_nothing(ada: Person, sol: Person, fence: int) -> None:
    work = a_running(ada, a_node(sol))
    before = state_of(work)
    for speak in (
        lambda: work.report(Phase.UPLOADING, THEN + S, fence=fence),
        lambda: work.finish(THEN + S, fence=fence),
        lambda: reports.accepted(node=work.node, attempt=work.name, fence=fence, now=THEN),
    ):
        with pytest.raises(StaleFence) as refusal:
            speak()
        assert (refusal.value.status, refusal.value.code) == (410, "FENCED")
    assert work.use(1_000_000, THEN + S, fence=fence) == "rejected_stale"
    assert state_of(work) == before
    assert UsageRecord.objects.filter(state="ok").count() == 0


def test_a_wrong_lease_secret_learns_nothing(ada: Person, sol: Person) -> None:
    work = a_running(ada, a_node(sol))
    work.secret = "guess"
    for speak in (lambda: work.report(Phase.RUN, THEN + S), lambda: work.finish(THEN + S)):
        with pytest.raises(NotFound):
            speak()
    assert state_of(work)[0] == "running"


def test_a_repeated_report_gets_its_stored_answer_and_another_under_its_number_none(ada: Person, sol: Person) -> None:
    work = a_running(ada, a_node(sol))
    again = work.report(Phase.RUN, THEN + 9 * S, seq=1)
    assert (again.state, again.repeated) == ("running", True)
    with pytest.raises(Conflict) as refusal:
        work.report(Phase.UPLOADING, THEN + 9 * S, seq=1)
    assert refusal.value.code == "report_differs"
    assert work.fresh().phase == "run"


def test_phases_come_in_order_or_not_at_all(ada: Person, sol: Person) -> None:
    work = a_running(ada, a_node(sol))
    work.report(Phase.UPLOADING, THEN + S, seq=5)
    with pytest.raises(Conflict) as late:
        work.report(Phase.SETUP, THEN + S, seq=3)
    assert late.value.code == "out_of_order"
    with pytest.raises(InvalidTransition):
        work.report(Phase.STAGING, THEN + S, seq=6)
    assert work.fresh().phase == "uploading"


def test_nothing_can_be_said_about_an_assignment_that_was_not_accepted(ada: Person, sol: Person) -> None:
    work = a_placed(ada, a_node(sol))
    with pytest.raises(NotFound):  # there is no lease secret yet
        work.report(Phase.RUN, THEN)
    assert work.use(5, THEN) == "rejected_stale"
    assert UsageRecord.objects.filter(state="ok").count() == 0


@pytest.mark.django_db(transaction=True)
def test_five_finishes_at_once_are_one_end_with_one_answer(ada: Person, sol: Person) -> None:
    work = a_running(ada, a_node(sol))
    start, answers = Barrier(5), []

    def one() -> None:
        try:
            start.wait()
            answers.append(work.finish(THEN + 3 * S, readings=[("core", 1_000, 3_000_000)]))
        finally:
            connections.close_all()

    threads = [Thread(target=one) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answer.state for answer in answers] == ["succeeded"] * 5
    assert sorted(answer.repeated for answer in answers) == [False, True, True, True, True]
    assert sum(UsageRecord.objects.values_list("qty_us", flat=True)) == 3_000_000
    assert JobEvent.objects.filter(type="job.done").count() == 1


def test_after_the_end_only_the_same_report_is_answered(ada: Person, sol: Person) -> None:
    work = a_running(ada, a_node(sol))
    work.finish(THEN + S)
    assert work.finish(THEN + 9 * S).repeated
    with pytest.raises(Conflict):
        work.finish(THEN + S, reason="exit_nonzero")
    with pytest.raises(StaleFence):
        work.finish(THEN + S, reason="exit_nonzero", seq=101)
    assert state_of(work)[0] == "succeeded"


@pytest.mark.parametrize("reason", ["cancelled_by_tenant", "preempted", "node_lost", "not_accepted", "report_forged"])
def test_an_agent_cannot_give_reasons_that_only_the_portal_knows(ada: Person, sol: Person, reason: str) -> None:
    work = a_running(ada, a_node(sol))
    with pytest.raises(InvalidInput) as refusal:
        work.finish(THEN + S, reason=reason)
    assert refusal.value.code == "MALFORMED"
    assert state_of(work)[0] == "running"


@pytest.mark.parametrize(
    ("reason", "attempt", "lease", "task", "billed"),
    [
        ("exit_nonzero", "failed", "released", "failed", True),
        ("out_of_memory", "oom", "released", "failed", True),
        ("time_limit", "timeout", "released", "failed", True),
        ("node_drained", "cancelled", "released", "queued", False),
        ("node_rebooted", "lost", "expired", "queued", False),
        ("start_failed", "failed", "released", "queued", False),
        ("platform_fault", "failed", "released", "queued", False),
    ],
)
def test_each_ending_does_what_the_table_says(
    ada: Person, sol: Person, reason: str, attempt: str, lease: str, task: str, billed: bool
) -> None:
    work = a_running(ada, a_node(sol))
    work.finish(THEN + 2 * S, reason=reason, readings=[("core", 1_000, 2_000_000)])
    assert state_of(work)[:3] == (attempt, lease, task)
    ending = AttemptEnding.objects.get(attempt_ref=work.name)
    assert (ending.reason, ending.billed) == (reason, billed)
    assert UsageRecord.objects.get().qty_us == 2_000_000  # metered, billed or not
    excluded = work.task.excluded_nodes
    assert excluded == ([work.node.public_id] if reason == "start_failed" else [])


def test_a_lost_start_report_is_made_good_by_the_finish(ada: Person, sol: Person) -> None:
    work = a_placed(ada, a_node(sol))
    work.accept(THEN)
    work.finish(THEN + 5 * S, readings=[("core", 1_000, 3_000_000)])
    row = work.fresh()
    assert row.state == "succeeded"
    assert row.started_at is not None
    record = UsageRecord.objects.get()
    assert (record.started_at, record.ended_at, record.qty_us) == (THEN + 2 * S, THEN + 5 * S, 3_000_000)


def test_a_tenant_cancels_and_the_agent_confirms(ada: Person, sol: Person) -> None:
    work = a_running(ada, a_node(sol))
    assert leases.ask_stop(attempt_id=work.attempt.id, reason=EndReason.CANCELLED_BY_TENANT, actor=ada.id, now=THEN + S)
    assert state_of(work)[0] == "cancelling"
    [cancel] = work.sync(THEN + S).cancels
    assert (cancel.attempt, cancel.reason, cancel.grace_ms) == (work.name, "cancelled_by_tenant", 30_000)
    work.finish(THEN + 2 * S, reason="cancelled_by_tenant", readings=[("core", 1_000, 2_000_000)])
    row = work.fresh()
    assert (row.state, row.actor, row.task.state, row.task.job.state) == ("cancelled", ada.id, "cancelled", "cancelled")
    assert AttemptEnding.objects.get().billed
    assert not leases.ask_stop(attempt_id=row.id, reason=EndReason.PREEMPTED, actor="system", now=THEN + 3 * S)


def test_an_error_while_a_tenants_cancel_is_on_its_way_is_not_retried(ada: Person, sol: Person) -> None:
    work = a_running(ada, a_node(sol), resources=Resources(memory_mib=64, disk_gib=1, max_restarts_on_errors=3))
    leases.ask_stop(attempt_id=work.attempt.id, reason=EndReason.CANCELLED_BY_TENANT, actor=ada.id, now=THEN + S)
    work.finish(THEN + 2 * S, reason="exit_nonzero")
    assert state_of(work) == ("failed", "released", "cancelled", "cancelled")


def test_errors_are_retried_as_often_as_the_tenant_says(ada: Person, sol: Person) -> None:
    node = a_node(sol)
    work = a_running(ada, node, resources=Resources(memory_mib=64, disk_gib=1, max_restarts_on_errors=1))
    work.finish(THEN + S, reason="exit_nonzero")
    assert work.task.state == "queued"
    again = Work(work.job, node, place(work.job, node, now=THEN + 2 * S))
    assert again.attempt.fence == 2
    again.accept(THEN + 2 * S)
    assert work.fresh().replaced_by_id == again.attempt.id
    again.report(Phase.RUN, THEN + 2 * S)
    again.finish(THEN + 3 * S, reason="exit_nonzero")
    assert (again.task.state, again.task.reason, again.fresh().task.job.reason) == (
        "failed",
        "exit_nonzero",
        "exit_nonzero",
    )


def test_outputs_become_the_tasks_with_the_accepted_result(ada: Person, sol: Person) -> None:
    work = a_running(ada, a_node(sol), outputs=(an_output(),))
    data, digest = b"forty-two", sha256(b"forty-two").hexdigest()
    stored = artefacts.upload(
        attempt=work.fresh(), name="result", offset=0, data=data, digest=digest, total=9, whole_digest=digest, now=THEN
    )
    assert stored == pieces.Stored(9, complete=True)
    assert not Artefact.objects.get().published
    work.finish(THEN + S, outputs={"result": (9, digest)})
    row = Artefact.objects.get()
    assert (row.published, row.task_id, row.region) == (True, work.attempt.task_id, "east")
    assert b"".join(artefacts.content(artefact=row)) == data


def test_a_required_output_that_is_not_there_fails_the_attempt(ada: Person, sol: Person) -> None:
    work = a_running(ada, a_node(sol), outputs=(an_output(), an_output("extra", "/job/x", required=False)))
    work.finish(THEN + S)
    row = work.fresh()
    assert (row.state, row.reason) == ("failed", "output_missing")
    assert "result" in row.message


def test_an_output_that_did_not_arrive_whole_is_the_platforms_fault(ada: Person, sol: Person) -> None:
    work = a_running(ada, a_node(sol), outputs=(an_output(),))
    work.finish(THEN + S, outputs={"result": (9, "0" * 64)})
    row = work.fresh()
    assert (row.state, row.reason, row.fault, row.task.state) == ("failed", "upload_failed", "platform", "queued")


def test_secrets_are_opened_for_a_live_fence_and_audited(ada: Person, sol: Person) -> None:
    from portal.accounts.services import secrets

    secrets.put(organisation=ada.organisation, name="TOKEN", value="s3cret", by=ada.id, now=THEN)
    work = a_placed(ada, a_node(sol), secrets=("TOKEN",))
    assert dict(work.accept(THEN).secrets) == {"TOKEN": "s3cret"}
    opened = AuditEvent.objects.get(deed="secret.open")
    assert (opened.actor, opened.target) == (work.node.public_id, work.name)


def test_a_budget_stops_the_job_when_it_is_used_up(ada: Person, sol: Person) -> None:
    work = a_running(ada, a_node(sol), budget_minor=10)  # 0.10 CNY: one core-hour
    hour = timedelta(hours=1)
    assert work.use(3_000_000_000, THEN + hour) == "stored"
    assert work.fresh().stop_reason == ""
    later = THEN + hour + timedelta(seconds=602)
    assert work.use(3_600_000_000 + 1_000_000, later, seq=2) == "stored"
    row = work.fresh()
    assert (row.state, row.stop_reason) == ("cancelling", "budget_exhausted")
    work.finish(later + 2 * S, reason="budget_exhausted")
    assert work.task.state == "cancelled"


def test_the_hold_is_given_back_with_the_end(ada: Person, sol: Person) -> None:
    from billing.models import Hold
    from billing.services import holds
    from portal.kit.money import Money

    work = a_running(ada, a_node(sol))
    holds.reserve(organisation_id=ada.organisation.id, reference=work.job.public_id, amount=Money(500, "CNY"), now=THEN)
    work.finish(THEN + S)
    assert Hold.objects.get().state == "released"


def test_reports_are_kept(ada: Person, sol: Person) -> None:
    work = a_running(ada, a_node(sol))
    work.finish(THEN + S, readings=[("core", 1_000, 1)])
    kinds = sorted(AttemptReport.objects.values_list("kind", flat=True))
    assert kinds == ["finish", "phase", "usage:core"]
    assert Lease.objects.get().capacity_freed
    assert Attempt.objects.get().result_accepted
    assert a_queued(ada).state == "queued"
