"""What the rail says of a payment becomes state, ledger and invoice: once, in any order, however often it is said.

The rail is asked for the object as it is now; a payload is never believed. A state never goes to a lower rank, each posting has the charge as its key,
and all of it is one transaction.
"""

from datetime import datetime

from django.db import transaction
from django.db.models import Q

from billing.domain import rail
from billing.domain.invoicing import OWED
from billing.domain.rail import RAIL, SAYS, PaymentEvent, PaymentFacts, PaymentState, Purpose, SessionFacts
from billing.gateways import stripe as gateway
from billing.models import Invoice, Payment, RailCustomer
from billing.services import invoices, ledger, mailing, wallets
from portal.audit.services import note
from portal.kit.money import Money

ACTOR = "rail"


def apply(*, facts: PaymentFacts, now: datetime) -> Payment | None:
    """Bring our payment to what the rail says. None when it is no payment of ours: what arrived is kept as unmatched."""
    with transaction.atomic():
        payment = _locked(Q(intent=facts.id) | Q(public_id=facts.reference))
        if payment is None or not _fits(payment, facts):
            _unmatched(facts, now)
            return None
        event = SAYS.get(facts.status)
        if not payment.intent and (event is not None or payment.automatic):
            payment.intent = facts.id
            payment.save(update_fields=["intent"])
        if facts.failure and event is None and payment.automatic:
            event = PaymentEvent.FAILED
        if facts.failure and event is None and payment.state == PaymentState.PROCESSING:
            event = PaymentEvent.FAILED  # a bank debit that came back
        if event is not None and rail.possible(PaymentState(payment.state), event):
            _move(payment, event, facts, now)
        elif event is PaymentEvent.SUCCEEDED and payment.state in (PaymentState.FAILED, PaymentState.CANCELLED):
            _unmatched(facts, now)  # the payment had ended here: a person looks where it belongs
        _fee(payment, facts, now)
        return payment


def apply_session(*, facts: SessionFacts, now: datetime) -> Payment | None:
    """Bring our payment to what its hosted page says: the intent it made, or that it is over."""
    if facts.intent:
        applied = apply(facts=gateway.payment(facts.intent), now=now)
        if facts.status != "expired" or applied is None:
            return applied
    payment = Payment.objects.filter(public_id=facts.reference).first()
    if payment is not None and facts.status == "expired" and payment.session == facts.id:
        cancel(payment=payment, now=now)
    return payment


def cancel(*, payment: Payment, now: datetime) -> None:
    """Nobody will pay it any more. Nothing happens if it ended already."""
    _end(payment, PaymentEvent.CANCELLED, now)


def fail(*, payment: Payment, failure: str, message: str, now: datetime) -> None:
    """The rail refused it. Nothing happens if it ended already."""
    _end(payment, PaymentEvent.FAILED, now, failure=failure[:80], failure_message=message[:500])


def _end(payment: Payment, event: PaymentEvent, now: datetime, **values: str) -> None:
    with transaction.atomic():
        held = Payment.objects.select_for_update().get(id=payment.id)
        if not rail.possible(PaymentState(held.state), event):
            return
        after, effects = rail.advance(PaymentState(held.state), event)
        for name, value in {"state": after, "ended_at": now, **values}.items():
            setattr(held, name, value)
        held.save()
        if rail.PaymentEffect.TELL in effects and held.automatic:
            mailing.payment_failed(payment=held, now=now)
    payment.refresh_from_db()


def _locked(which: Q) -> Payment | None:
    """The payment under its lock, after the tenant's books and its invoice: the order that everybody keeps."""
    found = Payment.objects.filter(which).select_related("organisation").order_by("id").first()
    if found is None:
        return None
    wallets.lock(found.organisation)
    if found.invoice_id is not None:
        Invoice.objects.select_for_update(of=("self",)).get(id=found.invoice_id)
    return Payment.objects.select_for_update(of=("self",)).select_related("organisation", "invoice").get(id=found.id)


def _fits(payment: Payment, facts: PaymentFacts) -> bool:
    """Money in another currency is no payment of this."""
    return facts.amount.currency == payment.currency and payment.intent in ("", facts.id)


