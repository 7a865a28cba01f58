"""bill-a4: the worker that closes a month and collects is killed at each step, and run again: one invoice, one number, one charge."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from django.db import connection, transaction

from billing.models import DocumentCounter, Invoice, Payment
from billing.services import payments, periods, usage
from tests.billing.books import AFTER_OCTOBER, a_fact, a_tenant, case
from tests.billing.rail.test_payments import a_saved_card
from tests.billing.rail.test_webhooks import _address, blocked

ROOT = Path(__file__).resolve().parents[3]
CHILD = """
import django, sys
django.setup()
from django.conf import settings
settings.STRIPE_SECRET_KEY, settings.IDLEWILD_STRIPE_API_BASE = sys.argv[1:3]
from datetime import datetime
from billing.services import periods
from portal.outbox import services as outbox
from portal.outbox.models import OutboxMessage
now = datetime.fromisoformat(sys.argv[3])
print("ready", flush=True)
if sys.argv[5] == "close":
    periods.close(organisation_id=int(sys.argv[4]), month="2026-10", now=now)
else:
    OutboxMessage.objects.exclude(topic__startswith="stripe.").filter(sent_at=None).update(sent_at=now)
    for _ in range(5):
        outbox.relay(now=now)
print("done", flush=True)
import time
time.sleep(60)
"""


def worker(rail, tenant, what):
    environment = {
        **os.environ, "DJANGO_SETTINGS_MODULE": "portal.settings", "DATABASE_URL": _address(connection.settings_dict["NAME"]),
    }  # fmt: skip
    words = [rail.twin.key, rail.twin.url, rail.now.isoformat(), str(tenant.id), what]
    process = subprocess.Popen([sys.executable, "-c", CHILD, *words], cwd=ROOT, env=environment, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    process.stdout.close()


def asked(twin, what, seconds=20.0):
    """Until the twin has been asked for that."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if any(line == what for line in twin.calls):
            return
        time.sleep(0.02)
    raise AssertionError(f"nobody asked {what}: {twin.calls[-5:]}")


def killed_while(table, process_of):
    """The worker is killed where it waits for a table that we hold."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"LOCK TABLE {table} IN SHARE MODE")
        process = process_of()
        blocked()
        kill(process)


def promised(rail):
    """The charge is promised already, so the worker's first write of a payment comes after the rail's answer."""
    payments.collect("", {"invoice": Invoice.objects.get().public_id}, now=rail.now)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("where", case("bill-a4")[0]["kill_at"])
def test_a4_killed_at_each_step(rail, where):
    _given, expected = case("bill-a4")
    rail.set(AFTER_OCTOBER)
    tenant = a_tenant(currency="EUR")
    a_saved_card(rail, tenant)
    fact = a_fact(tenant, seconds=3_600, unit_price_micro=10_000_000, currency="EUR")
    usage.record(fact=fact, now=fact.ended_at)
    charge = "POST /v1/payment_intents"
    if where == "before_commit":
        killed_while("outbox_outboxmessage", lambda: worker(rail, tenant, "close"))
        assert not Invoice.objects.exists()
    elif where == "after_commit":
        process = worker(rail, tenant, "close")
        assert process.stdout.readline() == b"done\n"
        kill(process)
    periods.close(organisation_id=tenant.id, month="2026-10", now=rail.now)
    if where == "outbox_row_claimed":
        rail.twin.fault("delay_before", charge, seconds=3)  # asked, nothing done yet
        process = worker(rail, tenant, "relay")
        asked(rail.twin, charge)
        kill(process)
    elif where == "request_sent_no_reply":
        rail.twin.fault("delay_after", charge, seconds=3)
        process = worker(rail, tenant, "relay")
        asked(rail.twin, charge)
        while not rail.twin.count("charge"):
            time.sleep(0.02)
        kill(process)
    elif where == "reply_received_id_not_saved":
        promised(rail)
        killed_while("billing_payment", lambda: worker(rail, tenant, "relay"))
        assert Payment.objects.get().state == "created"
    elif where == "id_saved_outbox_not_done":
        promised(rail)
        killed_while("audit_auditevent", lambda: worker(rail, tenant, "relay"))
        assert Payment.objects.get().state == "created"
    for _ in range(3):
        rail.relay()
        rail.wait(seconds=15)
    rail.tell()
    wanted = expected["for_each_step"]
    assert Invoice.objects.count() == wanted["invoices"]
    assert rail.twin.count("payment_intent") == wanted["payment_intents_at_twin"]
    assert rail.twin.count("charge") == wanted["charges_at_twin"]
    assert DocumentCounter.objects.get(series="IW-2026").last == wanted["invoice_numbers_used"]
    assert Invoice.objects.get().state == "paid"
    assert rail.drift("EUR") == 0
