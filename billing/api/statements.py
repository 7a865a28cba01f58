"""/statements, /allocation-rules, /fapiao: monthly statements, split bills and who bears what, fapiao requests."""

from typing import Any

from django.http import HttpResponse
from django.utils.translation import get_language
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.response import Response
from rest_framework.views import APIView

from billing.domain.allocation import Method, Source
from billing.domain.fapiao import FapiaoKind, FapiaoState
from billing.selectors import credit_notes, invoices, splits
from billing.selectors import fapiao as requests
from billing.selectors import statements as selectors
from billing.services import allocations, documents, fapiao, receipts, statements
from portal import clock
from portal.accounts.permissions import Needs, OperatorOnly
from portal.api.idempotency import idempotent
from portal.api.pagination import CursorPage
from portal.api.schema import paged
from portal.api.serializers import Strict, parsed, queried

MONTH = r"^\d{4}-(0[1-9]|1[0-2])$"


class StatementQuery(Strict):
    by = serializers.ChoiceField(choices=selectors.BY, default="item")
    per = serializers.ChoiceField(choices=selectors.PER, default="month")
    zero = serializers.BooleanField(default=True)
    lang = serializers.ChoiceField(choices=["en", "zh", "zh-hans"], default="")


class RuleIn(Strict):
    name = serializers.CharField(max_length=120, default="", allow_blank=True)
    source_kind = serializers.ChoiceField(choices=[source.value for source in Source])
    source = serializers.CharField(max_length=120)  # type: ignore[assignment]
    method = serializers.ChoiceField(choices=[method.value for method in Method])
    weights = serializers.DictField(child=serializers.IntegerField(min_value=0, max_value=1_000_000), default=dict)
    from_month = serializers.RegexField(MONTH)


class RuleOut(serializers.Serializer[Any]):
    id = serializers.CharField(source="public_id")
    name = serializers.CharField()
    source_kind = serializers.CharField()
    source = serializers.CharField()  # type: ignore[assignment]
    method = serializers.CharField()
    weights = serializers.ListField(child=serializers.ListField())
    from_month = serializers.CharField()
    until_month = serializers.CharField()


class EndIn(Strict):
    month = serializers.RegexField(MONTH)


class FapiaoIn(Strict):
    kind = serializers.ChoiceField(choices=[kind.value for kind in FapiaoKind], default=FapiaoKind.NORMAL.value)
    buyer_name = serializers.CharField(max_length=120)
    buyer_code = serializers.CharField(max_length=30)
    buyer_contact = serializers.CharField(max_length=200, default="", allow_blank=True)
    buyer_bank = serializers.CharField(max_length=200, default="", allow_blank=True)
    email = serializers.EmailField(default="", allow_blank=True)


class FapiaoOut(serializers.Serializer[Any]):
    id = serializers.CharField(source="public_id")
    invoice = serializers.CharField(source="invoice.number")
    kind = serializers.CharField()
    state = serializers.ChoiceField(choices=[state.value for state in FapiaoState])
    buyer_name = serializers.CharField()
    buyer_code = serializers.CharField()
    number = serializers.CharField()
    red_number = serializers.CharField()
    reason = serializers.CharField()
    requested_at = serializers.DateTimeField()
    issued_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)


class FapiaoNoteIn(Strict):
    number = serializers.CharField(max_length=20, default="", allow_blank=True)
    reason = serializers.CharField(max_length=200, default="", allow_blank=True)


def _language(asked: str) -> str:
    return "zh-hans" if (asked or get_language() or "en").startswith("zh") else "en"


class Statement(APIView):
    """A month's statement (`monthly`) or split bill (`split`) as CSV or XLSX; the split bill covers the organisations below too."""

    permission_classes = [Needs("money.read")]

    @extend_schema(
        parameters=[StatementQuery],
        responses={(200, "application/octet-stream"): OpenApiResponse(OpenApiTypes.BINARY)},
        operation_id="statements_file",
    )
    def get(self, request: Any, month: str, kind: str, format_: str) -> HttpResponse:
        asked = queried(StatementQuery, request)
        language = _language(asked.pop("lang"))
        home, now = request.actor.home(), clock.now()
        data = statements.file(tenant=home, month=month, kind=kind, format=format_, language=language, now=now, **asked)
        name = f'attachment; filename="{home.slug}-{month}-{kind}.{format_}"'
        return HttpResponse(data, content_type=documents.TYPES[format_], headers={"Content-Disposition": name})


class Split(APIView):
    """The split bill of a month, one per currency."""

    permission_classes = [Needs("money.read")]

    @extend_schema(responses=OpenApiTypes.OBJECT, operation_id="statements_split")
    def get(self, request: Any, month: str) -> Response:
        return Response({"items": [bill.wire() for bill in splits.of_month(request.actor.home(), month)]})


