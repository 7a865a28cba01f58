"""A provider's share: only of paid invoices, after the hold time, debited before it is sent, once; and what is taken back afterwards."""

from datetime import timedelta

import pytest

from billing.domain import payout as rules
from billing.domain.ledger import AccountKind, balanced
from billing.models import Payout, PayoutPart, ProviderAccount, Reversal
from billing.selectors import balances
from billing.selectors import payouts as selectors
from billing.services import credit_notes, invoices, ledger, payouts, provider_accounts
from portal.kit.errors import Conflict
from portal.kit.money import Money
from tests.billing.books import a_tenant, case, rated
from tests.billing.rail.conftest import CARD_HOUR, an_invoice
from tests.billing.rail.test_payments import paid
from tests.fakes.stripe_twin import rules as twin_rules

pytestmark = pytest.mark.django_db


def a_provider(rail, outcome="enabled", currency="EUR"):
    """An organisation that earns, with its account at the rail filled in."""
    provider = a_tenant(currency=currency)
    page = provider_accounts.start(organisation=provider, by="usr_sol", now=rail.now)
    rail.relay()
    page.refresh_from_db()
    assert page.url.startswith(f"{rail.twin.url}/onboard/")
    account = ProviderAccount.objects.get(organisation=provider)
    if outcome:
        twin_rules.verify_account(rail.twin.books, account.rail_id, outcome=outcome)
        rail.tell()
    return provider


def earned(rail, provider, amount=10_000, **more):
    """A paid invoice whose lines are all the provider's; its share is 90 %."""
    invoice = an_invoice(amount=amount, provider_ref=provider.public_id, **more)
    paid(rail, invoice)
    return invoice


def release(rail, **wait):
    rail.wait(**(wait or {"days": 8}))
    sent = payouts.release_due(now=rail.now)
    rail.relay()
    rail.tell()
    return sent


def of(provider, kind, code="EUR"):
    return balances.of(provider.public_id, kind, code)


def by_bank(rail, invoice):
    """The whole invoice is paid by bank transfer."""
    left = Money(invoice.payable_minor, invoice.currency)
    invoices.record_payment(invoice=invoice, amount=left, reference="bank", by="staff", now=rail.now)


def to_the_rail(rail, amount):
    """The operator sends money from our bank to the rail."""
    rail.twin.books.move("", "eur", amount)
    legs = [("rail:stripe", AccountKind.CASH, -amount), ("platform", AccountKind.CASH, amount)]
    ledger.post(kind="test", key=f"test:bank:{amount}", posting=balanced("EUR", legs), reference="test", now=rail.now)


def adds_up(rail, provider, code="EUR"):
    """S4: waiting + available + reserved + sent − reversed = Σ accrued − Σ taken back; parts add up to payouts; the rail has what the ledger says."""
    standing = selectors.standing(provider, code)
    assert standing.available.minor == sum(
        Payout.objects.filter(organisation=provider, currency=code, state__in=["accrued", "available"]).values_list(
            "amount_minor", flat=True
        )
    )
    for row in Payout.objects.filter(organisation=provider):
        assert sum(PayoutPart.objects.filter(payout=row).values_list("amount_minor", flat=True)) == row.amount_minor
    assert rail.drift(code) == 0
    rail.all_in_balance()
    return standing


def test_a_share_goes_out_after_its_invoice_was_paid_and_the_hold_time(rail):
    provider = a_provider(rail)
    invoice = earned(rail, provider)
    assert release(rail, days=6) == 0
    assert of(provider, AccountKind.ACCRUED) == 9_000
    assert release(rail, days=2) == 1
    payout = Payout.objects.get()
    assert (payout.state, payout.amount_minor, payout.source != "") == ("paid", 9_000, True)
    account = ProviderAccount.objects.get()
    assert rail.twin.books.whole(account.rail_id, "eur") == 9_000
    assert [(part.invoice_id, part.amount_minor) for part in selectors.parts(payout)] == [(invoice.id, 9_000)]
    assert release(rail, days=30) == 0
    standing = adds_up(rail, provider)
    assert (standing.earned.minor, standing.paid.minor) == (9_000, 9_000)


