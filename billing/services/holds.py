"""Reserve, then settle: money that a job may cost is kept from the limit before it is placed.

The tenant's receivable account is locked first and read then, so twenty submits at once stay within the limit.
"""

from datetime import datetime

from django.db import transaction

from billing.domain import holds as rules
from billing.domain.holds import HoldEvent, HoldState, RefusedBy, Spend
from billing.domain.ledger import AccountKind
from billing.models import Hold
from billing.selectors import balances
from billing.services import ledger
from portal.accounts.models import Organisation
from portal.kit.errors import Conflict, NotFound, SpendingRefused
from portal.kit.money import Money

SENTENCES = {
    RefusedBy.CREDIT_LIMIT: "this needs {needed} and {available} {currency} of the credit limit are left: cancel other work or ask for more",
    RefusedBy.PAST_DUE: "an invoice is past due: pay it, then try again",
    RefusedBy.SUSPENDED: "the organisation is suspended: ask the operator",
}


def reserve(
    *, organisation_id: int, reference: str, amount: Money, now: datetime, expires_at: datetime | None = None
) -> Hold:
    """Keep `amount` for `reference` (a job's public id). The same reference again sets its hold to the new amount. SpendingRefused (402) if it does not fit."""
    if amount.minor < 0:
        raise Conflict("a hold is not negative", code="bad_amount")
    with transaction.atomic():
        tenant = Organisation.objects.get(id=organisation_id)
        balances.same_currency(tenant, amount)
        _lock(tenant)
        held = Hold.objects.select_for_update().filter(reference=reference, state=HoldState.ACTIVE).first()
        if held is not None and held.organisation_id != organisation_id:
            raise NotFound("there is no such hold")
        more = Money(amount.minor - (held.amount_minor if held else 0), amount.currency)
        spend = rules.decide(balances.exposure(tenant), more)
        if not spend.allowed and more.minor > 0:
            raise refusal(spend)
        if held is None:
            return Hold.objects.create(
                organisation=tenant,
                reference=reference,
                currency=amount.currency,
                amount_minor=amount.minor,
                created_at=now,
                expires_at=expires_at,
            )
        held.amount_minor, held.expires_at = amount.minor, expires_at
        held.save(update_fields=["amount_minor", "expires_at"])
        return held


def release(*, reference: str, now: datetime) -> bool:
    """Give a hold back. Nothing happens if there is none (any more); True if there was one."""
    return _end(reference, HoldEvent.RELEASED, now)


def capture(*, reference: str, amount: Money, now: datetime) -> bool:
    """End a hold with what was really spent; the rest is free again. The money itself follows the invoice."""
    return _end(reference, HoldEvent.CAPTURED, now, captured_minor=amount.minor)


def expire_due(*, now: datetime) -> int:
    """End the holds whose time is over; returns how many."""
    return Hold.objects.filter(state=HoldState.ACTIVE, expires_at__lte=now).update(
        state=rules.advance(HoldState.ACTIVE, HoldEvent.LAPSED), ended_at=now
    )


def refusal(spend: Spend) -> SpendingRefused:
    """The 402 of a refused spend: what is needed, what is there, what stands against it."""
    sentence = SENTENCES[spend.refused_by].format(
        needed=spend.needed.text(), available=spend.available.text(), currency=spend.needed.currency
    )
    return SpendingRefused(
        sentence, needed=spend.needed.wire(), available=spend.available.wire(), refused_by=spend.refused_by.value
    )


def _lock(tenant: Organisation) -> None:
    ledger.locked(owner=tenant.public_id, kind=AccountKind.TENANT_RECEIVABLE, currency=tenant.currency)


def _end(reference: str, event: HoldEvent, now: datetime, **values: int) -> bool:
    ended = rules.advance(HoldState.ACTIVE, event)
    updated = Hold.objects.filter(reference=reference, state=HoldState.ACTIVE).update(
        state=ended, ended_at=now, **values
    )
    return updated == 1  # 0: another got there first, or there never was one
