"""A provider's share goes out: of paid invoices only, after the hold time, debited before the rail is asked, once.

| when | what |
|---|---|
| an invoice was paid and its hold time is over | its share leaves ``accrued``: first for what the provider owes, the rest is ``available`` and collected |
| enough is collected, and the account can be paid | the payout is debited (``reserved``) and the transfer promised |
| the transfer is there | paid |
| the rail refuses | the counter-entry; what came back is collected by a new payout, which asks a day later under its own key |

What an invoice still has to give is what the ledger accrued for it minus what payouts took; so a credit note, before or after, counts by itself.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F
from django.utils.translation import gettext as _

from billing.domain import payout as rules
from billing.domain.invoicing import OWED, InvoiceState
from billing.domain.ledger import AccountKind
from billing.domain.payout import OPEN, PayoutEvent, PayoutState, Share
from billing.domain.rail import PaymentState, TransferFacts
from billing.gateways import stripe as gateway
from billing.gateways.stripe import RailRefused
from billing.models import (
    Account,
    CreditNote,
    Invoice,
    Payment,
    Payout,
    PayoutPart,
    ProviderAccount,
    RailCall,
    Reversal,
)
from billing.selectors import balances
from billing.services import ledger, mailing, rail_calls
from billing.services.rail_calls import Step
from portal.accounts.models import Organisation
from portal.audit.services import note
from portal.kit.errors import Conflict
from portal.kit.money import Exact, Money
from portal.kit.money import currency as currency_of

AGAIN_AFTER = timedelta(days=1)
LEFT = """
SELECT t.reference, sum(e.amount_minor) FROM billing_entry e
JOIN billing_account a ON a.id = e.account_id JOIN billing_txn t ON t.id = e.txn_id
WHERE a.owner = %s AND a.kind = 'accrued' AND a.currency = %s AND t.kind <> 'payout' GROUP BY t.reference
"""


def release_due(*, now: datetime) -> int:
    """Collect what is due of every provider and send what can go; returns how many payouts were promised."""
    promised = 0
    accounts = Account.objects.filter(
        kind__in=[AccountKind.ACCRUED.value, AccountKind.AVAILABLE.value], balance_minor__gt=0
    )
    for owner, code in sorted(set(accounts.values_list("owner", "currency"))):
        provider = Organisation.objects.filter(public_id=owner).first()
        if provider is not None:
            promised += release(provider=provider, currency=code, now=now)
    return promised


@transaction.atomic
def release(*, provider: Organisation, currency: str, now: datetime) -> bool:
    """Collect what is due of one provider in one currency; True if a payout was promised."""
    accrued = ledger.locked(owner=provider.public_id, kind=AccountKind.ACCRUED, currency=currency)
    available = ledger.locked(owner=provider.public_id, kind=AccountKind.AVAILABLE, currency=currency)
    _heed_credit_notes(provider, Money(available.balance_minor, currency), now)
    shares = _shares(provider, currency, now)
    amount, counted = rules.releasable(shares, accrued_minor=accrued.balance_minor)
    if amount:
        _collect(provider, Money(amount, currency), counted, now)
    payout = Payout.objects.select_for_update().filter(organisation=provider, currency=currency, state__in=OPEN).first()
    return payout is not None and _hold(payout, now)


def _heed_credit_notes(provider: Organisation, available: Money, now: datetime) -> None:
    """A credit note may have taken from what was collected already: the payout that collects has what the ledger has."""
    payout = (
        Payout.objects.select_for_update()
        .filter(organisation=provider, currency=available.currency, state__in=OPEN)
        .first()
    )
    gone = available.minor - (payout.amount_minor if payout is not None else 0)
    if payout is not None and gone:
        PayoutPart.objects.create(payout=payout, kind="credited", amount_minor=gone, at=now)
        payout.amount_minor = available.minor
        payout.save(update_fields=["amount_minor"])


def minimum(currency: str) -> Money:
    """The smallest payout in that currency."""
    return Exact(Fraction(settings.IDLEWILD_PAYOUT_MINIMUM), currency).to_money()


def _shares(provider: Organisation, currency: str, now: datetime) -> list[Share]:
    """What each invoice still has to give to the provider."""
    with connection.cursor() as cursor:
        cursor.execute(LEFT, [provider.public_id, currency])
        posted = {reference: int(total) for reference, total in cursor.fetchall()}
    notes = dict(CreditNote.objects.filter(public_id__in=posted).values_list("public_id", "invoice__public_id"))
    left: dict[str, int] = {}
    for reference, total in posted.items():
        invoice = notes.get(reference, reference)
        left[invoice] = left.get(invoice, 0) + total
    taken = PayoutPart.objects.filter(payout__organisation=provider, payout__currency=currency, kind="share")
    for reference, minor in taken.values_list("invoice__public_id", "amount_minor"):
        left[str(reference)] = left.get(str(reference), 0) - minor
    before = now - timedelta(days=settings.IDLEWILD_PAYOUT_HOLD_DAYS)
    wanted = [reference for reference, minor in left.items() if minor]
    rows = Invoice.objects.filter(public_id__in=wanted).order_by("id")
    return [Share(row.id, left[row.public_id], due=(at := _paid_at(row)) is not None and at <= before) for row in rows]


def _paid_at(invoice: Invoice) -> datetime | None:
    """When an invoice was paid; also when all but less than a step of the rail was, which no card can pay and the next invoice carries."""
    if invoice.demo:
        return None
    if invoice.state == InvoiceState.PAID:
        return invoice.settled_at
    left = invoice.payable_minor - invoice.paid_minor - invoice.credited_minor
    if invoice.state not in OWED or left >= currency_of(invoice.currency).rail_step:
        return None
    paid = Payment.objects.filter(invoice=invoice, state=PaymentState.SUCCEEDED).order_by("-ended_at")
    return paid.values_list("ended_at", flat=True).first()


def _collect(provider: Organisation, amount: Money, counted: list[Share], now: datetime) -> None:
    """Accrued → available, less what the provider owes."""
    owner, code = provider.public_id, amount.currency
    owed = max(0, -balances.of(owner, AccountKind.PROVIDER_RECEIVABLE, code))
    debt = Money(min(owed, amount.minor), code)
    payout = _open_payout(provider, code, now)
    short = sum(share.left_minor for share in counted) - amount.minor  # the account has less than the shares say
    for share in reversed(counted):
        part = share.left_minor - max(0, min(short, share.left_minor))
        short -= share.left_minor - part
        if part:
            PayoutPart.objects.create(
                payout=payout, kind="share", invoice_id=share.invoice_id, amount_minor=part, at=now
            )
    serial = PayoutPart.objects.filter(payout=payout).count()
    key = f"release:{payout.public_id}:{serial}"
    if debt.minor:
        PayoutPart.objects.create(payout=payout, kind="set_off", amount_minor=-debt.minor, at=now)
        posting = rules.set_off(provider=owner, amount=debt)
        ledger.post(kind="payout", key=f"{key}:debt", posting=posting, reference=payout.public_id, now=now)
    posting = rules.released(provider=owner, amount=amount - debt)
    ledger.post(kind="payout", key=key, posting=posting, reference=payout.public_id, now=now)
    payout.amount_minor += (amount - debt).minor
    payout.save(update_fields=["amount_minor"])


def _open_payout(provider: Organisation, currency: str, now: datetime) -> Payout:
    found = Payout.objects.select_for_update().filter(organisation=provider, currency=currency, state__in=OPEN).first()
    return found or Payout.objects.create(organisation=provider, currency=currency, created_at=now)


def _hold(payout: Payout, now: datetime) -> bool:
    """Debit what is collected and promise the transfer, if nothing stands against it; else write down why not."""
    account = ProviderAccount.objects.filter(organisation=payout.organisation).first()
    amount = rules.sendable(Money(payout.amount_minor, payout.currency))
    reason = rules.wait_reason(
        rail=gateway.configured(),
        account=account is not None,
        enabled=account is not None and account.payouts_enabled,
        amount=amount,
        minimum=minimum(payout.currency),
    )
    if reason is not None or not amount.minor:
        payout.reason = reason or ""
        payout.save(update_fields=["reason"])
        return False
    if payout.not_before is not None and payout.not_before > now:
        return False
    ready, _effects = rules.advance(PayoutState(payout.state), PayoutEvent.READY)
    held, _effects = rules.advance(ready, PayoutEvent.HELD)
    rest = payout.amount_minor - amount.minor
    payout.state, payout.reason, payout.amount_minor = held, "", amount.minor
    payout.source = _source(payout)
    payout.save()
    if rest:
        following = Payout.objects.create(
            organisation=payout.organisation, currency=payout.currency, amount_minor=rest, created_at=now
        )
        PayoutPart.objects.create(payout=payout, kind="carried", amount_minor=-rest, at=now)
        PayoutPart.objects.create(payout=following, kind="carried", amount_minor=rest, at=now)
    posting = rules.reserved(provider=payout.organisation.public_id, amount=amount)
    ledger.post(kind="payout", key=f"payout:{payout.public_id}", posting=posting, reference=payout.public_id, now=now)
    rail_calls.promise(kind="transfer", reference=payout.public_id, now=now)
    return True


def _source(payout: Payout) -> str:
    """The one charge that a payout comes from, if it is one and covers it: then the rail need not have the money free yet."""
    invoices = {part.invoice_id or 0 for part in payout.parts.all()}
    if len(invoices) != 1 or 0 in invoices:
        return ""
    paid = list(Payment.objects.filter(invoice_id=invoices.pop(), state=PaymentState.SUCCEEDED, refunded_minor=0))
    others = Payout.objects.filter(source=paid[0].charge) if len(paid) == 1 else None
    if others is None:
        return ""
    used = sum(row.amount_minor for row in others.exclude(state=PayoutState.FAILED))
    return paid[0].charge if used + payout.amount_minor <= paid[0].amount_minor else ""


# --- what the outbox performs ----------------------------------------------------------------------------------------------
def perform_transfer(key: str, payload: Mapping[str, Any], *, now: datetime) -> None:
    """Send a payout that was debited."""

    def step(call: RailCall) -> Step[TransferFacts]:
        payout = Payout.objects.select_related("organisation").get(public_id=call.reference)
        account = ProviderAccount.objects.get(organisation=payout.organisation)
        group = payout.public_id

        def done(facts: TransferFacts) -> str:
            apply(facts=facts, now=now)
            return facts.id

        return Step(
            create=lambda made: gateway.create_transfer(
                reference=payout.public_id,
                destination=account.rail_id,
                amount=Money(payout.amount_minor, payout.currency),
                group=group,
                source=payout.source,
                key=made,
            ),
            find=lambda since: gateway.find_transfer(reference=payout.public_id, group=group, since=since),
            done=done,
            refused=lambda refused: _failed(payout, refused, now),
        )

    rail_calls.perform(payload=payload, step_of=step, now=now)


def apply(*, facts: TransferFacts, now: datetime) -> Payout | None:
    """Bring our payout to what the rail says of its transfer: sent, paid, taken back. None when it is none of ours."""
    with transaction.atomic():
        payout = (
            Payout.objects.select_for_update(of=("self",))
            .select_related("organisation")
            .filter(public_id=facts.reference)
            .first()
        )
        if payout is None:
            return None
        owner, amount = payout.organisation.public_id, Money(payout.amount_minor, payout.currency)
        if payout.state == PayoutState.RESERVED:
            payout.state, _effects = rules.advance(PayoutState.RESERVED, PayoutEvent.SENT)
            payout.transfer, payout.sent_at = facts.id, now
        if payout.state == PayoutState.SENT:
            payout.state, _effects = rules.advance(PayoutState.SENT, PayoutEvent.PAID)
            payout.ended_at = now
            posting = rules.paid(provider=owner, amount=amount)
            ledger.post(
                kind="payout",
                key=f"payout_paid:{payout.public_id}",
                posting=posting,
                reference=payout.public_id,
                now=now,
            )
            note(
                actor="rail", deed="payout.paid", target=payout.public_id, organisation_id=payout.organisation_id, now=now,
                data={"amount": amount.text(), "currency": amount.currency, "transfer": facts.id},
            )  # fmt: skip
            mailing.payout_ended(payout=payout, now=now)
        back = Money(facts.reversed.minor - payout.reversed_minor, payout.currency)
        if back.minor > 0:
            posting = rules.taken_back(provider=owner, amount=back)
            ledger.post(
                kind="reversal",
                key=f"reversal:{payout.public_id}:{facts.reversed.minor}",
                posting=posting,
                reference=payout.public_id,
                now=now,
            )
            payout.reversed_minor = facts.reversed.minor
        payout.save()
        return payout


def _failed(payout: Payout, refused: RailRefused, now: datetime) -> None:
    """The counter-entry; what came back is collected again, and asked for a day later."""
    with transaction.atomic():
        held = Payout.objects.select_for_update(of=("self",)).select_related("organisation").get(id=payout.id)
        held.state, _effects = rules.advance(PayoutState(held.state), PayoutEvent.FAILED)
        held.failure, held.failure_message, held.ended_at = refused.reason[:80], refused.detail[:500], now
        held.save()
        amount = Money(held.amount_minor, held.currency)
        posting = rules.given_back(provider=held.organisation.public_id, amount=amount)
        ledger.post(
            kind="payout", key=f"payout_failed:{held.public_id}", posting=posting, reference=held.public_id, now=now
        )
        following = _open_payout(held.organisation, held.currency, now)
        Payout.objects.filter(id=following.id).update(
            amount_minor=F("amount_minor") + amount.minor, not_before=now + AGAIN_AFTER
        )
        PayoutPart.objects.create(payout=following, kind="returned", amount_minor=amount.minor, at=now)
        mailing.payout_ended(payout=held, now=now)
        mailing.tell_operators(
            key=f"payout_failed:{held.public_id}",
            subject=f"Payout {held.public_id} failed · 结算打款失败",
            body=f"{amount.text()} {amount.currency} to {held.organisation.name}: {refused.reason}. {refused.detail} It is tried again in a day.",
            now=now,
        )


# --- taking back ------------------------------------------------------------------------------------------------------------
def reverse(*, payout: Payout, amount: Money, reference: str, by: str, now: datetime) -> Reversal:
    """Take what a provider owes back from its balance at the rail; the same reference again is the same. Conflict beyond its debt."""
    with transaction.atomic():
        held = Payout.objects.select_for_update(of=("self",)).select_related("organisation").get(id=payout.id)
        known = Reversal.objects.filter(payout=held, reference=reference).first()
        if known is not None:
            return known
        owed = -balances.of(held.organisation.public_id, AccountKind.PROVIDER_RECEIVABLE, held.currency)
        asked = sum(held.reversals.filter(done=None).values_list("amount_minor", flat=True))
        left = held.amount_minor - held.reversed_minor - asked
        if (
            held.state != PayoutState.PAID
            or amount.currency != held.currency
            or not 0 < amount.minor <= min(left, owed - asked)
        ):
            raise Conflict(
                _("Only what the provider owes and this payout sent can be taken back."), code="not_reversible"
            )
        made = Reversal.objects.create(
            payout=held, reference=reference[:80], amount_minor=amount.minor, by=by, created_at=now
        )
        note(
            actor=by, deed="payout.reverse", target=held.public_id, organisation_id=held.organisation_id, now=now,
            data={"amount": amount.text(), "reference": reference},
        )  # fmt: skip
        rail_calls.promise(kind="reversal", reference=f"{held.public_id}:{made.id}", now=now)
        return made


def perform_reversal(key: str, payload: Mapping[str, Any], *, now: datetime) -> None:
    """Ask the rail to take a part of a transfer back."""

    def step(call: RailCall) -> Step[str]:
        reversal = Reversal.objects.select_related("payout").get(id=int(call.reference.rpartition(":")[2]))
        payout = reversal.payout

        def done(rail_id: str) -> str:
            Reversal.objects.filter(id=reversal.id).update(done=True, rail_id=rail_id)
            apply(facts=gateway.transfer(payout.transfer), now=now)
            return rail_id

        def refused(problem: RailRefused) -> None:
            Reversal.objects.filter(id=reversal.id).update(done=False, failure=problem.reason[:80])

        return Step(
            create=lambda made: gateway.create_reversal(
                transfer=payout.transfer,
                reference=call.reference,
                amount=Money(reversal.amount_minor, payout.currency),
                key=made,
            ),
            find=lambda since: gateway.find_reversal(transfer=payout.transfer, reference=call.reference),
            done=done,
            refused=refused,
        )

    rail_calls.perform(payload=payload, step_of=step, now=now)
