"""S5, the rail's half: months of trade under a moving clock, while the twin drops, doubles, shuffles, forgets and breaks.

Every day: the trial balance is 0, and once what is on its way has arrived the rail has what the ledger says. At the end every tenant paid what its
invoices say, and every provider got its share. The seed is the test's parameter.
`IDLEWILD_TEST_YEAR=1` runs a whole year of fifty tenants instead (minutes).
"""

import os
import random
from datetime import UTC, datetime, timedelta

import pytest

from billing.domain.ledger import AccountKind
from billing.models import Dispute, Invoice, Payment, Payout, ProviderAccount, RailCustomer, Refund
from billing.selectors import balances
from billing.selectors import payouts as standing_of
from billing.services import credit_notes, payments, payouts, periods, provider_accounts, reconcile, refunds, usage
from portal.kit.errors import Conflict
from portal.kit.money import Money, currency
from tests.billing.books import a_fact, a_tenant
from tests.fakes.stripe_twin import rules

pytestmark = pytest.mark.django_db
LONG = bool(os.environ.get("IDLEWILD_TEST_YEAR"))
MONTHS, TENANTS, PROVIDERS = (12, 50, 20) if LONG else (2, 4, 3)
CODES = ("EUR", "JPY", "KWD")
FAULTS = ("drop", "cut", "429", "409", "500", "500_after")
PATHS = ("customers$", "checkout/sessions$", "payment_intents$", "refunds$", "transfers$", "accounts$", "reversals$")


