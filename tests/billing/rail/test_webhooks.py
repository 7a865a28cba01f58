"""The door of the rail's events: what is let in, what is kept, and that a crash in the middle leaves nothing or everything."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from django.db import connection, transaction
from django.test import Client

from billing.gateways import stripe as gateway
from billing.models import Dispute, Payment, Refund, Txn, WebhookInbox
from billing.selectors import balances
from billing.services import payments, refunds
from portal.kit.errors import Conflict
from portal.kit.money import Money
from tests.billing.books import case
from tests.billing.rail.conftest import an_invoice
from tests.billing.rail.test_payments import paid
from tests.fakes.stripe_twin import rules

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.django_db
def test_e2_what_is_not_signed_now_by_our_secret_leaves_no_row(rail):
    """Also the future is refused, which the library alone would accept. S2."""
    given, expected = case("bill-e2")
    door, now = Client(), int(rail.now.timestamp())
    statuses = []
    for words in given["requests"]:
        event = rail.twin.books.tell("product.created", {"id": f"prod_{len(statuses)}", "object": "product"})
        offset = int(words.split("timestamp ")[1].split()[0].replace("now", "0")) if "timestamp" in words else 0
        body, headers = rail.twin.hooks.pack(event, secret="whsec_other" if "wrong" in words else "", at=now + offset)
        statuses.append(rail.post(door, body, {} if "no signature" in words else headers))
    assert statuses == expected["http_status"]
    assert WebhookInbox.objects.count() == expected["inbox_rows"]


@pytest.mark.django_db
@pytest.mark.parametrize("body", [b"{", b"[]", b'{"id": 7}', b"\xff\xfe", b""])
def test_a_signed_body_that_is_no_event_is_refused(rail, body):
    from tests.fakes.stripe_twin.hooks import sign

    header = sign(body, rail.twin.hooks.secret, int(rail.now.timestamp()))
    assert rail.post(Client(), body, {"Stripe-Signature": header}) == 400
    assert Client().get("/hooks/stripe").status_code == 405
    assert WebhookInbox.objects.count() == 0


@pytest.mark.django_db
def test_without_a_secret_nobody_is_let_in(rail, settings):
    settings.STRIPE_WEBHOOK_SECRET = ""
    event = rail.twin.books.tell("product.created", {"id": "prod_1", "object": "product"})
    assert rail.post(Client(), *rail.twin.hooks.pack(event)) == 409


@pytest.mark.django_db
def test_what_the_vendor_does_is_one_of_three_errors(rail):
    """Busy: the same key again. Refused: for good. Unsure: look first."""
    for kind, error, code in (
        ("cut", gateway.RailBusy, "rail_busy"),
        ("429", gateway.RailBusy, "rail_busy"),
        ("409", gateway.RailBusy, "rail_busy"),
        ("500", gateway.RailUnsure, None),
    ):
        rail.twin.fault(kind, "GET /v1/balance")
        with pytest.raises(error) as refused:
            gateway.balance()
        assert getattr(refused.value, "code", None) == code
    with pytest.raises(gateway.RailRefused) as refused:
        gateway.payment("pi_none")
    assert (refused.value.code, refused.value.reason) == ("rail_refused", "resource_missing")
    with pytest.raises(gateway.BadSignature) as unsigned:
        gateway.read_event(body=b"{}", signature="", now=rail.now)
    assert unsigned.value.code == "bad_signature"


@pytest.mark.django_db
def test_when_the_rail_cannot_be_asked_it_tells_again(rail):
    invoice = an_invoice()
    page = payments.start(invoice=invoice, by="usr_ada", now=rail.now)
    rail.relay()
    page.refresh_from_db()
    rail.twin.pay(page.payment.session)
    rail.twin.fault("cut", "GET /v1/", times=100)
    assert 503 in rail.tell()
    rail.twin.faults.clear()
    rail.twin.hooks._sent = 0
    assert set(rail.tell()) == {200}
    invoice.refresh_from_db()
    assert invoice.state == "paid"


@pytest.mark.django_db
def test_an_event_about_nothing_that_is_there_is_dead_and_told(rail):
    event = rail.twin.books.tell("payment_intent.succeeded", {"id": "pi_gone", "object": "payment_intent"})
    assert rail.tell() == [200]
    row = WebhookInbox.objects.get(event_id=event["id"])
    assert (row.state, "No such" in row.problem) == ("dead", True)


CHILD = """
import django, sys
django.setup()
from django.conf import settings
settings.STRIPE_SECRET_KEY, settings.STRIPE_WEBHOOK_SECRET, settings.IDLEWILD_STRIPE_API_BASE = sys.argv[1:4]
from datetime import datetime
from billing.services import webhooks
body = sys.stdin.buffer.read()
print("ready", flush=True)
webhooks.receive(body=body, signature=sys.argv[4], now=datetime.fromisoformat(sys.argv[5]))
print("committed", flush=True)
import time
time.sleep(60)
"""


def child(rail, body, headers):
    """Another process takes the event in; it is killed by the test."""
    name = connection.settings_dict["NAME"]
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "portal.settings", "DATABASE_URL": _address(name)}
    words = [rail.twin.key, rail.twin.hooks.secret, rail.twin.url, headers["Stripe-Signature"], rail.now.isoformat()]
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, *words], cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    process.stdin.write(body)
    process.stdin.close()
    return process


def _address(name):
    row = connection.settings_dict
    return f"host={row['HOST']} port={row['PORT'] or 5432} dbname={name} user={row['USER']}"


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    process.stdout.close()


def blocked(seconds=30.0):
    """Until another session waits for a lock of ours."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted AND relation IS NOT NULL")
            if cursor.fetchone()[0]:
                return
        time.sleep(0.05)
    raise AssertionError("nobody waits")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("where", case("bill-e1")[0]["kill_at"])
