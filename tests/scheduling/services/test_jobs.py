"""Submit, cancel, retry, change: each is one transaction, repeated it does nothing more."""

from datetime import timedelta
from typing import Any

import pytest

from billing.models import Hold
from billing.services import usage
from portal.accounts.services import secrets
from portal.audit.models import AuditEvent
from portal.kit.errors import Conflict, InvalidInput, SpendingRefused
from portal.outbox.models import OutboxMessage
from scheduling.domain.reasons import EndReason
from scheduling.models import Attempt, Job, JobEvent, NodeState, Task
from scheduling.selectors import spending
from scheduling.services import cycle, jobs, leases, links
from tests.billing.books import a_fact
from tests.cast import Person
from tests.factories.market import a_node, a_region
from tests.scheduling.services.works import NOW, heard, submit

pytestmark = pytest.mark.django_db


def test_a_submitted_job_has_task_hold_event_audit_and_a_wish_for_a_cycle(ada: Person) -> None:
    job = submit(ada, labels={"team": "moss"}, priority=7, max_price="1.00", max_duration="2h")
    assert (job.state, job.priority, job.labels, job.max_price_micro) == ("queued", 7, {"team": "moss"}, 1_000_000)
    assert job.tasks.get().state == "queued"
    assert job.spec["retry"] == {"on_events": ["no-capacity", "interruption"], "duration": "1d"}
    hold = Hold.objects.get(reference=job.public_id)
    assert (hold.amount_minor, hold.currency, hold.state) == (200, "CNY", "active")
    assert [e.type for e in job.events.all()] == ["job.queued"]
    assert AuditEvent.objects.get(deed="job.submit").target == job.public_id
    assert OutboxMessage.objects.filter(topic="cycle.wanted", key=f"job.{job.public_id}").count() == 1


def test_a_budget_bounds_what_is_held(ada: Person) -> None:
    job = submit(ada, budget={"amount": "0.50", "on_exceed": "hold"}, max_price="1.00", max_duration="2h")
    assert (job.budget_minor, job.budget_on_exceed) == (50, "hold")
    assert Hold.objects.get(reference=job.public_id).amount_minor == 50


def test_spending_beyond_the_limit_is_refused_and_nothing_is_made(ada: Person) -> None:
    with pytest.raises(SpendingRefused) as caught:
        submit(ada, max_price="100", max_duration="24h")
    assert caught.value.extra["needed"] == {"amount": "2400.00", "currency": "CNY"}
    assert (Job.objects.count(), Task.objects.count(), Hold.objects.count()) == (0, 0, 0)
    assert not AuditEvent.objects.filter(deed="job.submit").exists()


def test_a_bad_spec_makes_nothing(ada: Person) -> None:
    with pytest.raises(InvalidInput) as caught:
        submit(ada, cpu=8, max_price="-1")
    assert {f.code for f in caught.value.errors} == {"unknown_field", "bad_amount"}
    assert Job.objects.count() == 0


def test_secrets_projects_and_regions_are_checked_against_what_there_is(ada: Person) -> None:
    a_region("east")
    with pytest.raises(InvalidInput) as caught:
        submit(ada, secrets={"HUB": None}, project="nothing", placement={"regions": ["mars"]})
    assert {f.code for f in caught.value.errors} == {"secret_missing", "unknown_project", "unknown_region"}
    secrets.put(organisation=ada.organisation, project=None, name="HUB", value="x", by=ada.id, now=NOW)
    assert submit(ada, secrets={"HUB": None}).tasks.get().spec["secrets"] == ["HUB"]


def test_a_queued_job_is_cancelled_at_once_and_its_hold_released(ada: Person) -> None:
    job = submit(ada)
    for _ in range(2):
        job = jobs.cancel(job=job, by=ada.id, now=NOW)
        assert (job.state, job.reason) == ("cancelled", "cancelled_by_tenant")
    assert Hold.objects.get().state == "released"
    assert [e.type for e in job.events.order_by("sequence")] == ["job.queued", "job.cancelled"]
    assert AuditEvent.objects.filter(deed="job.cancel").count() == 1


