"""An issued invoice is paid on the hosted page, by a saved card, in any order of events; the ledger and the rail agree."""

import random
from datetime import timedelta

import pytest

from billing.domain.ledger import AccountKind
from billing.models import CallState, HostedPage, Payment, RailCall, RailCustomer, Txn, WebhookInbox
from billing.selectors import balances
from billing.services import invoices, payments
from portal.kit.errors import Conflict
from portal.kit.money import Money
from tests.billing.books import a_tenant, case, rated
from tests.billing.rail.conftest import CARD_HOUR, an_invoice
from tests.fakes.stripe_twin import rules

pytestmark = pytest.mark.django_db


def begin(rail, invoice, **more):
    page = payments.start(invoice=invoice, by="usr_ada", now=rail.now, **more)
    rail.relay()
    page.refresh_from_db()
    return page


def paid(rail, invoice, **more):
    page = begin(rail, invoice, **more)
    rail.twin.pay(page.payment.session)
    assert set(rail.tell()) == {200}
    invoice.refresh_from_db()
    return Payment.objects.get(id=page.payment_id)


def test_an_invoice_is_paid_on_the_hosted_page(rail):
    invoice = an_invoice()
    page = begin(rail, invoice)
    assert (page.state, page.url) == ("ready", f"{rail.twin.url}/c/pay/{page.payment.session}")
    assert begin(rail, invoice).id == page.id  # pressing twice is one page
    rail.twin.pay(page.payment.session)
    rail.tell()
    payment = Payment.objects.get()
    invoice.refresh_from_db()
    assert (invoice.state, invoice.paid_minor, payment.state) == ("paid", 10_000, "succeeded")
    assert payment.fee_minor == 320
    assert rail.drift("EUR") == 0
    assert balances.of("platform", AccountKind.RAIL_FEE, "EUR") == -320
    assert balances.of(invoice.organisation.public_id, AccountKind.TENANT_RECEIVABLE, "EUR") == 0
    assert rail.tell() == []
    with pytest.raises(Conflict, match="Nothing can be paid"):
        payments.start(invoice=invoice, by="usr_ada", now=rail.now)
    rail.all_in_balance()


@pytest.mark.parametrize("seed", range(3))
def test_p35_ten_times_shuffled_is_one_payment(rail, seed):
    """P35: the events of a paid invoice ten times, in any order: the same ledger, one invoice, one payment. S1."""
    case("bill-e1")
    invoice = an_invoice()
    page = begin(rail, invoice)
    rail.twin.pay(page.payment.session)
    rail.twin.hooks.duplicate, rail.twin.hooks.shuffle = 10, random.Random(seed)
    assert set(rail.tell()) == {200}
    invoice.refresh_from_db()
    assert (invoice.state, invoice.paid_minor) == ("paid", 10_000)
    assert Txn.objects.filter(kind="payment").count() == Txn.objects.filter(kind="rail_fee").count() == 1
    assert rail.twin.count("charge") == 1
    assert rail.drift("EUR") == 0
    rail.all_in_balance()


def test_no_event_ever_comes(rail):
    invoice = an_invoice()
    page = begin(rail, invoice)
    rail.twin.pay(page.payment.session)
    rail.twin.hooks.drop = 1.0
    assert rail.tell() == []
    rail.wait(minutes=11)
    assert payments.refresh(now=rail.now) == 1
    assert payments.refresh(now=rail.now) == 1  # the same promise
    rail.relay()
    invoice.refresh_from_db()
    assert invoice.state == "paid"
    assert payments.refresh(now=rail.now) == 0
    assert rail.drift("EUR") == 0


def test_coming_back_asks_at_once(rail):
    invoice = an_invoice()
    page = begin(rail, invoice)
    rail.twin.pay(page.payment.session)
    payments.look(payment=page.payment, now=rail.now)
    rail.relay()
    invoice.refresh_from_db()
    assert invoice.state == "paid"


def test_e3_a_late_event_changes_nothing(rail):
    """The object is fetched again, the payload is not believed, ranks never fall."""
    given, expected = case("bill-e3")
    invoice = an_invoice()
    payment = paid(rail, invoice)
    before = Txn.objects.count()
    stale = dict(rail.twin.books.get(payment.intent, "payment_intent"), status=given["late_event"]["payload_status"])
    event = rail.twin.books.tell(given["late_event"]["type"], stale)
    assert rail.tell() == [200]
    assert WebhookInbox.objects.get(event_id=event["id"]).state == "done"
    payment.refresh_from_db()
    assert payment.state == expected["payment_state"]
    assert Txn.objects.count() - before == expected["ledger_txns_added"]


