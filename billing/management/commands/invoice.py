"""An operator's hand on invoices: note a bank transfer, void, verify.

::

    manage.py invoice pay IW-2026-000012 530.59 CNY --reference "bank 2026-11-20 #7" --by usr_…
    manage.py invoice void IW-2026-000012 --reason "wrong party" --by usr_…
    manage.py invoice verify IW-2026-000012
"""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from billing.models import Invoice
from billing.selectors import invoices as stored
from billing.services import invoices
from portal import clock
from portal.kit.errors import IdlewildError
from portal.kit.money import Money


class Command(BaseCommand):
    help = "Notes a payment on an invoice, voids it, or computes it again from its usage records."

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        pay = verbs.add_parser("pay", help="money arrived outside a rail; the same reference again changes nothing")
        pay.add_argument("invoice")
        pay.add_argument("amount")
        pay.add_argument("currency")
        pay.add_argument("--reference", required=True, help="what the bank statement says")
        void = verbs.add_parser("void", help="take an unpaid invoice back whole; it keeps its number")
        void.add_argument("invoice")
        void.add_argument("--reason", required=True)
        for verb in (pay, void):
            verb.add_argument("--by", default="system", help="who does it: usr_…")
        verbs.add_parser("verify", help="recompute each line").add_argument("invoice")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self.stdout.write(getattr(self, options["verb"])(_find(options["invoice"]), options))
        except (IdlewildError, ValueError) as refused:
            raise CommandError(str(refused)) from None

    def pay(self, invoice: Invoice, options: dict[str, Any]) -> str:
        amount = Money.parse(options["amount"], options["currency"])
        paid = invoices.record_payment(
            invoice=invoice, amount=amount, reference=options["reference"], by=options["by"], now=clock.now()
        )
        return f"{paid.number} {paid.state}"

    def void(self, invoice: Invoice, options: dict[str, Any]) -> str:
        voided = invoices.void(invoice=invoice, by=options["by"], reason=options["reason"], now=clock.now())
        return f"{voided.number} {voided.state}"

    def verify(self, invoice: Invoice, options: dict[str, Any]) -> str:
        found = invoices.verify(invoice)
        if not found.ok:
            raise CommandError("\n".join([*found.problems, *(text for line in found.lines for text in line.problems)]))
        return (
            f"{invoice.number}: every line matches its usage records, total {found.total.text()} {found.total.currency}"
        )


def _find(name: str) -> Invoice:
    issued = stored.everyone()
    found = issued.filter(number=name).first() or issued.filter(public_id=name).first()
    if found is None:
        raise CommandError(f"there is no issued invoice {name}")
    return found
