"""Invoices: drafted from rated lines, issued in the closing transaction, frozen from then on; voided by a counter-entry, verified from the records."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F

from billing.domain import invoicing, ledger, rail, rating, statement, wording
from billing.domain.invoicing import InvoiceEvent, InvoiceState, NetLine
from billing.domain.ledger import AccountKind
from billing.domain.metering import portion
from billing.domain.rating import Line
from billing.domain.statement import PrintedLine
from billing.models import (
    BillingPeriod,
    DocumentFormat,
    Invoice,
    InvoiceDocument,
    InvoiceLine,
    LateChange,
    LineRecord,
    TaxLine,
)  # fmt: skip
from billing.selectors import coming, terms
from billing.selectors import invoices as stored
from billing.selectors import parts as records
from billing.selectors import taxes as taxation
from billing.services import documents, grants, numbers, prepaid, usage, wallets
from billing.services import ledger as books
from portal.accounts.models import Membership, Role
from portal.audit.services import note
from portal.kit.errors import Conflict
from portal.kit.intervals import Interval
from portal.kit.money import CURRENCIES, Money
from portal.outbox.services import put

SYSTEM = "system"
SERIES, DEMO_SERIES = "IW", "DEMO"


def draft(*, period: BillingPeriod, now: datetime) -> list[Invoice]:
    """The drafts of a period, one per currency that was used; none if nothing was. Runs in the closing transaction."""
    for ending in coming.waiting_endings(period.organisation_id):
        usage.take_back(attempt_ref=ending.attempt_ref, now=now)
        LateChange.objects.filter(id=ending.id).update(settled_at=now)
    late = coming.waiting(period.organisation_id)
    LateChange.objects.filter(id__in=[change.id for change in late]).update(settled_at=now)
    parts = records.of_period(period) + coming.corrections(late)
    drafts = []
    for code in sorted({part.currency for part in parts}):
        mine = [part for part in parts if part.currency == code]
        lines = coming.rate(mine, organisation_id=period.organisation_id)
        if not lines:
            continue
        invoice = _write(period, code, lines, now)
        settled = {part.record_id for part in mine if part.correction_of}
        changes = [change.id for change in late if change.record_id in settled]
        LateChange.objects.filter(id__in=changes).update(settled_by=invoice)
        drafts.append(invoice)
    return drafts


@transaction.atomic
def issue(*, invoice: Invoice, now: datetime) -> Invoice:
    """Draft → open: number, postings, frozen documents, promises of PDF, mail and collection; all or nothing.

    An invoice with nothing to pay is paid at once.
    """
    wallets.lock(invoice.organisation)
    invoice = (
        Invoice.objects.select_for_update(of=("self",)).select_related("organisation", "period").get(id=invoice.id)
    )
    state, _ = invoicing.advance(InvoiceState(invoice.state), InvoiceEvent.ISSUED)
    invoice.number, invoice.issue_date = numbers.following(DEMO_SERIES if invoice.demo else SERIES, today=now.date())
    invoice.issued_at, invoice.due_at = now, now + terms.payment_time(invoice.organisation)
    invoice.state = state
    lines = stored.lines(invoice)
    taxes = list(
        TaxLine.objects.filter(invoice=invoice).order_by("rate_ppm").values("rate_ppm", "taxable_minor", "tax_minor")
    )
    frozen = documents.content(invoice, lines, taxes, taxation.of_tenant(invoice.organisation))
    document = documents.store(
        invoice=invoice, format=DocumentFormat.JSON, language="", data=statement.canonical(frozen), now=now
    )
    invoice.sha256 = document.sha256
    invoice.save()
    for language in wording.LANGUAGES:
        documents.store(
            invoice=invoice,
            format=DocumentFormat.CSV,
            language=language,
            data=documents.as_csv(frozen, language),
            now=now,
        )
    _post(invoice, now)
    paid = prepaid.settle(invoice=invoice, now=now)
    _promise(invoice, invoice.payable_minor - paid, now)
    note(
        actor=SYSTEM,
        deed="invoice.issue",
        target=invoice.public_id,
        organisation_id=invoice.organisation_id,
        now=now,
        data={
            "number": invoice.number,
            "total": Money(invoice.total_minor, invoice.currency).text(),
            "currency": invoice.currency,
        },
    )
    if paid == invoice.payable_minor:
        move(invoice=invoice, event=InvoiceEvent.PAID, paid_minor=paid, settled_at=now)
    elif paid:
        move(invoice=invoice, event=InvoiceEvent.PART_PAID, paid_minor=paid)
    return invoice


@transaction.atomic
def void(*, invoice: Invoice, by: str, reason: str, now: datetime) -> Invoice:
    """Take an invoice back whole: only with zero payments, by the mirror of its postings. It keeps its number and its documents."""
    wallets.lock(invoice.organisation)
    invoice = Invoice.objects.select_for_update(of=("self",)).select_related("organisation").get(id=invoice.id)
    if invoice.paid_minor or invoice.credit_used_minor or invoice.credited_minor:
        raise Conflict("something was paid on this invoice: write a credit note instead", code="invoice_has_payments")
    move(invoice=invoice, event=InvoiceEvent.VOIDED, settled_at=now)
    books.post(
        kind="void",
        key=f"void:{invoice.public_id}",
        posting=_posting(invoice).mirrored(),
        reference=invoice.public_id,
        now=now,
    )
    note(
        actor=by,
        deed="invoice.void",
        target=invoice.public_id,
        organisation_id=invoice.organisation_id,
        now=now,
        data={"reason": reason, "number": invoice.number},
    )
    return invoice


@transaction.atomic
def record_payment(
    *, invoice: Invoice, amount: Money, reference: str, by: str, now: datetime, cash_owner: str = ledger.PLATFORM
) -> Invoice:
    """Money that arrived: a bank transfer noted by an operator, or a charge of the rail (`cash_owner`); the same reference again changes nothing.

    A payment in another currency, of nothing, or of more than is open is refused.
    """
    wallets.lock(invoice.organisation)
    invoice = Invoice.objects.select_for_update(of=("self",)).select_related("organisation").get(id=invoice.id)
    if amount.currency != invoice.currency:
        raise Conflict(f"the invoice is in {invoice.currency}: a payment is never converted", code="currency_differs")
    key = f"payment:{invoice.public_id}:{reference}"
    posting = ledger.payment(
        tenant=invoice.organisation.public_id,
        currency=invoice.currency,
        amount_minor=amount.minor,
        cash_owner=cash_owner,
    )
    if books.known(key=key, posting=posting):
        return invoice
    left = invoice.payable_minor - invoice.paid_minor - invoice.credited_minor
    if not 0 < amount.minor <= left:
        raise Conflict(f"{Money(left, invoice.currency).text()} are open on this invoice", code="bad_amount")
    event = InvoiceEvent.PAID if amount.minor == left else InvoiceEvent.PART_PAID
    move(
        invoice=invoice,
        event=event,
        paid_minor=invoice.paid_minor + amount.minor,
        settled_at=now if event is InvoiceEvent.PAID else None,
    )
    books.post(kind="payment", key=key, posting=posting, reference=invoice.public_id, now=now)
    note(
        actor=by,
        deed="invoice.payment",
        target=invoice.public_id,
        organisation_id=invoice.organisation_id,
        now=now,
        data={"amount": amount.text(), "reference": reference},
    )
    return invoice


def apply(*, invoice: Invoice, at_most_minor: int, now: datetime) -> int:
    """Up to `at_most_minor` pays what is open on an invoice; returns how much. The caller has locked the tenant's books and posts the money."""
    row = Invoice.objects.select_for_update(of=("self",)).get(id=invoice.id)
    if row.state not in invoicing.OWED:
        return 0
    left = row.payable_minor - row.paid_minor - row.credited_minor
    part = min(left, at_most_minor)
    if part > 0:
        event = InvoiceEvent.PAID if part == left else InvoiceEvent.PART_PAID
        move(
            invoice=row, event=event, paid_minor=row.paid_minor + part, **({"settled_at": now} if part == left else {})
        )
    return max(0, part)


