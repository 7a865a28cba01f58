"""Mails about money that moved or did not: to the people of an organisation who mind it, and to operators."""

from datetime import datetime

from django.conf import settings

from billing.models import Payment, Payout
from portal.accounts.models import Membership, Role, User
from portal.kit.money import Money
from portal.outbox.services import put


def people(organisation_id: int) -> list[str]:
    """Addresses of those who mind an organisation's money."""
    rows = Membership.objects.filter(organisation_id=organisation_id, role__in=[Role.OWNER, Role.BILLING])
    return sorted(rows.values_list("user__email", flat=True))


def tell_operators(*, key: str, subject: str, body: str, now: datetime) -> None:
    """A mail to all operators; the same key again is no second mail."""
    to = sorted(User.objects.filter(is_operator=True, is_active=True).values_list("email", flat=True))
    if to:
        put(topic="mail", key=key, payload={"to": to, "subject": subject, "body": body}, now=now)


def payment_failed(*, payment: Payment, now: datetime) -> None:
    """The saved card did not pay an invoice."""
    number = payment.invoice.number if payment.invoice is not None else payment.public_id
    amount = Money(payment.amount_minor, payment.currency)
    _send(
        payment.organisation_id,
        key=f"payment_failed:{payment.public_id}",
        subject=f"Card declined for invoice {number} · 账单 {number} 扣款失败",
        body=(
            f"Your saved card did not pay {amount.text()} {amount.currency} for invoice {number}: {payment.failure_message}\n"
            f"您保存的银行卡未能支付账单 {number}（{amount.text()} {amount.currency}）。\n\n"
            f"{settings.IDLEWILD_BASE_URL}/payments/{payment.public_id}\n"
        ),
        now=now,
    )


def payout_ended(*, payout: Payout, now: datetime) -> None:
    """A provider's money is on its way, or came back."""
    amount = Money(payout.amount_minor, payout.currency)
    paid = payout.state == "paid"
    words = (
        ("was sent to you", "已打款") if paid else ("could not be sent and is collected again", "打款失败，将重新结算")
    )
    _send(
        payout.organisation_id,
        key=f"payout:{payout.public_id}:{payout.state}",
        subject=f"Payout {amount.text()} {amount.currency} · 结算 {amount.text()} {amount.currency}",
        body=(
            f"Payout {payout.public_id}: {amount.text()} {amount.currency} {words[0]}. {payout.failure_message}\n"
            f"结算 {payout.public_id}：{amount.text()} {amount.currency} {words[1]}。\n\n{settings.IDLEWILD_BASE_URL}/provide/payouts\n"
        ),
        now=now,
    )


def _send(organisation_id: int, *, key: str, subject: str, body: str, now: datetime) -> None:
    to = people(organisation_id)
    if to:
        put(topic="mail", key=key, payload={"to": to, "subject": subject, "body": body}, now=now)
