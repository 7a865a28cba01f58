"""The REST of wallets, budgets, credit notes, granted hours; and the operators' doors to bank, grants, terms and rates."""

from datetime import UTC, datetime, timedelta

import pytest

from billing.api import wallet_shapes as shapes
from billing.models import BankTransfer, Budget, ExchangeRate
from billing.selectors import bank, budgets, rates
from billing.services import wallets
from portal import clock
from portal.kit.money import Money
from tests.billing.books import rated
from tests.cast import a_member

pytestmark = pytest.mark.django_db
API = "/api/v1"


def post(client, address, body, **headers):
    return client.post(f"{API}/{address}", body, format="json", headers=headers)


@pytest.fixture
def invoice(ada):
    return rated(ada.organisation, (3_600_000_000, 10_000_000))


def keys_of(shape):
    return set(shape().fields)


def test_the_wallet_says_what_is_there_and_how_to_top_it_up(ada, cleo):
    now = clock.now()
    wallets.set_terms(organisation_id=ada.organisation.id, mode="prepaid", low_minor=500, by="usr_staff", now=now)
    wallets.top_up(organisation_id=ada.organisation.id, amount=Money(3000, "CNY"), reference="pay_1", now=now)
    found = ada.web().get(f"{API}/wallet").json()
    assert set(found) == keys_of(shapes.WalletOut)
    assert (found["mode"], found["balance"]["amount"], found["available"]["amount"]) == ("prepaid", "30.00", "30.00")
    assert found["low_at"]["amount"] == "5.00"
    assert found["bank_transfer"]["reference"].startswith("RF")
    (entry,) = ada.web().get(f"{API}/wallet/entries").json()["items"]
    assert set(entry) == keys_of(shapes.WalletEntryOut)
    assert (entry["kind"], entry["amount"]["amount"]) == ("topup", "30.00")
    assert cleo.web().get(f"{API}/wallet/entries").json()["items"] == []
    balance = ada.web().get(f"{API}/balance").json()
    assert (balance["mode"], balance["wallet"]["amount"]) == ("prepaid", "30.00")


def test_budgets_are_set_replaced_and_removed(ada, cleo):
    web = ada.web()
    body = {"scope": "project", "key": ada.project.slug, "amount": "30.00", "at_limit": "block"}
    made = post(web, "budgets", body, **{"Idempotency-Key": "k1"})
    assert (made.status_code, set(made.json())) == (201, keys_of(shapes.BudgetOut))
    assert made.json()["name"] == ada.project.name
    assert post(web, "budgets", body, **{"Idempotency-Key": "k1"}).json() == made.json()
    assert post(web, "budgets", {**body, "amount": "20.00"}).json()["id"] == made.json()["id"]
    assert [one["amount"]["amount"] for one in web.get(f"{API}/budgets").json()["items"]] == ["20.00"]
    address = f"{API}/budgets/{made.json()['id']}"
    assert web.get(address).json()["left"]["amount"] == "20.00"
    assert cleo.web().get(address).status_code == 404
    assert cleo.web().delete(address).status_code == 404
    viewer = a_member(ada, "v@example.org", "viewer")
    assert viewer.web().get(address).status_code == 200
    assert viewer.web().delete(address).status_code == 403
    assert web.delete(address).status_code == 204
    assert not Budget.objects.exists()


@pytest.mark.parametrize(
    "body",
    [
        {"scope": "project", "key": "nowhere", "amount": "1"},
        {"scope": "organisation", "amount": "1.005"},
        {"scope": "organisation", "amount": "-1"},
        {"scope": "organisation", "amount": "NaN"},
        {"scope": "organisation", "amount": "1", "thresholds": [0]},
        {"scope": "organisation", "amount": "1", "colour": "red"},
        {"scope": "galaxy", "amount": "1"},
    ],
)
def test_what_is_no_budget_is_422(ada, body):
    answer = post(ada.web(), "budgets", body)
    assert answer.status_code == 422, answer.content
    assert budgets.of(ada.organisation.id).count() == 0


def test_a_credit_note_is_written_by_an_operator_and_read_by_its_tenant(ada, cleo, staff, invoice):
    address = f"operator/invoices/{invoice.public_id}/credit-notes"
    body = {"total": "4.00", "reason": "too slow", "reference": "case 7"}
    assert post(ada.web(), address, body).status_code == 404
    made = post(staff.web(), address, body)
    assert (made.status_code, set(made.json())) == (201, keys_of(shapes.CreditNoteOut))
    assert post(staff.web(), address, body).json()["id"] == made.json()["id"]
    line = {"lines": [{"line": 1, "amount": "6.00"}], "reason": "rest", "reference": "case 8"}
    assert post(staff.web(), address, line).status_code == 201
    more = post(staff.web(), address, {**body, "reference": "case 9"})
    assert (more.status_code, more.json()["code"]) == (409, "credit_exceeds_invoice")
    assert post(staff.web(), address, {**body, "total": "x", "reference": "9"}).status_code == 422
    rows = ada.web().get(f"{API}/credit-notes").json()["items"]
    assert [row["total"]["amount"] for row in rows] == ["6.00", "4.00"]
    number = rows[0]["number"]
    frozen = ada.web().get(f"{API}/credit-notes/{number}.json")
    assert frozen.json()["number"] == number
    assert frozen["X-Content-SHA256"] == rows[0]["sha256"]
    assert ada.web().get(f"{API}/credit-notes/{number}").json()["invoice_number"] == invoice.number
    assert cleo.web().get(f"{API}/credit-notes/{number}").status_code == 404
    assert ada.web().get(f"{API}/invoices/{invoice.public_id}").json()["state"] == "paid"


