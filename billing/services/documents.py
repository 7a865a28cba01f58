"""The documents of an invoice: JSON is the frozen content, CSV and PDF are made from it, each stored once with its SHA-256."""

import csv
import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from billing.domain import statement, wording
from billing.domain.statement import PrintedLine
from billing.gateways import pdf
from billing.models import DocumentFormat, Invoice, InvoiceDocument
from portal import clock
from portal.kit.errors import NotFound
from portal.kit.intervals import Interval
from portal.kit.money import Money
from portal.kit.quantities import hours_text

ISSUER = "Idlewild"
CSV_COLUMNS = (
    "number", "period", "period_start", "period_end", "timezone", "period_hours", "line",
    "correction_of", "project", "department", "provider", "region", "zone", "item", "unit", "quantity",
    "qty_us", "unit_price", "discount", "list_amount", "amount", "currency", "tax", "green_ratio", "tier", "price_version", "reason",
    "node", "attempt", "first_at", "last_at", "note",
)  # fmt: skip
BOM = "\ufeff"
"""So that a spreadsheet reads the Chinese."""


def content(invoice: Invoice, lines: Sequence[PrintedLine], taxes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Everything an invoice says, copied: names, addresses, tax ids, rates and prices as they are now."""
    tenant, period, code = invoice.organisation, invoice.period, invoice.currency
    if invoice.issue_date is None or invoice.due_at is None or invoice.issued_at is None:
        raise ValueError("only an invoice with number and date has a document")

    def amount(minor: int) -> str:
        return Money(minor, code).text()

    length = Interval(period.starts_at, period.ends_at).microseconds
    return {
        "template": wording.TEMPLATE,
        "id": invoice.public_id,
        "number": invoice.number,
        "demo": invoice.demo,
        "issuer": {"name": ISSUER},
        "tenant": {
            "id": tenant.public_id,
            "name": tenant.name,
            "address": tenant.address,
            "tax_id": tenant.tax_id,
            "country": tenant.country,
        },
        "period": {
            "month": period.month,
            "start": statement.iso(period.starts_at),
            "end": statement.iso(period.ends_at),
            "timezone": period.timezone,
            "hours": hours_text(length, 2).removesuffix(".00"),
        },
        "issued_at": statement.iso(invoice.issued_at),
        "issue_date": invoice.issue_date.isoformat(),
        "due_date": invoice.due_at.date().isoformat(),
        "currency": code,
        "lines": [_line(line) for line in lines],
        "subtotal": amount(invoice.subtotal_minor),
        "taxes": [
            {
                "rate": statement.ppm_text(tax["rate_ppm"]),
                "percent": statement.percent_text(tax["rate_ppm"]),
                "taxable": amount(tax["taxable_minor"]),
                "tax": amount(tax["tax_minor"]),
            }
            for tax in taxes
        ],
        "tax": amount(invoice.tax_minor),
        "total": amount(invoice.total_minor),
        "credit_used": amount(invoice.credit_used_minor) if invoice.credit_used_minor else None,
        "to_credit": amount(invoice.to_credit_minor) if invoice.to_credit_minor else None,
        "payable": amount(invoice.payable_minor),
    }


def ensure(*, invoice: Invoice, format: str, language: str = "en", now: datetime) -> InvoiceDocument:
    """The stored document, made from the frozen content if it is missing; the same bytes whenever and by whomever it is made."""
    if format not in set(DocumentFormat) or language not in wording.LANGUAGES:
        raise NotFound(f"documents come as {', '.join(DocumentFormat)} in {', '.join(wording.LANGUAGES)}")
    language = "" if format == DocumentFormat.JSON else language
    found = InvoiceDocument.objects.filter(invoice=invoice, format=format, language=language).first()
    return found or store(
        invoice=invoice, format=format, language=language, data=_make(invoice, format, language), now=now
    )


def render_promised(key: str, payload: Mapping[str, Any]) -> None:
    """Outbox topic ``invoice.pdf``: the PDFs of an issued invoice, in both languages; again changes nothing."""
    invoice = Invoice.objects.get(public_id=payload["invoice"])
    for language in wording.LANGUAGES:
        ensure(invoice=invoice, format=DocumentFormat.PDF, language=language, now=clock.now())


def store(*, invoice: Invoice, format: str, language: str, data: bytes, now: datetime) -> InvoiceDocument:
    """Store a document once; whoever was first is kept."""
    InvoiceDocument.objects.bulk_create(
        [
            InvoiceDocument(
                invoice=invoice,
                format=format,
                language=language,
                content=data,
                sha256=hashlib.sha256(data).hexdigest(),
                created_at=now,
            )
        ],
        ignore_conflicts=True,
    )
    return InvoiceDocument.objects.get(invoice=invoice, format=format, language=language)


def render_pdf(frozen: Mapping[str, Any], language: str) -> bytes:
    """The PDF of a frozen content."""
    return pdf.render(frozen, wording.words(language), template=frozen["template"])


def as_csv(frozen: Mapping[str, Any], language: str) -> bytes:
    """One row per line, headers in the language, with a byte order mark; cells that a spreadsheet would run are quoted."""
    words = wording.words(language)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow([words[column] for column in CSV_COLUMNS])
    for line in frozen["lines"]:
        writer.writerow([_harmless(cell) for cell in _cells(frozen, line, words)])
    return (BOM + out.getvalue()).encode()


def _make(invoice: Invoice, kind: str, language: str) -> bytes:
    stored = InvoiceDocument.objects.filter(invoice=invoice, format=DocumentFormat.JSON).first()
    if stored is None:
        raise NotFound("a draft has no documents")
    frozen = json.loads(bytes(stored.content))
    return render_pdf(frozen, language) if kind == DocumentFormat.PDF else as_csv(frozen, language)


def _line(line: PrintedLine) -> dict[str, Any]:
    percent = None if line.green_ratio_ppm is None else statement.percent_text(line.green_ratio_ppm)
    return line.wire() | {"green_percent": percent}


def _cells(frozen: Mapping[str, Any], line: Mapping[str, Any], words: Mapping[str, str]) -> list[Any]:
    item = words[line["resource"]] + (f" {line['hardware_model']}" if line["hardware_model"] else "")
    notes = [
        words["virtual"] if line["virtual"] else "",
        words["demo"] if line["demo"] else "",
        f"{words['known_for']} {line['green_known']}" if line["green_ratio"] and line["green_known"] != "1.00" else "",
    ]
    reason, period = line["unbilled_reason"], frozen["period"]
    return [
        frozen["number"], period["month"], period["start"], period["end"], period["timezone"], period["hours"],
        line["n"], line["correction_of"] or "", line["project"]["name"],
        line["project"]["department"], line["provider"]["name"], line["region"], line["zone"], item, words[line["unit"]],
        line["quantity"], line["qty_us"], line["unit_price"], line["discount"], line["list_amount"], line["amount"],
        frozen["currency"], line["tax_rate"], line["green_ratio"] or words["unknown"], line["tier"] or "", line["price_version"],
        words.get(reason, reason) if reason else "", line["node"] or "", line["attempt"] or "", line["first_at"], line["last_at"],
        "; ".join(note for note in notes if note),
    ]  # fmt: skip


def _harmless(cell: Any) -> Any:
    """Text that begins like a formula gets an apostrophe; numbers below zero stay numbers."""
    if isinstance(cell, str) and cell[:1] in {"=", "+", "@", "\t", "\r"}:
        return "'" + cell
    if isinstance(cell, str) and cell.startswith("-") and not cell[1:].replace(".", "", 1).isdigit():
        return "'" + cell
    return cell