def take_off(*, invoice: Invoice, amount_minor: int, now: datetime) -> None:
    """A credit note lowers what is open; an invoice with nothing open is settled. The caller holds its lock."""
    credited = invoice.credited_minor + amount_minor
    if invoice.paid_minor + credited == invoice.payable_minor:
        move(invoice=invoice, event=InvoiceEvent.PAID, credited_minor=credited, settled_at=now)
    elif Invoice.objects.filter(id=invoice.id, state=invoice.state).update(credited_minor=credited) != 1:
        raise Conflict("another changed this invoice first: read it again", code="invoice_changed")


def mark_past_due(*, now: datetime) -> int:
    """Invoices whose day has passed; returns how many. What is below the rail's minimum cannot be collected: it stays open and blocks nobody."""
    marked = 0
    for state in (InvoiceState.OPEN, InvoiceState.PARTIALLY_PAID):
        after, _ = invoicing.advance(state, InvoiceEvent.OVERDUE)
        for rules in CURRENCIES.values():
            late = Invoice.objects.filter(state=state, currency=rules.code, due_at__lte=now, demo=False)
            owed = F("paid_minor") + F("credited_minor") + rules.rail_minimum
            marked += late.filter(payable_minor__gte=owed).update(state=after)
    return marked


@dataclass(frozen=True, slots=True)
class LineCheck:
    """One line computed again from its records."""

    position: int
    printed: Money
    recomputed: Money
    records: int
    problems: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.problems and self.printed == self.recomputed


