"""The twin through the real stripe-python: it knows the vendor's parameters and objects, remembers keys, counts money, and breaks on demand."""

import threading
import time

import pytest
import stripe

from tests.fakes.stripe_twin import amounts, rules, vendor
from tests.fakes.stripe_twin.hooks import sign
from tests.fakes.stripe_twin.server import Twin, decode


@pytest.fixture
def twin():
    with Twin() as running:
        running.clock.set(1_793_000_000)
        yield running
        assert running.checks == []  # every answer had the vendor's keys and types


@pytest.fixture
def api(twin):
    return stripe.StripeClient(twin.key, base_addresses={"api": twin.url}, max_network_retries=0).v1


def an_account(twin, api, outcome="enabled"):
    made = api.accounts.create({"country": "DE", "capabilities": {"transfers": {"requested": True}}})
    rules.verify_account(twin.books, made.id, outcome=outcome)
    return made.id


def a_charge(api, amount=10_000, currency="eur", **more):
    intent = api.payment_intents.create(
        {"amount": amount, "currency": currency, "payment_method": "pm_card_visa", "confirm": True, **more}
    )
    assert intent.status == "succeeded"
    return intent


def refusal(call, *given, **more):
    with pytest.raises(stripe.StripeError) as refused:
        call(*given, **more)
    return refused.value.code


def test_every_blank_object_has_the_vendors_keys():
    for kind in vendor.RESOURCES.values():
        assert vendor.faults(kind, vendor.blank(kind)) == []
    transfer = vendor.blank(stripe.Transfer) | {"amount": "7", "colour": "red", "currency": None}
    del transfer["destination"]
    assert len(vendor.faults(stripe.Transfer, transfer)) == 4


def test_parameters_are_those_of_the_vendor(api):
    create = api.payment_intents.create
    assert refusal(create, {"amount": 100}) == "parameter_missing"
    assert refusal(create, {"amount": 100, "currency": "eur", "colour": "red"}) == "parameter_unknown"
    assert refusal(create, {"amount": "ten", "currency": "eur"}) == "parameter_invalid_integer"
    assert refusal(create, {"amount": 100, "currency": "eur", "confirm": "maybe"}) == "parameter_invalid_boolean"
    assert refusal(api.account_links.create, {"account": "acct_1"}) == "parameter_missing"
    rows = [{"quantity": 1, "price_data": {"unit_amount": 100}}]
    assert refusal(api.checkout.sessions.create, {"mode": "payment", "line_items": rows}) == "parameter_missing"
    assert refusal(api.customers.retrieve, "cus_none") == "resource_missing"


@pytest.mark.parametrize(
    ("amount", "currency", "code"),
    [
        (49, "eur", "amount_too_small"),
        (50, "jpy", None),
        (1_234, "kwd", "invalid_amount"),
        (1_230, "kwd", None),
        (100, "EUR", "parameter_invalid"),
        (100, "isk", "parameter_invalid"),
        (10**9, "usd", "amount_too_large"),
    ],
)
def test_amounts_are_checked_with_its_own_table(api, amount, currency, code):
    if code is None:
        assert a_charge(api, amount, currency).amount_received == amount
    else:
        assert refusal(api.payment_intents.create, {"amount": amount, "currency": currency}) == code
    assert (amounts.problem(amount, currency) or (None,))[0] == code


def test_a_card_may_be_declined_or_ask_its_owner(api):
    given = {"amount": 500, "currency": "eur", "confirm": True}
    assert refusal(api.payment_intents.create, given | {"payment_method": "pm_card_chargeDeclined"}) == "card_declined"
    asks = given | {"payment_method": "pm_card_authenticationRequired"}
    assert refusal(api.payment_intents.create, asks | {"off_session": True}) == "authentication_required"
    waiting = api.payment_intents.create(asks)
    assert waiting.status == "requires_action"
    assert api.payment_intents.cancel(waiting.id).status == "canceled"
    assert refusal(api.payment_intents.confirm, waiting.id) == "payment_intent_unexpected_state"


