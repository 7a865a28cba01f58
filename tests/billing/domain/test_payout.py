"""A provider's share: how it is cut, what of it may go out, a payout's life (every pair), and the entries."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.domain import payout
from billing.domain.payout import OPEN, TABLE, KycState, PayoutEvent, PayoutState, Share, WaitReason
from portal.kit.errors import InvalidTransition
from portal.kit.money import Money

EUR = Money(1_000, "EUR")


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(-10_000, 10_000)), max_size=8), st.integers(0, 1_000_000))
def test_fee_and_share_are_the_line(lines, fee_ppm):
    shares = payout.shares(lines, fee_ppm)
    assert [share.fee_minor + share.seller_minor for share in shares] == [net for _, net in lines]


def test_a_fee_has_bounds():
    for fee in (-1, 1_000_001):
        with pytest.raises(ValueError, match="a fee lies between"):
            payout.shares([("a", 1)], fee)


@pytest.mark.parametrize("state", list(PayoutState))
@pytest.mark.parametrize("event", list(PayoutEvent))
def test_every_pair(state, event):
    if (state, event) in TABLE:
        payout.advance(state, event)
    else:
        with pytest.raises(InvalidTransition):
            payout.advance(state, event)
    assert {PayoutState.ACCRUED, PayoutState.AVAILABLE} == OPEN


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ((True, True, True, 999), WaitReason.BELOW_MINIMUM),
        ((False, True, True, 1_000), WaitReason.NO_RAIL),
        ((True, False, False, 1_000), WaitReason.NO_ACCOUNT),
        ((True, True, False, 1_000), WaitReason.PAYOUTS_DISABLED),
        ((True, True, True, 1_000), None),
    ],
)
def test_why_it_waits(facts, reason):
    rail, account, enabled, minor = facts
    money = Money(minor, "EUR")
    assert payout.wait_reason(rail=rail, account=account, enabled=enabled, amount=money, minimum=EUR) == reason


def test_whole_steps_are_sent():
    assert payout.sendable(Money(12_345, "KWD")) == Money(12_340, "KWD")
    assert payout.sendable(Money(-5, "EUR")) == Money(0, "EUR")


@pytest.mark.parametrize(
    ("shares", "accrued", "amount", "counted"),
    [
        ([Share(1, 900, due=True)], 900, 900, [1]),
        ([Share(1, 900, due=False)], 900, 0, []),
        ([Share(1, 900, due=True), Share(2, -300, due=False), Share(3, 500, due=False)], 1_100, 600, [1, 2]),
        ([Share(1, 900, due=True), Share(2, 0, due=True)], 500, 500, [1]),
        ([Share(1, -900, due=True)], 0, 0, []),
    ],
)
def test_what_may_go_out(shares, accrued, amount, counted):
    found, kept = payout.releasable(shares, accrued_minor=accrued)
    assert (found, [share.invoice_id for share in kept]) == (amount, counted)


@given(st.lists(st.tuples(st.integers(-1_000, 1_000), st.booleans()), max_size=8), st.integers(0, 5_000))
def test_never_more_than_is_due_nor_than_there_is(rows, accrued):
    shares = [Share(number, left, due) for number, (left, due) in enumerate(rows)]
    amount, _kept = payout.releasable(shares, accrued_minor=accrued)
    assert 0 <= amount <= min(accrued, sum(share.left_minor for share in shares if share.due and share.left_minor > 0))


@pytest.mark.parametrize(
    "make", [payout.set_off, payout.released, payout.reserved, payout.paid, payout.given_back, payout.taken_back]
)
def test_every_posting_balances(make):
    posting = make(provider="p", amount=EUR)
    assert sorted(leg.amount_minor for leg in posting.legs) == [-1_000, 1_000]


def test_a_failed_payout_is_undone_by_its_counter_entry():
    given_back = payout.given_back(provider="p", amount=EUR)
    assert payout.reserved(provider="p", amount=EUR).mirrored() == given_back


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        ((False, False, False, [], ""), KycState.NONE),
        ((True, False, False, ["x"], ""), KycState.INCOMPLETE),
        ((True, True, False, [], "requirements.pending_verification"), KycState.PENDING),
        ((True, True, True, [], ""), KycState.ENABLED),
        ((True, True, False, [], "rejected.fraud"), KycState.REJECTED),
    ],
)
def test_proof_of_identity_in_one_word(facts, state):
    account, submitted, enabled, due, reason = facts
    found = payout.kyc(account=account, submitted=submitted, enabled=enabled, due=due, disabled_reason=reason)
    assert found is state
