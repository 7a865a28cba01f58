"""Credit notes: written, numbered, posted and frozen in one transaction. An issued invoice is never edited; this is how it is corrected.

1. the tenant's books, then the invoice, are locked; what earlier notes took is read;
2. the rule (`domain.credit`) says net, tax, each line's fee and share, and where the money goes;
3. the mirror of the invoice is posted in part: what was still open is no longer asked for, what was paid is owed back (``credit``), a provider's share
   comes out of what it accrued, then of what is available to it, the rest becomes its debt;
4. the note and its JSON document are stored with a hash; the invoice is settled when nothing is open any more.

The same `reference` again is the same note.
"""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext as _

from billing.domain import credit as rules
from billing.domain import ledger, statement
from billing.domain.credit import NotedLine, Standing
from billing.domain.invoicing import InvoiceState
from billing.domain.ledger import AccountKind
from billing.models import CreditNote, CreditNoteLine, Invoice
from billing.selectors import credit_notes as stored
from billing.services import invoices, numbers, telling, wallets
from billing.services import ledger as books
from portal.audit.services import note as audit
from portal.kit.errors import Conflict
from portal.kit.money import Money

SERIES = "CN"
CREDITABLE = frozenset({InvoiceState.OPEN, InvoiceState.PARTIALLY_PAID, InvoiceState.PAST_DUE, InvoiceState.PAID})


def issue(
    *,
    invoice: Invoice,
    reason: str,
    reference: str,
    by: str,
    now: datetime,
    total: Money | None = None,
    lines: Mapping[int, Money] | None = None,
) -> CreditNote:
    """Credit `total` (tax included) over all lines, or net amounts of single `lines` (position → amount).

    Conflict `credit_exceeds_invoice` if the invoice has less, `currency_differs`, `bad_amount`, `invoice_not_creditable`.
    """
    with transaction.atomic():
        wallets.lock(invoice.organisation)
        row = (
            Invoice.objects.select_for_update(of=("self",)).select_related("organisation", "period").get(id=invoice.id)
        )
        known = CreditNote.objects.filter(reference=reference).first()
        if known is not None:
            return _same(known, row)
        if row.state not in CREDITABLE or row.demo:
            raise Conflict(
                _("Only an issued invoice that was not voided can be credited."), code="invoice_not_creditable"
            )
        before, found = stored.standing(row), stored.noted_lines(row)
        wanted = _wanted(row, before, found, total, lines)
        note = rules.write(found, wanted, before, fee_ppm=row.fee_ppm, currency=row.currency)
        written = _write(row, note, found, reason=reason, reference=reference, by=by, now=now)
        _post(row, written, note, now)
        if note.off_open_minor:
            invoices.take_off(invoice=row, amount_minor=note.off_open_minor, now=now)
        audit(
            actor=by, deed="credit_note.issue", target=written.public_id, organisation_id=row.organisation_id,
            data={"invoice": row.number, "number": written.number, "total": Money(note.total_minor, row.currency).text(), "reason": reason},
            now=now,
        )  # fmt: skip
        _tell(row, written, now)
    return written


def _same(known: CreditNote, invoice: Invoice) -> CreditNote:
    if known.invoice_id != invoice.id:
        raise Conflict(_("This reference was used for the credit note of another invoice."), code="reference_used")
    return known


def _wanted(
    invoice: Invoice,
    before: Standing,
    found: Sequence[NotedLine],
    total: Money | None,
    lines: Mapping[int, Money] | None,
) -> dict[int, int]:
    if (total is None) == (lines is None):
        raise Conflict(_("Say the total to credit, or the amounts of single lines."), code="bad_amount")
    amounts = [total] if total is not None else list((lines or {}).values())
    if any(amount.currency != invoice.currency for amount in amounts):
        raise Conflict(
            _("The invoice is in %(currency)s, and so is its credit note.") % {"currency": invoice.currency},
            code="currency_differs",
        )
    if total is not None:
        return rules.by_total(found, before, total)
    return {position: amount.minor for position, amount in (lines or {}).items()}