def test_keys_are_remembered_with_their_body_for_a_day(twin, api):
    key, given = {"idempotency_key": "charge:1:1"}, {"amount": 900, "currency": "eur"}
    first = api.payment_intents.create(given, key)
    again = api.payment_intents.create(given, key)
    assert again.id == first.id
    assert again.last_response.headers["Idempotent-Replayed"] == "true"
    with pytest.raises(stripe.IdempotencyError):
        api.payment_intents.create(given | {"amount": 901}, key)
    assert (
        refusal(api.payment_intents.create, given | {"colour": "red"}, {"idempotency_key": "k"}) == "parameter_unknown"
    )
    api.payment_intents.create(given, {"idempotency_key": "k"})  # a refusal of shape was not remembered
    twin.clock.advance(86_400)
    assert api.payment_intents.create(given, key).id != first.id


def test_a_500_is_remembered_under_its_key_and_search_lags(twin, api):
    given = {"amount": 900, "currency": "eur", "metadata": {"idlewild": "pay_1"}}
    twin.fault("500_after", "POST /v1/payment_intents")
    for _ in range(2):
        with pytest.raises(stripe.APIError):
            api.payment_intents.create(given, {"idempotency_key": "a"})
    assert twin.count("payment_intent") == 1
    query = {"query": "metadata['idlewild']:'pay_1'"}
    assert api.payment_intents.search(query).data == []
    twin.clock.advance(60)
    assert len(api.payment_intents.search(query).data) == 1
    twin.fault("500", "POST /v1/payment_intents")
    with pytest.raises(stripe.APIError):
        api.payment_intents.create(given, {"idempotency_key": "b"})
    assert twin.count("payment_intent") == 1


@pytest.mark.parametrize(("kind", "made"), [("drop", 1), ("cut", 0), ("429", 0), ("409", 0)])
def test_faults(twin, api, kind, made):
    twin.fault(kind, "POST /v1/customers")
    with pytest.raises(stripe.StripeError):
        api.customers.create({"name": "Moss"}, {"idempotency_key": "c"})
    assert twin.count("customer") == made
    api.customers.create({"name": "Moss"}, {"idempotency_key": "c"})
    assert twin.count("customer") == 1
    with pytest.raises(ValueError, match="a fault is one of"):
        twin.fault("fire")


def test_two_at_once_under_one_key(twin, api):
    twin.fault("delay_after", "POST /v1/customers", seconds=0.3)
    codes = []
    first = threading.Thread(target=lambda: api.customers.create({"name": "A"}, {"idempotency_key": "k"}))
    first.start()
    time.sleep(0.05)
    codes.append(api.customers.create({"name": "A"}, {"idempotency_key": "k"}).id)
    first.join()
    assert twin.count("customer") == 1


def test_refunds_and_disputes(twin, api):
    intent = a_charge(api, 10_000)
    assert refusal(api.refunds.create, {"payment_intent": intent.id, "amount": 10_001}) == "invalid_amount"
    refund = api.refunds.create({"payment_intent": intent.id, "amount": 4_000})
    charge = api.charges.retrieve(intent.latest_charge)
    assert (refund.status, charge.amount_refunded, charge.refunded) == ("succeeded", 4_000, False)
    rules.fail_refund(twin.books, refund.id)
    api.refunds.create({"charge": charge.id})
    assert refusal(api.refunds.create, {"charge": charge.id}) == "charge_already_refunded"
    dispute = rules.dispute(twin.books, a_charge(api, 2_000).latest_charge)
    assert refusal(api.refunds.create, {"charge": dispute["charge"]}) == "charge_disputed"
    rules.close_dispute(twin.books, dispute["id"], won=True)
    assert api.disputes.retrieve(dispute["id"]).status == "won"
    twin.clock.advance(3 * 86_400)
    fees = amounts.fee(10_000, 29_000, 30) + amounts.fee(2_000, 29_000, 30)
    assert api.balance.retrieve().available[0].amount == 2_000 - fees
    assert sum(row.net for row in api.balance_transactions.list({"limit": 100}).data) == 2_000 - fees


