"""What a payment rail can take of an amount: whole steps of its currency, and not less than its minimum. The rest is carried to the next invoice."""

from portal.kit.money import Money, currency


def chargeable(amount: Money) -> Money:
    """The part of `amount` that can be charged now; 0 below the rail's minimum and for nothing owed."""
    rules = currency(amount.currency)
    if amount.minor <= 0 or amount.minor < rules.rail_minimum:
        return Money(0, amount.currency)
    return Money(amount.minor - amount.minor % rules.rail_step, amount.currency)