def test_a_declined_card_may_be_tried_again_on_the_same_page(rail):
    invoice = an_invoice()
    page = begin(rail, invoice)
    with pytest.raises(rules.Refused):
        rail.twin.pay(page.payment.session, rules.DECLINED)
    rail.tell()
    assert Payment.objects.get().state == "created"
    rail.twin.pay(page.payment.session)
    rail.tell()
    invoice.refresh_from_db()
    assert invoice.state == "paid"


def test_a_slow_bank_says_yes_or_no(rail):
    for well, state in ((True, "succeeded"), (False, "failed")):
        invoice = an_invoice()
        page = begin(rail, invoice)
        rail.twin.pay(page.payment.session, rules.SLOW)
        rail.tell()
        payment = Payment.objects.get(invoice=invoice)
        assert payment.state == "processing"
        with pytest.raises(Conflict, match="on its way") as refused:
            payments.start(invoice=invoice, by="usr_ada", now=rail.now)
        assert refused.value.code == "payment_under_way"
        rules.settle_slow(rail.twin.books, payment.intent, well=well)
        rail.tell()
        payment.refresh_from_db()
        assert payment.state == state
    assert rail.drift("EUR") == 0


def test_a_page_that_is_over_makes_room_for_the_next(rail):
    invoice = an_invoice()
    page = begin(rail, invoice)
    rail.wait(hours=24, minutes=11)
    again = begin(rail, invoice)
    assert again.id != page.id
    assert list(Payment.objects.order_by("id").values_list("state", flat=True)) == ["cancelled", "created"]


def test_what_was_paid_by_bank_meanwhile_makes_another_page(rail):
    invoice = an_invoice()
    page = begin(rail, invoice)
    old = page.payment.session
    with pytest.raises(rules.Refused):
        rail.twin.pay(old, rules.DECLINED)
    invoices.record_payment(invoice=invoice, amount=Money(4_000, "EUR"), reference="bank-1", by="staff", now=rail.now)
    payment = paid(rail, invoice)
    assert (payment.amount_minor, invoice.state) == (6_000, "paid")
    assert rail.twin.books.get(old, "checkout.session")["status"] == "expired"
    assert Payment.objects.count() == 1
    assert rail.drift("EUR") == 0


def test_a_page_paid_while_it_is_being_replaced(rail):
    invoice = an_invoice()
    old = begin(rail, invoice).payment.session
    invoices.record_payment(invoice=invoice, amount=Money(4_000, "EUR"), reference="bank-1", by="staff", now=rail.now)
    payments.start(invoice=invoice, by="usr_ada", now=rail.now)
    rail.twin.pay(old)
    rail.relay()
    rail.tell()
    invoice.refresh_from_db()
    assert invoice.state == "paid"
    assert balances.of(invoice.organisation.public_id, AccountKind.CREDIT, "EUR") == 4_000
    assert rail.twin.count("checkout.session") == 1
    assert rail.drift("EUR") == 0


def test_paid_twice_is_credit(rail):
    invoice = an_invoice()
    page = begin(rail, invoice)
    rail.twin.pay(page.payment.session)
    invoices.record_payment(invoice=invoice, amount=Money(9_000, "EUR"), reference="bank-1", by="staff", now=rail.now)
    rail.tell()
    invoice.refresh_from_db()
    assert (invoice.state, invoice.paid_minor) == ("paid", 10_000)
    assert balances.of(invoice.organisation.public_id, AccountKind.CREDIT, "EUR") == 9_000
    assert rail.drift("EUR") == 0
    rail.all_in_balance()


