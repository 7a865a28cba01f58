"""Every day the rail's balance is the ledger's; a difference is written down, looked at again, and told. S6."""

import pytest

from billing.domain.ledger import AccountKind
from billing.models import Reconciliation
from billing.selectors import balances
from billing.services import payments, reconcile
from portal.outbox.models import OutboxMessage
from tests.billing.rail.conftest import an_invoice
from tests.billing.rail.test_payments import paid
from tests.fakes.stripe_twin import rules

pytestmark = pytest.mark.django_db


def mails():
    return OutboxMessage.objects.filter(topic="mail", key__startswith="drift:")


def test_all_is_well(rail):
    paid(rail, an_invoice())
    (row,) = reconcile.run(now=rail.now)
    assert (row.currency, row.drift_minor, row.unknown, row.rail_minor) == ("EUR", 0, [], 9_680)


def test_a_difference_is_shown_at_once_and_told_when_it_stays(rail, staff):
    paid(rail, an_invoice())
    rail.twin.drift("EUR", -77)
    (row,) = reconcile.run(now=rail.now)
    assert row.drift_minor == -77
    assert mails().count() == 0
    rail.wait(minutes=16)
    rail.relay()
    assert mails().count() == 1
    assert "-0.77" in mails().get().payload["body"]
    rail.twin.drift("EUR", 77)
    rail.wait(days=1)
    assert reconcile.run(now=rail.now)[0].drift_minor == 0
    assert Reconciliation.objects.count() == 3


def test_what_was_on_its_way_is_no_alarm(rail, staff):
    invoice = an_invoice()
    page = payments.start(invoice=invoice, by="usr_ada", now=rail.now)
    rail.relay()
    page.refresh_from_db()
    rail.twin.pay(page.payment.session)
    (row,) = reconcile.run(now=rail.now)
    assert row.drift_minor == 9_680
    assert [entry["kind"] for entry in row.unknown] == ["charge"]
    rail.tell()
    rail.wait(minutes=16)
    rail.relay()
    assert Reconciliation.objects.order_by("-id").first().drift_minor == 0
    assert mails().count() == 0


def test_a_refund_by_hand_is_named(rail):
    payment = paid(rail, an_invoice())
    made = rules.refund(rail.twin.books, {"charge": payment.charge, "amount": 100})
    rail.tell()
    (row,) = reconcile.run(now=rail.now)
    assert row.drift_minor == -100
    assert [entry["source"] for entry in row.unknown] == [made["id"]]


def test_money_sent_to_our_bank_is_booked(rail):
    paid(rail, an_invoice())
    rail.wait(days=3)
    sent = rules.payout(rail.twin.books, {"amount": 5_000, "currency": "eur"})
    assert reconcile.run(now=rail.now)[0].drift_minor == 0
    assert balances.of("platform", AccountKind.CASH, "EUR") == -5_000
    rules.end_payout(rail.twin.books, sent["id"], paid=False)
    rail.wait(hours=1)
    assert reconcile.run(now=rail.now)[0].drift_minor == 0
    rail.twin.books.transaction("stripe_fee", -250, "eur", "fee_1")
    rail.wait(hours=1)
    assert reconcile.run(now=rail.now)[0].drift_minor == 0
    assert balances.of("platform", AccountKind.RAIL_FEE, "EUR") == -320 - 250
    rail.all_in_balance()


def test_without_a_rail_there_is_nothing_to_compare(rail, settings):
    settings.STRIPE_SECRET_KEY = ""
    assert reconcile.run(now=rail.now) == []
