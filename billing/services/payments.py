"""Getting money over the rail: a hosted page for an invoice or a wallet, a saved card that pays by itself, a page to mind one's cards.

Pressing "pay" makes a payment, a page that waits for its address, and a promise; the outbox asks the rail a moment later. Nothing is booked here: what the
rail says of a payment is applied by `payments_settle`, however it is heard of (webhook, return of the person, or asking after it).
"""

import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext as _
from django.utils.translation import override

from billing.domain.invoicing import OWED
from billing.domain.rail import (
    LIVE,
    PaymentEvent,
    PaymentFacts,
    PaymentState,
    Purpose,
    SessionFacts,
    chargeable,
    possible,
)
from billing.gateways import stripe as gateway
from billing.gateways.stripe import RailRefused
from billing.models import HostedPage, Invoice, PageKind, PageState, Payment, RailCall, RailCustomer
from billing.services import payments_settle, rail_calls
from billing.services.rail_calls import Step
from portal.accounts.models import Membership, Organisation, Role
from portal.audit.services import note
from portal.kit.errors import Conflict
from portal.kit.money import Money, currency
from portal.outbox.services import put

log = logging.getLogger("idlewild.billing")
AUTOMATIC = "system"
OVER_AFTER = timedelta(minutes=10)
"""A hosted page counts as over so long after its end: what was paid at the last moment has been told by then."""
LOOK_EVERY = timedelta(minutes=10)
MOST_AT_ONCE = 200


def open_amount(invoice: Invoice) -> Money:
    """What the rail can take of what is still open on an invoice."""
    left = invoice.payable_minor - invoice.paid_minor - invoice.credited_minor if invoice.state in OWED else 0
    return chargeable(Money(left, invoice.currency))


def start(*, invoice: Invoice, by: str, now: datetime, language: str = "en", keep_card: bool = False) -> HostedPage:
    """A hosted page on which `invoice` is paid; the one that is open already, if there is. Conflict if nothing can be paid."""
    _demand_rail()
    with transaction.atomic():
        invoice = _locked(invoice)
        amount = open_amount(invoice)
        if invoice.demo or not amount.minor:
            raise Conflict(_("Nothing can be paid by card on this invoice."), code="nothing_to_pay")
        live = Payment.objects.select_for_update().filter(invoice=invoice, state__in=LIVE).first()
        if live is not None:
            page = _usable_page(live, amount, now)
            if page is not None:
                return page
        return _begin(
            invoice.organisation,
            Purpose.INVOICE,
            amount,
            invoice=invoice,
            by=by,
            now=now,
            language=language,
            keep_card=keep_card,
        )


def start_top_up(
    *, organisation: Organisation, amount: Money, by: str, now: datetime, language: str = "en"
) -> HostedPage:
    """A hosted page on which a wallet is filled. Conflict for an amount that the rail cannot take, or another currency."""
    _demand_rail()
    if amount.currency != organisation.currency:
        raise Conflict(_("A wallet is filled in the organisation's own currency."), code="currency_differs")
    if amount.minor <= 0 or chargeable(amount) != amount:
        rules = currency(amount.currency)
        least = Money(rules.rail_minimum, amount.currency)
        raise Conflict(
            _("Choose at least %(least)s %(currency)s, in steps that the card service takes.")
            % {"least": least.text(), "currency": least.currency},
            code="bad_amount",
        )
    with transaction.atomic():
        return _begin(organisation, Purpose.TOP_UP, amount, by=by, now=now, language=language)


def start_cards(*, organisation: Organisation, by: str, now: datetime, language: str = "en") -> HostedPage:
    """A page of the rail on which the tenant minds its cards; the default card pays invoices by itself."""
    _demand_rail()
    with transaction.atomic():
        page = HostedPage.objects.create(
            organisation=organisation, kind=PageKind.CARDS, by=by, created_at=now, language=language
        )
        _promise_page(page, now)
        return page


def forget_card(*, organisation: Organisation, by: str, now: datetime) -> None:
    """Invoices are no longer paid by themselves. The card stays at the rail, where its owner can delete it."""
    changed = (
        RailCustomer.objects.filter(organisation=organisation).exclude(method="").update(method="", method_words="")
    )
    if changed:
        note(
            actor=by,
            deed="payment.card_forgotten",
            target=organisation.public_id,
            organisation_id=organisation.id,
            now=now,
        )


