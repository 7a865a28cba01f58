"""Budgets: each threshold of a month is told once, what blocks blocks, and twenty submits at once cannot overrun."""

from datetime import UTC, datetime, timedelta

import pytest

from billing.models import Budget, BudgetAlert, Hold
from billing.selectors import budgets as standing
from billing.services import budgets, holds
from billing.services.holds import Needs
from portal.accounts.models import Project
from portal.kit.errors import Conflict, InvalidInput, NotFound, SpendingRefused
from portal.kit.money import Money
from portal.outbox.models import OutboxMessage
from tests.billing.books import a_tenant
from tests.billing.services.test_periods import in_threads
from tests.billing.services.test_wallets import used, yuan

NOW = datetime(2026, 10, 6, tzinfo=UTC)
pytestmark = pytest.mark.django_db


def a_budget(tenant, text="30.00", scope="organisation", key="", at_limit="block", **more):
    return budgets.set_budget(
        organisation_id=tenant.id,
        scope=scope,
        key=key,
        amount=yuan(text),
        at_limit=at_limit,
        by="usr_ada",
        now=NOW,
        **more,
    )


def a_project(tenant, slug="vision", department="Research"):
    return Project.objects.create(
        organisation=tenant,
        slug=slug,
        name=slug.title(),
        department=department,
        public_id=f"prj_{tenant.id}_{slug}",
        created_at=NOW,
    )


def hold(tenant, reference, text="10.00", project="", department=""):
    return holds.reserve(
        organisation_id=tenant.id, reference=reference, amount=yuan(text), now=NOW, needs=Needs(project, department)
    )


@pytest.mark.django_db(transaction=True)
def test_p44_twenty_submits_at_once_stay_within_a_budget_that_blocks():
    """P44: budget 30.00, `block`, twenty holds of 10.00: three accepted, seventeen times 402."""
    tenant = a_tenant()
    a_budget(tenant)

    def submit(number):
        try:
            hold(tenant, f"job_{number}")
        except SpendingRefused as refused:
            return refused.code, refused.extra["refused_by"], refused.extra["available"]["amount"]
        return "held"

    said = in_threads(20, submit)
    assert said.count("held") == 3
    assert said.count(("spending_refused", "budget", "0.00")) == 17
    assert sum(Hold.objects.values_list("amount_minor", flat=True)) <= 3000


@pytest.mark.django_db(transaction=True)
def test_p44_three_scopes_at_once_each_keep_their_limit():
    """P44 with budgets of an organisation, a department and a project together."""
    tenant = a_tenant()
    vision, sound = a_project(tenant), a_project(tenant, "sound", "Teaching")
    a_budget(tenant, "100.00")
    a_budget(tenant, "50.00", scope="department", key="Research")
    a_budget(tenant, "20.00", scope="project", key="vision")

    def submit(number):
        project = (vision, sound)[number % 2]
        try:
            hold(tenant, f"job_{number}", project=project.public_id, department=project.department)
        except SpendingRefused as refused:
            return refused.extra["budget"]
        return project.slug

    said = in_threads(24, submit)
    assert said.count("vision") == 2
    assert said.count("sound") == 8
    assert set(said) == {"vision", "sound", "Vision", tenant.name}


def test_each_threshold_is_told_once_in_a_month():
    """B1."""
    tenant = a_tenant()
    row = a_budget(tenant, "10.00", at_limit="notify")
    assert budgets.watch(now=NOW) == 0
    used(tenant, seconds=4500)  # 5.00
    assert budgets.watch(now=NOW) == 1
    assert budgets.watch(now=NOW) == 0
    used(tenant, attempt="att_2", seconds=3600)  # 9.00: 75 and 90
    assert budgets.watch(now=NOW) == 2
    used(tenant, attempt="att_3", seconds=3600)
    assert budgets.watch(now=NOW) == 1
    assert list(BudgetAlert.objects.order_by("id").values_list("threshold", flat=True)) == [50, 75, 90, 100]
    mails = OutboxMessage.objects.filter(topic="mail", key__startswith=f"budget:{row.public_id}:2026-10:")
    assert sorted(mail.key.rpartition(":")[2] for mail in mails) == ["100", "50", "90"]  # 75 and 90 came together
    november = datetime(2026, 11, 2, tzinfo=UTC)
    used(tenant, attempt="att_4", seconds=4500, start=november)
    assert budgets.watch(now=november + timedelta(hours=2)) == 1
    assert BudgetAlert.objects.filter(month="2026-11").get().threshold == 50


