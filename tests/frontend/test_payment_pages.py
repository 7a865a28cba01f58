"""Paying, being paid and comparing, as people see it: pages and REST over the twin."""

from typing import Any

import pytest

from billing.models import Payment, Payout, ProviderAccount
from billing.services import payouts, reconcile
from tests.billing.rail.conftest import Rail, an_invoice, rail, twin
from tests.billing.rail.test_payments import paid
from tests.billing.rail.test_payouts import credited
from tests.cast import Person, a_member
from tests.fakes.stripe_twin import rules

__all__ = ["rail", "twin"]
pytestmark = pytest.mark.django_db


def html(answer: Any) -> str:
    assert answer.status_code == 200, answer.status_code
    return str(answer.content.decode())


def test_a_tenant_pays_an_invoice_by_card(rail: Rail, ada: Person, ben: Person, cleo: Person) -> None:
    invoice = an_invoice("CNY", tenant=ada.organisation)
    browser = ada.browser()
    assert "Pay CN¥100.00" in html(browser.get(f"/invoices/{invoice.public_id}"))
    began = browser.post(f"/invoices/{invoice.public_id}/pay", {"keep_card": "on"})
    opening = browser.get(began.headers["Location"])
    assert "Opening the payment service" in html(opening)
    assert opening.headers["Refresh"] == "1"
    rail.relay()
    payment = Payment.objects.get()
    ready = browser.get(began.headers["Location"])
    assert ready.headers["Refresh"] == f"1; url={rail.twin.url}/c/pay/{payment.session}"
    assert "Go on and pay CN¥100.00" in html(ready)
    rail.twin.pay(payment.session)
    back = browser.get(f"/payments/{payment.public_id}?back=paid")
    assert "asking the payment service" in html(back)
    assert back.headers["Refresh"] == "2"
    rail.relay()
    shown = html(browser.get(f"/payments/{payment.public_id}"))
    assert "Paid" in shown
    assert "Pay CN¥" not in html(browser.get(f"/invoices/{invoice.public_id}"))
    listed = html(browser.get("/payments"))
    assert invoice.number in listed
    assert "Your saved card pays each invoice" in listed
    browser.post("/payments/cards", {"do": "forget"})
    assert "No card pays your invoices" in html(browser.get("/payments"))
    for path in (f"/payments/{payment.public_id}", began.headers["Location"]):
        assert cleo.browser().get(path).status_code == 404
    assert cleo.browser().post(f"/invoices/{invoice.public_id}/pay").status_code == 404
    assert ben.browser().post(f"/invoices/{invoice.public_id}/pay").status_code == 403
    viewer = a_member(ada, "viewer@example.org", "viewer")
    assert viewer.browser().post("/payments/cards").status_code == 403


def test_what_cannot_be_done_is_said(rail: Rail, ada: Person, settings: Any) -> None:
    browser = ada.browser()
    small = an_invoice("CNY", amount=40, tenant=ada.organisation)
    said = browser.post(f"/invoices/{small.public_id}/pay", follow=True)
    assert "Nothing can be paid by card" in html(said)
    for amount, words in (("x", "Type in an amount"), ("0.10", "Choose at least")):
        assert words in html(browser.post("/payments/top-up", {"amount": amount}, follow=True))
    settings.STRIPE_SECRET_KEY = ""
    for path in ("/payments/top-up", "/payments/cards", "/provide/payouts/account"):
        assert "set up here" in html(browser.post(path, {"amount": "10.00"}, follow=True))
    assert "Cards cannot be taken here" in html(browser.get("/payments"))


def test_a_failed_page_says_why(rail: Rail, ada: Person) -> None:
    browser = ada.browser()
    began = browser.post("/payments/top-up", {"amount": "10.00"})
    Payment.objects.update(amount_minor=10)
    rail.relay()
    shown = html(browser.get(began.headers["Location"]))
    assert "could not be opened" in shown
    assert "at least" in shown
    assert "Nothing was charged" in html(browser.get(f"/payments/{Payment.objects.get().public_id}"))
    began = browser.post("/payments/cards")
    rail.relay()
    rail.wait(hours=1)
    assert "This page is over" in html(browser.get(began.headers["Location"]))


def test_a_provider_is_paid(rail: Rail, ada: Person, sol: Person, cleo: Person, staff: Person) -> None:
    browser = sol.browser()
    assert "Set up payouts" in html(browser.get("/provide/payouts"))
    began = browser.post("/provide/payouts/account")
    rail.relay()
    assert "/onboard/" in browser.get(began.headers["Location"]).headers["Refresh"]
    account = ProviderAccount.objects.get()
    rules.verify_account(rail.twin.books, account.rail_id, outcome="due")
    assert "asking the payment service" in html(browser.get("/provide/payouts?back=form"))
    rail.relay()
    assert "a document that proves who you are" in html(browser.get("/provide/payouts"))
    for outcome, words in (("pending", "is looking at"), ("rejected", "refused"), ("enabled", "in order")):
        rules.verify_account(rail.twin.books, account.rail_id, outcome=outcome)
        rail.tell()
        assert words in html(browser.get("/provide/payouts"))
    invoice = an_invoice("CNY", tenant=ada.organisation, provider_ref=sol.organisation.public_id)
    paid(rail, invoice)
    assert "CN¥90.00" in html(browser.get("/provide/earnings"))
    rail.wait(days=8)
    payouts.release_due(now=rail.now)
    rail.relay()
    payout = Payout.objects.get()
    credited(invoice, 1_000, rail.now)
    payouts.reverse(payout=payout, amount=payouts.Money(900, "CNY"), reference="cn", by=staff.id, now=rail.now)
    rail.relay()
    shown = html(browser.get(f"/provide/payouts/{payout.public_id}"))
    assert "Your share of October 2026" in shown
    assert "CN¥9.00" in shown
    assert ada.organisation.name not in shown
    assert payout.public_id in html(browser.get("/provide/payouts"))
    assert cleo.browser().get(f"/provide/payouts/{payout.public_id}").status_code == 404