def collect(key: str, payload: Mapping[str, Any], *, now: datetime) -> None:
    """The promise of an issued invoice: a saved card pays it now. Without a rail or a card it waits for somebody to press "pay"."""
    invoice = Invoice.objects.select_related("organisation").get(public_id=payload["invoice"])
    payer = RailCustomer.objects.filter(organisation=invoice.organisation).exclude(method="").first()
    if payer is None or not gateway.configured():
        return
    with transaction.atomic():
        invoice = _locked(invoice)
        amount = open_amount(invoice)
        if not amount.minor or Payment.objects.filter(invoice=invoice, state__in=LIVE).exists():
            return
        payment = _payment(
            invoice.organisation,
            Purpose.INVOICE,
            amount,
            invoice=invoice,
            automatic=True,
            by=AUTOMATIC,
            now=now,
            expires_at=None,
        )
        rail_calls.promise(kind="charge", reference=payment.public_id, now=now)


def look(*, payment: Payment, now: datetime) -> None:
    """Ask the rail after a payment whose end nobody has told us yet (its person came back)."""
    put(
        topic="stripe.look",
        key=f"{payment.public_id}:{int(now.timestamp()) // 5}",
        payload={"payment": payment.public_id},
        now=now,
    )


def refresh(*, now: datetime) -> int:
    """Ask after every live payment that was not asked after lately: webhooks may have been lost. Returns how many."""
    if not gateway.configured():
        return 0
    before = now - LOOK_EVERY
    waiting = Payment.objects.filter(state__in=LIVE, created_at__lte=before).exclude(looked_at__gt=before)
    ids = list(waiting.order_by("looked_at", "id").values_list("id", flat=True)[:MOST_AT_ONCE])
    for payment_id in ids:
        put(topic="stripe.look", key=f"{payment_id}:{int(now.timestamp())}", payload={"id": payment_id}, now=now)
    return len(ids)


# --- what the outbox performs --------------------------------------------------------------------------------------------------
def perform_look(key: str, payload: Mapping[str, Any], *, now: datetime) -> None:
    """Fetch a payment from the rail and apply what it says."""
    asked = {"public_id": payload["payment"]} if "payment" in payload else {"id": payload["id"]}
    payment = Payment.objects.get(**asked)
    Payment.objects.filter(id=payment.id).update(looked_at=now)
    if payment.intent:
        payments_settle.apply(facts=gateway.payment(payment.intent), now=now)
    elif payment.session:
        payments_settle.apply_session(facts=gateway.session(payment.session), now=now)
    elif payment.expires_at and payment.expires_at + OVER_AFTER < now:
        payments_settle.cancel(payment=payment, now=now)


def perform_customer(key: str, payload: Mapping[str, Any], *, now: datetime) -> None:
    """Make the tenant known to the rail; then the pages that waited for that are promised."""

    def step(call: RailCall) -> Step[str]:
        tenant = Organisation.objects.get(public_id=call.reference)

        def done(rail_id: str) -> str:
            RailCustomer.objects.get_or_create(organisation=tenant, defaults={"rail_id": rail_id, "created_at": now})
            for page in HostedPage.objects.filter(organisation=tenant, state=PageState.WAITING).exclude(
                kind=PageKind.ONBOARDING
            ):
                _promise_page(page, now)
            return rail_id

        return Step(
            create=lambda made: gateway.create_customer(
                reference=tenant.public_id, name=tenant.name, email=_email(tenant), key=made
            ),
            find=lambda since: gateway.find_customer(reference=tenant.public_id, since=since),
            done=done,
            refused=lambda refused: _fail_pages(HostedPage.objects.filter(organisation=tenant), refused, now),
        )

    rail_calls.perform(payload=payload, step_of=step, now=now)


def perform_checkout(key: str, payload: Mapping[str, Any], *, now: datetime) -> None:
    """Make the hosted page of a payment."""

    def step(call: RailCall) -> Step[SessionFacts]:
        payment = Payment.objects.select_related("organisation", "invoice", "page").get(public_id=call.reference)
        customer = _payer(payment.organisation).rail_id
        back = f"{settings.IDLEWILD_BASE_URL}/payments/{payment.public_id}"
        return Step(
            create=lambda made: gateway.create_checkout(
                reference=payment.public_id,
                customer=customer,
                amount=Money(payment.amount_minor, payment.currency),
                title=_title(payment, payment.page.language),
                success_url=f"{back}?back=paid",
                cancel_url=f"{back}?back=left",
                language=payment.page.language,
                save_card=payment.keep_card,
                key=made,
            ),
            find=lambda since: gateway.find_checkout(customer=customer, reference=payment.public_id, since=since),
            done=lambda facts: _page_made(payment, facts),
            refused=lambda refused: _refused(payment, refused, now),
        )

    rail_calls.perform(payload=payload, step_of=step, now=now)


