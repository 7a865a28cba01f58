"""Statements as files: the monthly statement (月度账单) and the split bill (分账账单) as CSV and XLSX, in the reader's language."""

import csv
import io
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.utils.translation import gettext as _

from billing.domain import wording
from billing.gateways import xlsx
from billing.gateways.xlsx import Sheet
from billing.selectors import splits, statements
from billing.services import documents
from portal.accounts.models import Organisation
from portal.kit.errors import NotFound
from portal.kit.money import Money

KINDS = ("monthly", "split")
FORMATS = ("csv", "xlsx")
MONTHLY = (
    "month", "when", "invoice", "tenant", "department", "project", "region", "node", "provider", "item", "quantity", "unit", "list_amount",
    "discount", "amount", "tax", "credit", "paid", "open", "currency", "green_ratio", "energy_kwh", "carbon_kg", "basis", "reason",
)  # fmt: skip
SPLIT = ("month", "tenant", "department", "project", "net", "moved", "final", "share", "rule", "currency")
NUMBERS = frozenset({
    "quantity", "list_amount", "discount", "amount", "tax", "credit", "paid", "open", "energy_kwh", "carbon_kg", "net", "moved", "final",
})  # fmt: skip


def monthly_rows(tenant: Organisation, month: str, *, by: str, per: str, zero: bool, language: str) -> list[list[str]]:
    """The cells of a monthly statement, in the order of MONTHLY."""
    words = wording.statement_words(language)
    rows = []
    for row in statements.monthly(tenant, month, by=by, per=per, zero=zero):
        said = row.wire()
        item = words.get(said["resource"], said["resource"])
        item += f" {row.line.hardware_model}" if row.line.hardware_model else ""
        reason = said["unbilled_reason"] or ""
        said |= {"item": item, "unit": words.get(said["unit"], said["unit"]), "reason": words.get(reason, reason)}
        said["green_ratio"] = said["green_ratio"] or words["unknown"]
        rows.append(["" if said[name] is None else str(said[name]) for name in MONTHLY])
    return rows


def split_rows(tenant: Organisation, month: str, *, language: str) -> list[list[str]]:
    """The cells of a split bill, in the order of SPLIT."""
    words = wording.statement_words(language)
    rows = []
    for bill in splits.of_month(tenant, month):

        def text(minor: int, code: str = bill.currency) -> str:
            return Money(minor, code).text()

        for row in bill.rows:
            place = row.place
            project = place.project_name or place.project or (words["shared"] if row.moved else "")
            rows.append([
                month, bill.names[place.organisation], place.department or words["no_department"], project, text(row.net), text(row.moved),
                text(row.final), f"{row.share_ppm / 10_000:.2f}%", "; ".join(row.rules), bill.currency,
            ])  # fmt: skip
    return rows


def file(
    *,
    tenant: Organisation,
    month: str,
    kind: str,
    format: str,
    language: str,
    now: datetime,
    by: str = "item",
    per: str = "month",
    zero: bool = True,
) -> bytes:
    """A statement of a month as a file. NotFound for a kind or format that is none, or a month without invoice."""
    if kind not in KINDS or format not in FORMATS:
        known = {"kinds": ", ".join(KINDS), "formats": ", ".join(FORMATS)}
        raise NotFound(_("Statements are %(kinds)s, as %(formats)s.") % known)
    if kind == "monthly":
        columns: Sequence[str] = MONTHLY
        rows = monthly_rows(tenant, month, by=by, per=per, zero=zero, language=language)
    else:
        columns, rows = SPLIT, split_rows(tenant, month, language=language)
    words = wording.statement_words(language)
    header = [words[name] for name in columns]
    if format == "csv":
        return as_csv(header, rows)
    cells = [
        [Decimal(cell) if name in NUMBERS and cell else cell for name, cell in zip(columns, row, strict=True)]
        for row in rows
    ]
    title = f"{words[kind]} {month}"
    return xlsx.workbook([Sheet(title, header, cells)], title=title, author=documents.issuer()["name"], at=now)


def as_csv(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> bytes:
    """A table with byte order mark; cells that a spreadsheet would run are quoted."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(header)
    writer.writerows([documents.harmless(cell) for cell in row] for row in rows)
    return (documents.BOM + out.getvalue()).encode()
