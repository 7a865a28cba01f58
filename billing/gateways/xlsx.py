"""Tables as XLSX, by XlsxWriter: same tables, same bytes.

Traps: without a creation date the file holds the wall clock; text that begins with ``=`` would become a formula, so text is always written as text and
numbers as numbers. Amounts go in with the decimals of their currency, so a sum in the spreadsheet is the sum on the invoice.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

import xlsxwriter  # type: ignore[import-untyped]

Cell = str | int | Decimal | None
WIDEST = 42
MOST_CHARACTERS = 32_767
"""What a cell of a spreadsheet holds."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """One table: a title of at most 31 characters, headers, rows. Decimals are shown with the places they are written with."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    foot: Sequence[Cell] = ()


def workbook(sheets: Sequence[Sheet], *, title: str, author: str, at: datetime) -> bytes:
    """The bytes of a workbook with these tables. `at`: the date it says it was made."""
    out = io.BytesIO()
    book = xlsxwriter.Workbook(out, {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False})
    book.set_properties({"title": title, "author": author, "created": at.replace(tzinfo=None)})
    formats: dict[tuple[str, bool], object] = {}

    def look(pattern: str = "", *, bold: bool = False) -> object:
        key = (pattern, bold)
        if key not in formats:
            formats[key] = book.add_format({"num_format": pattern or "General", "bold": bold})
        return formats[key]

    for sheet in sheets:
        page = book.add_worksheet(_title(sheet.title))
        page.write_row(0, 0, sheet.header, look(bold=True))
        lines = [*sheet.rows, *([sheet.foot] if sheet.foot else [])]
        for number, row in enumerate(lines, start=1):
            last = bool(sheet.foot) and number == len(lines)
            for column, cell in enumerate(row):
                if isinstance(cell, Decimal):
                    page.write_number(number, column, cell, look(_pattern(cell), bold=last))
                elif isinstance(cell, int):
                    page.write_number(number, column, cell, look("0", bold=last))
                elif cell:
                    page.write_string(number, column, cell[:MOST_CHARACTERS], look(bold=last))
        for column, name in enumerate(sheet.header):
            cells = [str(row[column]) for row in lines if column < len(row) and row[column] is not None]
            page.set_column(column, column, min(WIDEST, max(_width(text) for text in [name, *cells[:200]]) + 2))
        page.freeze_panes(1, 0)
        if sheet.rows:
            page.autofilter(0, 0, len(sheet.rows), len(sheet.header) - 1)
    book.close()
    return out.getvalue()


def _title(text: str) -> str:
    return "".join("-" if mark in "[]:*?/\\" else mark for mark in text)[:31]


def _pattern(value: Decimal) -> str:
    places = -int(value.as_tuple().exponent)
    return "#,##0" + ("." + "0" * places if places > 0 else "")


def _width(text: str) -> int:
    """Columns that a text takes: a Chinese character takes two."""
    return sum(2 if ord(mark) > 0x2E7F else 1 for mark in text)