def perform_charge(key: str, payload: Mapping[str, Any], *, now: datetime) -> None:
    """Take an invoice's money from the saved card."""

    def step(call: RailCall) -> Step[PaymentFacts]:
        payment = Payment.objects.select_related("organisation", "invoice").get(public_id=call.reference)
        payer = _payer(payment.organisation)

        def done(facts: PaymentFacts) -> str:
            payments_settle.apply(facts=facts, now=now)
            return facts.id

        return Step(
            create=lambda made: gateway.charge(
                reference=payment.public_id,
                customer=payer.rail_id,
                method=payer.method,
                amount=Money(payment.amount_minor, payment.currency),
                title=_title(payment, "en"),
                key=made,
            ),
            find=lambda since: gateway.find_charge(customer=payer.rail_id, reference=payment.public_id, since=since),
            done=done,
            refused=lambda refused: _refused(payment, refused, now),
        )

    rail_calls.perform(payload=payload, step_of=step, now=now)


def perform_cards(key: str, payload: Mapping[str, Any], *, now: datetime) -> None:
    """Make the page on which a tenant minds its cards."""

    def step(call: RailCall) -> Step[str]:
        page = HostedPage.objects.select_related("organisation").get(public_id=call.reference)

        def done(url: str) -> str:
            _ready(page, url, now + timedelta(minutes=5))
            return ""

        return Step(
            create=lambda made: gateway.create_portal(
                customer=_payer(page.organisation).rail_id,
                return_url=f"{settings.IDLEWILD_BASE_URL}/payments?back=cards",
                language=page.language,
                key=made,
            ),
            find=lambda since: None,  # another page does no harm
            done=done,
            refused=lambda refused: _fail_pages(HostedPage.objects.filter(id=page.id), refused, now),
        )

    rail_calls.perform(payload=payload, step_of=step, now=now)


def perform_close(key: str, payload: Mapping[str, Any], *, now: datetime) -> None:
    """Close a hosted page whose amount no longer holds, then promise another; if it was paid meanwhile, that is applied instead."""
    payment = Payment.objects.get(public_id=payload["payment"])
    try:
        gateway.expire_session(payload["session"])
    except RailRefused:
        log.info("the page of %s was paid or over already", payment.public_id)
    facts = gateway.session(payload["session"])
    if facts.status == "complete":
        payments_settle.apply_session(facts=facts, now=now)
    elif payment.state in LIVE:
        last = RailCall.objects.filter(kind="checkout", reference=payment.public_id).count()
        rail_calls.promise(kind="checkout", reference=payment.public_id, number=last + 1, now=now)


def note_card(*, customer: str, now: datetime) -> None:
    """The tenant chose its default card at the rail (or took it away): from now on it pays invoices by itself."""
    payer = RailCustomer.objects.filter(rail_id=customer).first()
    if payer is not None:
        payer.method, payer.method_words = gateway.default_card(customer)
        payer.save(update_fields=["method", "method_words"])


# --- inside ------------------------------------------------------------------------------------------------------------------------
def _demand_rail() -> None:
    if not gateway.configured():
        raise gateway.NoRail(_("No card payments are set up here: pay by bank transfer, or ask the operator."))


def _locked(invoice: Invoice) -> Invoice:
    return Invoice.objects.select_for_update(of=("self",)).select_related("organisation", "period").get(id=invoice.id)


def _usable_page(live: Payment, amount: Money, now: datetime) -> HostedPage | None:
    """The page of a payment that is on its way; None when it was over and a new one may begin."""
    page = HostedPage.objects.filter(payment=live).first()
    if page is None or live.state == PaymentState.PROCESSING:
        raise Conflict(_("A payment of this invoice is on its way: see Payments."), code="payment_under_way")
    if live.expires_at is not None and live.expires_at + OVER_AFTER < now:
        payments_settle.cancel(payment=live, now=now)
        return None
    if live.state == PaymentState.CREATED and page.state == PageState.READY and live.amount_minor != amount.minor:
        _page_again(live, page, amount, now)
    return page


