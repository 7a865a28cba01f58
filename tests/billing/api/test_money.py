"""The REST of money: who may read it, what it says, and what it answers to the wrong question."""

import csv
import io
import json

import pytest

from billing.api import serializers as shapes
from billing.services import invoices, usage
from tests.billing.books import a_fact, moment, october
from tests.cast import a_member

pytestmark = pytest.mark.django_db
API = "/api/v1"
BACK = moment("2026-10-05T02:00:00Z")


@pytest.fixture
def invoice(ada, sol):
    """Ada's October: an hour of sol's card, and an attempt that was lost."""
    card = a_fact(
        ada.organisation,
        seconds=3600,
        provider_ref=sol.organisation.public_id,
        provider_name="Sol Power",
        green_ratio_ppm=500_000,
    )
    lost = a_fact(ada.organisation, attempt_ref="att_2", job_ref="job_2", provider_ref=sol.organisation.public_id)
    usage.record_many(facts=[card, lost], now=BACK)
    usage.end_attempt(
        attempt_ref="att_2", reason="node_lost", fault="provider", billed=False, message="", ended_at=BACK, now=BACK
    )
    return october(ada.organisation)


def addresses(invoice):
    return [
        "usage?month=2026-10", "usage/records", "invoices", f"invoices/{invoice.public_id}", f"invoices/{invoice.public_id}.pdf",
        f"invoices/{invoice.public_id}.csv", f"invoices/{invoice.public_id}.json", f"invoices/{invoice.public_id}/lines/1/records",
        f"invoices/{invoice.public_id}/verification", "balance", "earnings",
    ]  # fmt: skip


def test_nobody_reads_money_without_signing_in(invoice, client):
    for address in addresses(invoice):
        answer = client.get(f"{API}/{address}")
        assert (answer.status_code, answer.json()["code"]) == (401, "not_signed_in"), address


@pytest.mark.parametrize(
    ("role", "status"), [("owner", 200), ("admin", 200), ("developer", 403), ("billing", 200), ("viewer", 200)]
)
def test_a_role_reads_money_as_the_table_says(ada, invoice, role, status):
    person = a_member(ada, f"{role}@example.org", role)
    for address in addresses(invoice):
        assert person.web().get(f"{API}/{address}").status_code == status, address
        assert person.program().get(f"{API}/{address}").status_code == status, address


def test_b3_a_stranger_and_the_provider_find_nothing_of_another_tenant(cleo, sol, ada, invoice):
    for person in (cleo, sol):
        web = person.web()
        for address in addresses(invoice):
            if "/" in address and invoice.public_id in address:
                assert web.get(f"{API}/{address}").status_code == 404, address
        assert web.get(f"{API}/invoices").json()["items"] == []
        assert web.get(f"{API}/usage/records").json()["items"] == []
        assert web.get(f"{API}/usage?month=2026-10").status_code == 404
        foreign = web.get(f"{API}/invoices", headers={"X-Idlewild-Organisation": ada.organisation.slug})
        assert foreign.status_code == 404
    text = json.dumps(sol.web().get(f"{API}/earnings").json())
    assert ada.organisation.name not in text
    assert ada.organisation.public_id not in text


def test_a_suspended_tenant_still_reads_what_it_owes(ada, invoice):
    ada.organisation.state = "suspended"
    ada.organisation.save()
    assert ada.web().get(f"{API}/invoices").status_code == 200


def test_the_invoice_and_its_lines(ada, invoice):
    found = ada.web().get(f"{API}/invoices/{invoice.number}").json()
    assert (found["id"], found["state"], found["month"], found["total"]) == (
        invoice.public_id,
        "open",
        "2026-10",
        {"amount": "4.00", "currency": "CNY"},
    )
    assert found["period"] == {
        "month": "2026-10",
        "start": "2026-09-30T16:00:00Z",
        "end": "2026-10-31T16:00:00Z",
        "timezone": "Asia/Shanghai",
    }
    billed, lost = found["lines"]
    assert (billed["amount"], billed["quantity"], billed["unit"], billed["green_ratio"]) == (
        "4.00",
        "1.0000",
        "card-hour",
        "0.50",
    )
    assert (lost["amount"], lost["unbilled_reason"], lost["node"]) == ("0.00", "node_lost", "nod_1")
    listed = ada.web().get(f"{API}/invoices?state=open").json()["items"]
    assert [row["number"] for row in listed] == [invoice.number]
    assert ada.web().get(f"{API}/invoices?state=paid").json()["items"] == []