def test_s5_nothing_goes_out_that_must_not(rail):
    """No payout for an unpaid invoice, without proof of identity, in another currency, or twice. S5."""
    provider = a_provider(rail, outcome="due")
    an_invoice(amount=50_000, provider_ref=provider.public_id)  # not paid
    assert release(rail, days=30) == 0
    assert of(provider, AccountKind.ACCRUED) == 45_000
    earned(rail, provider)
    assert release(rail) == 0
    waiting = Payout.objects.get()
    assert (waiting.state, waiting.reason, waiting.amount_minor) == ("accrued", "payouts_disabled", 9_000)
    assert selectors.kyc(selectors.account(organisation_id=provider.id)) == "incomplete"
    twin_rules.verify_account(rail.twin.books, ProviderAccount.objects.get().rail_id)
    rail.tell()
    assert selectors.kyc(selectors.account(organisation_id=provider.id)) == "enabled"
    rail.twin.hooks.duplicate = 3
    assert release(rail, hours=1) == 1
    assert release(rail, hours=1) == 0
    assert rail.twin.count("transfer") == 1
    other = a_tenant(currency="USD")
    earned(rail, provider, currency="USD", tenant=other)
    release(rail, days=10)
    assert sorted(Payout.objects.values_list("currency", "state")) == [("EUR", "paid"), ("USD", "paid")]
    assert of(provider, AccountKind.ACCRUED) == 45_000
    adds_up(rail, provider)


def test_who_has_no_account_is_told_so(rail, settings):
    provider = a_tenant(currency="EUR")
    earned(rail, provider)
    release(rail)
    assert Payout.objects.get().reason == "no_account"
    settings.STRIPE_SECRET_KEY = ""
    payouts.release_due(now=rail.now)
    assert Payout.objects.get().reason == "no_rail"
    with pytest.raises(provider_accounts.gateway.NoRail):
        provider_accounts.start(organisation=provider, by="usr_sol", now=rail.now)


def test_n2_below_the_minimum_it_is_collected_and_then_goes_out_whole(rail, settings):
    given, expected = case("bill-n2")
    settings.IDLEWILD_PAYOUT_MINIMUM = Money(given["minimum_minor"], "EUR").text()
    settings.IDLEWILD_PLATFORM_FEE_PPM = 0
    provider = a_provider(rail)
    outcomes = []
    first, second = given["available_minor_over_time"]
    earned(rail, provider, amount=first)
    release(rail)
    row = Payout.objects.get()
    outcomes.append((0 if row.state == "accrued" else row.amount_minor, row.reason or None))
    by_bank(rail, an_invoice(amount=second - first, provider_ref=provider.public_id))  # less than a card can pay
    to_the_rail(rail, 1_000)
    release(rail)
    row.refresh_from_db()
    outcomes.append((row.amount_minor if row.state == "paid" else 0, row.reason or None))
    assert outcomes == list(zip(expected["payout_minor"], expected["reason"], strict=True))
    adds_up(rail, provider)


def test_n1_a_rejected_transfer_is_compensated_and_the_retry_debits_again(rail, settings):
    """eliza#11022: a payout without a debit. At no step are the transfers more than the debits."""
    given, expected = case("bill-n1")
    settings.IDLEWILD_PLATFORM_FEE_PPM = 0
    provider = a_provider(rail)
    invoice = an_invoice(amount=given["payout_minor"], provider_ref=provider.public_id)
    by_bank(rail, invoice)
    release(rail)  # the money is at our bank, not at the rail: balance_insufficient
    failed = Payout.objects.get(state="failed")
    assert failed.failure == "balance_insufficient"
    after = expected["after_failure"]
    assert of(provider, AccountKind.AVAILABLE) == after["available_minor"]
    assert rail.twin.count("transfer") == after["transfers_minor"]
    to_the_rail(rail, 20_000)
    assert release(rail, hours=1) == 0  # not before a day
    assert release(rail, days=1) == 1
    wanted = expected["after_retry"]
    debits, compensations = [], []
    for row in Payout.objects.order_by("id"):
        debits.append(row.amount_minor)
        if row.state == "failed":
            compensations.append(row.amount_minor)
    assert (debits, compensations) == (wanted["debits_minor"], wanted["compensations_minor"])
    assert sum(row["amount"] for row in rail.twin.books.all("transfer")) == wanted["transfers_minor"]
    assert of(provider, AccountKind.AVAILABLE) == wanted["available_minor"]
    assert sum(debits) - sum(compensations) >= wanted["transfers_minor"]
    adds_up(rail, provider)


