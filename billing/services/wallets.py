"""Wallets: money that a tenant paid in before it uses it.

Every deed locks the tenant's books first (its receivable account), then reads; so any number of top-ups, holds and invoices at once leave a wallet that
is never below zero, which the database checks once more. A reference is good for one deed: the same again changes nothing, with another amount it is
refused.
"""

from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from billing.domain import ledger as rules
from billing.domain.holds import PayMode
from billing.domain.ledger import PLATFORM, AccountKind
from billing.models import Terms
from billing.selectors import balances, terms
from billing.services import ledger
from portal.accounts.models import Organisation
from portal.audit.services import note
from portal.kit.errors import Conflict, Finding, InvalidInput, SpendingRefused
from portal.kit.money import Money
from portal.outbox.services import put

SYSTEM = "system"


def lock(tenant: Organisation) -> None:
    """The tenant's books are ours until the transaction ends: whoever moves its money takes this first."""
    ledger.locked(owner=tenant.public_id, kind=AccountKind.TENANT_RECEIVABLE, currency=tenant.currency)


def top_up(
    *, organisation_id: int, amount: Money, reference: str, now: datetime, by: str = SYSTEM, cash_owner: str = PLATFORM
) -> bool:
    """Money that came in for the wallet (by card, by bank transfer): ``cash −x, wallet +x``. False: it was noted before.

    `reference` names the payment for ever, such as ``pay_…``; `cash_owner` has the money: our bank, or a payment rail.
    Another currency than the organisation's is refused (Conflict), never converted.
    """
    return _cash(organisation_id, amount, f"topup:{reference}", "topup", now, by, into=True, cash_owner=cash_owner)


def take_out(*, organisation_id: int, amount: Money, reference: str, now: datetime, by: str = SYSTEM) -> bool:
    """Money that goes back to the tenant: ``wallet −x, cash +x``. False: it was noted before. SpendingRefused if the wallet has less."""
    return _cash(organisation_id, amount, f"takeout:{reference}", "takeout", now, by, into=False)


def set_terms(*, organisation_id: int, by: str, now: datetime, **values: Any) -> Terms:
    """Agree how a tenant pays: `mode` (prepaid, postpaid), `payment_days`, `low_minor`, `discount_ppm`. InvalidInput names what is wrong."""
    _check_terms(values)
    with transaction.atomic():
        tenant = Organisation.objects.get(id=organisation_id)
        lock(tenant)
        row = terms.of(tenant)
        was = {name: getattr(row, name) for name in values}
        for name, value in values.items():
            setattr(row, name, value)
        row.changed_at = now
        row.save()
        if was != values:
            note(
                actor=by, deed="terms.set", target=tenant.public_id, organisation_id=tenant.id, data={"was": was, "is": values}, now=now
            )  # fmt: skip
    return row


def _check_terms(values: dict[str, Any]) -> None:
    wrong = []
    if "mode" in values and values["mode"] not in set(PayMode):
        wrong.append(Finding("mode", "bad_value", "prepaid or postpaid"))
    if not 0 <= values.get("payment_days", 0) <= 120:
        wrong.append(Finding("payment_days", "out_of_range", "0 to 120 days"))
    if not 0 <= values.get("discount_ppm", 0) <= 1_000_000:
        wrong.append(Finding("discount_ppm", "out_of_range", "0 to 1,000,000 millionths"))
    if (values.get("low_minor") or 0) < 0:
        wrong.append(Finding("low_minor", "out_of_range", "not below 0"))
    if wrong:
        raise InvalidInput(wrong)


def _cash(
    organisation_id: int,
    amount: Money,
    key: str,
    kind: str,
    now: datetime,
    by: str,
    *,
    into: bool,
    cash_owner: str = PLATFORM,
) -> bool:
    if amount.minor <= 0:
        raise Conflict(_("The amount has to be above 0."), code="bad_amount")
    cash, wallet = (cash_owner, AccountKind.CASH), AccountKind.WALLET
    with transaction.atomic():
        tenant = Organisation.objects.get(id=organisation_id)
        balances.same_currency(tenant, amount)
        lock(tenant)
        mine = (tenant.public_id, wallet)
        posting = rules.moved(
            amount.currency, amount_minor=amount.minor, out_of=cash if into else mine, into=mine if into else cash
        )
        if ledger.known(key=key, posting=posting):
            return False
        there = balances.of(tenant.public_id, wallet, amount.currency)
        if not into and there < amount.minor:
            available = Money(there, amount.currency)
            sentence = _("The wallet has %(available)s %(currency)s.")
            raise SpendingRefused(
                sentence % {"available": available.text(), "currency": amount.currency},
                needed=amount.wire(),
                available=available.wire(),
                refused_by="balance",
            )
        ledger.post(kind=kind, key=key, posting=posting, reference=tenant.public_id, now=now)
        note(
            actor=by, deed=f"wallet.{kind}", target=tenant.public_id, organisation_id=tenant.id,
            data={"amount": amount.text(), "currency": amount.currency, "reference": key}, now=now,
        )  # fmt: skip
        if into:
            Terms.objects.filter(organisation=tenant).update(low_told_at=None)
            put(
                topic="cycle.wanted", key=f"wallet.{key}"[:200], now=now
            )  # what waited for money looks for a place at once
    return True