class Rules(APIView):
    permission_classes = [Needs(get="money.read", post="projects.manage")]

    @extend_schema(responses=paged(RuleOut), operation_id="allocation_rules_list")
    def get(self, request: Any) -> Response:
        rows = splits.rules_of(request.actor.home().id)
        return CursorPage.answer(request, rows, lambda row: RuleOut(row).data)

    @extend_schema(request=RuleIn, responses={201: RuleOut}, operation_id="allocation_rules_create")
    @idempotent
    def post(self, request: Any) -> Response:
        asked = parsed(RuleIn, request)
        asked["weights"] = sorted(asked["weights"].items())
        home = request.actor.home()
        rule = allocations.set_rule(organisation=home, by=request.actor.id, now=clock.now(), **asked)
        return Response(RuleOut(rule).data, status=201)


class EndedRule(APIView):
    permission_classes = [Needs("projects.manage")]

    @extend_schema(request=EndIn, responses=RuleOut, operation_id="allocation_rules_end")
    def post(self, request: Any, public_id: str) -> Response:
        rule = splits.rule(request.actor.home().id, public_id)
        month = parsed(EndIn, request)["month"]
        ended = allocations.end_rule(rule=rule, month=month, by=request.actor.id, now=clock.now())
        return Response(RuleOut(ended).data)


class Receipt(APIView):
    """What was paid on an invoice, as PDF; 404 while nothing was."""

    permission_classes = [Needs("money.read")]

    @extend_schema(
        responses={(200, "application/pdf"): OpenApiResponse(OpenApiTypes.BINARY)}, operation_id="invoices_receipt"
    )
    def get(self, request: Any, invoice: str) -> HttpResponse:
        row = invoices.one(organisation_id=request.actor.home().id, public_id=invoice)
        data = receipts.receipt(row, language=_language(request.query_params.get("lang", "")))
        name = f'attachment; filename="{row.number}-receipt.pdf"'
        return HttpResponse(data, content_type="application/pdf", headers={"Content-Disposition": name})


class CreditNotePdf(APIView):
    """A credit note as PDF."""

    permission_classes = [Needs("money.read")]

    @extend_schema(
        responses={(200, "application/pdf"): OpenApiResponse(OpenApiTypes.BINARY)}, operation_id="credit_notes_pdf"
    )
    def get(self, request: Any, public_id: str) -> HttpResponse:
        row = credit_notes.one(organisation_id=request.actor.home().id, public_id=public_id)
        data = receipts.credit_note(row, language=_language(request.query_params.get("lang", "")))
        name = f'attachment; filename="{row.number}.pdf"'
        return HttpResponse(data, content_type="application/pdf", headers={"Content-Disposition": name})


class InvoiceFapiao(APIView):
    """Ask for the fapiao of an invoice; see what became of it."""

    permission_classes = [Needs(get="money.read", post="money.move")]

    @extend_schema(responses=paged(FapiaoOut), operation_id="fapiao_list")
    def get(self, request: Any, invoice: str) -> Response:
        row = invoices.one(organisation_id=request.actor.home().id, public_id=invoice)
        return CursorPage.answer(request, requests.of_invoice(row), lambda found: FapiaoOut(found).data)

    @extend_schema(request=FapiaoIn, responses={201: FapiaoOut}, operation_id="fapiao_request")
    @idempotent
    def post(self, request: Any, invoice: str) -> Response:
        row = invoices.one(organisation_id=request.actor.home().id, public_id=invoice)
        made = fapiao.request(invoice=row, by=request.actor.id, now=clock.now(), **parsed(FapiaoIn, request))
        return Response(FapiaoOut(made).data, status=201)


class OperatorFapiao(APIView):
    """All requests; as CSV the records that the tax bureau's system takes."""

    permission_classes = [OperatorOnly]

    @extend_schema(
        responses={(200, "text/csv"): OpenApiResponse(OpenApiTypes.BINARY)}, operation_id="operator_fapiao_export"
    )
    def get(self, request: Any) -> HttpResponse:
        data = fapiao.as_csv(list(requests.waiting()), clerk=str(request.actor.user))
        return HttpResponse(data, content_type=documents.TYPES["csv"])


class FapiaoDeed(APIView):
    """An operator notes that it was issued, refused, or reversed by a red-letter fapiao."""

    permission_classes = [OperatorOnly]

    @extend_schema(request=FapiaoNoteIn, responses=FapiaoOut, operation_id="operator_fapiao_note")
    def post(self, request: Any, public_id: str, deed: str) -> Response:
        asked, row = parsed(FapiaoNoteIn, request), requests.one(public_id)
        by, now = request.actor.id, clock.now()
        if deed == "issued":
            row = fapiao.issued(row=row, number=asked["number"], by=by, now=now)
        elif deed == "refused":
            row = fapiao.refused(row=row, reason=asked["reason"], by=by, now=now)
        else:
            row = fapiao.reversed_by(row=row, red_number=asked["number"], reason=asked["reason"], by=by, now=now)
        return Response(FapiaoOut(row).data)