@pytest.mark.django_db(transaction=True)
def test_eight_watchers_tell_once():
    tenant = a_tenant()
    a_budget(tenant, "4.00")
    used(tenant)
    assert sum(in_threads(8, lambda _: budgets.watch(now=NOW))) == 4
    assert BudgetAlert.objects.count() == 4
    assert OutboxMessage.objects.filter(topic="mail").count() == 1


def test_notify_stops_nothing_and_a_lower_budget_holds_at_once():
    tenant = a_tenant()
    a_budget(tenant, "5.00", at_limit="notify")
    assert hold(tenant, "job_1").amount_minor == 1000
    lowered = a_budget(tenant, "4.00", at_limit="block")
    assert Budget.objects.count() == 1
    with pytest.raises(SpendingRefused) as refused:
        hold(tenant, "job_2", "0.01")
    assert refused.value.extra["budget"] == tenant.name
    assert hold(tenant, "job_1", "3.00").amount_minor == 300  # less than before is never refused
    budgets.remove(budget=lowered, by="usr_ada", now=NOW)
    assert hold(tenant, "job_2").amount_minor == 1000


def test_a_budget_of_one_job_counts_what_it_used_and_holds():
    tenant = a_tenant()
    a_budget(tenant, "6.00", scope="job", key="job_1")
    hold(tenant, "job_2", "50.00")
    hold(tenant, "job_1", "6.00")
    with pytest.raises(SpendingRefused):
        hold(tenant, "job_1", "6.01")
    used(tenant)
    (view,) = standing.overviews(tenant, now=NOW)
    assert (view.standing.spent_minor, view.standing.committed_minor, view.standing.percent) == (400, 600, 66)


def test_the_forecast_goes_on_at_the_pace_of_the_last_seven_days():
    tenant = a_tenant()
    a_budget(tenant, "1000.00", at_limit="notify")
    now = datetime(2026, 10, 21, tzinfo=UTC)
    for day in range(20):  # 4.00 a day; from the 14th on 8.00
        start = datetime(2026, 10, 1 + day, tzinfo=UTC)
        used(tenant, attempt=f"att_{day}", start=start, seconds=7200 if day >= 13 else 3600)
    (view,) = standing.overviews(tenant, now=now)
    assert view.standing.spent_minor == 1300 * 4 + 700 * 8
    assert view.forecast == Money(view.standing.spent_minor + 11 * 800, "CNY")
    wire = view.wire()
    assert (wire["month"], wire["name"], wire["left"]["amount"]) == ("2026-10", tenant.name, "892.00")
    assert standing.overviews(a_tenant(), now=now) == []


def test_what_is_no_budget_is_refused():
    tenant = a_tenant()
    for values, path in (
        ({"scope": "galaxy"}, "scope"),
        ({"at_limit": "explode"}, "at_limit"),
        ({"text": "0.00"}, "amount"),
        ({"thresholds": [0, 50]}, "thresholds"),
        ({"thresholds": [50, 50]}, "thresholds"),
        ({"thresholds": []}, "thresholds"),
        ({"thresholds": [201]}, "thresholds"),
        ({"scope": "department"}, "key"),
        ({"scope": "project", "key": "nowhere"}, "key"),
    ):
        with pytest.raises(InvalidInput) as refused:
            a_budget(tenant, **values)
        assert path in {fault.path for fault in refused.value.errors}
    with pytest.raises(Conflict):
        budgets.set_budget(organisation_id=tenant.id, scope="organisation", amount=Money(1, "USD"), by="x", now=NOW)
    with pytest.raises(NotFound):
        standing.one(organisation_id=tenant.id, public_id="bdg_x")
    assert not Budget.objects.exists()
