"""The money of jobs that run: a prepaid balance is held, renewed, runs low, runs dry, and stops the job; budgets stop theirs."""

from datetime import datetime, timedelta

import pytest

from billing.domain.ledger import AccountKind
from billing.models import AttemptEnding, Hold
from billing.selectors import balances, budgets
from billing.services import budgets as setting
from billing.services import grants, wallets
from portal.kit.errors import SpendingRefused
from portal.kit.money import Money
from portal.outbox.models import OutboxMessage
from scheduling.models import Attempt, Job, Task
from scheduling.services import cycle, funds, jobs
from tests.cast import Person
from tests.factories.market import a_node
from tests.factories.running import Phase, Work
from tests.scheduling.services.works import NOW, heard, submit

pytestmark = pytest.mark.django_db
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def yuan(text: str) -> Money:
    return Money.parse(text, "CNY")


def prepaid(who: Person, text: str) -> None:
    wallets.set_terms(organisation_id=who.organisation.id, mode="prepaid", by="usr_staff", now=NOW)
    if yuan(text).minor:
        wallets.top_up(organisation_id=who.organisation.id, amount=yuan(text), reference="pay_1", now=NOW)


def wallet(who: Person) -> str:
    return Money(balances.of(who.organisation.public_id, AccountKind.WALLET, "CNY"), "CNY").text()


def started(job: Job, now: datetime = NOW) -> Work:
    """Placed by the cycle and running."""
    heard(now=now)
    assert len(cycle.run(now=now).placed) == 1
    attempt = Attempt.objects.get(task__job=job, fence=Task.objects.get(job=job).fence)
    work = Work(job, attempt.node, attempt)
    work.accept(now)
    work.report(Phase.RUN, now)
    return work


def test_a_prepaid_job_is_refused_without_money_and_holds_one_hour_of_it(ada: Person, sol: Person) -> None:
    prepaid(ada, "0.90")
    with pytest.raises(SpendingRefused) as refused:
        submit(ada, max_price="1.00", max_duration="10h")
    assert refused.value.extra["refused_by"] == "balance"
    wallets.top_up(organisation_id=ada.organisation.id, amount=yuan("0.60"), reference="pay_2", now=NOW)
    job = submit(ada, max_price="1.00", max_duration="10h")  # 10.00 at most, 1.00 for the first hour
    assert Hold.objects.get(reference=job.public_id).amount_minor == 100
    assert job.events.get(type="job.queued").data["held"] == {"amount": "1.00", "currency": "CNY"}
    assert wallet(ada) == "0.50"


def test_a_balance_that_runs_dry_warns_then_stops_the_job(ada: Person, sol: Person) -> None:
    """S6, without the browser: hold → renewal → low → dry → stop, with a reason, a mail and nothing owed beyond the margin."""
    a_node(sol, prices={"core": "0.60"})
    prepaid(ada, "1.00")
    job = submit(ada, max_price="0.60", max_duration="10h")
    work = started(job)
    assert (wallet(ada), funds.watch(now=NOW).renewed) == ("0.40", 1)
    assert OutboxMessage.objects.filter(topic="mail", key__startswith="wallet.low:").count() == 1
    seq, now = 0, NOW
    while not work.fresh().stop_reason:
        now += MINUTE
        seq += 1
        assert seq < 120, "the job was never stopped"
        work.use(seq * 60_000_000, now, seq=seq)
        funds.watch(now=now)
        funds.watch(now=now + timedelta(seconds=15))
    row = work.fresh()
    assert (row.state, row.stop_reason) == ("cancelling", "balance_exhausted")
    assert 97 <= seq <= 100  # 1.00 at 0.60 an hour are 100 minutes
    assert OutboxMessage.objects.filter(topic="mail", key__startswith="wallet.dry:").count() == 1
    assert OutboxMessage.objects.filter(topic="mail", key__startswith="wallet.low:").count() == 1
    now += timedelta(seconds=40)
    work.finish(now, reason="balance_exhausted", readings=[("core", 1_000, seq * 60_000_000 + 30_000_000)])
    job.refresh_from_db()
    assert (job.state, job.reason, work.task.reason) == ("cancelled", "balance_exhausted", "balance_exhausted")
    assert AttemptEnding.objects.get().billed is True
    used = balances.used_by_job(organisation_id=ada.organisation.id, currency="CNY")[job.public_id]
    assert used <= 100
    hold = Hold.objects.get()
    assert (hold.state, hold.funded_minor) == ("captured", used)
    assert balances.balance(organisation_id=ada.organisation.id).available == Money(100 - used, "CNY")


