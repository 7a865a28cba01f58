"""Bank transfers for operators and for whose they are; which references can be paid."""

from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django.utils.translation import gettext as _

from billing.domain import bank as rules
from billing.domain.bank import Credit, Payable, TransferState
from billing.domain.invoicing import OWED
from billing.domain.statement import iso
from billing.models import BankTransfer, Invoice
from portal.accounts.models import Organisation
from portal.kit.errors import NotFound
from portal.kit.money import Money


def everyone(*, state: str = "") -> QuerySet[BankTransfer]:
    """All transfers, newest first, for operators."""
    found = BankTransfer.objects.select_related("organisation", "invoice", "statement").order_by("-id")
    return found.filter(state=state) if state else found


def unmatched() -> QuerySet[BankTransfer]:
    """What waits for its owner, oldest first."""
    return BankTransfer.objects.filter(state=TransferState.UNMATCHED).order_by("id")


def for_organisation(organisation_id: int) -> QuerySet[BankTransfer]:
    """What came in for a tenant, newest first."""
    return everyone().filter(organisation_id=organisation_id)


def one(public_id: str) -> BankTransfer:
    """That transfer, for operators."""
    found = BankTransfer.objects.filter(public_id=public_id).first()
    if found is None:
        raise NotFound(_("There is no such bank transfer."))
    return found


def credit(row: BankTransfer) -> Credit:
    """A stored transfer as the rule reads it."""
    amount = Money(row.amount_minor, row.currency)
    return Credit(row.bank_reference, row.booked_on, amount, row.payer_name, row.payer_account, row.text)


def payables(references: Iterable[str]) -> dict[str, Payable]:
    """What these references can pay; those that mean nothing are left out."""
    found: dict[str, Payable] = {}
    for reference in references:
        owner, invoice = _find(reference)
        if invoice is not None:
            open_minor = (
                invoice.payable_minor - invoice.paid_minor - invoice.credited_minor if invoice.state in OWED else 0
            )
            found[reference] = Payable(reference, invoice.currency, max(0, open_minor), invoice=True)
        elif owner is not None:
            found[reference] = Payable(reference, owner.currency, 0, invoice=False)
    return found


def owner_of(reference: str) -> tuple[Organisation, Invoice | None]:
    """The organisation (and invoice) that a reference names; NotFound if it names nothing."""
    owner, invoice = _find(reference)
    if owner is None:
        raise NotFound(_("This reference names no invoice and no wallet."))
    return owner, invoice


def _find(reference: str) -> tuple[Organisation | None, Invoice | None]:
    ours = reference[4:]
    if ours.startswith("W"):
        return Organisation.objects.filter(public_id__endswith=ours[1:]).first(), None
    series, digits = ours[:-10], ours[-10:]
    number = f"{series}-{digits[:4]}-{digits[4:]}"
    invoice = Invoice.objects.select_related("organisation").filter(number=number, demo=False).first()
    return (invoice.organisation if invoice else None), invoice


def instructions(*, reference: str, amount: Money | None) -> dict[str, Any]:
    """How to pay by bank transfer: our account, and the text to write."""
    return {
        "account": settings.IDLEWILD_ISSUER_BANK or None,
        "reference": reference,
        "printed": rules.printed(reference),
        "amount": None if amount is None else amount.wire(),
    }


def of_invoice(invoice: Invoice) -> dict[str, Any]:
    """How to pay an invoice by bank transfer."""
    open_minor = max(0, invoice.payable_minor - invoice.paid_minor - invoice.credited_minor)
    reference = rules.creditor_reference(invoice.number or "")
    return instructions(reference=reference, amount=Money(open_minor, invoice.currency))


def of_wallet(organisation: Organisation) -> dict[str, Any]:
    """How to top a wallet up by bank transfer."""
    return instructions(reference=rules.wallet_reference(organisation.public_id), amount=None)


def wire(row: BankTransfer) -> dict[str, Any]:
    """The JSON form."""
    code = row.currency
    return {
        "id": row.public_id,
        "booked_on": row.booked_on.isoformat(),
        "amount": Money(row.amount_minor, code).wire(),
        "payer_name": row.payer_name,
        "payer_account": row.payer_account,
        "text": row.text,
        "bank_reference": row.bank_reference,
        "state": row.state,
        "why": row.why or None,
        "organisation": None
        if row.organisation is None
        else {"id": row.organisation.public_id, "name": row.organisation.name},
        "invoice": None if row.invoice is None else row.invoice.number,
        "to_invoice": Money(row.to_invoice_minor, code).wire(),
        "to_wallet": Money(row.to_wallet_minor, code).wire(),
        "settled_at": None if row.settled_at is None else iso(row.settled_at),
    }
