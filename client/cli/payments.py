"""Commands of money over the rail: paying an invoice by card, payments, and what a provider earned and was sent."""

import time
from typing import Annotated

import typer

from ..models import Row, money_text, rows_of, text
from ..words import N_, t
from .money import InvoiceArgument, the_id
from .session import Session, listing, of, pairs
from .wallet import mapping

app = typer.Typer()
payout = typer.Typer(help=N_("Payouts to a provider: list, show."), no_args_is_help=True)
TRIES, WAIT_S = 20, 0.5


@app.command(help=N_("Pay an invoice by card: prints the address of the page to pay on."))
def pay(ctx: typer.Context, name: InvoiceArgument) -> None:
    session = of(ctx)
    found = session.portal.money.pay(the_id(session, name), key=session.key)
    for _ in range(TRIES):
        if found.get("url") or found.get("state") != "created":
            break
        time.sleep(WAIT_S)
        found = session.portal.money.payment(text(found.get("id")))
    session.emit(found)
    if session.json:
        return
    rows = [(t("payment"), text(found.get("id"))), (t("amount"), money_text(found.get("amount")))]
    rows.append((t("pay here"), text(found.get("url")) or t("not ready yet: see the page Payments")))
    session.out.print(pairs(rows))


@app.command(help=N_("Payments by card, newest first."))
def payments(ctx: typer.Context) -> None:
    found = of(ctx).portal.money.payments()
    columns = [
        ("id", t("payment")),
        ("invoice", t("invoice")),
        ("state", t("state")),
        ("amount", t("amount")),
        ("given_back", t("given back")),
        ("created_at", t("time")),
    ]
    of(ctx).show({"items": found}, listing(columns, found))


@app.command(help=N_("What a provider's nodes earned, by month, and where the money is."))
def earnings(ctx: typer.Context) -> None:
    session = of(ctx)
    found = session.portal.money.earnings()
    session.emit(found)
    if session.json:
        return
    standing = [
        ("currency", t("currency")),
        ("accrued", t("waiting")),
        ("available", t("free to go out")),
        ("reserved", t("being sent")),
        ("paid", t("paid")),
        ("owed_back", t("owed back")),
    ]
    session.out.print(listing(standing, rows_of(found.get("balances"))))
    columns = [
        ("month", t("month")),
        ("sku", t("sku")),
        ("quantity", t("quantity")),
        ("unit", t("unit")),
        ("billed", t("billed")),
        ("fee", t("fee")),
        ("share", t("share")),
    ]
    session.out.print(listing(columns, rows_of(found.get("items"))))


@payout.command("list", help=N_("Payouts, newest first; the first may still be collecting."))
def list_payouts(ctx: typer.Context) -> None:
    found = of(ctx).portal.money.payouts()
    columns = [
        ("id", t("payout")),
        ("state", t("state")),
        ("reason", t("reason")),
        ("amount", t("amount")),
        ("taken_back", t("taken back")),
        ("sent_at", t("sent")),
    ]
    of(ctx).show({"items": found}, listing(columns, found))


@payout.command("show", help=N_("One payout, and what it is made of."))
def show_payout(
    ctx: typer.Context, name: Annotated[str, typer.Argument(metavar="PAYOUT", help=N_("A payout's id."))]
) -> None:
    session = of(ctx)
    found = session.portal.money.payout(name)
    session.emit(found)
    if not session.json:
        _print(session, found)


def _print(session: Session, found: Row) -> None:
    amounts = {name: money_text(mapping(found.get(name))) for name in ("amount", "taken_back")}
    rest = {name: value for name, value in found.items() if not isinstance(value, list | dict)}
    session.out.print(pairs([*rest.items(), *amounts.items()]))
    columns = [("kind", t("kind")), ("month", t("month")), ("amount", t("amount")), ("at", t("time"))]
    session.out.print(listing(columns, rows_of(found.get("parts"))))