def _move(payment: Payment, event: PaymentEvent, facts: PaymentFacts, now: datetime) -> None:
    after, effects = rail.advance(PaymentState(payment.state), event)
    payment.state = after
    if event in (PaymentEvent.FAILED, PaymentEvent.CANCELLED, PaymentEvent.SUCCEEDED):
        payment.ended_at = now
    if event is PaymentEvent.FAILED:
        payment.failure, payment.failure_message = facts.failure, facts.message
    if rail.PaymentEffect.SETTLE in effects:
        payment.charge, payment.amount_minor = facts.charge, facts.amount.minor
    payment.save()
    if rail.PaymentEffect.SETTLE in effects:
        _settle(payment, facts, now)
    elif rail.PaymentEffect.TELL in effects and payment.automatic:
        mailing.payment_failed(payment=payment, now=now)


def _settle(payment: Payment, facts: PaymentFacts, now: datetime) -> None:
    """The money is there: into the invoice, what is over into the tenant's credit; or into the wallet."""
    if payment.purpose == Purpose.TOP_UP:
        wallets.top_up(
            organisation_id=payment.organisation_id,
            amount=facts.amount,
            reference=payment.public_id,
            by=payment.by,
            now=now,
            cash_owner=RAIL,
        )
    else:
        _pay_invoice(payment, facts.amount, now)
    if payment.keep_card and facts.method:
        RailCustomer.objects.filter(organisation=payment.organisation, method="").update(
            method=facts.method, method_words=""
        )
    note(
        actor=ACTOR,
        deed="payment.succeeded",
        target=payment.public_id,
        organisation_id=payment.organisation_id,
        now=now,
        data={"amount": facts.amount.text(), "currency": facts.amount.currency, "charge": facts.charge},
    )


def _pay_invoice(payment: Payment, amount: Money, now: datetime) -> None:
    invoice = Invoice.objects.select_for_update(of=("self",)).get(payments=payment)
    left = invoice.payable_minor - invoice.paid_minor - invoice.credited_minor if invoice.state in OWED else 0
    taken = Money(min(left, amount.minor), amount.currency)
    if taken.minor:
        invoices.record_payment(
            invoice=invoice, amount=taken, reference=payment.charge, by=ACTOR, now=now, cash_owner=RAIL
        )
    if amount.minor > taken.minor:
        posting = rail.surplus(tenant=payment.organisation.public_id, amount=amount - taken)
        ledger.post(
            kind="surplus", key=f"surplus:{payment.charge}", posting=posting, reference=payment.public_id, now=now
        )


def _fee(payment: Payment, facts: PaymentFacts, now: datetime) -> None:
    """The rail's fee, as soon as it is known."""
    if facts.fee is None or payment.fee_minor is not None or facts.status != "succeeded":
        return
    payment.fee_minor = facts.fee.minor
    payment.save(update_fields=["fee_minor"])
    post_fee(charge=facts.charge, fee=facts.fee, reference=payment.public_id, now=now)


def post_fee(*, charge: str, fee: Money, reference: str, now: datetime) -> None:
    """The fee of a charge, once."""
    ledger.post(kind="rail_fee", key=f"fee:{charge}", posting=rail.fee(amount=fee), reference=reference, now=now)


def _unmatched(facts: PaymentFacts, now: datetime) -> None:
    """Money of which we do not know whose it is: on the rail's account and on ``unmatched``, for a person to look at."""
    if facts.status != "succeeded" or not facts.amount.minor:
        return
    ledger.post(
        kind="unmatched",
        key=f"unmatched:{facts.charge}",
        posting=rail.unmatched(amount=facts.amount),
        reference=facts.id,
        now=now,
    )
    if facts.fee is not None:
        post_fee(charge=facts.charge, fee=facts.fee, reference=facts.id, now=now)
    mailing.tell_operators(
        key=f"unmatched:{facts.charge}",
        subject=f"Unmatched payment {facts.charge} · 无法匹配的付款",
        body=f"{facts.amount.text()} {facts.amount.currency} arrived at the rail and fits no payment of ours: {facts.id}.",
        now=now,
    )