@pytest.mark.parametrize("kind", ["drop", "cut", "429", "500", "500_after"])
def test_a_transfer_is_made_once_whatever_breaks(rail, kind):
    provider = a_provider(rail)
    earned(rail, provider)
    rail.twin.fault(kind, "POST /v1/transfers$")
    release(rail)
    for _ in range(5):
        rail.wait(seconds=15)
        rail.relay()
    rail.tell()
    assert Payout.objects.get().state == "paid"
    assert rail.twin.count("transfer") == 1
    adds_up(rail, provider)


def test_the_event_may_come_before_the_answer(rail):
    provider = a_provider(rail)
    earned(rail, provider)
    rail.twin.fault("drop", "POST /v1/transfers$")
    rail.wait(days=8)
    payouts.release_due(now=rail.now)
    rail.relay(rounds=1)
    assert Payout.objects.get().state == "reserved"
    assert set(rail.tell()) == {200}
    assert Payout.objects.get().state == "paid"
    rail.wait(minutes=1)
    rail.relay()
    assert rail.twin.count("transfer") == 1
    adds_up(rail, provider)


def credited(invoice, amount, now):
    """A credit note over `amount` of a paid invoice."""
    credit_notes.issue(
        invoice=invoice,
        total=Money(amount, invoice.currency),
        reason="node was slow",
        reference=f"test-{invoice.id}-{amount}",
        by="staff",
        now=now,
    )


def test_a_credit_note_before_the_release_lowers_it(rail):
    provider = a_provider(rail)
    credited(earned(rail, provider), 4_000, rail.now)
    release(rail)
    assert Payout.objects.get().amount_minor == 5_400
    assert adds_up(rail, provider).earned.minor == 5_400


def test_a_credit_note_takes_from_what_was_collected(rail):
    provider = a_provider(rail, outcome="due")
    invoice = earned(rail, provider)
    release(rail)
    credited(invoice, 4_000, rail.now)
    assert of(provider, AccountKind.AVAILABLE) == 5_400
    twin_rules.verify_account(rail.twin.books, ProviderAccount.objects.get().rail_id)
    rail.tell()
    release(rail)
    payout = Payout.objects.get()
    assert (payout.state, payout.amount_minor) == ("paid", 5_400)
    assert [part.kind for part in selectors.parts(payout)] == ["share", "credited"]
    adds_up(rail, provider)


def test_a_credit_note_after_the_payout_is_set_off_against_the_next(rail):
    provider = a_provider(rail)
    first = earned(rail, provider)
    release(rail)
    credited(first, 4_000, rail.now)
    assert of(provider, AccountKind.PROVIDER_RECEIVABLE) == -3_600
    assert adds_up(rail, provider).earned.minor == 5_400
    earned(rail, provider)
    release(rail)
    second = Payout.objects.order_by("-id").first()
    assert (second.amount_minor, second.state) == (5_400, "paid")
    assert [(part.kind, part.amount_minor) for part in selectors.parts(second)] == [
        ("share", 9_000),
        ("set_off", -3_600),
    ]
    assert adds_up(rail, provider).paid.minor == 14_400


def test_a_credit_note_served_from_an_unpaid_share_releases_nothing_too_early(rail):
    """The note on the old invoice is served out of the accrued share of a new, unpaid one: that one must not go out twice, nor too early."""
    provider = a_provider(rail)
    old = earned(rail, provider)
    release(rail)
    unpaid = an_invoice(amount=10_000, provider_ref=provider.public_id)
    credited(old, 4_000, rail.now)
    assert of(provider, AccountKind.ACCRUED) == 5_400
    assert release(rail) == 0
    by_bank(rail, unpaid)
    to_the_rail(rail, 10_000)
    release(rail)
    assert Payout.objects.order_by("-id").first().amount_minor == 5_400
    assert adds_up(rail, provider).waiting.minor == 0


