"""The rail's rules: what it can take, a payment's life (every pair), and the entries of each event."""

from datetime import UTC, datetime

import pytest

from billing.domain import rail
from billing.domain.ledger import AccountKind
from billing.domain.rail import RANK, TABLE, BalanceEntry, PaymentEvent, PaymentState
from portal.kit.errors import InvalidTransition
from portal.kit.money import Money

EUR = Money(1_000, "EUR")


@pytest.mark.parametrize(
    ("minor", "code", "charged"),
    [(50, "EUR", 50), (49, "EUR", 0), (0, "EUR", 0), (-5, "EUR", 0), (12_345, "KWD", 12_340), (1_235, "JPY", 1_235)],
)
def test_whole_steps_and_not_below_the_minimum(minor, code, charged):
    assert rail.chargeable(Money(minor, code)) == Money(charged, code)


def test_in_steps():
    assert rail.in_steps(Money(10, "KWD"))
    assert not rail.in_steps(Money(5, "KWD"))
    assert not rail.in_steps(Money(0, "EUR"))


@pytest.mark.parametrize("state", list(PaymentState))
@pytest.mark.parametrize("event", list(PaymentEvent))
def test_no_state_goes_to_a_lower_rank(state, event):
    assert rail.possible(state, event) == ((state, event) in TABLE)
    if rail.possible(state, event):
        after, _effects = rail.advance(state, event)
        assert RANK[after] > RANK[state]
    else:
        with pytest.raises(InvalidTransition):
            rail.advance(state, event)


def test_every_status_of_the_rail_is_an_event():
    assert set(rail.SAYS.values()) <= set(PaymentEvent)


@pytest.mark.parametrize(
    "posting",
    [
        rail.surplus(tenant="t", amount=EUR),
        rail.unmatched(amount=EUR),
        rail.fee(amount=EUR),
        rail.paid_out(amount=EUR),
        rail.refund_reserved(tenant="t", amount=EUR),
        rail.refund_sent(tenant="t", amount=EUR),
        rail.refund_returned(tenant="t", amount=EUR),
    ],
)
def test_every_posting_balances_and_says_what_the_rail_has(posting):
    legs = {(leg.owner, leg.kind): leg.amount_minor for leg in posting.legs}
    assert sum(legs.values()) == 0
    assert len(legs) == 2
    assert abs(next(iter(legs.values()))) == 1_000


def test_a_dispute_takes_amount_and_fee_and_gives_both_back():
    def entry(amount, fee):
        money = [Money(minor, "EUR") for minor in (amount, fee, amount - fee)]
        return BalanceEntry("txn", "adjustment", "dp", *money, at=datetime(2026, 11, 1, tzinfo=UTC))

    taken, back = rail.disputed(entry(-1_000, 150)), rail.disputed(entry(1_000, -150))
    assert taken.mirrored() == back
    assert {leg.kind: leg.amount_minor for leg in taken.legs} == {
        AccountKind.CASH: 1_150,
        AccountKind.BAD_DEBT: -1_000,
        AccountKind.RAIL_FEE: -150,
    }
