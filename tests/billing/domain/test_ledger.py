"""Postings balance or are refused; invoices, holds and their machines."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.domain import holds, invoicing, ledger, wording
from billing.domain.endings import REASONS
from billing.domain.holds import Exposure, HoldEvent, HoldState, RefusedBy
from billing.domain.invoicing import InvoiceEvent, InvoiceState
from billing.domain.ledger import AccountKind, Unbalanced
from portal.kit.errors import InvalidTransition
from portal.kit.money import Money

START = datetime(2026, 10, 5, tzinfo=UTC)
amounts = st.integers(-(10**9), 10**9)


def sums(posting):
    return {(leg.owner, leg.kind.value): leg.amount_minor for leg in posting.legs}


def test_an_invoice_is_owed_by_the_tenant_and_shared_by_seller_platform_and_tax():
    posting = ledger.invoice(
        tenant="org_t", currency="CNY", sellers={"org_s": 90, "org_u": 9}, fee_minor=11, tax_minor=7
    )
    assert sums(posting) == {
        ("org_t", "tenant_receivable"): -117,
        ("org_s", "accrued"): 90,
        ("org_u", "accrued"): 9,
        ("platform", "platform_fee"): 11,
        ("platform", "tax_payable"): 7,
    }


def test_a_negative_invoice_goes_to_credit_and_the_seller_owes_what_it_no_longer_has():
    posting = ledger.invoice(
        tenant="org_t", currency="CNY", sellers={"org_s": -90}, fee_minor=-10, tax_minor=0, accrued={"org_s": 60}
    )
    assert sums(posting) == {
        ("org_t", "credit"): 100,
        ("org_s", "accrued"): -60,
        ("org_s", "provider_receivable"): -30,
        ("platform", "platform_fee"): -10,
    }


@given(
    st.dictionaries(st.sampled_from(["a", "b", "c"]), amounts),
    amounts,
    amounts,
    st.dictionaries(st.sampled_from(["a", "b"]), st.integers(0, 10**9)),
)
def test_l1_every_invoice_posting_sums_to_zero_and_so_does_its_mirror(sellers, fee, tax, accrued):
    posting = ledger.invoice(tenant="t", currency="CNY", sellers=sellers, fee_minor=fee, tax_minor=tax, accrued=accrued)
    assert sum(leg.amount_minor for leg in posting.legs) == 0
    mirror = posting.mirrored()
    assert sums(mirror) == {key: -amount for key, amount in sums(posting).items()}
    assert mirror.mirrored() == posting


def test_what_does_not_balance_or_has_one_side_is_refused():
    cash, credit = AccountKind.CASH, AccountKind.CREDIT
    with pytest.raises(Unbalanced):
        ledger.balanced("CNY", [("platform", cash, 1), ("t", credit, 1)])
    with pytest.raises(Unbalanced):
        ledger.balanced("CNY", [("platform", cash, 1)])
    assert ledger.balanced("CNY", [("platform", cash, 1), ("platform", cash, -1)]).legs == ()


def test_entries_to_one_account_are_one_and_their_order_is_fixed():
    cash, credit = AccountKind.CASH, AccountKind.CREDIT
    one = ledger.balanced("CNY", [("t", credit, 2), ("platform", cash, -5), ("t", credit, 3)])
    two = ledger.balanced("CNY", [("platform", cash, -5), ("t", credit, 5)])
    assert one == two
    assert one.body_hash() == two.body_hash()
    assert one.body_hash() != ledger.balanced("USD", [("platform", cash, -5), ("t", credit, 5)]).body_hash()


def test_credit_and_payments_bring_what_is_owed_down():
    assert sums(ledger.credit_used(tenant="t", currency="CNY", amount_minor=5)) == {
        ("t", "credit"): -5,
        ("t", "tenant_receivable"): 5,
    }
    assert sums(ledger.payment(tenant="t", currency="CNY", amount_minor=5)) == {
        ("platform", "cash"): -5,
        ("t", "tenant_receivable"): 5,
    }


# --- invoices ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", InvoiceState)
@pytest.mark.parametrize("event", InvoiceEvent)
def test_every_pair_of_the_invoice_machine(state, event):
    if (state, event) not in invoicing.TABLE:
        with pytest.raises(InvalidTransition):
            invoicing.advance(state, event)
        return
    after, effects = invoicing.advance(state, event)
    assert (after, effects) == invoicing.TABLE[state, event]
    assert after is not InvoiceState.DRAFT
    assert state not in {InvoiceState.PAID, InvoiceState.VOID, InvoiceState.UNCOLLECTIBLE}


def test_a_net_below_zero_makes_an_invoice_of_nothing():
    lines = [invoicing.NetLine("s", 500, 0), invoicing.NetLine("s", -700, 0)]
    totals = invoicing.add_up(lines, fee_ppm=100_000, credit_minor=50)
    assert (totals.subtotal_minor, totals.total_minor, totals.to_credit_minor, totals.credit_used_minor) == (
        -200,
        0,
        200,
        0,
    )
    assert totals.fee_minor == -20


def test_credit_pays_at_most_the_invoice():
    lines = [invoicing.NetLine("s", 500, 60_000)]
    assert invoicing.add_up(lines, fee_ppm=0, credit_minor=10_000).payable_minor == 0
    assert invoicing.add_up(lines, fee_ppm=0, credit_minor=30).payable_minor == 500
    assert invoicing.add_up(lines, fee_ppm=0, credit_minor=-5).payable_minor == 530
    assert invoicing.number("IW-2026", 327) == "IW-2026-000327"


# --- holds -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", HoldState)
@pytest.mark.parametrize("event", HoldEvent)
def test_every_pair_of_the_hold_machine(state, event):
    ends = {
        HoldEvent.CAPTURED: HoldState.CAPTURED,
        HoldEvent.RELEASED: HoldState.RELEASED,
        HoldEvent.LAPSED: HoldState.EXPIRED,
    }
    if state is HoldState.ACTIVE:
        assert holds.advance(state, event) is ends[event]
    else:
        with pytest.raises(InvalidTransition):
            holds.advance(state, event)


def exposure(**values):
    return Exposure(
        **(
            {
                "limit_minor": 1000,
                "owed_minor": 100,
                "used_minor": {"a": 50, "b": 70},
                "holds_minor": {"b": 200, "c": 30},
            }
            | values
        )
    )


def test_a_job_counts_what_it_used_or_holds_whichever_is_more():
    assert exposure().committed_minor == 100 + 50 + 200 + 30
    assert exposure().available_minor == 620
    assert exposure(owed_minor=5000).available_minor == 0


@pytest.mark.parametrize(
    ("values", "needed", "refused"),
    [
        ({}, 620, RefusedBy.NOTHING),
        ({}, 621, RefusedBy.CREDIT_LIMIT),
        ({"past_due": True}, 1, RefusedBy.PAST_DUE),
        ({"suspended": True, "past_due": True}, 1, RefusedBy.SUSPENDED),
    ],
)
def test_what_stands_against_spending(values, needed, refused):
    spend = holds.decide(exposure(**values), Money(needed, "CNY"))
    assert (spend.allowed, spend.refused_by, spend.available) == (
        refused is RefusedBy.NOTHING,
        refused,
        Money(620, "CNY"),
    )


# --- words -------------------------------------------------------------------------------------------------------------


def test_documents_have_words_in_both_languages_for_all_they_print():
    english, chinese = wording.words("en"), wording.words("zh-hans")
    assert wording.words("fr") == english
    assert english.keys() == chinese.keys()
    assert all(english.values())
    assert all(chinese.values())
    unbilled = {reason for reason, (_, billed) in REASONS.items() if not billed}
    assert unbilled <= english.keys()