def test_a_top_up_in_time_keeps_the_job_running(ada: Person, sol: Person) -> None:
    a_node(sol, prices={"core": "0.60"})
    prepaid(ada, "0.70")
    work = started(submit(ada, max_price="0.60", max_duration="10h"))
    late = NOW + 65 * MINUTE
    work.use(65 * 60_000_000, late)
    wallets.top_up(organisation_id=ada.organisation.id, amount=yuan("5.00"), reference="pay_2", now=late)
    assert funds.watch(now=late).stopped == 0
    assert work.fresh().stop_reason == ""
    assert Hold.objects.get().amount_minor == 125  # 0.65 used and an hour ahead


def test_a_job_may_wait_for_the_next_top_up(ada: Person, sol: Person) -> None:
    a_node(sol, prices={"core": "0.60"})
    prepaid(ada, "0.60")
    job = submit(ada, max_price="0.60", max_duration="2h", budget={"amount": "1.20", "on_exceed": "hold"})
    work = started(job)
    late = NOW + 60 * MINUTE
    work.use(59 * 60_000_000, late)
    assert funds.watch(now=late).stopped == 1
    work.finish(late + MINUTE, reason="balance_exhausted", readings=[("core", 1_000, 60 * 60_000_000)])
    heard(now=late + MINUTE)
    cycle.run(now=late + MINUTE)
    task = job.tasks.get()
    assert (task.state, task.waiting["reason"], task.waiting["asked"]) == ("queued", "balance_short", "0.02")
    wallets.top_up(organisation_id=ada.organisation.id, amount=yuan("1.00"), reference="pay_2", now=late)
    assert started(job, late + 2 * MINUTE).attempt.fence == 2


def test_postpaid_tenants_are_not_watched(ada: Person, sol: Person) -> None:
    a_node(sol)
    started(submit(ada))
    assert funds.watch(now=NOW) == funds.Watched(0, 0)


def test_a_budget_that_stops_ends_the_jobs_it_counts(ada: Person, sol: Person) -> None:
    a_node(sol, prices={"core": "0.60"})
    work = started(submit(ada, max_price="0.60", max_duration="10h"))
    tenant = ada.organisation
    setting.set_budget(
        organisation_id=tenant.id, scope="project", key=ada.project.public_id, amount=yuan("0.30"), at_limit="stop", by=ada.id, now=NOW
    )  # fmt: skip
    work.use(29 * 60_000_000, NOW + 29 * MINUTE)
    assert funds.watch(now=NOW + 29 * MINUTE).stopped == 0
    work.use(30 * 60_000_000, NOW + 30 * MINUTE, seq=2)
    assert funds.watch(now=NOW + 30 * MINUTE).stopped == 1
    assert funds.watch(now=NOW + 31 * MINUTE).stopped == 0
    assert (work.fresh().state, work.fresh().stop_reason) == ("cancelling", "budget_exhausted")
    with pytest.raises(SpendingRefused) as refused:
        submit(ada, max_price="0.01", max_duration="6m")
    assert refused.value.extra["refused_by"] == "budget"
    assert refused.value.extra["budget"] == ada.project.name


def test_p16_a_lowered_budget_stops_what_runs_at_the_next_look(ada: Person, sol: Person) -> None:
    """P16: a budget that was lowered while the agent was cut off is applied at the first look after it is back."""
    a_node(sol, prices={"core": "0.60"})
    work = started(submit(ada, max_price="0.60", max_duration="10h"))
    tenant = {
        "organisation_id": ada.organisation.id,
        "scope": "organisation",
        "at_limit": "stop",
        "by": ada.id,
        "now": NOW,
    }
    setting.set_budget(**tenant, amount=yuan("5.00"))
    setting.set_budget(**tenant, amount=yuan("0.20"))
    assert budgets.of(ada.organisation.id).count() == 1
    work.use(25 * 60_000_000, NOW + 25 * MINUTE)
    assert funds.watch(now=NOW + 25 * MINUTE).stopped == 1
    assert work.fresh().stop_reason == "budget_exhausted"


