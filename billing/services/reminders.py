"""Reminders of unpaid invoices: the ladder of `domain.dunning`, each step once; and the end of a debt that nobody will pay."""

from datetime import datetime

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext as _

from billing.domain import dunning, rail
from billing.domain import ledger as entries
from billing.domain.bank import creditor_reference, printed
from billing.domain.dunning import Step
from billing.domain.invoicing import OWED, InvoiceEvent
from billing.domain.ledger import PLATFORM, AccountKind
from billing.models import Invoice, Reminder
from billing.services import invoices, telling, wallets
from billing.services import ledger as books
from portal.audit.services import note
from portal.kit.errors import Conflict
from portal.kit.money import Money

SUBJECTS = {
    Step.UPCOMING: ("Invoice {number} is due on {day}", "账单 {number} 将于 {day} 到期"),
    Step.DUE: ("Invoice {number} is due today", "账单 {number} 今日到期"),
    Step.OVERDUE: ("Invoice {number} is past due: new work waits", "账单 {number} 已逾期：新作业暂停"),
    Step.SECOND: ("Invoice {number} is a week past due", "账单 {number} 已逾期一周"),
    Step.FINAL: ("Invoice {number}: last reminder", "账单 {number}：最后一次提醒"),
}
BODY = (
    "{open} {currency} are open on invoice {number} of {month}, due on {day}. Pay it by card on its page, or by bank transfer with the text {reference}.",
    "账单 {number}（账期 {month}）尚有 {open} {currency} 未付，到期日 {day}。可在账单页面支付，或对公转账并在附言中注明 {reference}。",
)


def send_due(*, now: datetime) -> int:
    """Send the reminders that are due; returns how many. One mail an invoice at most, whatever was missed."""
    sent = 0
    waiting = Invoice.objects.filter(state__in=sorted(OWED), demo=False, due_at__lte=now - dunning.LADDER[0][1])
    for invoice in waiting.select_related("organisation", "period").prefetch_related("reminders").order_by("id"):
        open_minor = invoice.payable_minor - invoice.paid_minor - invoice.credited_minor
        if (
            not rail.chargeable(Money(open_minor, invoice.currency)).minor
            or invoice.due_at is None
            or invoice.issued_at is None
        ):
            continue  # below the rail's minimum: it is carried, nobody is reminded
        step = dunning.due_step(
            due_at=invoice.due_at,
            issued_at=invoice.issued_at,
            taken={row.step for row in invoice.reminders.all()},
            now=now,
        )
        if step is not None:
            sent += _send(invoice, step, open_minor, now)
    return sent


def give_up(*, invoice: Invoice, reason: str, by: str, now: datetime) -> Invoice:
    """Write a debt off: ``bad_debt −x, tenant_receivable +x``; past_due → uncollectible. Only long after its due day."""
    with transaction.atomic():
        wallets.lock(invoice.organisation)
        row = Invoice.objects.select_for_update(of=("self",)).select_related("organisation").get(id=invoice.id)
        if row.due_at is None or not dunning.may_give_up(due_at=row.due_at, now=now):
            raise Conflict(_("A debt is written off at the earliest 60 days after its due day."), code="too_early")
        left = row.payable_minor - row.paid_minor - row.credited_minor
        invoices.move(invoice=row, event=InvoiceEvent.GIVEN_UP, settled_at=now)
        posting = entries.moved(
            row.currency, amount_minor=left, out_of=(PLATFORM, AccountKind.BAD_DEBT),
            into=(row.organisation.public_id, AccountKind.TENANT_RECEIVABLE),
        )  # fmt: skip
        books.post(kind="bad_debt", key=f"bad_debt:{row.public_id}", posting=posting, reference=row.public_id, now=now)
        note(
            actor=by, deed="invoice.give_up", target=row.public_id, organisation_id=row.organisation_id,
            data={"number": row.number, "amount": Money(left, row.currency).text(), "reason": reason}, now=now,
        )  # fmt: skip
    return row


def _send(invoice: Invoice, step: Step, open_minor: int, now: datetime) -> bool:
    with transaction.atomic():
        _row, first = Reminder.objects.get_or_create(
            invoice=invoice, step=step.value, defaults={"open_minor": open_minor, "sent_at": now}
        )
        if not first:  # another sent it
            return False
        gaps = {
            "number": invoice.number, "day": f"{invoice.due_at:%Y-%m-%d}", "open": Money(open_minor, invoice.currency).text(),
            "currency": invoice.currency, "month": invoice.period.month, "reference": printed(creditor_reference(invoice.number or "")),
        }  # fmt: skip
        english, chinese = SUBJECTS[step]
        telling.people(
            tenant=invoice.organisation, key=f"reminder:{invoice.public_id}:{step.value}", now=now,
            subject=f"{english.format(**gaps)} · {chinese.format(**gaps)}", lines=[text.format(**gaps) for text in BODY],
            link=f"{settings.IDLEWILD_BASE_URL}/invoices/{invoice.public_id}",
        )  # fmt: skip
    return True
