"""/usage, /invoices, /balance: what a tenant used, owes and may still spend."""

from typing import Any

from django.http import HttpResponse
from django.utils.translation import get_language
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.response import Response
from rest_framework.views import APIView

from billing.api import serializers as shapes
from billing.selectors import balances, invoices, usage
from billing.services import documents
from billing.services.invoices import verify
from portal import clock
from portal.accounts.permissions import Needs
from portal.api.pagination import CursorPage
from portal.api.schema import paged
from portal.api.serializers import queried


class Usage(APIView):
    """A month by group; `group_by=line` gives the coming invoice lines. Not final until the month is closed."""

    permission_classes = [Needs("money.read")]

    @extend_schema(parameters=[shapes.UsageQuery], responses=shapes.UsageOut, operation_id="usage")
    def get(self, request: Any) -> Response:
        asked = queried(shapes.UsageQuery, request)
        return Response(
            usage.overview(request.actor.home(), month=asked["month"], group_by=asked["group_by"], now=clock.now())
        )


class Records(APIView):
    """The raw usage records; quarantined and rejected ones too."""

    permission_classes = [Needs("money.read")]

    @extend_schema(parameters=[shapes.RecordsQuery], responses=paged(shapes.RecordOut), operation_id="usage_records")
    def get(self, request: Any) -> Response:
        asked = queried(shapes.RecordsQuery, request)
        rows = usage.records(
            request.actor.home().id,
            month=asked["month"],
            job_ref=asked["job"],
            attempt_ref=asked["attempt"],
            project_ref=asked["project"],
            state=asked["state"],
        )
        return CursorPage.answer(request, rows, lambda row: shapes.RecordOut(row).data)


class Invoices(APIView):
    permission_classes = [Needs("money.read")]

    @extend_schema(parameters=[shapes.InvoicesQuery], responses=paged(shapes.InvoiceOut), operation_id="invoices_list")
    def get(self, request: Any) -> Response:
        asked = queried(shapes.InvoicesQuery, request)
        rows = invoices.for_organisation(organisation_id=request.actor.home().id, state=asked["state"])
        return CursorPage.answer(request, rows, lambda row: shapes.InvoiceOut(row).data)


class Invoice(APIView):
    permission_classes = [Needs("money.read")]

    @extend_schema(responses=shapes.InvoiceWithLinesOut, operation_id="invoices_get")
    def get(self, request: Any, invoice: str) -> Response:
        row = invoices.one(organisation_id=request.actor.home().id, public_id=invoice)
        return Response({**shapes.InvoiceOut(row).data, "lines": [line.wire() for line in invoices.lines(row)]})


class Document(APIView):
    """The issued document: PDF, CSV or XLSX in the language of `lang`, else of the request; JSON, FOCUS 1.2 and the EN 16931 XML have none."""

    permission_classes = [Needs("money.read")]

    @extend_schema(
        parameters=[shapes.DocumentQuery],
        responses={(200, "application/octet-stream"): OpenApiResponse(OpenApiTypes.BINARY)},
        operation_id="invoices_document",
    )
    def get(self, request: Any, invoice: str, kind: str) -> HttpResponse:
        row = invoices.one(organisation_id=request.actor.home().id, public_id=invoice)
        asked = queried(shapes.DocumentQuery, request)["lang"] or get_language() or "en"
        language = "zh-hans" if asked.startswith("zh") else "en"
        found = documents.ensure(invoice=row, format=kind, language=language, now=clock.now())
        return HttpResponse(
            bytes(found.content),
            content_type=documents.TYPES[kind],
            headers={
                "Content-Disposition": f'attachment; filename="{documents.file_name(str(row.number), kind)}"',
                "X-Content-SHA256": found.sha256,
            },
        )


class LineRecords(APIView):
    """The usage records behind a line."""

    permission_classes = [Needs("money.read")]

    @extend_schema(responses=paged(shapes.LineRecordOut), operation_id="invoices_line_records")
    def get(self, request: Any, invoice: str, position: int) -> Response:
        row = invoices.one(organisation_id=request.actor.home().id, public_id=invoice)
        return CursorPage.answer(request, invoices.proofs(row, position), lambda proof: invoices.share(proof).wire())


class Verification(APIView):
    """Every line computed again from its records."""

    permission_classes = [Needs("money.read")]

    @extend_schema(responses=shapes.VerificationOut, operation_id="invoices_verification")
    def get(self, request: Any, invoice: str) -> Response:
        return Response(verify(invoices.one(organisation_id=request.actor.home().id, public_id=invoice)).wire())


class Balance(APIView):
    permission_classes = [Needs("money.read")]

    @extend_schema(responses=shapes.BalanceOut, operation_id="balance")
    def get(self, request: Any) -> Response:
        return Response(balances.balance(organisation_id=request.actor.home().id).wire())