@dataclass(slots=True)
class Verification:
    """An invoice computed again: every line from its usage records, the totals from the lines, the document from its hash."""

    invoice: Invoice
    lines: list[LineCheck]
    total: Money
    recomputed_total: Money
    problems: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.problems and self.total == self.recomputed_total and all(line.ok for line in self.lines)

    def wire(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "invoice": self.invoice.public_id,
            "number": self.invoice.number,
            "ok": self.ok,
            "total": self.total.wire(),
            "recomputed_total": self.recomputed_total.wire(),
            "records": sum(line.records for line in self.lines),
            "sha256": self.invoice.sha256,
            "problems": self.problems,
            "lines": [
                {
                    "n": line.position,
                    "ok": line.ok,
                    "amount": line.printed.text(),
                    "recomputed": line.recomputed.text(),
                    "records": line.records,
                    "problems": list(line.problems),
                }
                for line in self.lines
            ],
        }


def verify(invoice: Invoice) -> Verification:
    """Compute an issued invoice again from its stored usage records."""
    lines = list(InvoiceLine.objects.filter(invoice=invoice).order_by("position"))
    proofs: dict[int, list[LineRecord]] = {line.id: [] for line in lines}
    for proof in LineRecord.objects.filter(line__invoice=invoice).select_related("record").iterator(chunk_size=5000):
        proofs[proof.line_id].append(proof)
    checks = [_check_line(line, proofs[line.id], invoice.currency) for line in lines]
    again = invoicing.add_up(
        [
            NetLine(line.provider_ref, check.recomputed.minor, line.tax_rate_ppm)
            for line, check in zip(lines, checks, strict=True)
        ],
        fee_ppm=invoice.fee_ppm,
    )
    done = Verification(
        invoice, checks, Money(invoice.total_minor, invoice.currency), Money(again.total_minor, invoice.currency)
    )
    done.problems += _check_shares(lines, proofs)
    if (again.subtotal_minor, again.tax_minor) != (invoice.subtotal_minor, invoice.tax_minor):
        done.problems.append("subtotal or tax differ from the lines")
    done.problems += _check_document(invoice, lines)
    return done


def _check_line(line: InvoiceLine, proofs: Sequence[LineRecord], code: str) -> LineCheck:
    problems = []
    sign = -1 if line.qty_us < 0 else 1
    quantity = sign * sum(proof.qty_us for proof in proofs)
    if quantity != line.qty_us:
        problems.append(f"its records add up to {quantity}, the line says {line.qty_us}")
    for proof in proofs:
        record = proof.record
        if line.unbilled_reason or line.grant_ref:
            continue
        prices = {record.unit_price_micro} if not record.tiers else {price for _, price in record.tiers}
        if line.price_micro not in prices or line.price_version_ref != record.price_version_ref:
            problems.append(f"record {record.attempt_ref} {record.resource} {record.seq} has another price")
    again = rating.exact(line.resource, quantity, line.price_micro, code, line.discount_ppm).to_money()
    return LineCheck(line.position, Money(line.amount_minor, code), again, len(proofs), tuple(problems[:20]))


