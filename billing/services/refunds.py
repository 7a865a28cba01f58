"""Money back to a payer: set aside in the ledger first, then asked of the rail; what is refused is the tenant's credit again.

A refund takes from the tenant's credit balance (where a credit note puts what was paid too much), so nothing is given back that is not owed.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F, Sum
from django.utils.translation import gettext as _

from billing.domain import rail
from billing.domain.ledger import AccountKind
from billing.domain.rail import PaymentEvent, PaymentState, RefundFacts
from billing.gateways import stripe as gateway
from billing.gateways.stripe import RailRefused
from billing.models import CreditGrant, Invoice, Payment, RailCall, Refund, RefundState
from billing.selectors import balances
from billing.services import ledger, mailing, rail_calls, wallets
from billing.services.rail_calls import Step
from portal.audit.services import note
from portal.kit.errors import Conflict
from portal.kit.money import Money


def send(*, invoice: Invoice, amount: Money, reference: str, by: str, now: datetime) -> list[Refund]:
    """Give `amount` of an invoice back to the cards that paid it, the last payment first; the same reference again is the same refund.

    Conflict if the tenant's credit or what its cards paid for this invoice is less.
    """
    with transaction.atomic():
        wallets.lock(invoice.organisation)
        Invoice.objects.select_for_update(of=("self",)).get(id=invoice.id)
        payments = list(
            Payment.objects.select_for_update(of=("self",))
            .filter(invoice=invoice, state=PaymentState.SUCCEEDED)
            .select_related("organisation")
            .order_by("-id")
        )
        known = list(Refund.objects.filter(payment__invoice=invoice, reference=reference))
        if known:
            return known
        left, made = amount.minor, []
        for payment in payments:
            part = min(left, payment.amount_minor - payment.refunded_minor)
            if part > 0:
                made.append(_reserve(payment, Money(part, amount.currency), reference, by, now))
                left -= part
        if left or not made:
            raise Conflict(_("Less than this was paid by card and not given back yet."), code="not_refundable")
        return made


def of_payment(*, payment: Payment, amount: Money, reference: str, by: str, now: datetime) -> Refund:
    """Give a part of one payment (of an invoice, or into a wallet) back out of the tenant's credit."""
    with transaction.atomic():
        wallets.lock(payment.organisation)
        payment = Payment.objects.select_for_update(of=("self",)).select_related("organisation").get(id=payment.id)
        known = Refund.objects.filter(payment=payment, reference=reference).first()
        if known is not None:
            return known
        if payment.state != PaymentState.SUCCEEDED or amount.minor > payment.amount_minor - payment.refunded_minor:
            raise Conflict(_("Less than this was paid by card and not given back yet."), code="not_refundable")
        return _reserve(payment, amount, reference, by, now)


def _reserve(payment: Payment, amount: Money, reference: str, by: str, now: datetime) -> Refund:
    if amount.currency != payment.currency:
        raise Conflict(_("A payment is given back in its own currency."), code="currency_differs")
    if not rail.in_steps(amount):
        raise Conflict(_("The card service cannot give back this amount."), code="bad_amount")
    tenant = payment.organisation.public_id
    given = CreditGrant.objects.filter(organisation=payment.organisation, currency=amount.currency)
    promised = given.aggregate(left=Sum("left_minor"))["left"] or 0  # credit that was given is no money
    if balances.of(tenant, AccountKind.CREDIT, amount.currency) - promised < amount.minor:
        raise Conflict(_("The credit balance is less than this: write a credit note first."), code="not_refundable")
    refund = Refund.objects.create(
        payment=payment, reference=reference[:80], amount_minor=amount.minor, by=by, created_at=now
    )
    ledger.post(
        kind="refund",
        key=f"refund:{refund.public_id}",
        posting=rail.refund_reserved(tenant=tenant, amount=amount),
        reference=payment.public_id,
        now=now,
    )
    updated = Payment.objects.filter(id=payment.id, refunded_minor__lte=F("amount_minor") - amount.minor).update(
        refunded_minor=F("refunded_minor") + amount.minor
    )
    if updated != 1:  # another refund took it
        raise Conflict(_("Less than this was paid by card and not given back yet."), code="not_refundable")
    note(
        actor=by,
        deed="payment.refund",
        target=payment.public_id,
        organisation_id=payment.organisation_id,
        now=now,
        data={"amount": amount.text(), "reference": reference},
    )
    rail_calls.promise(kind="refund", reference=refund.public_id, now=now)
    return refund