def test_invoices_are_voided_and_written_off_by_operators(ada, staff, invoice):
    address = f"operator/invoices/{invoice.number}"
    early = post(staff.web(), f"{address}/write-off", {"reason": "gone"})
    assert (early.status_code, early.json()["code"]) in {(409, "too_early"), (409, "invalid_transition")}
    assert post(staff.web(), f"{address}/void", {}).status_code == 422
    assert post(staff.web(), f"{address}/void", {"reason": "twice"}).json()["state"] == "void"
    assert post(staff.web(), "operator/invoices/IW-2026-999999/void", {"reason": "x"}).status_code == 404


def test_a_statement_is_imported_and_what_waits_is_assigned(ada, staff, invoice):
    text = f"date,amount,text,bank_reference\n2026-11-11,4.00,{invoice.number},B1\n2026-11-11,9.00,hello,B2\n"
    body = {"name": "november.csv", "content": text}
    assert post(ada.web(), "operator/bank-statements", body).status_code == 404
    done = post(staff.web(), "operator/bank-statements", body)
    assert done.json() == {"new": 2, "matched": 1, "known": 0, "repeated": False}
    assert post(staff.web(), "operator/bank-statements", body).json()["repeated"] is True
    bad = post(staff.web(), "operator/bank-statements", {"name": "x", "content": text.replace("4.00", "four")})
    assert (bad.status_code, bad.json()["errors"][0]["path"]) == (422, "row 2")
    (waiting,) = staff.web().get(f"{API}/operator/bank-transfers?state=unmatched").json()["items"]
    assert (set(waiting), waiting["why"]) == (keys_of(shapes.TransferOut), "no_reference")
    address = f"operator/bank-transfers/{waiting['id']}"
    assert post(staff.web(), f"{address}/assign", {"organisation": "nobody"}).status_code == 422
    settled = post(staff.web(), f"{address}/assign", {"organisation": ada.organisation.slug, "invoice": invoice.number})
    assert (settled.json()["to_invoice"]["amount"], settled.json()["to_wallet"]["amount"]) == ("6.00", "3.00")
    assert post(staff.web(), f"{address}/return", {"reference": "x"}).status_code == 409
    post(
        staff.web(), "operator/bank-statements", {"name": "y", "content": text.replace("B1", "B3").replace("B2", "B4")}
    )
    last = BankTransfer.objects.get(bank_reference="B4")
    gone = post(staff.web(), f"operator/bank-transfers/{last.public_id}/return", {"reference": "out 1"})
    assert gone.json()["state"] == "returned"
    assert staff.web().get(f"{API}/operator/bank-transfers/btr_x/assign").status_code in (404, 405)
    assert bank.for_organisation(ada.organisation.id).count() == 2


def test_terms_credits_and_hours(ada, sol, staff):
    address = f"operator/organisations/{ada.organisation.slug}"
    assert post(staff.web(), f"{address}/terms", {"mode": "prepaid", "discount_ppm": 50_000}).json() == {
        "mode": "prepaid", "payment_days": 14, "discount_ppm": 50_000,
    }  # fmt: skip
    assert post(staff.web(), f"{address}/terms", {"mode": "later"}).status_code == 422
    body = {"amount": "12.00", "reason": "welcome", "reference": "w1", "expires_at": "2099-01-01T00:00:00Z"}
    made = post(staff.web(), f"{address}/credits", body)
    assert (made.status_code, set(made.json())) == (201, keys_of(shapes.CreditGrantOut))
    assert post(staff.web(), "operator/organisations/nobody/credits", body).status_code == 404
    hours = {"organisation": ada.organisation.slug, "resource": "core", "hours": 1000, "reason": "allocation 2027"}
    given = post(sol.web(), "hour-grants", hours)
    assert (given.status_code, set(given.json())) == (201, keys_of(shapes.HourGrantOut))
    assert post(sol.web(), "hour-grants", {**hours, "organisation": "nobody"}).status_code == 422
    assert post(sol.web(), "hour-grants", {**hours, "expires_at": "2020-01-01T00:00:00Z"}).status_code == 422
    found = ada.web().get(f"{API}/wallet").json()
    assert [one["left"] for one in found["hours"]] == ["1000.0000"]
    assert [one["left"]["amount"] for one in found["credits"]] == ["12.00"]
    assert ada.web().get(f"{API}/hour-grants").json()[0]["giver"]["name"] == sol.organisation.name


def test_rates_are_dated_and_compare_only(ada, staff):
    now = clock.now()
    body = {"day": now.date().isoformat(), "base": "USD", "quote": "CNY", "rate": "7.1042", "source": "ECB"}
    assert post(staff.web(), "operator/exchange-rates", body).json() == body
    for wrong in (
        {"rate": "0"},
        {"base": "XXX"},
        {"quote": "USD"},
        {"day": (now + timedelta(days=2)).date().isoformat()},
        {"source": " "},
    ):
        assert post(staff.web(), "operator/exchange-rates", {**body, **wrong}).status_code == 422
    assert ada.web().get(f"{API}/exchange-rates").json()["items"] == [body]
    assert ExchangeRate.objects.count() == 1
    shown = rates.compare(Money(1000, "USD"), "CNY", day=now.date())
    assert shown is not None
    assert shown.wire()["amount"] == "71.04"
    assert rates.compare(Money(1000, "KWD"), "CNY", day=now.date()) is None
    assert rates.compare(Money(1000, "USD"), "CNY", day=datetime(2020, 1, 1, tzinfo=UTC).date()) is None
    same = rates.compare(Money(1, "JPY"), "JPY", day=now.date())
    assert same is not None
    assert same.rate is None