def _check_shares(lines: Sequence[InvoiceLine], proofs: dict[int, list[LineRecord]]) -> list[str]:
    """Each record's shares of one interval add up to what the record says of that interval, over the tiers it was cut into."""
    shares: dict[tuple[int, datetime, datetime, bool, bool], int] = {}
    known: dict[int, Any] = {}
    for line in lines:
        taken_back = line.qty_us < 0
        for proof in proofs[line.id]:
            key = (proof.record_id, proof.started_at, proof.ended_at, taken_back, bool(line.correction_of))
            shares[key] = shares.get(key, 0) + proof.qty_us
            known[proof.record_id] = proof.record
    wrong = []
    for (record_id, start, end, taken_back, _), quantity in shares.items():
        record = known[record_id]
        whole = portion(record.qty_us, Interval(record.started_at, record.ended_at), Interval(start, end))
        if quantity > whole or (quantity != whole and not taken_back):
            wrong.append(
                f"record {record.attempt_ref} {record.resource} {record.seq} is in the lines with {quantity} of {whole}"
            )
    return wrong[:20]


def _check_document(invoice: Invoice, lines: Sequence[InvoiceLine]) -> list[str]:
    document = InvoiceDocument.objects.filter(invoice=invoice, format=DocumentFormat.JSON).first()
    if document is None:
        return ["the document is missing"]
    data = bytes(document.content)
    if not hashlib.sha256(data).hexdigest() == document.sha256 == invoice.sha256:
        return ["the document is not the one that was issued"]
    frozen = json.loads(data)
    said = [Money.parse(line["amount"], invoice.currency).minor for line in frozen["lines"]]
    if (
        said != [line.amount_minor for line in lines]
        or frozen["total"] != Money(invoice.total_minor, invoice.currency).text()
    ):
        return ["the document says other amounts"]
    return []


def _write(period: BillingPeriod, code: str, lines: Sequence[Line], now: datetime) -> Invoice:
    """The draft with its lines, proofs and taxes."""
    treatment = taxation.of_tenant(period.organisation)
    tax_ppm, fee_ppm = treatment.rate_ppm, settings.IDLEWILD_PLATFORM_FEE_PPM
    tenant = period.organisation.public_id
    wallets.lock(period.organisation)  # before its other accounts, as everybody who moves its money
    grants.expire(organisation_id=period.organisation_id, now=now)
    credit = books.locked(owner=tenant, kind=AccountKind.CREDIT, currency=code).balance_minor
    totals = invoicing.add_up(
        [NetLine(line.key.provider_ref, line.amount.minor, tax_ppm) for line in lines],
        fee_ppm=fee_ppm,
        credit_minor=credit,
    )
    invoice = Invoice.objects.create(
        organisation=period.organisation,
        period=period,
        currency=code,
        demo=all(line.key.demo for line in lines),
        fee_ppm=fee_ppm,
        tax_category=treatment.category.value,
        subtotal_minor=totals.subtotal_minor,
        tax_minor=totals.tax_minor,
        total_minor=totals.total_minor,
        credit_used_minor=totals.credit_used_minor,
        payable_minor=totals.payable_minor,
        to_credit_minor=totals.to_credit_minor,
        created_at=now,
    )
    rows = [
        _row(invoice, statement.printed(line, position=n, tax_rate_ppm=tax_ppm), share.fee_minor, share.seller_minor)
        for n, (line, share) in enumerate(zip(lines, totals.shares, strict=True), start=1)
    ]
    InvoiceLine.objects.bulk_create(rows, batch_size=500)
    _write_proofs(rows, lines)
    TaxLine.objects.bulk_create(
        TaxLine(invoice=invoice, rate_ppm=tax.rate_ppm, taxable_minor=tax.taxable_minor, tax_minor=tax.tax_minor)
        for tax in totals.taxes
    )
    return invoice


def _row(invoice: Invoice, line: PrintedLine, fee_minor: int, seller_minor: int) -> InvoiceLine:
    same = (
        "position", "correction_of", "project_ref", "project_name", "department", "provider_ref", "provider_name", "resource", "sku",
        "hardware_model", "region", "zone", "virtual", "demo", "price_version_ref", "price_micro", "tier", "discount_ppm", "qty_us",
        "amount_micro", "tax_rate_ppm", "unbilled_reason", "node_ref", "attempt_ref", "green_ratio_ppm", "green_known_ppm", "first_at",
        "last_at", "grant_ref",
    )  # fmt: skip
    return InvoiceLine(
        invoice=invoice,
        list_minor=line.list_amount.minor,
        amount_minor=line.amount.minor,
        fee_minor=fee_minor,
        seller_minor=seller_minor,
        **{name: getattr(line, name) for name in same},
    )