def test_a_running_job_is_asked_to_stop(ada: Person, sol: Person) -> None:
    a_node(sol)
    heard()
    job = submit(ada)
    cycle.run(now=NOW)
    Attempt.objects.update(state="running", accepted_at=NOW, started_at=NOW)
    Task.objects.update(state="running")
    job = jobs.cancel(job=job, by=ada.id, now=NOW)
    attempt = Attempt.objects.get()
    assert (attempt.state, attempt.stop_reason) == ("cancelling", "cancelled_by_tenant")
    assert job.state == "running"
    assert job.cancel_requested_at == NOW


def test_an_assignment_that_nobody_took_is_taken_back(ada: Person, sol: Person) -> None:
    node = a_node(sol)
    heard()
    job = submit(ada)
    cycle.run(now=NOW)
    job = jobs.cancel(job=job, by=ada.id, now=NOW)
    assert job.state == "cancelled"
    assert Attempt.objects.get().state == "cancelled"
    assert NodeState.objects.get(node=node).free_cores_milli == 8_000


def test_failed_tasks_are_queued_again_under_the_same_job(ada: Person) -> None:
    job = submit(ada, retry={"on_events": ["interruption"]}, max_price="0.01")
    cycle.run(now=NOW)
    job.refresh_from_db()
    assert (job.state, job.reason) == ("failed", "no_capacity")
    assert Hold.objects.get().state == "released"
    again = jobs.retry(job=job, by=ada.id, now=NOW + timedelta(minutes=1))
    assert (again.public_id, again.state) == (job.public_id, "queued")
    task = again.tasks.get()
    assert (task.state, task.retries_asked, task.reason, task.ended_at) == ("queued", 1, "", None)
    assert Hold.objects.filter(state="active").count() == 1
    types = [e.type for e in JobEvent.objects.filter(job=job).order_by("sequence")]
    assert types == ["job.queued", "job.failed", "job.queued"]


def test_only_failed_tasks_can_be_retried(ada: Person) -> None:
    job = submit(ada)
    with pytest.raises(Conflict) as caught:
        jobs.retry(job=job, by=ada.id, now=NOW)
    assert caught.value.code == "nothing_to_retry"
    jobs.cancel(job=job, by=ada.id, now=NOW)
    with pytest.raises(Conflict):
        jobs.retry(job=job, by=ada.id, now=NOW)


def test_a_change_counts_for_attempts_to_come(ada: Person, sol: Person) -> None:
    a_node(sol, prices={"core": "0.10"})
    heard()
    job = submit(ada, max_price="0.05")
    cycle.run(now=NOW)
    assert job.tasks.get().waiting["reason"] == "price_over_max"
    values = jobs.as_columns(
        job, {"max_price": 200_000, "priority": 9, "labels": {"a": "b"}, "budget": {"amount": "3", "on_exceed": "hold"}}
    )
    job = jobs.change(job=job, values=values, by=ada.id, now=NOW)
    assert (job.spec["max_price"], job.spec["priority"], job.spec["budget"]) == (
        "0.20",
        9,
        {"amount": "3.00", "on_exceed": "hold"},
    )
    assert len(cycle.run(now=NOW).placed) == 1
    assert [e.data["fields"] for e in JobEvent.objects.filter(type="job.changed")] == [
        ["budget_minor", "budget_on_exceed", "labels", "max_price_micro", "priority"]
    ]


@pytest.mark.parametrize(
    "budget",
    [{"amount": "-1"}, {"amount": None}, {"amount": "1", "x": 1}, {"amount": "1", "on_exceed": "cry"}, "1.234", "x"],
)
def test_a_bad_budget_changes_nothing(ada: Person, budget: Any) -> None:
    job = submit(ada)
    with pytest.raises(InvalidInput):
        jobs.as_columns(job, {"budget": budget})
    with pytest.raises(InvalidInput):
        jobs.as_columns(job, {"max_price": None})
    with pytest.raises(InvalidInput):
        jobs.change(job=job, values={"state": "done"}, by=ada.id, now=NOW)
    assert jobs.as_columns(job, {"budget": None}) == {"budget_minor": None}


