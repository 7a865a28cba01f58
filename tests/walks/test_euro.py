"""A euro: seconds counted by a real agent become facts, lines, a closed month and an issued invoice that waits to be collected."""

import io
import json
import urllib.request
from collections.abc import Callable
from datetime import timedelta

import pypdf

from billing.domain.ledger import AccountKind
from billing.models import InvoiceDocument, UsageRecord
from billing.selectors import balances, earnings, usage
from billing.selectors import invoices as stored
from billing.services import invoices, periods
from portal import clock
from portal.outbox.models import OutboxMessage
from scheduling.models import Attempt
from tests.cast import Person
from tests.walks.conftest import Agent, Product, eventually
from tests.walks.test_job import ended, submit


def test_a_euro(product: Product, ada: Person, sol: Person, a_machine: Callable[..., Agent]) -> None:
    a_machine(core="360.00", card="3600.00")  # dear on purpose: 0.02 a second for 0.2 cores, 1.00 for a card
    resources = {"cpus": "0.2", "memory": "64MiB", "disk_size": "1GiB", "accelerators": "virtual:1"}
    job = submit(ada, "sleep 4", resources=resources, max_price="4000.00", max_duration="1m")
    assert balances.balance(organisation_id=ada.organisation.id).held.minor > 0
    eventually(lambda: ended(job), what="the job ends")
    attempt = Attempt.objects.get()
    assert (job.state, attempt.reason) == ("done", "finished"), attempt.message

    # counters → facts: what the agent proved, once per resource and second
    ran_us = attempt.stats["ran_us"]
    metered = {
        resource: sum(UsageRecord.objects.filter(resource=resource, state="ok").values_list("qty_us", flat=True))
        for resource in ("core", "card")
    }
    assert abs(metered["card"] - ran_us) <= 50_000
    assert abs(metered["core"] - ran_us // 5) <= 50_000

    # facts → coming lines: core-hours and card-hours, the card labelled virtual
    cost = usage.job_cost(job.public_id)
    assert [(line.resource, line.unit, line.virtual) for line in cost.lines] == [
        ("card", "card-hour", True),
        ("core", "core-hour", False),
    ]
    assert cost.total.minor >= 400
    standing = balances.balance(organisation_id=ada.organisation.id)
    assert standing.held.minor == 0
    # an estimate: rounded once per job, where the two lines are rounded each for itself
    assert abs(standing.used.minor - cost.total.minor) <= 1

    # the month is over, and its grace: lines → invoice → postings
    coming = usage.upcoming(ada.organisation.id, clock.now())
    assert coming is not None
    closing = coming.ends_at + timedelta(hours=72)
    invoice = periods.close(organisation_id=ada.organisation.id, month=coming.month, now=closing).invoice
    assert invoice is not None
    assert (invoice.state, invoice.total_minor) == ("open", cost.total.minor)
    assert [(line.sku, line.amount) for line in stored.lines(invoice)] == [
        (line.sku, line.amount) for line in cost.lines
    ]
    assert invoices.verify(invoice).ok
    assert balances.of(ada.organisation.public_id, AccountKind.TENANT_RECEIVABLE, "CNY") == -invoice.total_minor
    share = earnings.standing(provider_ref=sol.organisation.public_id)["CNY"]["accrued"].minor
    assert share + balances.of("platform", AccountKind.PLATFORM_FEE, "CNY") == invoice.total_minor
    assert set(balances.trial().values()) == {0}

    # the promises: the PDFs are made by the worker, the rail's row waits for a rail
    promised = OutboxMessage.objects.get(topic="stripe.collect")
    assert promised.payload == {"invoice": invoice.public_id, "amount_minor": invoice.total_minor, "currency": "CNY"}
    OutboxMessage.objects.filter(topic="invoice.pdf").update(
        due_at=clock.now()
    )  # it was promised for the day of the close
    eventually(lambda: InvoiceDocument.objects.filter(format="pdf").count() == 2, what="the worker makes both PDFs")
    for language in ("en", "zh-hans"):
        pages = pypdf.PdfReader(io.BytesIO(stored.document(invoice, "pdf", language))).pages
        assert str(invoice.number) in "".join(page.extract_text() for page in pages)

    # and ada's program reads it
    key = ada.key().text
    request = urllib.request.Request(  # noqa: S310  our own address
        f"{product.url}/api/v1/invoices/{invoice.number}", headers={"Authorization": f"Bearer {key}"}
    )
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
        shown = json.load(answer)
    assert shown["total"] == {"amount": cost.total.text(), "currency": "CNY"}
    assert [line["attempt"] for line in shown["lines"]] == [None, None]