def _write_proofs(rows: Sequence[InvoiceLine], lines: Sequence[Line]) -> None:
    with (
        connection.cursor() as cursor,
        cursor.copy("COPY billing_linerecord (line_id, record_id, started_at, ended_at, qty_us) FROM STDIN") as copy,
    ):
        for row, line in zip(rows, lines, strict=True):
            shares: dict[tuple[int, datetime, datetime], int] = {}
            for part, quantity in line.slices:
                key = (part.record_id, part.started_at, part.ended_at)
                shares[key] = shares.get(key, 0) + quantity
            copy.write(
                "".join(
                    f"{row.id}\t{record}\t{start.isoformat()}\t{end.isoformat()}\t{quantity}\n"
                    for (record, start, end), quantity in shares.items()
                )
            )


def _posting(invoice: Invoice) -> ledger.Posting:
    sellers: dict[str, int] = {}
    fee = 0
    for line in InvoiceLine.objects.filter(invoice=invoice):
        sellers[line.provider_ref] = sellers.get(line.provider_ref, 0) + line.seller_minor
        fee += line.fee_minor
    accrued = {
        provider: books.locked(owner=provider, kind=AccountKind.ACCRUED, currency=invoice.currency).balance_minor
        for provider, share in sorted(sellers.items())
        if share < 0
    }
    return ledger.invoice(
        tenant=invoice.organisation.public_id,
        currency=invoice.currency,
        sellers=sellers,
        fee_minor=fee,
        tax_minor=invoice.tax_minor,
        accrued=accrued,
    )


def _post(invoice: Invoice, now: datetime) -> None:
    books.post(
        kind="invoice",
        key=f"invoice:{invoice.public_id}",
        posting=_posting(invoice),
        reference=invoice.public_id,
        now=now,
    )
    if invoice.credit_used_minor:
        used = ledger.credit_used(
            tenant=invoice.organisation.public_id, currency=invoice.currency, amount_minor=invoice.credit_used_minor
        )
        books.post(kind="credit", key=f"credit:{invoice.public_id}", posting=used, reference=invoice.public_id, now=now)
        grants.note_use(invoice=invoice, now=now)


def _promise(invoice: Invoice, open_minor: int, now: datetime) -> None:
    """What happens after commit: the PDFs are made, people are told, the rail is asked. The rail's topic waits until a rail performs it."""
    put(topic="invoice.pdf", key=invoice.public_id, payload={"invoice": invoice.public_id}, now=now)
    charge = rail.chargeable(Money(open_minor, invoice.currency))
    if charge.minor and not invoice.demo:
        put(
            topic="stripe.collect",
            key=f"{invoice.public_id}:1",
            payload={"invoice": invoice.public_id, "amount_minor": charge.minor, "currency": charge.currency},
            now=now,
        )
    if not invoice.demo:
        put(topic="mail", key=f"invoice:{invoice.public_id}", payload=_mail(invoice), now=now)


def _mail(invoice: Invoice) -> dict[str, Any]:
    people = Membership.objects.filter(organisation_id=invoice.organisation_id, role__in=[Role.OWNER, Role.BILLING])
    payable = Money(invoice.payable_minor, invoice.currency)
    link = f"{settings.IDLEWILD_BASE_URL}/invoices/{invoice.public_id}"
    return {
        "to": sorted(people.values_list("user__email", flat=True)),
        "subject": f"Invoice {invoice.number} · 账单 {invoice.number}",
        "body": (
            f"Invoice {invoice.number} for {invoice.period.month}: {payable.text()} {payable.currency}.\n"
            f"账单 {invoice.number}，账期 {invoice.period.month}：{payable.text()} {payable.currency}。\n\n{link}\n"
        ),
    }


def move(*, invoice: Invoice, event: InvoiceEvent, **values: Any) -> None:
    """A conditional update on the old state: who comes second changes nothing."""
    before = InvoiceState(invoice.state)
    after, _ = invoicing.advance(before, event)
    if Invoice.objects.filter(id=invoice.id, state=before).update(state=after, **values) != 1:
        raise Conflict("another changed this invoice first: read it again", code="invoice_changed")
    for name, value in {"state": after, **values}.items():
        setattr(invoice, name, value)