def test_providers_are_paid_from_what_there_is(twin, api):
    account = an_account(twin, api, "due")
    given = {"amount": 3_000, "currency": "eur", "destination": account}
    assert refusal(api.transfers.create, given) == "insufficient_capabilities_for_transfer"
    rules.verify_account(twin.books, account)
    assert refusal(api.transfers.create, given) == "balance_insufficient"
    charge = a_charge(api, 4_000).latest_charge
    assert refusal(api.transfers.create, given) == "balance_insufficient"  # not yet available
    sent = api.transfers.create(given | {"source_transaction": charge})
    assert refusal(api.transfers.create, given | {"source_transaction": charge}) == "balance_insufficient"
    assert refusal(api.transfers.create, given | {"amount": 0}) == "parameter_invalid_integer"
    assert refusal(api.transfers.reversals.create, sent.id, {"amount": 3_001}) == "invalid_amount"
    api.transfers.reversals.create(sent.id, {"amount": 1_000})
    paid = api.payouts.create({"amount": 2_000, "currency": "eur"}, {"stripe_account": account})
    rules.end_payout(twin.books, paid.id, owner=account)
    assert refusal(api.transfers.reversals.create, sent.id) == "balance_insufficient"
    assert api.balance.retrieve({}, {"stripe_account": account}).available[0].amount == 0
    link = api.account_links.create(
        {"account": account, "type": "account_onboarding", "return_url": "http://x", "refresh_url": "http://x"}
    )
    assert link.url.startswith(twin.url + "/onboard/")


def test_hosted_checkout(twin, api):
    price = {"currency": "jpy", "unit_amount": 1_235, "product_data": {"name": "Invoice"}}
    given = {
        "mode": "payment",
        "line_items": [{"quantity": 1, "price_data": price}],
        "success_url": "http://x/?s={CHECKOUT_SESSION_ID}",
        "payment_intent_data": {"metadata": {"idlewild": "pay_1"}},
        "metadata": {"idlewild": "pay_1"},
    }
    session = api.checkout.sessions.create(given)
    assert (session.status, session.amount_total, session.payment_intent) == ("open", 1_235, None)
    with pytest.raises(rules.Refused):
        twin.pay(session.id, rules.DECLINED)
    twin.pay(session.id)
    done = api.checkout.sessions.retrieve(session.id, {"expand": ["payment_intent.latest_charge.balance_transaction"]})
    assert (done.status, done.payment_status) == ("complete", "paid")
    assert done.payment_intent.latest_charge.balance_transaction.net == 1_235 - amounts.fee(1_235, 29_000, 30)
    assert done.payment_intent.metadata["idlewild"] == "pay_1"
    late = api.checkout.sessions.create(given)
    twin.clock.advance(2 * 86_400)
    with pytest.raises(rules.Refused):
        twin.pay(late.id)
    assert api.checkout.sessions.retrieve(late.id).status == "expired"


def test_events_are_signed_and_told_as_the_knobs_say(twin, api):
    a_charge(api)
    first = list(twin.hooks.due())
    assert len(first) == 3
    body, headers = first[0]
    event = stripe.Webhook.construct_event(body, headers["Stripe-Signature"], twin.hooks.secret, tolerance=10**9)
    assert event.type == "payment_intent.created"
    assert list(twin.hooks.due()) == []
    twin.hooks.duplicate, twin.hooks.shuffle = 3, __import__("random").Random(1)
    a_charge(api)
    assert len(list(twin.hooks.due())) == 9
    twin.hooks.drop = 1.0
    a_charge(api)
    assert list(twin.hooks.due()) == []
    assert sign(b"x", "s", 1).startswith("t=1,v1=")


def test_lists_have_pages_and_filters(twin, api):
    names = [api.customers.create({"name": f"C{n}", "email": f"c{n % 2}@x"}).id for n in range(5)]
    assert [row.id for row in api.customers.list({"limit": 2}).auto_paging_iter()] == names[::-1]
    assert len(api.customers.list({"email": "c0@x"}).data) == 3
    assert api.customers.list({"created": {"gt": twin.clock.now()}}).data == []
    assert decode("a[b][]=1&a[b][]=2&c[0][d]=3") == {"a": {"b": ["1", "2"]}, "c": [{"d": "3"}]}


def test_a_wrong_key_is_not_let_in(twin):
    client = stripe.StripeClient("sk_test_other", base_addresses={"api": twin.url}, max_network_retries=0)
    with pytest.raises(stripe.AuthenticationError):
        client.v1.balance.retrieve()


def test_it_is_not_slow(api):
    begun = time.monotonic()
    for _ in range(100):
        api.balance.retrieve()
    assert time.monotonic() - begun < 4  # without TCP_NODELAY: 5 s