def test_what_is_owed_may_be_taken_back_from_the_rail(rail):
    provider = a_provider(rail)
    invoice = earned(rail, provider)
    release(rail)
    payout = Payout.objects.get()
    with pytest.raises(Conflict) as refused:
        payouts.reverse(payout=payout, amount=Money(1, "EUR"), reference="cn", by="staff", now=rail.now)
    assert refused.value.code == "not_reversible"
    credited(invoice, 4_000, rail.now)
    for _ in range(2):
        payouts.reverse(payout=payout, amount=Money(3_600, "EUR"), reference="cn", by="staff", now=rail.now)
    rail.twin.fault("drop", "POST /v1/transfers/.*/reversals")
    for _ in range(3):
        rail.relay()
        rail.wait(seconds=15)
    rail.tell()
    payout.refresh_from_db()
    assert (payout.reversed_minor, of(provider, AccountKind.PROVIDER_RECEIVABLE)) == (3_600, 0)
    assert rail.twin.count("transfer_reversal") == 1
    assert adds_up(rail, provider).paid.minor == 5_400


def test_what_the_provider_has_spent_cannot_be_taken_back(rail):
    provider = a_provider(rail)
    invoice = earned(rail, provider)
    release(rail)
    account = ProviderAccount.objects.get().rail_id
    spent = twin_rules.payout(rail.twin.books, {"amount": 9_000, "currency": "eur"}, account)
    twin_rules.end_payout(rail.twin.books, spent["id"], owner=account)
    credited(invoice, 4_000, rail.now)
    payouts.reverse(payout=Payout.objects.get(), amount=Money(3_600, "EUR"), reference="cn", by="staff", now=rail.now)
    rail.relay()
    assert Reversal.objects.get().failure == "balance_insufficient"
    assert of(provider, AccountKind.PROVIDER_RECEIVABLE) == -3_600
    rail.tell()
    adds_up(rail, provider)


def test_a_reversal_made_by_hand_at_the_rail_is_booked(rail):
    provider = a_provider(rail)
    earned(rail, provider)
    release(rail)
    twin_rules.reversal(rail.twin.books, Payout.objects.get().transfer, {"amount": 500})
    rail.tell()
    assert Payout.objects.get().reversed_minor == 500
    assert of(provider, AccountKind.PROVIDER_RECEIVABLE) == 500
    adds_up(rail, provider)


def test_steps_of_the_rail_leave_a_rest_for_the_next(rail):
    provider = a_provider(rail, currency="KWD")
    invoice = an_invoice(currency="KWD", amount=2_605, provider_ref=provider.public_id)
    assert invoice.payable_minor == 26_050
    paid(rail, invoice)
    release(rail)
    assert list(Payout.objects.order_by("id").values_list("amount_minor", "state")) == [
        (23_440, "paid"),
        (5, "accrued"),
    ]
    adds_up(rail, provider, "KWD")


def test_less_than_a_step_of_the_rail_holds_no_share_back(rail):
    """12.345 dinars: a card pays 12.340, the rest is carried; the share goes out all the same."""
    provider = a_provider(rail, currency="KWD")
    invoice = rated(a_tenant(currency="KWD"), (CARD_HOUR, 30_345_000), currency="KWD", provider_ref=provider.public_id)
    paid(rail, invoice)
    assert (invoice.state, invoice.payable_minor - invoice.paid_minor) == ("partially_paid", 5)
    release(rail)
    assert Payout.objects.order_by("id").first().state == "paid"
    adds_up(rail, provider, "KWD")


def test_two_workers_at_once_send_once(rail):
    provider = a_provider(rail)
    earned(rail, provider)
    rail.wait(days=8)
    assert payouts.release(provider=provider, currency="EUR", now=rail.now) is True
    assert payouts.release(provider=provider, currency="EUR", now=rail.now + timedelta(seconds=1)) is False


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        ((False, False, False, [], ""), "none"),
        ((True, False, False, ["external_account"], ""), "incomplete"),
        ((True, True, False, [], "requirements.pending_verification"), "pending"),
        ((True, True, True, [], ""), "enabled"),
        ((True, True, False, [], "rejected.fraud"), "rejected"),
    ],
)
def test_kyc_in_one_word(facts, state):
    account, submitted, enabled, due, reason = facts
    found = rules.kyc(account=account, submitted=submitted, enabled=enabled, due=due, disabled_reason=reason)
    assert found == state