def test_money_that_fits_nothing_is_unmatched(rail):
    """Another currency is never converted (dotnet-starter-kit#1325: EUR credited as USD)."""
    invoice = an_invoice()
    page = begin(rail, invoice)
    rules.payment_intent(
        rail.twin.books,
        {
            "amount": 10_000,
            "currency": "usd",
            "payment_method": "pm_card_visa",
            "confirm": True,
            "metadata": {"idlewild": page.payment.public_id},
        },
    )
    rules.payment_intent(
        rail.twin.books,
        {"amount": 700, "currency": "eur", "payment_method": "pm_card_visa", "confirm": True, "metadata": {}},
    )
    assert set(rail.tell()) == {200}
    invoice.refresh_from_db()
    assert (invoice.state, invoice.paid_minor) == ("open", 0)
    assert balances.of("platform", AccountKind.UNMATCHED, "USD") == 10_000
    assert balances.of("platform", AccountKind.UNMATCHED, "EUR") == 700
    assert rail.drift("EUR") == rail.drift("USD") == 0
    rail.all_in_balance()


@pytest.mark.parametrize(
    ("currency", "amount_micro", "charged", "left"),
    [("JPY", 1_235_000_000, 1_235, 0), ("KWD", 12_345_000, 12_340, 5), ("CNY", 12_340_000, 1_234, 0)],
)
def test_steps_of_the_rail(rail, currency, amount_micro, charged, left):
    invoice = rated(a_tenant(currency=currency), (CARD_HOUR, amount_micro), currency=currency)
    payment = paid(rail, invoice)
    assert (payment.amount_minor, invoice.payable_minor - invoice.paid_minor) == (charged, left)
    assert rail.drift(currency) == 0
    if left:  # below the rail's minimum: it is carried, nobody is asked for it
        with pytest.raises(Conflict, match="Nothing can be paid"):
            payments.start(invoice=invoice, by="usr_ada", now=rail.now)


def test_too_little_for_the_rail_is_not_asked_for(rail):
    with pytest.raises(Conflict, match="Nothing can be paid") as refused:
        payments.start(invoice=an_invoice(amount=49), by="usr_ada", now=rail.now)
    assert refused.value.code == "nothing_to_pay"


def test_without_a_rail_that_is_said(rail, settings):
    settings.STRIPE_SECRET_KEY = ""
    with pytest.raises(payments.gateway.NoRail):
        payments.start(invoice=an_invoice(), by="usr_ada", now=rail.now)
    assert payments.refresh(now=rail.now) == 0
    rail.relay()


# --- a saved card ------------------------------------------------------------------------------------------------------------
def a_saved_card(rail, tenant, card="pm_card_visa"):
    page = payments.start_cards(organisation=tenant, by="usr_ada", now=rail.now)
    rail.relay()
    page.refresh_from_db()
    assert page.url.startswith(rail.twin.url + "/p/session/")
    payer = RailCustomer.objects.get(organisation=tenant)
    method = rules._method(rail.twin.books, card)
    rules.attach(rail.twin.books, method["id"], {"customer": payer.rail_id})
    rules.change_customer(
        rail.twin.books, payer.rail_id, {"invoice_settings": {"default_payment_method": method["id"]}}
    )
    rail.tell()
    payer.refresh_from_db()
    assert payer.method == method["id"]
    assert payer.method_words.startswith("visa")
    return payer


def test_a_saved_card_pays_by_itself(rail):
    tenant = a_tenant(currency="EUR")
    a_saved_card(rail, tenant)
    invoice = an_invoice(tenant=tenant)
    rail.relay()
    invoice.refresh_from_db()
    payment = Payment.objects.get()
    assert (invoice.state, payment.automatic, payment.state) == ("paid", True, "succeeded")
    rail.tell()
    assert Txn.objects.filter(kind="payment").count() == 1
    assert rail.drift("EUR") == 0
    payments.forget_card(organisation=tenant, by="usr_ada", now=rail.now)
    assert RailCustomer.objects.get().method == ""


def test_a_card_used_on_the_page_may_pay_the_next_ones(rail):
    tenant = a_tenant(currency="EUR")
    paid(rail, an_invoice(tenant=tenant), keep_card=True)
    assert RailCustomer.objects.get().method.startswith("pm_")


def test_a_declined_saved_card_is_told_and_the_page_still_works(rail):
    tenant = a_tenant(currency="EUR")
    a_saved_card(rail, tenant, "pm_card_chargeDeclined")
    invoice = an_invoice(tenant=tenant)
    rail.relay()
    payment = Payment.objects.get()
    assert (payment.state, payment.failure) == ("failed", "card_declined")
    rail.tell()
    payment.refresh_from_db()
    assert payment.state == "failed"
    assert paid(rail, invoice).state == "succeeded"
    assert rail.drift("EUR") == 0