def test_a_line_lists_its_records_and_the_invoice_verifies(ada, invoice):
    web = ada.web()
    (share,) = web.get(f"{API}/invoices/{invoice.public_id}/lines/1/records").json()["items"]
    assert (share["attempt"], share["job"], share["qty_us"], share["record"]["qty_us"]) == (
        "att_1",
        "job_1",
        3_600_000_000,
        3_600_000_000,
    )
    checked = web.get(f"{API}/invoices/{invoice.public_id}/verification").json()
    assert (checked["ok"], checked["records"], checked["total"]) == (True, 2, checked["recomputed_total"])
    assert web.get(f"{API}/invoices/{invoice.public_id}/lines/9/records").status_code == 404


def test_documents_come_in_the_language_that_was_asked_for(ada, invoice):
    web = ada.web()
    pdf = web.get(f"{API}/invoices/{invoice.public_id}.pdf")
    assert (pdf["Content-Type"], pdf["Content-Disposition"]) == (
        "application/pdf",
        f'attachment; filename="{invoice.number}.pdf"',
    )
    assert pdf.content.startswith(b"%PDF-")
    english = web.get(f"{API}/invoices/{invoice.public_id}.csv").content.decode("utf-8-sig")
    chinese = web.get(f"{API}/invoices/{invoice.public_id}.csv?lang=zh").content.decode("utf-8-sig")
    by_header = web.get(
        f"{API}/invoices/{invoice.public_id}.csv", headers={"Accept-Language": "zh-Hans"}
    ).content.decode("utf-8-sig")
    assert next(csv.reader(io.StringIO(english)))[0] == "Invoice number"
    assert next(csv.reader(io.StringIO(chinese)))[0] == "账单编号"
    assert by_header == chinese
    body = web.get(f"{API}/invoices/{invoice.public_id}.json")
    assert body["X-Content-SHA256"] == invoice.sha256
    assert json.loads(body.content)["total"] == "4.00"


def test_usage_of_a_month_by_group_and_by_line(ada, invoice):
    web = ada.web()
    found = web.get(f"{API}/usage?month=2026-10&group_by=provider").json()
    assert (found["timezone"], found["hours"], found["final"], found["state"]) == (
        "Asia/Shanghai",
        "744",
        True,
        "closed",
    )
    (group,) = found["groups"]
    assert (group["name"], group["quantity"], group["amount"]["amount"]) == ("Sol Power", "1.0167", "4.00")
    assert found["total"] == {"amount": "4.00", "currency": "CNY"}
    lines = web.get(f"{API}/usage?month=2026-10&group_by=line").json()
    assert [line["amount"] for line in lines["lines"]] == ["4.00", "0.00"]
    now = web.get(f"{API}/usage?month=&group_by=").json()
    assert (now["groups"], now["final"], now["total"]["amount"]) == ([], False, "0.00")


def test_usage_of_a_newcomer_is_nothing_this_month(cleo):
    found = cleo.web().get(f"{API}/usage").json()
    assert (found["groups"], found["lines"], found["total"]) == ([], [], {"amount": "0.00", "currency": "CNY"})
    assert cleo.web().get(f"{API}/usage?group_by=line").json()["lines"] == []
    assert cleo.web().get(f"{API}/balance").json()["available"] == {"amount": "500.00", "currency": "CNY"}


def test_records_are_paged_and_filtered(ada, invoice):
    web = ada.web()
    first = web.get(f"{API}/usage/records?limit=1").json()
    second = web.get(f"{API}/usage/records?limit=1&cursor={first['next_cursor']}").json()
    assert [first["items"][0]["attempt"], second["items"][0]["attempt"]] == ["att_2", "att_1"]
    assert second["next_cursor"] is None
    assert len(web.get(f"{API}/usage/records?job=job_2&month=2026-10&state=ok").json()["items"]) == 1
    assert web.get(f"{API}/usage/records?attempt=att_9").json()["items"] == []


