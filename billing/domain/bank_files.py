"""Statements as banks give them: CSV with the column names of our template or of common Chinese exports, and ISO 20022 camt.053 XML.

Only booked credits are read. Every fault names its row and says what to do; a file with one fault is taken not at all, so that nobody has to find out
which half of it was read.
"""

import csv
import hashlib
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from xml.etree import ElementTree

from billing.domain.bank import Credit, unique
from portal.kit.errors import Finding, InvalidInput
from portal.kit.money import CURRENCIES, Money

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "date": ("date", "booked_on", "交易日期", "记账日期", "入账日期", "交易时间"),
    "amount": ("amount", "credit", "贷方发生额", "贷方金额", "收入金额", "收入", "交易金额"),
    "currency": ("currency", "币种", "币别"),
    "payer_name": ("payer_name", "payer", "对方户名", "对方名称", "付款人名称", "付款人户名"),
    "payer_account": ("payer_account", "对方账号", "付款人账号"),
    "text": ("text", "reference", "附言", "摘要", "用途", "备注"),
    "bank_reference": ("bank_reference", "id", "交易流水号", "流水号", "凭证号", "交易序号"),
}
"""field → the headers it may have; the first one is that of our template."""
NEEDED = ("date", "amount", "bank_reference")
CURRENCY_NAMES = {"人民币": "CNY", "RMB": "CNY", "美元": "USD", "欧元": "EUR", "日元": "JPY", "科威特第纳尔": "KWD"}
MOST_BYTES = 5_000_000
MOST_LINES = 20_000
TEMPLATE = ",".join(names[0] for names in COLUMNS.values()) + "\r\n"


@dataclass(frozen=True, slots=True)
class Statement:
    """A file that was read."""

    format: str
    sha256: str
    credits: tuple[Credit, ...]


def read(data: bytes, *, default_currency: str) -> Statement:
    """The credits of a statement file; InvalidInput with every fault and its row. `default_currency`: of CSV rows that name none."""
    if len(data) > MOST_BYTES:
        raise InvalidInput([Finding("file", "too_large", "a statement has at most 5 MB: import it in parts")])
    sha256 = hashlib.sha256(data).hexdigest()
    if data.lstrip()[:1] == b"<":
        found, faults = _camt(data)
        kind = "camt.053"
    else:
        found, faults = _csv(_decoded(data), default_currency)
        kind = "csv"
    faults += [
        Finding(
            name, "twice", "this bank reference stands in the file twice", "each transfer has a reference of its own"
        )
        for name in unique(found)
    ]
    if faults:
        raise InvalidInput(faults)
    return Statement(kind, sha256, tuple(found))


def _decoded(data: bytes) -> str:
    for encoding in ("utf-8-sig", "gb18030"):
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            continue
    raise InvalidInput(
        [Finding("file", "bad_encoding", "the file is neither UTF-8 nor GB18030", "save it as CSV UTF-8")]
    )


def _csv(text: str, default_currency: str) -> tuple[list[Credit], list[Finding]]:
    rows = list(csv.reader(io.StringIO(text)))
    head = next((at for at, row in enumerate(rows) if _places(row).keys() >= set(NEEDED)), None)
    if head is None:
        wanted = "; ".join(" / ".join(COLUMNS[name][:3]) for name in NEEDED)
        return [], [
            Finding("row 1", "missing_column", "no row of headers was found", f"needed are columns for {wanted}")
        ]
    places = _places(rows[head])
    found: list[Credit] = []
    faults: list[Finding] = []
    for number, row in enumerate(rows[head + 1 :], start=head + 2):
        cells = {name: row[at].strip() if at < len(row) else "" for name, at in places.items()}
        if not any(cells.values()):
            continue
        try:
            credit = _credit(cells, default_currency)
        except ValueError as fault:
            faults.append(Finding(f"row {number}", "bad_row", str(fault)))
            continue
        if credit is not None:
            found.append(credit)
    return found, faults


def _places(row: list[str]) -> dict[str, int]:
    heads = {cell.strip().strip("\ufeff").casefold(): at for at, cell in reversed(list(enumerate(row)))}
    return {
        name: heads[choice.casefold()]
        for name, choices in COLUMNS.items()
        for choice in reversed(choices)
        if choice.casefold() in heads
    }


