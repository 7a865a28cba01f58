"""What operators do with money: bank statements, credit notes, grants, terms, rates. To everybody else these doors do not exist."""

from typing import Any

from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema
from rest_framework.response import Response
from rest_framework.views import APIView

from billing.api import serializers as invoice_shapes
from billing.api import wallet_shapes as shapes
from billing.api.wallet import amount_of
from billing.selectors import bank, grants, invoices, rates
from billing.selectors import credit_notes as notes
from billing.services import bank_transfers, credit_notes, reminders, wallets
from billing.services import grants as giving
from billing.services import invoices as services
from billing.services import rates as entering
from portal import clock
from portal.accounts.permissions import OperatorOnly
from portal.accounts.selectors import organisations
from portal.api.idempotency import idempotent
from portal.api.pagination import CursorPage
from portal.api.schema import paged
from portal.api.serializers import parsed, queried
from portal.kit.errors import Finding, InvalidInput, NotFound


def _organisation(name: str) -> Any:
    found = organisations.by_name(name)
    if found is None:
        raise InvalidInput([Finding("organisation", "unknown_organisation", _("there is no such organisation"))])
    return found


def _invoice(name: str) -> Any:
    found = invoices.everyone().filter(public_id=name).first() or invoices.everyone().filter(number=name).first()
    if found is None:
        raise NotFound(_("There is no such invoice."))
    return found


class Statements(APIView):
    """Import a bank statement (CSV or camt.053); the same file or line again changes nothing."""

    permission_classes = [OperatorOnly]

    @extend_schema(
        request=shapes.StatementIn, responses={201: shapes.ImportedOut}, operation_id="bank_statements_import"
    )
    @idempotent
    def post(self, request: Any) -> Response:
        values = parsed(shapes.StatementIn, request)
        done = bank_transfers.import_statement(
            name=values["name"], data=values["content"].encode(), by=request.actor.id, now=clock.now(), default_currency=values["currency"]
        )  # fmt: skip
        return Response(
            {"new": done.new, "matched": done.matched, "known": done.known, "repeated": done.repeated}, status=201
        )


class Transfers(APIView):
    permission_classes = [OperatorOnly]

    @extend_schema(
        parameters=[shapes.TransfersQuery], responses=paged(shapes.TransferOut), operation_id="bank_transfers_list"
    )
    def get(self, request: Any) -> Response:
        rows = bank.everyone(state=queried(shapes.TransfersQuery, request)["state"])
        return CursorPage.answer(request, rows, bank.wire)


class Assign(APIView):
    """Say whose money a transfer is: it pays the invoice, the rest goes to the wallet."""

    permission_classes = [OperatorOnly]

    @extend_schema(request=shapes.AssignIn, responses=shapes.TransferOut, operation_id="bank_transfers_assign")
    def post(self, request: Any, public_id: str) -> Response:
        values = parsed(shapes.AssignIn, request)
        row = bank_transfers.assign(
            transfer=bank.one(public_id), organisation=_organisation(values["organisation"]),
            invoice=_invoice(values["invoice"]) if values["invoice"] else None, by=request.actor.id, now=clock.now(),
        )  # fmt: skip
        return Response(bank.wire(row))


class SendBack(APIView):
    """Note that a transfer was sent back to its payer."""

    permission_classes = [OperatorOnly]

    @extend_schema(request=shapes.ReferenceIn, responses=shapes.TransferOut, operation_id="bank_transfers_return")
    def post(self, request: Any, public_id: str) -> Response:
        reference = parsed(shapes.ReferenceIn, request)["reference"]
        row = bank_transfers.send_back(
            transfer=bank.one(public_id), reference=reference, by=request.actor.id, now=clock.now()
        )
        return Response(bank.wire(row))


class Credit(APIView):
    """Write a credit note on an invoice."""

    permission_classes = [OperatorOnly]

    @extend_schema(request=shapes.CreditNoteIn, responses={201: shapes.CreditNoteOut}, operation_id="invoices_credit")
    @idempotent
    def post(self, request: Any, public_id: str) -> Response:
        values, row = parsed(shapes.CreditNoteIn, request), _invoice(public_id)
        total = amount_of(values["total"], row.currency, "total") if "total" in values else None
        lines = {one["line"]: amount_of(one["amount"], row.currency) for one in values.get("lines", [])}
        note = credit_notes.issue(
            invoice=row, total=total, lines=lines or None, reason=values["reason"], reference=values["reference"], by=request.actor.id,
            now=clock.now(),
        )  # fmt: skip
        return Response(notes.wire(note), status=201)


class Void(APIView):
    """Take an invoice back whole, while nothing was paid."""

    permission_classes = [OperatorOnly]

    @extend_schema(request=shapes.ReasonIn, responses=invoice_shapes.InvoiceOut, operation_id="invoices_void")
    def post(self, request: Any, public_id: str) -> Response:
        reason = parsed(shapes.ReasonIn, request)["reason"]
        services.void(invoice=_invoice(public_id), by=request.actor.id, reason=reason, now=clock.now())
        return Response(invoice_shapes.InvoiceOut(_invoice(public_id)).data)


class WriteOff(APIView):
    """Give up a debt, at the earliest 60 days after its due day."""

    permission_classes = [OperatorOnly]

    @extend_schema(request=shapes.ReasonIn, responses=invoice_shapes.InvoiceOut, operation_id="invoices_write_off")
    def post(self, request: Any, public_id: str) -> Response:
        reason = parsed(shapes.ReasonIn, request)["reason"]
        reminders.give_up(invoice=_invoice(public_id), by=request.actor.id, reason=reason, now=clock.now())
        return Response(invoice_shapes.InvoiceOut(_invoice(public_id)).data)


class Terms(APIView):
    """How an organisation pays."""

    permission_classes = [OperatorOnly]

    @extend_schema(request=shapes.TermsIn, responses=shapes.TermsOut, operation_id="organisations_terms")
    def post(self, request: Any, slug: str) -> Response:
        values = parsed(shapes.TermsIn, request)
        row = wallets.set_terms(organisation_id=_known(slug).id, by=request.actor.id, now=clock.now(), **values)
        return Response({name: getattr(row, name) for name in ("mode", "payment_days", "discount_ppm")})


class Credits(APIView):
    """Give an organisation credit for its invoices to come."""

    permission_classes = [OperatorOnly]

    @extend_schema(request=shapes.CreditIn, responses={201: shapes.CreditGrantOut}, operation_id="organisations_credit")
    @idempotent
    def post(self, request: Any, slug: str) -> Response:
        values, tenant, now = parsed(shapes.CreditIn, request), _known(slug), clock.now()
        row = giving.give_credit(
            organisation_id=tenant.id, amount=amount_of(values["amount"], tenant.currency), reason=values["reason"],
            reference=values["reference"], priority=values["priority"], expires_at=values.get("expires_at"), by=request.actor.id, now=now,
        )  # fmt: skip
        made = next(one for one in grants.credits_wire(tenant, now=now) if one["id"] == row.public_id)
        return Response(made, status=201)


class Rates(APIView):
    """Enter a dated exchange rate with its source."""

    permission_classes = [OperatorOnly]

    @extend_schema(request=shapes.RateIn, responses={201: shapes.RateOut}, operation_id="exchange_rates_enter")
    @idempotent
    def post(self, request: Any) -> Response:
        row = entering.enter(**parsed(shapes.RateIn, request), by=request.actor.id, now=clock.now())
        return Response(rates.wire(row), status=201)


def _known(slug: str) -> Any:
    found = organisations.by_name(slug)
    if found is None:
        raise NotFound(_("There is no such organisation."))
    return found
