"""Receipts and credit notes as PDF: what was paid on an invoice, from the ledger; what was taken back of it, from the frozen note."""

import json
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from billing.domain import wording
from billing.domain.ledger import AccountKind
from billing.gateways import pdf
from billing.models import CreditNote, Entry, Invoice
from billing.services import documents
from portal.kit.errors import NotFound
from portal.kit.money import Money

PAYING = {"payment": "paid_by_payment", "prepaid": "paid_by_wallet", "credit": "paid_by_credit"}
"""Kinds of postings that settle an invoice → how a receipt calls them."""


def receipt(invoice: Invoice, *, language: str) -> bytes:
    """The receipt of an invoice: each payment with its day, and what is still open. NotFound while nothing was paid."""
    paid = Entry.objects.filter(
        txn__reference=invoice.public_id, txn__kind__in=sorted(PAYING), account__kind=AccountKind.TENANT_RECEIVABLE, amount_minor__gt=0
    )  # fmt: skip
    rows = list(paid.select_related("txn").order_by("txn__at", "id"))
    if not rows:
        raise NotFound(_("Nothing was paid on this invoice yet."))
    words, frozen = wording.statement_words(language), documents.frozen_of(invoice)
    total = sum(row.amount_minor for row in rows)

    def text(minor: int) -> str:
        return f"{Money(minor, invoice.currency).text()} {invoice.currency}"

    return pdf.render_sheet(
        {
            **_head(frozen, words),
            "title": words["receipt"],
            "number": frozen["number"],
            "date": rows[-1].txn.at.date().isoformat(),
            "pairs": [
                [words["number"], frozen["number"]],
                [words["period"], frozen["period"]["month"]],
                [words["tenant_of"], frozen["tenant"]["name"]],
                [words["tax_id"], frozen["tenant"]["tax_id"]],
            ],
            "header": [words["when"], words["paid_how"], words["paid_amount"]],
            "rows": [
                [row.txn.at.date().isoformat(), words[PAYING[row.txn.kind]], text(row.amount_minor)] for row in rows
            ],
            "sums": [
                [words["total"], f"{frozen['total']} {invoice.currency}"],
                [words["paid"], text(total)],
                [words["open"], text(invoice.total_minor - total)],
            ],
        }
    )


def credit_note(note: CreditNote, *, language: str) -> bytes:
    """A credit note as PDF, from its frozen content: the same bytes whenever it is made."""
    words = wording.statement_words(language)
    frozen: dict[str, Any] = json.loads(bytes(note.content))
    code = frozen["currency"]
    return pdf.render_sheet(
        {
            **_head(frozen, words),
            "title": words["credit_note"],
            "number": frozen["number"],
            "date": frozen["issue_date"],
            "pairs": [
                [words["number"], frozen["invoice"]["number"]],
                [words["period"], frozen["invoice"]["month"]],
                [words["issue_date"], frozen["issue_date"]],
                [words["tenant_of"], frozen["tenant"]["name"]],
                [words["tax_id"], frozen["tenant"]["tax_id"]],
                [words["why"], frozen["reason"]],
            ],
            "header": [words["line"], words["project"], words["provider"], words["item"], words["paid_amount"]],
            "rows": [
                [str(line["line"]), line["project"], line["provider"], line["sku"], f"-{line['amount']}"]
                for line in frozen["lines"]
            ],
            "sums": [
                [words["subtotal"], f"-{frozen['net']}"],
                [words["tax"], f"-{frozen['tax']}"],
                [words["total"], f"-{frozen['total']} {code}"],
                [words["off_open"], frozen["off_open"]],
                [words["to_credit"], frozen["to_credit"]],
            ],
        }
    )


def _head(frozen: Mapping[str, Any], words: Mapping[str, str]) -> dict[str, Any]:
    said = frozen["issuer"]
    lines = [line for line in [*said.get("address", "").split("\n"), said.get("tax_id", "")] if line]
    return {"issuer": {"name": said["name"], "lines": lines}, "page": words["page"]}
