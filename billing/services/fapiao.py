"""Fapiao requests: asked for by the tenant, issued in the tax bureau's system, noted here by an operator, exported as the record that system takes."""

import csv
import io
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from billing.domain import fapiao as rules
from billing.domain.fapiao import FapiaoEvent, FapiaoKind, FapiaoState
from billing.domain.invoicing import InvoiceState
from billing.models import FapiaoRequest, Invoice
from billing.services import documents
from portal.audit.services import note
from portal.kit.errors import Conflict, Finding, InvalidInput
from portal.kit.money import Money

CURRENCY = "CNY"
COLUMNS = (
    "申请编号", "发票类型", "购买方名称", "统一社会信用代码", "地址电话", "开户行账号", "货物或应税劳务名称", "规格型号",
    "单位", "数量", "单价", "金额", "税率", "税额", "价税合计（小写）", "价税合计（大写）", "销售方名称", "销售方税号",
    "销售方开户行账号", "开票人", "账单编号", "状态", "发票号码", "红字发票号码",
)  # fmt: skip
KINDS = {FapiaoKind.NORMAL: "普通发票", FapiaoKind.SPECIAL: "增值税专用发票"}
STATES = {
    FapiaoState.REQUESTED: "待开具", FapiaoState.ISSUED: "已开具", FapiaoState.REFUSED: "已拒绝", FapiaoState.REVERSED: "已红冲",
}  # fmt: skip


def request(
    *,
    invoice: Invoice,
    kind: str,
    buyer_name: str,
    buyer_code: str,
    buyer_contact: str = "",
    buyer_bank: str = "",
    email: str = "",
    by: str,
    now: datetime,
) -> FapiaoRequest:
    """Ask for the fapiao of an issued invoice in CNY. InvalidInput for a code that fails its check; Conflict where one was asked for or none can be had."""
    if invoice.currency != CURRENCY or invoice.demo or invoice.state in (InvoiceState.DRAFT, InvoiceState.VOID):
        raise Conflict(_("A fapiao is issued for real invoices in CNY that are not void."), code="fapiao_impossible")
    if invoice.total_minor == 0:
        raise Conflict(_("There is nothing to pay on this invoice: it gets no fapiao."), code="fapiao_impossible")
    try:
        code = rules.check_code(buyer_code)
    except ValueError as problem:
        raise InvalidInput([Finding("buyer_code", "bad_code", str(problem))]) from None
    if kind == FapiaoKind.SPECIAL and not (buyer_contact and buyer_bank):
        raise InvalidInput(
            [Finding("buyer_bank", "missing", _("a special fapiao names address, phone, bank and account"))]
        )
    try:
        with transaction.atomic():
            made = FapiaoRequest.objects.create(
                invoice=invoice, kind=FapiaoKind(kind), buyer_name=buyer_name, buyer_code=code, buyer_contact=buyer_contact,
                buyer_bank=buyer_bank, email=email, requested_by=by, requested_at=now,
            )  # fmt: skip
    except IntegrityError:
        raise Conflict(_("A fapiao was asked for already: see its state."), code="fapiao_exists") from None
    _audit(made, "request", by, now)
    return made


def issued(*, row: FapiaoRequest, number: str, by: str, now: datetime) -> FapiaoRequest:
    """The tax bureau's system has issued it under `number` (8 to 20 digits)."""
    _digits("number", number)
    return _move(row, FapiaoEvent.ISSUED, by, now, number=number, issued_at=now)


def refused(*, row: FapiaoRequest, reason: str, by: str, now: datetime) -> FapiaoRequest:
    """It will not be issued, and why; the tenant may ask again."""
    return _move(row, FapiaoEvent.REFUSED, by, now, reason=reason, ended_at=now)


def reversed_by(*, row: FapiaoRequest, red_number: str, reason: str, by: str, now: datetime) -> FapiaoRequest:
    """A red-letter fapiao (红字发票) took it back."""
    _digits("red_number", red_number)
    return _move(row, FapiaoEvent.REVERSED, by, now, red_number=red_number, reason=reason, ended_at=now)


def record(row: FapiaoRequest, *, clerk: str = "") -> dict[str, str]:
    """The record as the tax bureau's system takes it, from the frozen invoice: one service, its amounts, the total in capitals."""
    frozen = documents.frozen_of(row.invoice)
    total = Money.parse(frozen["total"], CURRENCY)
    rates = [tax["percent"] + "%" for tax in frozen["taxes"]]
    values: Sequence[Any] = (
        row.public_id, KINDS[FapiaoKind(row.kind)], row.buyer_name, row.buyer_code, row.buyer_contact, row.buyer_bank, rules.ITEM, "", "项", "1",
        frozen["subtotal"], frozen["subtotal"], "、".join(rates) or "0%", frozen["tax"], frozen["total"], rules.capital(total.minor),
        frozen["issuer"]["name"], frozen["issuer"].get("tax_id", ""), frozen["issuer"].get("bank", "") or settings.IDLEWILD_ISSUER_BANK, clerk,
        frozen["number"], STATES[FapiaoState(row.state)], row.number, row.red_number,
    )  # fmt: skip
    return dict(zip(COLUMNS, map(str, values), strict=True))


def as_csv(rows: Sequence[FapiaoRequest], *, clerk: str = "") -> bytes:
    """Records as CSV with byte order mark; cells that a spreadsheet would run are quoted."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\r\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: documents.harmless(cell) for name, cell in record(row, clerk=clerk).items()})
    return (documents.BOM + out.getvalue()).encode()


def _move(row: FapiaoRequest, event: FapiaoEvent, by: str, now: datetime, **values: Any) -> FapiaoRequest:
    before = FapiaoState(row.state)
    after = rules.advance(before, event)
    if FapiaoRequest.objects.filter(id=row.id, state=before).update(state=after, ended_by=by, **values) != 1:
        raise Conflict(_("Another changed this request first: read it again."))
    row.refresh_from_db()
    _audit(row, event.value, by, now)
    return row


def _digits(name: str, text: str) -> None:
    if not (text.isdigit() and text.isascii() and 8 <= len(text) <= 20):
        raise InvalidInput([Finding(name, "bad_number", _("a fapiao number has 8 to 20 digits"))])


def _audit(row: FapiaoRequest, deed: str, by: str, now: datetime) -> None:
    note(
        actor=by, deed=f"fapiao.{deed}", target=row.public_id, organisation_id=row.invoice.organisation_id, now=now,
        data={"invoice": row.invoice.number, "number": row.number},
    )  # fmt: skip