# --- answers that do not come (S3) ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["drop", "cut", "429", "409", "500", "500_after"])
@pytest.mark.parametrize("where", ["customers", "checkout/sessions"])
def test_the_page_comes_whatever_breaks(rail, kind, where):
    invoice = an_invoice()
    rail.twin.fault(kind, f"POST /v1/{where}$")
    page = payments.start(invoice=invoice, by="usr_ada", now=rail.now)
    for _ in range(6):
        rail.relay()
        rail.wait(seconds=15)
    page.refresh_from_db()
    assert page.state == "ready"
    assert rail.twin.count("customer") == rail.twin.count("checkout.session") == 1


@pytest.mark.parametrize("kind", ["drop", "cut", "429", "409", "500", "500_after"])
def test_a_card_is_charged_once_whatever_breaks(rail, kind):
    tenant = a_tenant(currency="EUR")
    a_saved_card(rail, tenant)
    invoice = an_invoice(tenant=tenant)
    rail.twin.fault(kind, "POST /v1/payment_intents$")
    for _ in range(6):
        rail.relay()
        rail.wait(seconds=15)
    invoice.refresh_from_db()
    assert invoice.state == "paid"
    assert rail.twin.count("payment_intent") == rail.twin.count("charge") == 1
    assert rail.drift("EUR") == 0


def test_after_23_hours_we_look_before_we_ask(rail):
    """The rail forgets keys after 24 h (kody#2109: the key had expired, the card was charged again)."""
    tenant = a_tenant(currency="EUR")
    a_saved_card(rail, tenant)
    invoice = an_invoice(tenant=tenant)
    rail.twin.fault("drop", "POST /v1/payment_intents$")
    rail.relay()
    assert Payment.objects.get().state == "created"
    rail.wait(hours=25)
    rail.relay()
    invoice.refresh_from_db()
    assert invoice.state == "paid"
    assert rail.twin.count("charge") == 1
    assert RailCall.objects.get(kind="charge").state == CallState.DONE


def test_after_23_hours_and_nothing_there_a_new_key_is_used(rail):
    tenant = a_tenant(currency="EUR")
    a_saved_card(rail, tenant)
    invoice = an_invoice(tenant=tenant)
    rail.twin.fault("cut", "POST /v1/payment_intents$")
    rail.relay()
    rail.wait(hours=25)
    rail.relay()
    rail.relay()
    invoice.refresh_from_db()
    assert invoice.state == "paid"
    keys = list(RailCall.objects.filter(kind="charge").order_by("number").values_list("key", "state"))
    payment = Payment.objects.get()
    assert keys == [(f"charge:{payment.public_id}:1", "replaced"), (f"charge:{payment.public_id}:2", "done")]


def test_a_refused_page_says_why_and_may_be_asked_again(rail):
    invoice = an_invoice()
    page = payments.start(invoice=invoice, by="usr_ada", now=rail.now)
    Payment.objects.update(amount_minor=10)  # below what the rail takes
    rail.relay()
    page.refresh_from_db()
    assert (page.state, page.payment.state) == ("failed", "failed")
    assert "at least" in page.message
    assert rail.twin.count("checkout.session") == 0
    assert begin(rail, invoice).state == "ready"


# --- wallet ------------------------------------------------------------------------------------------------------------------
def test_a_wallet_is_filled(rail):
    tenant = a_tenant(currency="EUR")
    page = payments.start_top_up(organisation=tenant, amount=Money(5_000, "EUR"), by="usr_ada", now=rail.now)
    rail.relay()
    page.refresh_from_db()
    rail.twin.pay(page.payment.session)
    rail.twin.hooks.duplicate = 3
    rail.tell()
    assert balances.of(tenant.public_id, AccountKind.WALLET, "EUR") == 5_000
    assert rail.drift("EUR") == 0
    for amount in (Money(5_000, "USD"), Money(0, "EUR"), Money(49, "EUR")):
        with pytest.raises(Conflict):
            payments.start_top_up(organisation=tenant, amount=amount, by="usr_ada", now=rail.now)
    assert HostedPage.objects.count() == 1
    rail.wait(seconds=timedelta(days=1).total_seconds())
    rail.all_in_balance()
