"""Pages of wallet, budgets and bank transfers: what they show, what they change, what they refuse."""

from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from billing.models import BankTransfer, Budget, Terms
from billing.selectors import bank
from billing.services import credit_notes, grants, wallets
from portal import clock
from portal.kit.money import Money
from tests.billing.books import a_tenant, rated
from tests.cast import Person, a_member

pytestmark = pytest.mark.django_db


def text_of(answer: Any) -> str:
    assert answer.status_code == 200, answer.content[:400]
    return str(answer.content.decode())


def statement(browser: Any, *rows: str) -> Any:
    data = ("date,amount,text,bank_reference\r\n" + "\r\n".join(rows)).encode()
    file = SimpleUploadedFile("november.csv", data, content_type="text/csv")
    return browser.post("/operate/bank", {"do": "import", "file": file}, follow=True)


def test_the_wallet_shows_money_hours_credits_and_movements(ada: Person, sol: Person) -> None:
    home, now = ada.organisation, clock.now()
    assert "You pay by invoice." in text_of(ada.browser().get("/wallet"))
    wallets.set_terms(organisation_id=home.id, mode="prepaid", by="usr_staff", now=now)
    wallets.top_up(organisation_id=home.id, amount=Money(123_456, "CNY"), reference="pay_1", now=now)
    grants.give_credit(
        organisation_id=home.id, amount=Money(5000, "CNY"), reason="Welcome", reference="w", by="usr_staff", now=now
    )
    grants.give_hours(
        organisation_id=home.id, giver_id=sol.organisation.id, resource="core", qty_us=12_000 * 3_600_000_000, reason="Allocation",
        by=sol.id, now=now,
    )  # fmt: skip
    page = text_of(ada.browser().get("/wallet"))
    for words in (
        "CN¥1,234.56",
        "12,000 core-hours",
        "Welcome",
        "Top-up",
        bank.of_wallet(home)["printed"],
        "You pay before you use",
    ):
        assert words in page, words


def test_the_mark_of_a_low_wallet_is_set(ada: Person) -> None:
    wallets.set_terms(organisation_id=ada.organisation.id, mode="prepaid", by="usr_staff", now=clock.now())
    browser = ada.browser()
    assert browser.post("/wallet", {"low": "12.50"}).status_code == 302
    assert Terms.objects.get().low_minor == 1250
    assert 'value="12.50"' in text_of(browser.get("/wallet"))
    for wrong in ("-1", "1.005", "much"):
        assert browser.post("/wallet", {"low": wrong}).status_code == 422
    assert browser.post("/wallet", {"low": ""}).status_code == 302
    assert Terms.objects.get().low_minor is None
    assert a_member(ada, "v@example.org", "viewer").browser().post("/wallet", {"low": "1"}).status_code == 403


def test_a_budget_is_set_shown_and_deleted(ada: Person, cleo: Person) -> None:
    browser = ada.browser()
    assert "No budget yet" in text_of(browser.get("/budgets"))
    asked = {"do": "set", "scope": "project", "key": ada.project.slug, "amount": "30.00", "at_limit": "block"}
    assert browser.post("/budgets", asked).status_code == 302
    page = text_of(browser.get("/budgets"))
    for words in ("CN¥30.00", ada.project.name, "nothing new starts"):
        assert words in page
    for wrong in ({"amount": "x"}, {"key": "nowhere"}, {"scope": "galaxy"}):
        assert browser.post("/budgets", {**asked, **wrong}).status_code == 422
    row = Budget.objects.get()
    assert cleo.browser().post("/budgets", {"do": "delete", "budget": row.public_id}).status_code == 404
    viewer = a_member(ada, "v@example.org", "viewer")
    assert viewer.browser().post("/budgets", asked).status_code == 403
    assert "Ada" in text_of(viewer.browser().get("/budgets"))
    assert browser.post("/budgets", {"do": "delete", "budget": row.public_id}).status_code == 302
    assert not Budget.objects.exists()