class Year:
    """The people of the simulation, and what happens to them."""

    def __init__(self, rail, seed):
        self.rail, self.dice = rail, random.Random(seed)
        self.tenants = [a_tenant(currency=CODES[n % 3]) for n in range(TENANTS)]
        self.providers = [a_tenant(currency=CODES[n % 3]) for n in range(PROVIDERS)]
        rail.twin.hooks.shuffle, rail.twin.hooks.duplicate, rail.twin.hooks.drop = self.dice, 2, 0.2
        self.attempts = 0

    def begin(self):
        for code in CODES:  # the platform bears fees and disputes: it keeps money at the rail
            self.rail.twin.books.transaction("topup", 500_000, code.lower(), f"tu_{code}")
        for provider in self.providers:
            provider_accounts.start(organisation=provider, by="usr_p", now=self.rail.now)
        self.settle()
        for account in ProviderAccount.objects.all():
            rules.verify_account(self.rail.twin.books, account.rail_id)
            payouts_look(account, self.rail.now)
        self.settle()

    def work(self, month):
        """Every tenant uses two providers of its currency."""
        for tenant in self.tenants:
            sellers = [p for p in self.providers if p.currency == tenant.currency]
            for seller in sellers[:2]:
                self.attempts += 1
                places = currency(tenant.currency).exponent
                price = self.dice.randint(2_000, 9_000) * 10 ** (6 - places) * (5 if places else 1)
                fact = a_fact(
                    tenant, attempt_ref=f"att_{self.attempts}", job_ref=f"job_{self.attempts}", started_at=month + timedelta(days=3), seconds=3_600 * 10,
                    unit_price_micro=price // 10, price_version_ref=f"prv_{self.attempts}", currency=tenant.currency, provider_ref=seller.public_id,
                )  # fmt: skip
                usage.record(fact=fact, now=fact.ended_at)

    def close(self, month):
        for tenant in self.tenants:
            periods.close(organisation_id=tenant.id, month=f"{month:%Y-%m}", now=self.rail.now)

    def pay(self):
        """Each open invoice: on the page, with luck at the first card."""
        for invoice in Invoice.objects.filter(state__in=["open", "partially_paid", "past_due"]):
            try:
                page = payments.start(
                    invoice=invoice, by="usr_t", now=self.rail.now, keep_card=self.dice.random() < 0.3
                )
            except Conflict:  # on its way, or too little for a card
                continue
            self.settle()
            page.refresh_from_db()
            if page.state == "ready" and page.payment.state == "created":
                try:
                    card = rules.DECLINED if self.dice.random() < 0.2 else rules.GOOD
                    self.rail.twin.pay(page.payment.session, card)
                except rules.Refused:
                    continue

    def trouble(self):
        """A credit note with a refund, and a dispute, now and then."""
        paid = list(
            Payment.objects.filter(state="succeeded", refunded_minor=0, invoice__isnull=False).select_related(
                "invoice", "organisation"
            )
        )
        self.dice.shuffle(paid)
        for payment in paid[:1]:
            part = Money(payment.amount_minor // 40 * 10, payment.currency)
            if part.minor:
                name = f"cn-{payment.public_id}"
                credit_notes.issue(
                    invoice=payment.invoice, total=part, reason="slow", reference=name, by="staff", now=self.rail.now
                )
                refunds.send(invoice=payment.invoice, amount=part, reference=name, by="staff", now=self.rail.now)
        for payment in paid[1:2]:
            made = rules.dispute(self.rail.twin.books, payment.charge)
            if self.dice.random() < 0.7:
                rules.close_dispute(self.rail.twin.books, made["id"], won=self.dice.random() < 0.5)

    def breaks(self):
        for _ in range(2):
            self.rail.twin.fault(self.dice.choice(FAULTS), "POST /v1/(.*/)?" + self.dice.choice(PATHS))

    def settle(self):
        for _ in range(3):
            self.rail.relay()
            self.rail.tell()
            self.rail.wait(seconds=20)

    def day(self):
        self.breaks()
        payouts.release_due(now=self.rail.now)
        payments.refresh(now=self.rail.now)
        self.settle()
        assert set(balances.trial().values()) <= {0}

    def night(self):
        """What was never told is told (the vendor repeats for days), then both sides are compared."""
        self.rail.twin.faults.clear()
        self.rail.twin.hooks.drop, kept = 0.0, self.rail.twin.hooks.drop
        self.rail.twin.hooks._sent = 0
        self.rail.wait(minutes=31)
        payments.refresh(now=self.rail.now)
        self.rail.relay()
        assert set(self.rail.tell()) <= {200}
        self.rail.relay()
        self.rail.tell()
        self.rail.twin.hooks.drop = kept
        rows = reconcile.run(now=self.rail.now)
        assert [(row.currency, row.drift_minor, row.unknown) for row in rows if row.drift_minor or row.unknown] == []
        self.rail.all_in_balance()


def payouts_look(account, now):
    provider_accounts.look(organisation=account.organisation, now=now)


@pytest.mark.timeout(3_600 if LONG else 300)
@pytest.mark.parametrize("seed", [1])
def test_s5_rail_and_ledger_agree_every_day(rail, seed):
    month = datetime(2026, 9, 1, tzinfo=UTC)
    rail.set(month)
    year = Year(rail, seed)
    year.begin()
    for _ in range(MONTHS):
        year.work(month)
        month = (month + timedelta(days=32)).replace(day=1)
        rail.set(month + timedelta(days=3, hours=2))
        year.close((month - timedelta(days=1)).replace(day=1))
        for day in range(3):
            year.pay()
            if day == 1:
                year.trouble()
            year.day()
            year.night()
            rail.wait(days=1)
    for _ in range(3):
        rail.wait(days=9)
        year.pay()
        year.day()
        year.night()
    _everybody_has_what_is_theirs(year)


def _everybody_has_what_is_theirs(year):
    open_ones = Invoice.objects.exclude(state="paid")
    assert {row.currency for row in open_ones} <= {"KWD"}  # less than a step of the rail is carried
    assert all(row.payable_minor - row.paid_minor - row.credited_minor < 10 for row in open_ones)
    for tenant in year.tenants:
        owed = -balances.of(tenant.public_id, AccountKind.TENANT_RECEIVABLE, tenant.currency)
        assert owed == sum(
            row.payable_minor - row.paid_minor - row.credited_minor for row in open_ones.filter(organisation=tenant)
        )
    for provider in year.providers:
        found = standing_of.standing(provider, provider.currency)
        account = ProviderAccount.objects.get(organisation=provider).rail_id
        at_rail = year.rail.twin.books.whole(account, provider.currency.lower())
        assert at_rail == found.paid.minor
        shares = Invoice.objects.filter(lines__provider_ref=provider.public_id).distinct()
        earned = sum(line.seller_minor for row in shares for line in row.lines.filter(provider_ref=provider.public_id))
        assert found.earned.minor <= earned
        assert found.reserved.minor == 0
        told = list(
            Payout.objects.filter(organisation=provider).values_list("state", "reason", "amount_minor", "failure")
        )
        assert "paid" in {row[0] for row in told}, (
            provider.currency,
            told,
            [(r.state, r.payable_minor, r.paid_minor) for r in shares],
        )
    assert Refund.objects.filter(state="succeeded").exists()
    assert Dispute.objects.exists()
    assert RailCustomer.objects.count() == TENANTS
    rail = year.rail
    assert rail.twin.count("charge", paid=True) == Payment.objects.exclude(charge="").count()