def test_the_balance_and_the_earnings(ada, sol, invoice):
    balance = ada.web().get(f"{API}/balance").json()
    assert (balance["owed"]["amount"], balance["available"]["amount"], balance["mode"]) == (
        "4.00",
        "496.00",
        "postpaid",
    )
    found = sol.web().get(f"{API}/earnings").json()
    assert found["balances"] == [
        {
            "currency": "CNY",
            "accrued": {"amount": "3.60", "currency": "CNY"},
            "available": {"amount": "0.00", "currency": "CNY"},
            "reserved": {"amount": "0.00", "currency": "CNY"},
            "paid": {"amount": "0.00", "currency": "CNY"},
            "owed_back": {"amount": "0.00", "currency": "CNY"},
        }
    ]
    (row,) = found["items"]
    assert (row["month"], row["billed"]["amount"], row["fee"]["amount"], row["share"]["amount"]) == (
        "2026-10",
        "4.00",
        "0.40",
        "3.60",
    )


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("usage?month=2026-13", 422),
        ("usage?month=october", 422),
        ("usage?month=2026-10&group_by=colour", 422),
        ("usage?colour=red", 422),
        ("usage?month=2019-01", 404),
        ("usage/records?state=lost", 422),
        ("usage/records?limit=0", 422),
        ("usage/records?cursor=xyz", 400),
        ("invoices?state=draft", 422),
        ("invoices?limit=201", 422),
        ("invoices/inv_00000000000000000000000000", 404),
        ("invoices/inv_00000000000000000000000000.pdf", 404),
        ("invoices/IW-2026-999999/verification", 404),
        ("invoices/{id}.docx", 404),
        ("invoices/{id}.pdf?lang=fr", 422),
        ("invoices/{id}/lines/0/records", 404),
        ("invoices/{id}/lines/x/records", 404),
    ],
)
def test_wrong_questions_get_the_documented_answer(ada, invoice, address, status):
    answer = ada.web().get(f"{API}/{address.format(id=invoice.public_id)}")
    assert answer.status_code == status, answer.content
    if answer["Content-Type"].startswith("application/problem+json"):
        assert {"code", "detail", "status", "request_id", "errors"} <= answer.json().keys()


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
def test_money_is_only_read_here(ada, invoice, method):
    for address in addresses(invoice):
        assert getattr(ada.web(), method)(f"{API}/{address.split('?')[0]}", {}).status_code == 405, address


def test_the_schema_says_what_is_answered(ada, sol, invoice):
    web = ada.web()
    usage_out = web.get(f"{API}/usage?month=2026-10").json()
    invoice_out = web.get(f"{API}/invoices/{invoice.public_id}").json()
    share = web.get(f"{API}/invoices/{invoice.public_id}/lines/1/records").json()["items"][0]
    checked = web.get(f"{API}/invoices/{invoice.public_id}/verification").json()
    earned = sol.web().get(f"{API}/earnings").json()
    pairs = [
        (usage_out, shapes.UsageOut),
        (usage_out["groups"][0], shapes.GroupOut),
        (invoice_out, shapes.InvoiceWithLinesOut),
        (invoice_out["lines"][0], shapes.LineOut),
        (invoice_out["lines"][0]["project"], shapes.ProjectPartOut),
        (share, shapes.LineRecordOut),
        (share["record"], shapes.RecordIntervalOut),
        (checked, shapes.VerificationOut),
        (checked["lines"][0], shapes.LineCheckOut),
        (web.get(f"{API}/balance").json(), shapes.BalanceOut),
        (earned, shapes.EarningsOut),
        (earned["items"][0], shapes.EarnedOut),
        (earned["balances"][0], shapes.StandingOut),
    ]
    for answer, shape in pairs:
        assert set(answer) == set(shape().fields), shape.__name__
    assert invoices.verify(invoice).ok


def test_a_parents_reader_reads_the_money_of_its_child_and_a_developer_of_it_does_not(cleo, ada, invoice):
    ada.organisation.parent = cleo.organisation
    ada.organisation.save()
    header = {"X-Idlewild-Organisation": ada.organisation.slug}
    for address in addresses(invoice):
        assert cleo.web().get(f"{API}/{address}", headers=header).status_code == 200, address
    developer = a_member(cleo, "dev@example.org", "developer")
    assert developer.web().get(f"{API}/invoices", headers=header).status_code == 404


def test_p31_the_page_of_a_month_prints_its_bounds_and_zone(ada, invoice):
    page = ada.browser().get(f"/invoices/{invoice.public_id}")
    assert page.status_code == 200
    text = page.content.decode()
    assert invoice.number in text
    assert "Asia/Shanghai" in text
