"""Bank transfers: a statement is imported, its credits are matched, and what matches nothing waits where an operator sees it.

Each credit first lands in ``unmatched`` (cash −x, unmatched +x), in the transaction that stores its line under the bank's own reference, so the same line
in another statement is no second one. Then each is settled in a transaction of its own: ``unmatched −x, tenant_receivable +y, wallet +(x − y)``. A crash
between the two leaves money that is visible and waiting; the next import, or the operator, settles it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext as _

from billing.domain import bank as rules
from billing.domain import bank_files, ledger
from billing.domain.bank import Credit, Match, Payable, TransferEvent, TransferState, Why
from billing.domain.ledger import PLATFORM, AccountKind
from billing.models import BankStatement, BankTransfer, Invoice
from billing.selectors import bank
from billing.services import invoices, telling, wallets
from billing.services import ledger as books
from portal.accounts.models import Organisation
from portal.audit.services import note
from portal.kit.errors import Conflict
from portal.kit.money import Money

SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import did: new credits, how many of them found their owner, how many lines were known already."""

    statement: BankStatement
    new: int
    matched: int
    known: int
    repeated: bool


def import_statement(*, name: str, data: bytes, by: str, now: datetime, default_currency: str = "CNY") -> Imported:
    """Read a CSV or camt.053 file and settle what can be settled. The same file, or the same line in another file, changes nothing.

    InvalidInput with every fault and its row; then nothing of the file was taken.
    """
    read = bank_files.read(data, default_currency=default_currency)
    with transaction.atomic():
        statement, first = BankStatement.objects.get_or_create(
            sha256=read.sha256,
            defaults={"name": name[:120], "format": read.format[:8], "lines": len(read.credits), "imported_by": by, "imported_at": now},
        )  # fmt: skip
        new = _take(statement, read.credits, now) if first else []
        if first:
            note(
                actor=by, deed="bank.import", target=read.sha256[:16], organisation_id=None,
                data={"name": name, "lines": len(read.credits), "new": len(new)}, now=now,
            )  # fmt: skip
    matched = match_waiting(by=by, now=now)
    return Imported(statement, len(new), matched, len(read.credits) - len(new), not first)


def match_waiting(*, by: str = SYSTEM, now: datetime) -> int:
    """Look at everything that waits once more; returns how many found their owner."""
    waiting = list(bank.unmatched())
    payables = bank.payables(rules.names([bank.credit(row) for row in waiting]))
    found = 0
    for row in waiting:
        match = rules.match(bank.credit(row), payables)
        if match.why is not None:
            _waits(row, match.why)
            continue
        found += _settle(row, match, payables, by, now)
    return found


def assign(
    *, transfer: BankTransfer, organisation: Organisation, invoice: Invoice | None, by: str, now: datetime
) -> BankTransfer:
    """An operator says whose money it is: it pays `invoice` as far as that is open, the rest (or all) goes to the organisation's wallet.

    Conflict if it was settled already, or is in another currency: it is never converted.
    """
    code = invoice.currency if invoice is not None else organisation.currency
    if transfer.currency != code or (invoice is not None and invoice.organisation_id != organisation.id):
        raise Conflict(
            _("This money is in %(currency)s. It is never converted: send it back, or ask for a payment in %(other)s.")
            % {"currency": transfer.currency, "other": code},
            code="currency_differs",
        )
    if transfer.currency != organisation.currency and _open(invoice) < transfer.amount_minor:
        raise Conflict(
            _("What is left over could not go to this wallet: it is in another currency."), code="currency_differs"
        )
    part = min(_open(invoice), transfer.amount_minor)
    with transaction.atomic():
        done = _move(transfer, organisation, invoice, part, TransferEvent.ASSIGNED, by, now)
    if not done:
        raise Conflict(_("This transfer was settled already."), code="transfer_settled")
    transfer.refresh_from_db()
    return transfer


def send_back(*, transfer: BankTransfer, reference: str, by: str, now: datetime) -> BankTransfer:
    """Note that the money went back to its payer: ``unmatched −x, cash +x``. `reference`: the bank's own of that payment."""
    amount = Money(transfer.amount_minor, transfer.currency)
    state = rules.advance(TransferState(transfer.state), TransferEvent.RETURNED)
    with transaction.atomic():
        updated = BankTransfer.objects.filter(id=transfer.id, state=TransferState.UNMATCHED).update(
            state=state, why="", settled_by=by, settled_at=now
        )
        if updated != 1:
            raise Conflict(_("This transfer was settled already."), code="transfer_settled")
        posting = ledger.moved(
            amount.currency, amount_minor=amount.minor, out_of=(PLATFORM, AccountKind.UNMATCHED), into=(PLATFORM, AccountKind.CASH)
        )  # fmt: skip
        books.post(
            kind="bank_back",
            key=f"bank_back:{transfer.public_id}",
            posting=posting,
            reference=transfer.public_id,
            now=now,
        )
        note(
            actor=by, deed="bank.return", target=transfer.public_id, organisation_id=None,
            data={"amount": amount.text(), "currency": amount.currency, "reference": reference}, now=now,
        )  # fmt: skip
    transfer.refresh_from_db()
    return transfer


