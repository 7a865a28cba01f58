"""The documents of an invoice: JSON is the frozen content; CSV, XLSX, PDF, FOCUS and the e-invoice are made from it, each stored once with its SHA-256.

===========  ==========  ================================================================================================
format       language    is
===========  ==========  ================================================================================================
json         none        everything the invoice says, in canonical form: the source of all others
csv, xlsx    en, zh      one row a line; the spreadsheet has a sheet of sums too
pdf          en, zh      PDF/A-3b; in EUR with the e-invoice inside (Factur-X)
focus        none        FOCUS 1.2, proved by our checker before it is stored
xml          none        EN 16931 (CII), invoices in EUR; proved by XSD and schematron before it is stored
===========  ==========  ================================================================================================
"""

import csv
import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.conf import settings

from billing.domain import focus, focus_check, statement, wording
from billing.domain.statement import PrintedLine
from billing.domain.tax import Treatment
from billing.gateways import einvoice, pdf, xlsx
from billing.gateways.xlsx import Sheet
from billing.models import NO_LANGUAGE, DocumentFormat, Invoice, InvoiceDocument
from portal import clock
from portal.kit.errors import Conflict, NotFound
from portal.kit.intervals import Interval
from portal.kit.money import Money
from portal.kit.quantities import hours_text

E_INVOICE_CURRENCY = "EUR"
CSV_COLUMNS = (
    "number", "period", "period_start", "period_end", "timezone", "period_hours", "line",
    "correction_of", "project", "department", "provider", "region", "zone", "item", "unit", "quantity",
    "qty_us", "unit_price", "discount", "list_amount", "amount", "currency", "tax", "green_ratio", "tier", "price_version", "reason",
    "node", "attempt", "first_at", "last_at", "note",
)  # fmt: skip
TYPES: Mapping[str, str] = {
    DocumentFormat.PDF: "application/pdf",
    DocumentFormat.CSV: "text/csv; charset=utf-8",
    DocumentFormat.XLSX: "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    DocumentFormat.JSON: "application/json",
    DocumentFormat.FOCUS: "text/csv; charset=utf-8",
    DocumentFormat.XML: "application/xml",
}
"""format → media type."""
FIRST_WITH_XML = 2
"""The first template whose documents know all that an e-invoice says."""
BOM = "\ufeff"
"""So that a spreadsheet reads the Chinese."""


NUMBERS = frozenset({"quantity", "unit_price", "discount", "list_amount", "amount", "tax"})
"""Columns that a spreadsheet adds up."""


def content(
    invoice: Invoice, lines: Sequence[PrintedLine], taxes: Sequence[Mapping[str, Any]], treatment: Treatment
) -> dict[str, Any]:
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
        "issuer": issuer(),
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
        "tax_treatment": {
            "category": treatment.category.value,
            "rate": statement.ppm_text(treatment.rate_ppm),
            "reverse_charge": treatment.reverse_charge,
        },
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


def issuer() -> dict[str, str]:
    """Who issues documents, as settings say it now."""
    return {
        "name": settings.IDLEWILD_ISSUER_NAME,
        "address": settings.IDLEWILD_ISSUER_ADDRESS.replace("|", "\n"),
        "country": settings.IDLEWILD_ISSUER_COUNTRY,
        "tax_id": settings.IDLEWILD_ISSUER_TAX_ID,
        "bank": settings.IDLEWILD_ISSUER_BANK,
    }


def ensure(*, invoice: Invoice, format: str, language: str = "en", now: datetime) -> InvoiceDocument:
    """The stored document, made from the frozen content if it is missing; the same bytes whenever and by whomever it is made."""
    if format not in set(DocumentFormat) or language not in wording.LANGUAGES:
        raise NotFound(f"documents come as {', '.join(DocumentFormat)} in {', '.join(wording.LANGUAGES)}")
    language = "" if format in NO_LANGUAGE else language
    found = InvoiceDocument.objects.filter(invoice=invoice, format=format, language=language).first()
    return found or store(
        invoice=invoice, format=format, language=language, data=_make(invoice, format, language), now=now
    )


def file_name(number: str, format: str) -> str:
    """What a downloaded document is called: ``IW-2026-000327.pdf``, ``IW-2026-000327.focus.csv``."""
    return f"{number}.focus.csv" if format == DocumentFormat.FOCUS else f"{number}.{format}"