def test_e1_killed_in_the_middle(rail, where):
    """The handler's process dies after its effects and before commit, or after commit and before the answer. S1."""
    given, expected = case("bill-e1")
    invoice = an_invoice(amount=given["amount_minor"])
    page = payments.start(invoice=invoice, by="usr_ada", now=rail.now)
    rail.relay()
    page.refresh_from_db()
    rail.twin.pay(page.payment.session)
    event = next(e for e in rail.twin.books.events if e["type"] == given["event"])
    body, headers = rail.twin.hooks.pack(event)
    if where == "after_effects_before_commit":
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("LOCK TABLE audit_auditevent IN SHARE MODE")  # the last thing it writes
            process = child(rail, body, headers)
            blocked()
            kill(process)
        assert Txn.objects.filter(kind="payment").count() == 0
        assert WebhookInbox.objects.count() == 0
    else:
        process = child(rail, body, headers)
        assert process.stdout.readline() == b"ready\n"
        assert process.stdout.readline() == b"committed\n"
        kill(process)
    for _ in range(given["redeliver"]):
        assert rail.post(Client(), body, headers) == 200
    invoice.refresh_from_db()
    wanted = expected["for_each"]
    assert Txn.objects.filter(kind="payment").count() == wanted["ledger_txns"]
    assert invoice.paid_minor == wanted["paid_minor"]
    assert WebhookInbox.objects.count() == wanted["inbox_rows"]


# --- refunds and disputes -------------------------------------------------------------------------------------------------------
def credit(invoice, amount):
    """A credit note: what was paid of it is owed back."""
    from billing.services import credit_notes

    credit_notes.issue(
        invoice=invoice,
        total=Money(amount, invoice.currency),
        reason="x",
        reference=f"test-{invoice.id}-{amount}",
        by="staff",
        now=invoice.issued_at,
    )


def credit_of(invoice):
    from billing.domain.ledger import AccountKind

    return balances.of(invoice.organisation.public_id, AccountKind.CREDIT, invoice.currency)


