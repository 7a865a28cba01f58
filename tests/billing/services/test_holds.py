"""Holds keep a job's money from the limit; twenty at once stay within it."""

from datetime import UTC, datetime, timedelta

import pytest

from billing.domain.holds import HoldState
from billing.models import Hold, Invoice
from billing.selectors import balances
from billing.selectors import usage as used
from billing.services import holds, invoices, usage
from portal.kit.errors import Conflict, NotFound, SpendingRefused
from portal.kit.money import Money
from tests.billing.books import a_fact, a_tenant, moment, october
from tests.billing.services.test_periods import in_threads

NOW = datetime(2026, 10, 6, tzinfo=UTC)
pytestmark = pytest.mark.django_db


def yuan(text):
    return Money.parse(text, "CNY")


@pytest.mark.django_db(transaction=True)
def test_twenty_submits_at_once_stay_within_the_limit():
    tenant = a_tenant()  # the default limit: 500.00

    def submit(number):
        try:
            holds.reserve(organisation_id=tenant.id, reference=f"job_{number}", amount=yuan("40.00"), now=NOW)
        except SpendingRefused as refused:
            return refused.extra["refused_by"]
        return "held"

    said = in_threads(20, submit)
    assert (said.count("held"), said.count("credit_limit")) == (12, 8)
    assert balances.balance(organisation_id=tenant.id).available == yuan("20.00")


def test_a_refusal_says_what_is_needed_and_what_is_left():
    tenant = a_tenant(credit_limit_minor=1000)
    assert balances.may_spend(organisation_id=tenant.id, amount=yuan("10.00")).allowed
    holds.reserve(organisation_id=tenant.id, reference="job_1", amount=yuan("6.00"), now=NOW)
    spend = balances.may_spend(organisation_id=tenant.id, amount=yuan("4.01"))
    assert (spend.allowed, spend.available, spend.refused_by) == (False, yuan("4.00"), "credit_limit")
    with pytest.raises(SpendingRefused) as refused:
        holds.reserve(organisation_id=tenant.id, reference="job_2", amount=yuan("4.01"), now=NOW)
    assert refused.value.extra["available"] == {"amount": "4.00", "currency": "CNY"}
    assert "4.01" in refused.value.detail
    assert Hold.objects.count() == 1


def test_money_of_another_currency_is_refused():
    tenant = a_tenant()
    for ask in (
        lambda: balances.may_spend(organisation_id=tenant.id, amount=Money(1, "USD")),
        lambda: holds.reserve(organisation_id=tenant.id, reference="job_1", amount=Money(1, "USD"), now=NOW),
    ):
        with pytest.raises(Conflict) as refused:
            ask()
        assert refused.value.code == "currency_differs"
    assert not Hold.objects.exists()


def test_the_same_reference_again_sets_its_hold_anew():
    tenant = a_tenant(credit_limit_minor=1000)
    first = holds.reserve(organisation_id=tenant.id, reference="job_1", amount=yuan("6.00"), now=NOW)
    again = holds.reserve(organisation_id=tenant.id, reference="job_1", amount=yuan("9.00"), now=NOW)
    assert (again.id, again.amount_minor) == (first.id, 900)
    assert holds.reserve(organisation_id=tenant.id, reference="job_1", amount=yuan("2.00"), now=NOW).amount_minor == 200
    with pytest.raises(SpendingRefused):
        holds.reserve(organisation_id=tenant.id, reference="job_1", amount=yuan("10.01"), now=NOW)
    with pytest.raises(NotFound):
        holds.reserve(organisation_id=a_tenant().id, reference="job_1", amount=yuan("1.00"), now=NOW)
    with pytest.raises(Conflict):
        holds.reserve(organisation_id=tenant.id, reference="job_9", amount=yuan("-1.00"), now=NOW)