def perform_refund(key: str, payload: Mapping[str, Any], *, now: datetime) -> None:
    """Ask the rail for a refund."""

    def step(call: RailCall) -> Step[RefundFacts]:
        refund = Refund.objects.select_related("payment").get(public_id=call.reference)
        amount = Money(refund.amount_minor, refund.payment.currency)

        def done(facts: RefundFacts) -> str:
            apply(facts=facts, now=now)
            return facts.id

        return Step(
            create=lambda made: gateway.create_refund(
                reference=refund.public_id, intent=refund.payment.intent, amount=amount, key=made
            ),
            find=lambda since: gateway.find_refund(
                reference=refund.public_id, intent=refund.payment.intent, since=since
            ),
            done=done,
            refused=lambda refused: _refused(refund, refused, now),
        )

    rail_calls.perform(payload=payload, step_of=step, now=now)


def apply(*, facts: RefundFacts, now: datetime) -> Refund | None:
    """Bring our refund to what the rail says. None when it is no refund of ours: operators are told, reconciliation shows it."""
    with transaction.atomic():
        refund = Refund.objects.select_for_update(of=("self",)).filter(public_id=facts.reference).first()
        if refund is None:
            mailing.tell_operators(
                key=f"refund:{facts.id}",
                subject=f"Unknown refund {facts.id} · 未知退款",
                body=f"{facts.amount.text()} {facts.amount.currency} of charge {facts.charge} were given back at the rail, not by us.",
                now=now,
            )
            return None
        if facts.status == "succeeded" and refund.state == RefundState.CREATED:
            _sent(refund, facts, now)
        elif facts.status in ("failed", "canceled") and refund.state != RefundState.FAILED:
            _failed(refund, facts.failure or facts.status, now)
        return refund


def _sent(refund: Refund, facts: RefundFacts, now: datetime) -> None:
    refund.state, refund.rail_id, refund.ended_at = RefundState.SUCCEEDED, facts.id, now
    refund.save()
    payment = Payment.objects.select_for_update(of=("self",)).select_related("organisation").get(id=refund.payment_id)
    posting = rail.refund_sent(tenant=payment.organisation.public_id, amount=_amount(refund, payment))
    ledger.post(
        kind="refund", key=f"refund_sent:{refund.public_id}", posting=posting, reference=payment.public_id, now=now
    )
    gone = payment.refunds.filter(state=RefundState.SUCCEEDED).values_list("amount_minor", flat=True)
    state = PaymentState(payment.state)
    if sum(gone) == payment.amount_minor and rail.possible(state, PaymentEvent.REFUNDED):
        payment.state, _effects = rail.advance(state, PaymentEvent.REFUNDED)
        payment.save(update_fields=["state"])


def _refused(refund: Refund, refused: RailRefused, now: datetime) -> None:
    with transaction.atomic():
        held = Refund.objects.select_for_update(of=("self",)).get(id=refund.id)
        if held.state == RefundState.CREATED:
            _failed(held, refused.reason, now)


def _failed(refund: Refund, failure: str, now: datetime) -> None:
    """The money is the tenant's credit again; a bank may send a refund back days after it was sent."""
    payment = Payment.objects.select_for_update(of=("self",)).select_related("organisation").get(id=refund.payment_id)
    tenant, amount = payment.organisation.public_id, _amount(refund, payment)
    if refund.state == RefundState.SUCCEEDED:
        posting = rail.refund_returned(tenant=tenant, amount=amount)
    else:
        posting = rail.refund_reserved(tenant=tenant, amount=amount).mirrored()
    ledger.post(
        kind="refund", key=f"refund_failed:{refund.public_id}", posting=posting, reference=payment.public_id, now=now
    )
    refund.state, refund.failure, refund.ended_at = RefundState.FAILED, failure[:80], now
    refund.save()
    if payment.state != PaymentState.REFUNDED:  # an end stays one
        payment.refunded_minor -= refund.amount_minor
        payment.save(update_fields=["refunded_minor"])
    mailing.tell_operators(
        key=f"refund_failed:{refund.public_id}",
        subject=f"Refund {refund.public_id} failed · 退款失败",
        body=f"{amount.text()} {amount.currency} of payment {payment.public_id} are the tenant's credit again: {failure}.",
        now=now,
    )


def _amount(refund: Refund, payment: Payment) -> Money:
    return Money(refund.amount_minor, payment.currency)