@pytest.mark.django_db
def test_a_refund_takes_from_the_credit_and_goes_back_to_the_card(rail):
    invoice = an_invoice()
    payment = paid(rail, invoice)
    with pytest.raises(Conflict, match="credit note first") as refused:
        refunds.send(invoice=invoice, amount=Money(4_000, "EUR"), reference="cn_1", by="staff", now=rail.now)
    assert refused.value.code == "not_refundable"
    credit(invoice, 10_000)
    for _ in range(3):
        made = refunds.send(invoice=invoice, amount=Money(4_000, "EUR"), reference="cn_1", by="staff", now=rail.now)
    assert len(made) == 1
    assert credit_of(invoice) == 6_000
    rail.relay()
    rail.tell()
    assert Refund.objects.get().state == "succeeded"
    assert rail.twin.count("refund") == 1
    assert rail.drift("EUR") == 0
    for amount in (Money(6_001, "EUR"), Money(0, "EUR")):
        with pytest.raises(Conflict):
            refunds.send(invoice=invoice, amount=amount, reference="cn_2", by="staff", now=rail.now)
    refunds.of_payment(payment=payment, amount=Money(6_000, "EUR"), reference="rest", by="staff", now=rail.now)
    rail.relay()
    rail.tell()
    payment.refresh_from_db()
    assert (payment.state, payment.refunded_minor) == ("refunded", 10_000)
    assert rail.drift("EUR") == 0
    rail.all_in_balance()


@pytest.mark.django_db
@pytest.mark.parametrize("kind", ["drop", "cut", "500", "500_after"])
def test_a_refund_is_sent_once_whatever_breaks(rail, kind):
    invoice = an_invoice()
    paid(rail, invoice)
    credit(invoice, 4_000)
    rail.twin.fault(kind, "POST /v1/refunds")
    refunds.send(invoice=invoice, amount=Money(4_000, "EUR"), reference="cn_1", by="staff", now=rail.now)
    for _ in range(5):
        rail.relay()
        rail.wait(seconds=15)
    assert Refund.objects.get().state == "succeeded"
    assert rail.twin.count("refund") == 1
    assert rail.drift("EUR") == 0


@pytest.mark.django_db
def test_a_refund_that_is_refused_or_comes_back_is_credit_again(rail):
    invoice = an_invoice()
    payment = paid(rail, invoice)
    credit(invoice, 10_000)
    refunds.send(invoice=invoice, amount=Money(3_000, "EUR"), reference="a", by="staff", now=rail.now)
    rail.relay()
    rules.fail_refund(rail.twin.books, Refund.objects.get().rail_id)
    rail.tell()
    assert Refund.objects.get().state == "failed"
    assert credit_of(invoice) == 10_000
    assert rail.drift("EUR") == 0
    dispute = rules.dispute(rail.twin.books, payment.charge, 500)
    refunds.send(invoice=invoice, amount=Money(2_000, "EUR"), reference="b", by="staff", now=rail.now)
    rail.relay()  # a disputed charge is not refundable
    assert Refund.objects.get(reference="b").failure == "charge_disputed"
    assert credit_of(invoice) == 10_000
    rail.tell()
    payment.refresh_from_db()
    assert (payment.state, payment.refunded_minor) == ("disputed", 0)
    rules.close_dispute(rail.twin.books, dispute["id"], won=True)
    rail.tell()
    assert rail.drift("EUR") == 0
    rail.all_in_balance()


@pytest.mark.django_db
@pytest.mark.parametrize("won", [True, False])
def test_the_platform_bears_a_dispute(rail, won):
    from billing.domain.ledger import AccountKind

    payment = paid(rail, an_invoice())
    dispute = rules.dispute(rail.twin.books, payment.charge)
    rail.twin.hooks.duplicate = 2
    rail.tell()
    assert rail.drift("EUR") == 0
    assert balances.of("platform", AccountKind.BAD_DEBT, "EUR") == -10_000
    rules.close_dispute(rail.twin.books, dispute["id"], won=won)
    rail.tell()
    assert Dispute.objects.get().state == ("won" if won else "lost")
    assert balances.of("platform", AccountKind.BAD_DEBT, "EUR") == (0 if won else -10_000)
    assert rail.drift("EUR") == 0
    assert Payment.objects.get().state == "disputed"


@pytest.mark.django_db
def test_a_refund_made_by_hand_at_the_rail_is_told(rail):
    payment = paid(rail, an_invoice())
    rules.refund(rail.twin.books, {"charge": payment.charge, "amount": 100})
    assert set(rail.tell()) == {200}
    assert Refund.objects.count() == 0
    assert rail.drift("EUR") == -100