def test_release_capture_and_expiry_each_end_a_hold_once():
    tenant = a_tenant(credit_limit_minor=1000)
    for reference in ("a", "b", "c", "d"):
        expires = NOW + timedelta(hours=1) if reference == "c" else None
        holds.reserve(organisation_id=tenant.id, reference=reference, amount=yuan("2.00"), now=NOW, expires_at=expires)
    assert holds.release(reference="a", now=NOW)
    assert not holds.release(reference="a", now=NOW)
    assert holds.capture(reference="b", amount=yuan("1.50"), now=NOW)
    assert not holds.capture(reference="b", amount=yuan("1.50"), now=NOW)
    assert holds.expire_due(now=NOW) == 0
    assert holds.expire_due(now=NOW + timedelta(hours=1)) == 1
    assert not holds.release(reference="nobody", now=NOW)
    assert dict(Hold.objects.values_list("reference", "state")) == {
        "a": HoldState.RELEASED.value,
        "b": HoldState.CAPTURED.value,
        "c": HoldState.EXPIRED.value,
        "d": HoldState.ACTIVE.value,
    }
    assert balances.balance(organisation_id=tenant.id).available == yuan("8.00")
    assert (
        holds.reserve(organisation_id=tenant.id, reference="a", amount=yuan("1.00"), now=NOW).state == HoldState.ACTIVE
    )


def test_a_running_job_counts_once_and_an_unbilled_attempt_not_at_all():
    tenant = a_tenant(credit_limit_minor=1000)
    holds.reserve(organisation_id=tenant.id, reference="job_1", amount=yuan("6.00"), now=NOW)
    usage.record(fact=(fact := a_fact(tenant, seconds=3600)), now=fact.ended_at)  # 4.00 of it is used
    assert balances.balance(organisation_id=tenant.id).available == yuan("4.00")
    usage.record(
        fact=(more := a_fact(tenant, attempt_ref="att_2", seconds=3600)), now=more.ended_at
    )  # 8.00: more than was held
    assert balances.balance(organisation_id=tenant.id).available == yuan("2.00")
    usage.end_attempt(
        attempt_ref="att_2",
        reason="node_lost",
        fault="provider",
        billed=False,
        message="",
        ended_at=more.ended_at,
        now=NOW,
    )
    assert balances.balance(organisation_id=tenant.id).available == yuan("4.00")


def test_what_is_invoiced_is_owed_until_it_is_paid_and_past_due_blocks():
    tenant = a_tenant(credit_limit_minor=1000)
    usage.record(fact=(fact := a_fact(tenant, seconds=3600)), now=fact.ended_at)
    invoice = october(tenant)
    standing = balances.balance(organisation_id=tenant.id)
    assert (standing.owed, standing.used, standing.available) == (yuan("4.00"), yuan("0.00"), yuan("6.00"))
    assert invoices.mark_past_due(now=moment("2026-11-18T00:00:00Z")) == 0
    assert invoices.mark_past_due(now=moment("2026-11-18T01:00:00Z")) == 1
    assert balances.may_spend(organisation_id=tenant.id, amount=yuan("0.01")).refused_by == "past_due"
    with pytest.raises(SpendingRefused):
        holds.reserve(organisation_id=tenant.id, reference="job_2", amount=yuan("0.01"), now=NOW)
    invoices.record_payment(invoice=invoice, amount=yuan("4.00"), reference="bank 1", by="usr_staff", now=NOW)
    assert Invoice.objects.get().state == "paid"
    assert balances.may_spend(organisation_id=tenant.id, amount=yuan("10.00")).allowed


def test_a_suspended_organisation_spends_nothing():
    tenant = a_tenant(state="suspended")
    assert balances.may_spend(organisation_id=tenant.id, amount=yuan("0.01")).refused_by == "organisation_suspended"


def test_tax_counts_against_the_limit(settings):
    settings.IDLEWILD_TAX_PPM = 60_000
    tenant = a_tenant(credit_limit_minor=1000)
    usage.record(fact=(fact := a_fact(tenant, seconds=3600)), now=fact.ended_at)
    assert balances.balance(organisation_id=tenant.id).used == yuan("4.24")


def test_the_default_limit_is_in_the_tenants_own_currency():
    assert balances.limit(a_tenant(currency="JPY")) == Money(500, "JPY")
    assert balances.limit(a_tenant(currency="BHD")) == Money(500_000, "BHD")


def test_tiered_usage_counts_with_its_place_in_the_tiers():
    tenant = a_tenant()
    tiers = ((1, 4_000_000), (None, 2_000_000))
    for number in range(2):
        fact = a_fact(tenant, attempt_ref=f"att_{number}", job_ref=f"job_{number}", seconds=3600, tiers=tiers)
        usage.record(fact=fact, now=fact.ended_at)
    assert balances.balance(organisation_id=tenant.id).used == yuan("6.00")
    assert [group.amount.text() for group in used.summary(tenant.id, "2026-10", "sku")] == ["6.00"]