def _write(
    invoice: Invoice,
    note: rules.Note,
    found: Sequence[NotedLine],
    *,
    reason: str,
    reference: str,
    by: str,
    now: datetime,
) -> CreditNote:
    number, dated = numbers.following(SERIES, today=now.date())
    own = {line.position: line for line in invoice.lines.all()}
    content = statement.canonical(_content(invoice, note, own, number, dated.isoformat(), reason))
    row = CreditNote.objects.create(
        number=number, invoice=invoice, organisation=invoice.organisation, currency=invoice.currency, net_minor=note.net_minor,
        tax_minor=note.tax_minor, total_minor=note.total_minor, off_open_minor=note.off_open_minor, to_credit_minor=note.to_credit_minor,
        reference=reference, reason=reason[:200], written_by=by, issued_at=now, issue_date=dated, content=content,
        sha256=hashlib.sha256(content).hexdigest(),
    )  # fmt: skip
    CreditNoteLine.objects.bulk_create(
        CreditNoteLine(
            note=row, position=n, line=own[taken.position], amount_minor=taken.net_minor, fee_minor=taken.fee_minor,
            seller_minor=taken.seller_minor,
        )
        for n, taken in enumerate(note.lines, start=1)
    )  # fmt: skip
    return row


def _content(
    invoice: Invoice, note: rules.Note, own: Mapping[int, Any], number: str, dated: str, reason: str
) -> dict[str, Any]:
    """Everything the note says, copied as it is now."""
    tenant, code = invoice.organisation, invoice.currency

    def amount(minor: int) -> str:
        return Money(minor, code).text()

    return {
        "kind": "credit_note",
        "number": number,
        "issue_date": dated,
        "invoice": {"id": invoice.public_id, "number": invoice.number, "month": invoice.period.month},
        "issuer": {"name": settings.IDLEWILD_ISSUER_NAME},
        "tenant": {
            "id": tenant.public_id, "name": tenant.name, "address": tenant.address, "tax_id": tenant.tax_id, "country": tenant.country,
        },
        "currency": code,
        "reason": reason,
        "lines": [
            {
                "n": n, "line": taken.position, "sku": own[taken.position].sku, "project": own[taken.position].project_name,
                "department": own[taken.position].department, "provider": own[taken.position].provider_name, "amount": amount(taken.net_minor),
            }
            for n, taken in enumerate(note.lines, start=1)
        ],
        "net": amount(note.net_minor),
        "tax": amount(note.tax_minor),
        "total": amount(note.total_minor),
        "off_open": amount(note.off_open_minor),
        "to_credit": amount(note.to_credit_minor),
    }  # fmt: skip


def _post(invoice: Invoice, row: CreditNote, note: rules.Note, now: datetime) -> None:
    sellers: dict[str, int] = {}
    for taken in note.lines:
        sellers[taken.provider_ref] = sellers.get(taken.provider_ref, 0) + taken.seller_minor
    kinds = (AccountKind.ACCRUED, AccountKind.AVAILABLE)
    shared = [(ledger.PLATFORM, AccountKind.PLATFORM_FEE), (ledger.PLATFORM, AccountKind.TAX_PAYABLE)]
    shared += [(provider, kind) for provider in sellers for kind in (*kinds, AccountKind.PROVIDER_RECEIVABLE)]
    balances = books.locked_in_order(shared, currency=invoice.currency)
    there = {provider: tuple(balances[provider, kind] for kind in kinds) for provider in sellers}
    posting = ledger.credit_note(
        tenant=invoice.organisation.public_id, currency=invoice.currency, sellers=sellers, there=there,
        fee_minor=sum(taken.fee_minor for taken in note.lines), tax_minor=note.tax_minor, off_open_minor=note.off_open_minor,
        to_credit_minor=note.to_credit_minor,
    )  # fmt: skip
    books.post(
        kind="credit_note", key=f"credit_note:{row.public_id}", posting=posting, reference=row.public_id, now=now
    )


def _tell(invoice: Invoice, row: CreditNote, now: datetime) -> None:
    total, code = Money(row.total_minor, row.currency).text(), row.currency
    telling.people(
        tenant=invoice.organisation, key=f"credit_note:{row.public_id}", now=now,
        subject=f"Credit note {row.number} for invoice {invoice.number} · 贷项通知单 {row.number}",
        lines=(
            f"{total} {code} of invoice {invoice.number} were credited: {row.reason}",
            f"账单 {invoice.number} 已贷记 {total} {code}：{row.reason}",
        ),
        link=f"{settings.IDLEWILD_BASE_URL}/invoices/{invoice.public_id}",
    )  # fmt: skip
