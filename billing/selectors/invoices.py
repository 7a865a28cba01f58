"""Invoices as their tenant may see them: list, lines, the records behind a line, the stored documents."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from billing.domain.invoicing import InvoiceState
from billing.domain.statement import PrintedLine, iso, quantity_text
from billing.models import NO_LANGUAGE, DocumentFormat, Invoice, InvoiceDocument, InvoiceLine, LineRecord
from portal.kit.errors import NotFound, Unavailable
from portal.kit.money import Money


@dataclass(frozen=True, slots=True)
class RecordShare:
    """How much of one usage record is in a line, and the record itself."""

    attempt_ref: str
    job_ref: str
    job_name: str
    task_name: str
    node_ref: str
    resource: str
    seq: int
    started_at: datetime
    ended_at: datetime
    record_started_at: datetime
    record_ended_at: datetime
    count_milli: int
    record_qty_us: int
    qty_us: int

    def wire(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "attempt": self.attempt_ref,
            "job": self.job_ref,
            "job_name": self.job_name,
            "task": self.task_name,
            "node": self.node_ref,
            "resource": self.resource,
            "seq": self.seq,
            "started_at": iso(self.started_at),
            "ended_at": iso(self.ended_at),
            "count_milli": self.count_milli,
            "qty_us": self.qty_us,
            "quantity": quantity_text(self.resource, self.qty_us, 6),
            "record": {
                "started_at": iso(self.record_started_at),
                "ended_at": iso(self.record_ended_at),
                "qty_us": self.record_qty_us,
            },
        }


def for_organisation(*, organisation_id: int, state: str = "") -> QuerySet[Invoice]:
    """The tenant's issued invoices, newest first; drafts live only inside a close."""
    found = Invoice.objects.filter(organisation_id=organisation_id).exclude(state=InvoiceState.DRAFT)
    return (found.filter(state=state) if state else found).select_related("period", "organisation").order_by("-id")


def one(*, organisation_id: int, public_id: str) -> Invoice:
    """That invoice of that tenant, by id or by number; NotFound for a foreign one."""
    mine = for_organisation(organisation_id=organisation_id)
    invoice = mine.filter(public_id=public_id).first() or mine.filter(number=public_id).first()
    if invoice is None:
        raise NotFound(_("There is no such invoice that you can see."))
    return invoice


def everyone(*, state: str = "") -> QuerySet[Invoice]:
    """All issued invoices, for operators."""
    found = Invoice.objects.exclude(state=InvoiceState.DRAFT)
    return (found.filter(state=state) if state else found).select_related("period", "organisation").order_by("-id")


def lines(invoice: Invoice) -> list[PrintedLine]:
    """The lines of an invoice as they are printed, in order."""
    return [
        _printed(line, invoice.currency) for line in InvoiceLine.objects.filter(invoice=invoice).order_by("position")
    ]


def line(invoice: Invoice, position: int) -> InvoiceLine:
    """One stored line; NotFound if the invoice has no such position."""
    found = InvoiceLine.objects.filter(invoice=invoice, position=position).first()
    if found is None:
        raise NotFound(_("The invoice has no such line."))
    return found


def proofs(invoice: Invoice, position: int) -> QuerySet[LineRecord]:
    """The proofs of a line with their records, newest last; for paging."""
    found = LineRecord.objects.filter(line=line(invoice, position)).select_related("record")
    return found.order_by("record__ended_at", "record__attempt_ref", "record__seq", "id")


def line_records(invoice: Invoice, position: int) -> list[RecordShare]:
    """The usage records behind a line, with the share of each that is in it."""
    return [share(proof) for proof in proofs(invoice, position)]


def share(proof: LineRecord) -> RecordShare:
    """A proof as people read it."""
    record = proof.record
    return RecordShare(
        attempt_ref=record.attempt_ref,
        job_ref=record.job_ref,
        job_name=record.job_name,
        task_name=record.task_name,
        node_ref=record.node_ref,
        resource=record.resource,
        seq=record.seq,
        started_at=proof.started_at,
        ended_at=proof.ended_at,
        record_started_at=record.started_at,
        record_ended_at=record.ended_at,
        count_milli=record.count_milli,
        record_qty_us=record.qty_us,
        qty_us=proof.qty_us,
    )


def document(invoice: Invoice, format: str, language: str = "en") -> bytes:
    """A stored document of a format. PDF, XLSX and FOCUS are made soon after issue by the outbox; until then Unavailable.

    ``billing.services.documents.ensure`` makes a missing one at once.
    """
    found = InvoiceDocument.objects.filter(
        invoice=invoice, format=format, language="" if format in NO_LANGUAGE else language
    ).first()
    if found is None:
        if format in set(DocumentFormat):
            raise Unavailable(_("The document is being made: ask again in a minute."), retry_after=60)
        raise NotFound(_("There is no such format: ask for %(formats)s.") % {"formats": ", ".join(DocumentFormat)})
    return bytes(found.content)


def _printed(line: InvoiceLine, currency: str) -> PrintedLine:
    return PrintedLine(
        position=line.position,
        correction_of=line.correction_of,
        project_ref=line.project_ref,
        project_name=line.project_name,
        department=line.department,
        provider_ref=line.provider_ref,
        provider_name=line.provider_name,
        resource=line.resource,
        sku=line.sku,
        hardware_model=line.hardware_model,
        region=line.region,
        zone=line.zone,
        virtual=line.virtual,
        demo=line.demo,
        price_version_ref=line.price_version_ref,
        price_micro=line.price_micro,
        tier=line.tier,
        discount_ppm=line.discount_ppm,
        qty_us=int(line.qty_us),
        amount_micro=int(line.amount_micro),
        list_amount=Money(line.list_minor, currency),
        amount=Money(line.amount_minor, currency),
        tax_rate_ppm=line.tax_rate_ppm,
        unbilled_reason=line.unbilled_reason,
        node_ref=line.node_ref,
        attempt_ref=line.attempt_ref,
        grant_ref=line.grant_ref,
        green_ratio_ppm=line.green_ratio_ppm,
        green_known_ppm=line.green_known_ppm,
        first_at=line.first_at,
        last_at=line.last_at,
    )
