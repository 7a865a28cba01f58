"""Invoices: the upcoming one, the issued ones, the records behind a line, documents, and computing one again."""

from typing import Any

from django.http import HttpResponse
from django.urls import reverse
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from billing.domain.invoicing import OWED
from billing.domain.statement import quantity_text
from billing.selectors import bank, credit_notes, payments, usage
from billing.selectors import invoices as selectors
from billing.services import documents
from billing.services import invoices as services
from frontend.doors import PageRequest, page, show
from frontend.paging import page_of
from frontend.presenters import figures, money_lines
from frontend.presenters import payments as present_payments
from frontend.presenters.topics import topics_of
from portal import clock
from portal.accounts.permissions import Deed, may
from portal.kit.errors import NotFound
from portal.kit.money import Money


def upcoming_of(organisation: Any) -> dict[str, Any]:
    """The coming invoice of this month; empty when nothing was used."""
    now = clock.now()
    found = usage.upcoming(organisation.id, now)
    if found is None:
        return {"month": money_lines.month_text(f"{now:%Y-%m}"), "lines": [], "total": Money(0, organisation.currency)}
    lines = [money_lines.row(line) for line in found.lines]
    return {"month": money_lines.month_text(found.month), "lines": lines, "total": found.total, "tax": found.tax}


def _head(invoice: Any) -> dict[str, Any]:
    """An invoice as the pages show it."""
    return {
        "public_id": invoice.public_id,
        "number": invoice.number,
        "state": invoice.state,
        "demo": invoice.demo,
        "month": money_lines.month_text(invoice.period.month),
        "bounds": money_lines.bounds(invoice.period),
        "total": Money(invoice.total_minor, invoice.currency),
        "tax": Money(invoice.tax_minor, invoice.currency),
        "due_at": invoice.due_at,
        "issued_on": invoice.issue_date,
        "sha256": invoice.sha256,
        "reverse_charge": invoice.tax_category == "AE",
    }


@page("money.read")
def invoice_list(request: PageRequest) -> HttpResponse:
    home = request.actor.home()
    rows, older = page_of(request, selectors.for_organisation(organisation_id=home.id))
    context = {
        "upcoming": lambda: upcoming_of(home),
        "invoices": [_head(row) for row in rows],
        "older": older,
        "topics": topics_of(home),
    }
    return show(request, "invoices/list", context)


def _one(request: PageRequest, public_id: str) -> Any:
    return selectors.one(organisation_id=request.actor.home().id, public_id=public_id)


def money_of(found: Any) -> dict[str, Any]:
    """What was taken back of an invoice, what is open, and how to pay that by bank transfer."""
    notes = [
        {
            "number": note.number, "day": note.issue_date, "reason": note.reason, "total": Money(note.total_minor, note.currency),
            "off_open": Money(note.off_open_minor, note.currency), "to_credit": Money(note.to_credit_minor, note.currency),
        }
        for note in credit_notes.of_invoice(found)
    ]  # fmt: skip
    transfer = bank.of_invoice(found)
    owed = Money.parse(transfer["amount"]["amount"], found.currency) if found.state in OWED and not found.demo else None
    return {"notes": notes, "open": owed, "transfer": transfer}


@page("money.read")
def invoice(request: PageRequest, public_id: str, checked: dict[str, Any] | None = None) -> HttpResponse:
    found = _one(request, public_id)
    printed = selectors.lines(found)
    lines = [
        money_lines.row(line, href=reverse("console:invoice_line", args=[public_id, line.position])) for line in printed
    ]
    context = {
        "invoice": _head(found) | {"green_ppm": money_lines.green_ppm(printed)},
        "groups": money_lines.by_department(lines, found.currency),
        "verification": checked,
        **money_of(found),
        "formats": formats_of(found),
        "pay": payments.payable(found),
        "paid_by": [present_payments.row(row) for row in payments.of_invoice(found)],
        "may_move": may(request.actor, Deed.MONEY_MOVE),
        "stand_in": payments.stand_in(),
    }
    return show(request, "invoices/detail", context)


def formats_of(invoice: Any) -> list[dict[str, str]]:
    """The documents that a page offers: those for people first."""
    named = {"pdf": "PDF", "xlsx": "XLSX", "csv": "CSV", "focus": "FOCUS 1.2", "json": "JSON"}
    if invoice.currency == documents.E_INVOICE_CURRENCY:
        named["xml"] = "EN 16931 XML"
    files = [
        {"name": name, "href": reverse("console:invoice_document", args=[invoice.public_id, kind])}
        for kind, name in named.items()
    ]
    if invoice.paid_minor:
        language = get_language() or "en"
        lang = "zh" if language.startswith("zh") else "en"
        files.append({"name": _("Receipt"), "href": f"/api/v1/invoices/{invoice.public_id}/receipt.pdf?lang={lang}"})
    return files


@page("money.read")
def verify(request: PageRequest, public_id: str) -> HttpResponse:
    """Computed again from the usage records, shown on the invoice's page."""
    result = services.verify(_one(request, public_id))
    return invoice(request, public_id, checked=money_lines.verification(result))


@page("money.read")
def line(request: PageRequest, public_id: str, position: int) -> HttpResponse:
    found = _one(request, public_id)
    printed = next((row for row in selectors.lines(found) if row.position == position), None)
    if printed is None:
        raise NotFound(_("The invoice has no such line."))
    proofs = selectors.proofs(found, position)
    rows, older = page_of(request, proofs, size=200)
    records = [
        {
            "started_at": share.started_at,
            "ended_at": share.ended_at,
            "job_name": share.job_name,
            "attempt_ref": share.attempt_ref,
            "node_ref": share.node_ref,
            "quantity": f"{figures.grouped(quantity_text(share.resource, share.qty_us, 6))} {money_lines.unit(share.resource)}",
        }
        for share in map(selectors.share, rows)
    ]
    context = {
        "invoice": _head(found),
        "line": money_lines.row(printed),
        "records": records,
        "total_records": proofs.count(),
        "older": older,
    }
    return show(request, "invoices/line", context)


@page("money.read")
def document(request: PageRequest, public_id: str, kind: str) -> HttpResponse:
    found = _one(request, public_id)
    stored = documents.ensure(invoice=found, format=kind, language=get_language() or "en", now=clock.now())
    answer = HttpResponse(bytes(stored.content), content_type=documents.TYPES[kind])
    answer["Content-Disposition"] = f'attachment; filename="{documents.file_name(str(found.number), kind)}"'
    return answer