def test_an_operator_sees_a_difference(rail: Rail, ada: Person, staff: Person) -> None:
    payment = paid(rail, an_invoice("CNY", tenant=ada.organisation))
    rules.dispute(rail.twin.books, payment.charge)
    rules.payment_intent(
        rail.twin.books,
        {"amount": 700, "currency": "cny", "payment_method": "pm_card_visa", "confirm": True, "metadata": {}},
    )
    rail.twin.books.tell("payment_intent.succeeded", {"id": "pi_gone", "object": "payment_intent"})
    rail.tell()
    browser = staff.browser()
    assert "Not compared yet" in html(browser.get("/operate/rail"))
    assert "Compared just now" in html(browser.post("/operate/rail", follow=True))
    rail.twin.drift("CNY", 123)
    rail.wait(hours=1)
    reconcile.run(now=rail.now)
    shown = html(browser.get("/operate/rail"))
    for words in (
        "differ by CN¥1.23",
        "Money that fits nothing",
        "CN¥7.00",
        "wait for an answer",
        "pi_gone",
        payment.public_id,
    ):
        assert words in shown
    rail.twin.fault("cut", "GET", times=9)
    assert "gave no answer" in html(browser.post("/operate/rail", follow=True))
    assert ada.browser().get("/operate/rail").status_code == 404


def test_an_operator_gives_money_back(rail: Rail, ada: Person, staff: Person) -> None:
    invoice = an_invoice("CNY", tenant=ada.organisation)
    payment = paid(rail, invoice)
    browser = staff.browser()
    form = {"number": invoice.number, "amount": "40.00", "reference": "CN-1"}
    for given, words in (
        (form | {"number": "IW-0"}, "There is no such invoice"),
        (form | {"amount": "x"}, "Type in an amount"),
        (form, "credit note first"),
    ):
        assert words in html(browser.post("/operate/rail/refund", given, follow=True))
    credited(invoice, 4_000, rail.now)
    assert "on its way" in html(browser.post("/operate/rail/refund", form, follow=True))
    rail.relay()
    assert "CN¥40.00" in html(ada.browser().get(f"/payments/{payment.public_id}"))
    assert ada.browser().post("/operate/rail/refund", form).status_code == 404
    assert rail.drift("CNY") == 0


def test_the_same_over_rest(rail: Rail, ada: Person, sol: Person, cleo: Person) -> None:
    invoice = an_invoice("CNY", tenant=ada.organisation, provider_ref=sol.organisation.public_id)
    api = ada.web()
    made = [
        api.post("/api/v1/payments", {"invoice": invoice.number}, headers={"Idempotency-Key": "once"}) for _ in range(2)
    ]
    assert [answer.status_code for answer in made] == [201, 201]
    assert made[0].json() == made[1].json()
    assert made[0].json()["url"] is None
    rail.relay()
    found = api.get(f"/api/v1/payments/{made[0].json()['id']}").json()
    assert found["url"].startswith(rail.twin.url)
    rail.twin.pay(Payment.objects.get().session)
    rail.tell()
    assert api.get("/api/v1/payments?state=succeeded").json()["items"][0]["invoice"] == invoice.number
    again = api.post("/api/v1/payments", {"invoice": invoice.public_id})
    assert (again.status_code, again.json()["code"]) == (409, "nothing_to_pay")
    cards = api.post("/api/v1/payments:setup", {}).json()
    rail.relay()
    assert api.get(f"/api/v1/payments/pages/{cards['id']}").json()["state"] == "ready"
    assert api.post("/api/v1/payments:setup", {"amount": "50.00"}).status_code == 201
    assert api.post("/api/v1/payments:setup", {"amount": "many"}).json()["errors"][0]["code"] == "bad_amount"
    provider = sol.web()
    assert provider.get("/api/v1/payouts/account").json()["state"] == "none"
    provider.post("/api/v1/payouts/account", {})
    rail.relay()
    rules.verify_account(rail.twin.books, ProviderAccount.objects.get().rail_id)
    rail.tell()
    assert provider.get("/api/v1/payouts/account").json() == {
        "state": "enabled",
        "payouts_enabled": True,
        "due": [],
        "disabled_reason": None,
    }
    rail.wait(days=8)
    payouts.release_due(now=rail.now)
    rail.relay()
    (row,) = provider.get("/api/v1/payouts").json()["items"]
    assert (row["state"], row["amount"]) == ("paid", {"amount": "90.00", "currency": "CNY"})
    parts = provider.get(f"/api/v1/payouts/{row['id']}").json()["parts"]
    assert [(part["kind"], part["month"], part["amount"]["amount"]) for part in parts] == [
        ("share", "2026-10", "90.00")
    ]
    assert cleo.web().get(f"/api/v1/payouts/{row['id']}").status_code == 404
    assert cleo.web().get(f"/api/v1/payments/{found['id']}").status_code == 404