def _take(statement: BankStatement, credits: Sequence[Credit], now: datetime) -> list[BankTransfer]:
    """The lines that no statement had before, each posted to ``unmatched``."""
    known = set(
        BankTransfer.objects.filter(bank_reference__in=[credit.bank_reference for credit in credits]).values_list("bank_reference", flat=True)
    )  # fmt: skip
    made = []
    for credit in credits:
        if credit.bank_reference in known:
            continue
        row = BankTransfer.objects.create(
            statement=statement, bank_reference=credit.bank_reference, booked_on=credit.booked_on, currency=credit.amount.currency,
            amount_minor=credit.amount.minor, payer_name=credit.payer_name, payer_account=credit.payer_account, text=credit.text,
            state=TransferState.UNMATCHED, received_at=now,
        )  # fmt: skip
        posting = ledger.moved(
            row.currency, amount_minor=row.amount_minor, out_of=(PLATFORM, AccountKind.CASH), into=(PLATFORM, AccountKind.UNMATCHED)
        )  # fmt: skip
        books.post(kind="bank_in", key=f"bank_in:{row.public_id}", posting=posting, reference=row.public_id, now=now)
        made.append(row)
    return made


def _settle(row: BankTransfer, match: Match, payables: Mapping[str, Payable], by: str, now: datetime) -> bool:
    owner, invoice = bank.owner_of(match.reference)
    if match.to_wallet_minor and owner.currency != row.currency:
        _waits(row, Why.CURRENCY_DIFFERS)
        return False
    with transaction.atomic():
        return _move(row, owner, invoice, match.to_invoice_minor, TransferEvent.MATCHED, by, now)


def _waits(row: BankTransfer, why: Why) -> bool:
    """Say why it waits; False if another has settled it meanwhile."""
    if row.why == why:
        return True
    return BankTransfer.objects.filter(id=row.id, state=TransferState.UNMATCHED).update(why=why) == 1


def _move(
    row: BankTransfer,
    owner: Organisation,
    invoice: Invoice | None,
    to_invoice: int,
    event: TransferEvent,
    by: str,
    now: datetime,
) -> bool:
    """Settle a transfer in the caller's transaction; False if another did it first. The open amount is read again under the locks."""
    wallets.lock(owner)
    locked = BankTransfer.objects.select_for_update().get(id=row.id)
    if locked.state != TransferState.UNMATCHED:
        return False
    paid = 0
    if invoice is not None:
        paid = invoices.apply(invoice=invoice, at_most_minor=to_invoice, now=now)
    wallet = locked.amount_minor - paid
    posting = ledger.bank_settled(
        tenant=owner.public_id, currency=locked.currency, to_invoice_minor=paid, to_wallet_minor=wallet
    )
    books.post(kind="bank", key=f"bank:{locked.public_id}", posting=posting, reference=locked.public_id, now=now)
    updated = BankTransfer.objects.filter(id=locked.id, state=TransferState.UNMATCHED).update(
        state=rules.advance(TransferState.UNMATCHED, event), why="", organisation=owner, invoice=invoice, to_invoice_minor=paid,
        to_wallet_minor=wallet, settled_by=by, settled_at=now,
    )  # fmt: skip
    if updated != 1:
        raise Conflict(_("This transfer was settled already."), code="transfer_settled")
    amount = Money(locked.amount_minor, locked.currency)
    note(
        actor=by, deed=f"bank.{event.value}", target=locked.public_id, organisation_id=owner.id,
        data={"amount": amount.text(), "currency": amount.currency, "invoice": invoice.number if invoice else None}, now=now,
    )  # fmt: skip
    telling.people(
        tenant=owner, key=f"bank:{locked.public_id}", now=now,
        subject=f"Your transfer of {amount.text()} {amount.currency} has arrived · 您的转账 {amount.text()} {amount.currency} 已到账",
        lines=_said(invoice, paid, wallet, amount.currency),
        link=f"{settings.IDLEWILD_BASE_URL}/wallet",
    )  # fmt: skip
    return True


def _said(invoice: Invoice | None, paid: int, wallet: int, code: str) -> tuple[str, ...]:
    lines = []
    if invoice is not None and paid:
        text = Money(paid, code).text()
        lines += [
            f"{text} {code} paid invoice {invoice.number}.",
            f"其中 {text} {code} 用于支付账单 {invoice.number}。",
        ]
    if wallet:
        text = Money(wallet, code).text()
        lines += [f"{text} {code} are in your wallet.", f"{text} {code} 已存入您的钱包。"]
    return tuple(lines)


def _open(invoice: Invoice | None) -> int:
    return 0 if invoice is None else max(0, invoice.payable_minor - invoice.paid_minor - invoice.credited_minor)
