"""An unpaid invoice is spoken of: a short ladder, each step once; then it is past due, and at last given up."""

from datetime import UTC, datetime, timedelta

import pytest

from billing.domain.ledger import AccountKind
from billing.models import Reminder
from billing.selectors import balances
from billing.services import credit_notes, invoices, reminders
from portal.kit.errors import Conflict, InvalidTransition
from portal.kit.money import Money
from portal.outbox.models import OutboxMessage
from tests.billing.books import a_tenant, rated
from tests.billing.services.test_periods import in_threads
from tests.billing.services.test_wallets import proved

pytestmark = pytest.mark.django_db
ISSUED = datetime(2026, 11, 4, 1, tzinfo=UTC)
DUE = ISSUED + timedelta(days=14)
DAY = timedelta(days=1)


def an_invoice(minor=1000, **values):
    return rated(a_tenant(**values), (3_600_000_000, minor * 10_000))


def test_each_step_of_the_ladder_is_sent_once():
    invoice = an_invoice()
    sent = []
    now = ISSUED
    while now < DUE + 30 * DAY:
        invoices.mark_past_due(now=now)
        if reminders.send_due(now=now):
            sent.append((now - DUE) // DAY)
        now += timedelta(hours=12)
    assert sent == [-3, 0, 1, 7, 21]
    assert list(Reminder.objects.order_by("id").values_list("step", flat=True)) == [
        "upcoming",
        "due",
        "overdue",
        "second",
        "final",
    ]
    mails = OutboxMessage.objects.filter(topic="mail", key__startswith="reminder:")
    assert mails.count() == 5
    assert invoice.number in mails.first().payload["subject"]
    assert "RF" in mails.first().payload["body"]


def test_what_was_missed_is_not_made_up_for():
    an_invoice()
    assert reminders.send_due(now=DUE + 8 * DAY) == 1
    assert reminders.send_due(now=DUE + 8 * DAY) == 0
    assert Reminder.objects.get().step == "second"


@pytest.mark.parametrize("how", ["paid", "credited", "tiny"])
def test_nobody_is_reminded_of_what_is_not_open(how):
    invoice = an_invoice(49 if how == "tiny" else 1000)
    if how == "paid":
        invoices.record_payment(invoice=invoice, amount=Money(1000, "CNY"), reference="b", by="usr_staff", now=ISSUED)
    if how == "credited":
        credit_notes.issue(
            invoice=invoice, total=Money(1000, "CNY"), reason="x", reference="r", by="usr_staff", now=ISSUED
        )
    assert reminders.send_due(now=DUE + DAY) == 0


def test_a_debt_is_written_off_late_and_once():
    invoice = an_invoice()
    tenant = invoice.organisation
    invoices.mark_past_due(now=DUE)
    with pytest.raises(Conflict) as early:
        reminders.give_up(invoice=invoice, reason="gone", by="usr_staff", now=DUE + 59 * DAY)
    assert early.value.code == "too_early"
    late = DUE + 60 * DAY
    assert reminders.give_up(invoice=invoice, reason="gone", by="usr_staff", now=late).state == "uncollectible"
    with pytest.raises(InvalidTransition):
        reminders.give_up(invoice=invoice, reason="gone", by="usr_staff", now=late)
    assert balances.of("platform", AccountKind.BAD_DEBT, "CNY") == -1000
    assert balances.of(tenant.public_id, AccountKind.TENANT_RECEIVABLE, "CNY") == 0
    proved(tenant)


@pytest.mark.django_db(transaction=True)
def test_eight_workers_send_one_reminder():
    an_invoice()
    assert sum(in_threads(8, lambda _: reminders.send_due(now=DUE))) == 1
    assert OutboxMessage.objects.filter(topic="mail", key__startswith="reminder:").count() == 1