def test_p16_a_jobs_own_budget_is_lowered_too(ada: Person, sol: Person) -> None:
    """P16: the same for `PATCH /jobs/{id}` with a lower budget."""
    a_node(sol, prices={"core": "0.60"})
    work = started(submit(ada, max_price="0.60", max_duration="10h", budget="5.00"))
    work.use(11 * 60_000_000, NOW + 11 * MINUTE)
    jobs.change(job=work.job, values={"budget_minor": 20}, by=ada.id, now=NOW + 12 * MINUTE)
    assert work.fresh().stop_reason == ""
    jobs.change(job=work.job, values={"budget_minor": 10}, by=ada.id, now=NOW + 12 * MINUTE)
    answer = work.sync(NOW + 13 * MINUTE)  # the first one after it was cut off
    assert [cancel.reason for cancel in answer.cancels] == ["budget_exhausted"]


def test_granted_hours_run_jobs_without_money_on_the_givers_nodes_only(ada: Person, sol: Person, ben: Person) -> None:
    a_node(sol, prices={"core": "0.60"})
    prepaid(ada, "0.00")
    with pytest.raises(SpendingRefused):
        submit(ada, max_price="0.60", max_duration="1h")
    given = {
        "organisation_id": ada.organisation.id,
        "resource": "core",
        "reason": "allocation 2026",
        "by": sol.id,
        "now": NOW,
    }
    grants.give_hours(**given, giver_id=sol.organisation.id, qty_us=2 * 3_600_000_000)
    job = submit(ada, max_price="0.60", max_duration="1h")
    hold = Hold.objects.get(reference=job.public_id)
    assert (hold.amount_minor, hold.hours, hold.givers) == (0, {"core": 3_600_000_000}, [sol.organisation.public_id])
    second = submit(ada, max_price="0.60", max_duration="1h")
    with pytest.raises(SpendingRefused):  # both hours are held
        submit(ada, max_price="0.60", max_duration="1h")
    jobs.cancel(job=second, by=ada.id, now=NOW)
    work = started(job)
    work.use(30 * 60_000_000, NOW + 30 * MINUTE)
    assert funds.watch(now=NOW + 30 * MINUTE).stopped == 0
    assert balances.used_by_job(organisation_id=ada.organisation.id, currency="CNY") == {job.public_id: 0}
    work.finish(NOW + HOUR, readings=[("core", 1_000, 3_600_000_000)])
    assert balances.hours_left(ada.organisation)[0].left_us == 3_600_000_000


def test_a_job_on_granted_hours_is_not_placed_with_others(ada: Person, sol: Person, ben: Person) -> None:
    a_node(sol, prices={"core": "0.60"})
    prepaid(ada, "0.00")
    grants.give_hours(
        organisation_id=ada.organisation.id, giver_id=ben.organisation.id, resource="core", qty_us=3_600_000_000, reason="x",
        by=ben.id, now=NOW,
    )  # fmt: skip
    job = submit(ada, max_price="0.60", max_duration="1h")
    heard()
    assert not cycle.run(now=NOW).placed
    assert job.tasks.get().waiting["reason"] == "region_avoided"


def test_hours_that_run_out_stop_the_job(ada: Person, sol: Person) -> None:
    a_node(sol, prices={"core": "0.60"})
    prepaid(ada, "0.00")
    grants.give_hours(
        organisation_id=ada.organisation.id, giver_id=sol.organisation.id, resource="core", qty_us=3_600_000_000, reason="x",
        by=sol.id, now=NOW,
    )  # fmt: skip
    work = started(submit(ada, max_price="0.60", max_duration="5h"))
    assert funds.watch(now=NOW + 50 * MINUTE).stopped == 0
    work.use(59 * 60_000_000, NOW + 59 * MINUTE)
    assert funds.watch(now=NOW + 59 * MINUTE).stopped == 1
    assert work.fresh().stop_reason == "balance_exhausted"