def _credit(cells: Mapping[str, str], default_currency: str) -> Credit | None:
    """One row; None for a debit, or for a row without an amount in the credit column. ValueError says what is wrong."""
    amount = cells["amount"].replace(",", "").replace("，", "").lstrip("+")
    if amount in {"", "-"} or amount.startswith("-"):
        return None
    code = cells.get("currency") or default_currency
    code = CURRENCY_NAMES.get(code, code).upper()
    if code not in CURRENCIES:
        raise ValueError(f"currency {code!r} is not one of {', '.join(sorted(CURRENCIES))}")
    money = Money.parse(amount, code)
    if money.minor == 0:
        return None
    if not cells["bank_reference"]:
        raise ValueError("a credit needs the bank's own reference")
    return Credit(
        cells["bank_reference"][:80], _day(cells["date"]), money, cells.get("payer_name", "")[:140],
        cells.get("payer_account", "")[:64], cells.get("text", "")[:500],
    )  # fmt: skip


_DAY = re.compile(r"(\d{4})[-/.年]?(\d{1,2})[-/.月]?(\d{1,2})日?(?:[ T].*)?")


def _day(text: str) -> date:
    found = _DAY.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text[:40]!r} is not a day such as 2026-11-30")
    return date(*(int(part) for part in found.groups()))


def _camt(data: bytes) -> tuple[list[Credit], list[Finding]]:
    """Booked credit entries of a camt.053, one per transaction detail where the bank gives details."""
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        return [], [
            Finding("file", "bad_xml", "a statement has no document type", "import the file as the bank sent it")
        ]
    try:
        root = ElementTree.fromstring(data)  # noqa: S314  # no DTD, so no entities; at most 5 MB
    except ElementTree.ParseError as fault:
        return [], [Finding("file", "bad_xml", f"this is not XML: {fault}")]
    space = root.tag.partition("}")[0] + "}" if root.tag.startswith("{") else ""
    if "camt.053" not in space:
        return [], [Finding("file", "bad_xml", "this is not a camt.053 statement", "CSV or camt.053 are read")]
    found: list[Credit] = []
    faults: list[Finding] = []
    for number, entry in enumerate(root.iter(f"{space}Ntry"), start=1):
        try:
            found += _entry(entry, space)
        except ValueError as fault:
            faults.append(Finding(f"entry {number}", "bad_row", str(fault)))
    return found, faults


def _entry(entry: ElementTree.Element, space: str) -> list[Credit]:
    def text(node: ElementTree.Element | None, path: str) -> str:
        found = None if node is None else node.find("/".join(space + name for name in path.split("/")))
        return "" if found is None or found.text is None else found.text.strip()

    status = text(entry, "Sts/Cd") or text(entry, "Sts")
    if text(entry, "CdtDbtInd") != "CRDT" or status != "BOOK" or text(entry, "RvslInd") == "true":
        return []
    day = _day((text(entry, "BookgDt/Dt") or text(entry, "BookgDt/DtTm"))[:10])
    own = text(entry, "AcctSvcrRef") or text(entry, "NtryRef")
    details = list(entry.iter(f"{space}TxDtls")) or [entry]
    credits = []
    for number, detail in enumerate(details, start=1):
        amount = _camt_amount(detail if len(details) > 1 else entry, space)
        reference = text(detail, "Refs/AcctSvcrRef") or (f"{own}/{number}" if len(details) > 1 else own)
        if not reference:
            raise ValueError("the entry has no reference of the bank (AcctSvcrRef)")
        lines = [node.text.strip() for path in ("Ustrd", "Ref") for node in detail.iter(space + path) if node.text]
        name = text(detail, "RltdPties/Dbtr/Nm") or text(detail, "RltdPties/Dbtr/Pty/Nm")
        account = text(detail, "RltdPties/DbtrAcct/Id/IBAN") or text(detail, "RltdPties/DbtrAcct/Id/Othr/Id")
        credits.append(Credit(reference[:80], day, amount, name[:140], account[:64], " ".join(lines)[:500]))
    return credits


def _camt_amount(node: ElementTree.Element, space: str) -> Money:
    for path in ("Amt", "AmtDtls/TxAmt/Amt"):
        found = node.find("/".join(space + name for name in path.split("/")))
        if found is not None and found.text:
            return Money.parse(found.text, found.get("Ccy", ""))
    raise ValueError("a detail of the entry has no amount")