def _page_again(live: Payment, page: HostedPage, amount: Money, now: datetime) -> None:
    """Something was paid by other means meanwhile: the old page is closed, and the same payment gets another one over what is left."""
    put(
        topic="stripe.close",
        key=f"{live.public_id}:{live.session}"[-200:],
        payload={"payment": live.public_id, "session": live.session},
        now=now,
    )
    live.amount_minor, live.session, live.intent = amount.minor, "", ""
    live.save(update_fields=["amount_minor", "session", "intent"])
    page.state, page.url = PageState.WAITING, ""
    page.save(update_fields=["state", "url"])


def _begin(
    organisation: Organisation, purpose: Purpose, amount: Money, *, by: str, now: datetime, language: str,
    invoice: Invoice | None = None, keep_card: bool = False,
) -> HostedPage:  # fmt: skip
    payment = _payment(
        organisation,
        purpose,
        amount,
        invoice=invoice,
        by=by,
        now=now,
        keep_card=keep_card,
        expires_at=now + timedelta(hours=24),
    )
    page = HostedPage.objects.create(
        organisation=organisation, kind=PageKind.CHECKOUT, payment=payment, by=by, created_at=now, language=language
    )
    _promise_page(page, now)
    return page


def _payment(
    organisation: Organisation, purpose: Purpose, amount: Money, *, by: str, now: datetime, **values: Any
) -> Payment:
    payment = Payment.objects.create(
        organisation=organisation,
        purpose=purpose,
        currency=amount.currency,
        amount_minor=amount.minor,
        by=by,
        created_at=now,
        **values,
    )
    note(
        actor=by,
        deed="payment.start",
        target=payment.public_id,
        organisation_id=organisation.id,
        now=now,
        data={"amount": amount.text(), "currency": amount.currency, "purpose": purpose.value},
    )
    return payment


def _promise_page(page: HostedPage, now: datetime) -> None:
    """The next call that the page needs: the tenant made known first, then the page itself."""
    if not RailCustomer.objects.filter(organisation=page.organisation).exists():
        rail_calls.promise(kind="customer", reference=page.organisation.public_id, now=now)
    elif page.payment is not None:
        rail_calls.promise(kind="checkout", reference=page.payment.public_id, now=now)
    else:
        rail_calls.promise(kind="cards", reference=page.public_id, now=now)


def _page_made(payment: Payment, facts: SessionFacts) -> str:
    payment.session, payment.expires_at = facts.id, facts.expires_at or payment.expires_at
    payment.save(update_fields=["session", "expires_at"])
    _ready(payment.page, facts.url, facts.expires_at)
    return facts.id


def _ready(page: HostedPage, url: str, until: datetime | None) -> None:
    page.url, page.state, page.expires_at = url, PageState.READY, until
    page.save(update_fields=["url", "state", "expires_at"])


def _refused(payment: Payment, refused: RailRefused, now: datetime) -> None:
    """The rail said no: the payment has failed, and people are told if nobody was looking."""
    payments_settle.fail(payment=payment, failure=refused.reason, message=refused.detail, now=now)
    _fail_pages(HostedPage.objects.filter(payment=payment), refused, now)


def _fail_pages(pages: Any, refused: RailRefused, now: datetime) -> None:
    for page in pages.filter(state=PageState.WAITING).select_related("payment"):
        page.state, page.message = PageState.FAILED, refused.detail[:500]
        page.save(update_fields=["state", "message"])
        if page.payment is not None and possible(PaymentState(page.payment.state), PaymentEvent.FAILED):
            payments_settle.fail(payment=page.payment, failure=refused.reason, message=refused.detail, now=now)


def _title(payment: Payment, language: str) -> str:
    with override(language):
        if payment.invoice is not None:
            return _("Invoice %(number)s") % {"number": payment.invoice.number}
        return _("Wallet of %(name)s") % {"name": payment.organisation.name}


def _payer(tenant: Organisation) -> RailCustomer:
    return RailCustomer.objects.get(organisation=tenant)


def _email(tenant: Organisation) -> str:
    people = Membership.objects.filter(organisation=tenant, role__in=[Role.BILLING, Role.OWNER]).order_by("role", "id")
    return str(people.values_list("user__email", flat=True).first() or "")
