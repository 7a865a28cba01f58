"""A payer went to its bank: the money is gone until the bank decides. The platform bears it; the invoice stays as it is.

Every movement that the rail lists for a dispute is posted once, under its own id: taken, its fee, given back when the dispute is won.
"""

from datetime import datetime

from django.db import transaction

from billing.domain import rail
from billing.domain.rail import DisputeFacts, PaymentEvent, PaymentState
from billing.models import Dispute, DisputeState, Payment
from billing.services import ledger, mailing
from portal.audit.services import note

STATES = {"won": DisputeState.WON, "lost": DisputeState.LOST, "warning_closed": DisputeState.WON}


def apply(*, facts: DisputeFacts, now: datetime) -> Dispute | None:
    """Bring our dispute to what the rail says. The movements are posted even if the payment is not ours: the rail's balance moved."""
    with transaction.atomic():
        payment = Payment.objects.select_for_update(of=("self",)).filter(charge=facts.charge).exclude(charge="").first()
        for entry in facts.entries:
            ledger.post(
                kind="dispute",
                key=f"dispute:{entry.id}",
                posting=rail.disputed(entry),
                reference=payment.public_id if payment else facts.id,
                now=now,
            )
        if payment is None:
            return None
        dispute, new = Dispute.objects.get_or_create(
            rail_id=facts.id,
            defaults={"payment": payment, "amount_minor": facts.amount.minor, "reason": facts.reason, "opened_at": now},
        )
        dispute.due_by = facts.due_by
        if dispute.state == DisputeState.OPEN and facts.status in STATES:
            dispute.state, dispute.closed_at = STATES[facts.status], now
        dispute.save()
        state = PaymentState(payment.state)
        if rail.possible(state, PaymentEvent.DISPUTED):
            payment.state, _effects = rail.advance(state, PaymentEvent.DISPUTED)
            payment.save(update_fields=["state"])
        if new:
            _tell(dispute, payment, facts, now)
        return dispute


def _tell(dispute: Dispute, payment: Payment, facts: DisputeFacts, now: datetime) -> None:
    note(
        actor="rail",
        deed="payment.disputed",
        target=payment.public_id,
        organisation_id=payment.organisation_id,
        now=now,
        data={"amount": facts.amount.text(), "reason": facts.reason},
    )
    until = f"{facts.due_by:%Y-%m-%d}" if facts.due_by else "soon"
    mailing.tell_operators(
        key=f"dispute:{dispute.rail_id}",
        subject=f"Dispute of payment {payment.public_id} · 付款争议",
        body=f"{facts.amount.text()} {facts.amount.currency}, reason {facts.reason}: answer at the rail by {until}.",
        now=now,
    )