def test_an_ended_job_takes_labels_only(ada: Person) -> None:
    job = jobs.cancel(job=submit(ada), by=ada.id, now=NOW)
    with pytest.raises(Conflict):
        jobs.change(job=job, values={"priority": 1}, by=ada.id, now=NOW)
    assert jobs.change(job=job, values={"labels": {"x": "y"}}, by=ada.id, now=NOW).labels == {"x": "y"}


@pytest.mark.parametrize(
    ("on_exceed", "state", "reason"), [("hold", "queued", ""), ("stop", "cancelled", "budget_exhausted")]
)
def test_a_spent_budget_holds_or_stops_the_next_attempt(
    ada: Person, sol: Person, on_exceed: str, state: str, reason: str
) -> None:
    a_node(sol)
    heard()
    job = submit(ada, budget={"amount": "0.50", "on_exceed": on_exceed}, max_price="1.00")
    cycle.run(now=NOW)
    attempt = Attempt.objects.get()
    usage.record(
        fact=a_fact(
            ada.organisation,
            attempt_ref=attempt.public_id,
            job_ref=job.public_id,
            started_at=NOW,
            seconds=1_800,
            resource="core",
            unit_price_micro=1_000_000,
        ),
        now=NOW + timedelta(hours=1),
    )
    leases.ask_stop(attempt_id=attempt.id, reason=EndReason.PREEMPTED, actor="system", now=NOW)
    cycle.run(now=NOW)
    task = job.tasks.get()
    job.refresh_from_db()
    assert (task.state, job.reason) == (state, reason)
    if on_exceed == "hold":
        assert (task.waiting["reason"], task.waiting["asked"]) == ("budget_held", "0.50")
        jobs.change(job=job, values={"budget_minor": 100}, by=ada.id, now=NOW)
        assert len(cycle.run(now=NOW).placed) == 1


@pytest.mark.parametrize(("seconds", "spent"), [(179, False), (180, False), (359, False), (360, True)])
def test_a_budget_of_one_fen_is_not_used_up_by_rounding(ada: Person, seconds: int, spent: bool) -> None:
    """0.10 an hour for at most six minutes is 0.01; after three minutes the line is printed as 0.01 already."""
    job = submit(ada, max_price="0.10", max_duration="6m", budget="0.01")
    fact = a_fact(
        ada.organisation, job_ref=job.public_id, started_at=NOW, seconds=seconds, resource="core", unit_price_micro=100_000
    )  # fmt: skip
    usage.record(fact=fact, now=NOW + timedelta(hours=1))
    assert spending.is_spent(job) is spent
    job.budget_minor = None
    assert spending.is_spent(job) is False


def test_an_operator_may_stop_a_job_for_another_reason(ada: Person, staff: Person) -> None:
    job = jobs.cancel(job=submit(ada), by=staff.id, reason=EndReason.STOPPED_BY_OPERATOR, now=NOW)
    assert (job.state, job.reason) == ("cancelled", "stopped_by_operator")


def test_a_link_is_configured_once_and_changed_after(ada: Person, staff: Person) -> None:
    a_region("east")
    a_region("west")
    terms: dict[str, Any] = {
        "source": "east",
        "target": "west",
        "bandwidth_mbps": 1_000,
        "currency": "CNY",
        "by": staff.id,
        "now": NOW,
    }
    links.configure(rtt_us=20_000, price_micro_per_gb=10_000, **terms)
    link = links.configure(rtt_us=None, price_micro_per_gb=20_000, **terms)
    assert (link.price_micro_per_gb, link.rtt_us) == (20_000, None)
    with pytest.raises(InvalidInput) as caught:
        links.configure(
            rtt_us=-1, price_micro_per_gb=-1, **{**terms, "source": "mars", "bandwidth_mbps": 0, "currency": "XXX"}
        )
    assert {f.path for f in caught.value.errors} == {"source", "price_per_gb", "currency", "rtt_ms", "bandwidth_mbps"}