def render_promised(key: str, payload: Mapping[str, Any]) -> None:
    """Outbox topic ``invoice.pdf``: PDF and XLSX of an issued invoice in both languages, FOCUS; again changes nothing."""
    invoice = Invoice.objects.get(public_id=payload["invoice"])
    for language in wording.LANGUAGES:
        for kind in (DocumentFormat.PDF, DocumentFormat.XLSX):
            ensure(invoice=invoice, format=kind, language=language, now=clock.now())
    ensure(invoice=invoice, format=DocumentFormat.FOCUS, now=clock.now())


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
    """The PDF of a frozen content; in EUR with the e-invoice inside, if all is known that it must say."""
    plain = pdf.render(frozen, wording.words(language), template=frozen["template"])
    if frozen["currency"] != E_INVOICE_CURRENCY or frozen["template"] < FIRST_WITH_XML or einvoice.ready(frozen):
        return plain
    return einvoice.embed(plain, as_xml(frozen), frozen, language=language)


def as_csv(frozen: Mapping[str, Any], language: str) -> bytes:
    """One row per line, headers in the language, with a byte order mark; cells that a spreadsheet would run are quoted."""
    words = wording.words(language)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow([words[column] for column in CSV_COLUMNS])
    for line in frozen["lines"]:
        writer.writerow([harmless(cell) for cell in _cells(frozen, line, words)])
    return (BOM + out.getvalue()).encode()


def as_xlsx(frozen: Mapping[str, Any], language: str) -> bytes:
    """A workbook: the lines as numbers that can be added up, and a sheet of sums."""
    words = wording.words(language)
    rows = [
        [
            Decimal(str(cell)) if column in NUMBERS and cell not in (None, "") else cell
            for column, cell in zip(CSV_COLUMNS, _cells(frozen, line, words), strict=True)
        ]
        for line in frozen["lines"]
    ]
    sums: list[list[Any]] = [[words["subtotal"], Decimal(frozen["subtotal"])]]
    sums += [[f"{words['tax']} {tax['percent']} %", Decimal(tax["tax"])] for tax in frozen["taxes"]]
    sums.append([words["total"], Decimal(frozen["total"])])
    sums += [[words["credit_used"], -Decimal(frozen["credit_used"])]] if frozen["credit_used"] else []
    sums += [[words["to_credit"], Decimal(frozen["to_credit"])]] if frozen["to_credit"] else []
    sums.append([words["payable"], Decimal(frozen["payable"])])
    return xlsx.workbook(
        [
            Sheet(frozen["number"], [words[column] for column in CSV_COLUMNS], rows),
            Sheet(words["total"], [words["item"], f"{words['amount']} ({frozen['currency']})"], sums),
        ],
        title=f"{words['invoice']} {frozen['number']}",
        author=frozen["issuer"]["name"],
        at=datetime.fromisoformat(frozen["issued_at"]),
    )


def as_focus(frozen: Mapping[str, Any]) -> bytes:
    """FOCUS 1.2 rows that our own checker accepts; a row that it would not is an error of ours, never a file."""
    text = focus.text(focus.rows(frozen))
    for problem in focus_check.check(text, {frozen["number"]: frozen["payable"]}):
        raise ValueError(f"FOCUS of {frozen['number']}: {problem}")
    return text.encode()


def as_xml(frozen: Mapping[str, Any]) -> bytes:
    """The e-invoice; Conflict says what is missing where it cannot be made."""
    if frozen["currency"] != E_INVOICE_CURRENCY:
        raise NotFound("an e-invoice (EN 16931) is made for invoices in EUR")
    try:
        return einvoice.xml(frozen)
    except (einvoice.NotReady, einvoice.NoLibraries) as problem:
        raise Conflict(f"{problem}", code="e_invoice_incomplete") from None


def frozen_of(invoice: Invoice) -> dict[str, Any]:
    """The frozen content of an issued invoice; NotFound for a draft."""
    stored = InvoiceDocument.objects.filter(invoice=invoice, format=DocumentFormat.JSON).first()
    if stored is None:
        raise NotFound("a draft has no documents")
    found: dict[str, Any] = json.loads(bytes(stored.content))
    return found


def _make(invoice: Invoice, kind: str, language: str) -> bytes:
    frozen = frozen_of(invoice)
    if kind == DocumentFormat.XML:
        return as_xml(frozen)
    if kind == DocumentFormat.FOCUS:
        return as_focus(frozen)
    if kind == DocumentFormat.XLSX:
        return as_xlsx(frozen, language)
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


def harmless(cell: Any) -> Any:
    """Text that begins like a formula gets an apostrophe; numbers below zero stay numbers."""
    if isinstance(cell, str) and cell[:1] in {"=", "+", "@", "\t", "\r"}:
        return "'" + cell
    if isinstance(cell, str) and cell.startswith("-") and not cell[1:].replace(".", "", 1).isdigit():
        return "'" + cell
    return cell
