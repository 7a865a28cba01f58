"""Payments as their tenant may see them: the list, one with its refunds and disputes, the page that is being opened, the saved card."""

from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django.utils.translation import gettext as _

from billing.domain.invoicing import OWED
from billing.domain.rail import LIVE, PaymentState, chargeable
from billing.domain.statement import iso
from billing.models import HostedPage, Invoice, Payment, RailCustomer
from portal.kit.errors import NotFound
from portal.kit.money import Money


def configured() -> bool:
    """Whether cards can be taken here."""
    return bool(settings.STRIPE_SECRET_KEY)


def stand_in() -> bool:
    """Whether the payment service is a local stand-in: pages say so, no real money moves."""
    return bool(settings.IDLEWILD_STRIPE_API_BASE)


def for_organisation(*, organisation_id: int, state: str = "") -> QuerySet[Payment]:
    """The tenant's payments, newest first."""
    found = Payment.objects.filter(organisation_id=organisation_id)
    found = found.filter(state=state) if state else found
    return found.select_related("invoice", "organisation").order_by("-id")


def everyone(*, state: str = "") -> QuerySet[Payment]:
    """All payments, for operators."""
    found = Payment.objects.filter(state=state) if state else Payment.objects.all()
    return found.select_related("invoice", "organisation").order_by("-id")


def one(*, organisation_id: int, public_id: str) -> Payment:
    """That payment of that tenant; NotFound for a foreign one."""
    found = for_organisation(organisation_id=organisation_id).filter(public_id=public_id).first()
    if found is None:
        raise NotFound(_("There is no such payment that you can see."))
    return found


def of_invoice(invoice: Invoice) -> list[Payment]:
    """The payments of one invoice, newest first."""
    return list(Payment.objects.filter(invoice=invoice).select_related("invoice").order_by("-id"))


def page(*, organisation_id: int, public_id: str) -> HostedPage:
    """A hosted page that was promised to somebody of that organisation, by its own id or its payment's."""
    pages = HostedPage.objects.filter(organisation_id=organisation_id).select_related("payment", "payment__invoice")
    found = pages.filter(public_id=public_id).first() or pages.filter(payment__public_id=public_id).first()
    if found is None:
        raise NotFound(_("There is no such page that you can see."))
    return found


def card_words(*, organisation_id: int) -> str:
    """The saved card that pays invoices by itself, in words; "" if there is none."""
    payer = RailCustomer.objects.filter(organisation_id=organisation_id).exclude(method="").first()
    return "" if payer is None else payer.method_words or str(_("Your saved card"))


@dataclass(frozen=True, slots=True)
class Payable:
    """What can be done about an invoice by card: how much, or why nothing."""

    amount: Money
    live: Payment | None
    rail: bool

    @property
    def possible(self) -> bool:
        return self.rail and self.amount.minor > 0 and (self.live is None or self.live.state != PaymentState.PROCESSING)


def payable(invoice: Invoice) -> Payable:
    """How much of an invoice a card can pay now."""
    open_minor = invoice.payable_minor - invoice.paid_minor - invoice.credited_minor
    left = open_minor if invoice.state in OWED and not invoice.demo else 0
    live = Payment.objects.filter(invoice=invoice, state__in=LIVE).first()
    return Payable(chargeable(Money(left, invoice.currency)), live, configured())


def wire(payment: Payment, page: HostedPage | None = None) -> dict[str, Any]:
    """The JSON form; `url` is where a person pays, as soon as it is there."""
    return {
        "id": payment.public_id,
        "state": payment.state,
        "purpose": payment.purpose,
        "invoice": payment.invoice.number if payment.invoice is not None else None,
        "amount": Money(payment.amount_minor, payment.currency).wire(),
        "given_back": Money(payment.refunded_minor, payment.currency).wire(),
        "automatic": payment.automatic,
        "failure": payment.failure or None,
        "url": page.url or None if page is not None and payment.state in LIVE else None,
        "created_at": iso(payment.created_at),
        "ended_at": iso(payment.ended_at) if payment.ended_at else None,
    }