def test_an_operator_imports_a_statement_and_says_whose_money_it_is(ada: Person, staff: Person) -> None:
    invoice = rated(ada.organisation, (3_600_000_000, 10_000_000))
    assert ada.browser().get("/operate/bank").status_code == 404
    browser = staff.browser()
    page = text_of(
        statement(browser, f"2026-11-11,4.00,{invoice.number},B1", "2026-11-11,9.00,hello,B2", "2026-11-11,1.00,x,B3")
    )
    assert "3 new transfers, 1 settled." in page
    assert "It names no invoice and no wallet" in page
    bad = statement(browser, "2026-11-11,four,x,B4")
    assert bad.status_code == 422
    assert "row 2" in bad.content.decode()
    assert browser.post("/operate/bank", {"do": "import"}).status_code == 422
    second, third = (BankTransfer.objects.get(bank_reference=name) for name in ("B2", "B3"))
    wrong = browser.post(
        "/operate/bank", {"do": "assign", "transfer": second.public_id, "invoice": "IW-1"}, follow=True
    )
    assert "There is no such organisation or invoice." in text_of(wrong)
    browser.post("/operate/bank", {"do": "assign", "transfer": second.public_id, "invoice": invoice.number})
    browser.post("/operate/bank", {"do": "return", "transfer": third.public_id})
    again = browser.post("/operate/bank", {"do": "return", "transfer": third.public_id}, follow=True)
    assert again.status_code in (200, 409)
    assert set(BankTransfer.objects.values_list("state", flat=True)) == {"matched", "assigned", "returned"}
    assert "Everything has found its owner" in text_of(browser.get("/operate/bank"))
    invoice.refresh_from_db()
    assert invoice.state == "paid"


def test_an_invoice_shows_its_credit_notes_and_how_to_pay_the_rest(ada: Person) -> None:
    invoice = rated(ada.organisation, (3_600_000_000, 10_000_000))
    path = f"/invoices/{invoice.public_id}"
    assert bank.of_invoice(invoice)["printed"] in text_of(ada.browser().get(path))
    now = clock.now()
    credit_notes.issue(
        invoice=invoice, total=Money(400, "CNY"), reason="too slow", reference="r", by="usr_staff", now=now
    )
    page = text_of(ada.browser().get(path))
    assert "CN-2026-000001" in page
    assert "too slow" in page
    assert "6.00" in page
    credit_notes.issue(invoice=invoice, total=Money(600, "CNY"), reason="rest", reference="s", by="usr_staff", now=now)
    assert "Pay by bank transfer" not in text_of(ada.browser().get(path))


def test_an_operator_credits_voids_and_sets_terms(ada: Person, staff: Person) -> None:
    invoice = rated(ada.organisation, (3_600_000_000, 10_000_000))
    assert ada.browser().get("/operate/invoices").status_code == 404
    browser, path = staff.browser(), "/operate/invoices"
    assert invoice.number in text_of(browser.get(path))
    assert invoice.number not in text_of(browser.get(f"{path}?state=paid"))
    asked = {"do": "credit", "invoice": invoice.number, "total": "4.00", "reason": "too slow"}
    assert "is corrected" in text_of(browser.post(path, asked, follow=True))
    for wrong in (
        {"total": "9.00"},
        {"total": "x"},
        {"invoice": "IW-1"},
        {"reason": ""},
        {"do": "void"},
        {"do": "write_off"},
    ):
        assert browser.post(path, {**asked, **wrong}).status_code == 422, wrong
    terms = {
        "do": "terms",
        "organisation": ada.organisation.slug,
        "mode": "prepaid",
        "payment_days": 30,
        "discount": "2.5",
    }
    assert browser.post(path, terms).status_code == 302
    row = Terms.objects.get()
    assert (row.mode, row.payment_days, row.discount_ppm) == ("prepaid", 30, 25_000)
    for wrong in ({"organisation": "nobody"}, {"discount": "101"}, {"mode": "later"}):
        assert browser.post(path, {**terms, **wrong}).status_code == 422, wrong
    other = rated(a_tenant(), (3_600_000_000, 10_000_000))
    browser.post(path, {"do": "void", "invoice": other.number, "reason": "twice"})
    other.refresh_from_db()
    assert other.state == "void"
