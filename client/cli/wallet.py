"""Commands of finance: the wallet, budgets, credit notes."""

from typing import Annotated, Any

import typer

from ..models import Row, money_text, rows_of, text
from ..words import N_, t
from .session import Session, listing, of, pairs

app = typer.Typer()
budget = typer.Typer(help=N_("Budgets: list, set, delete."), no_args_is_help=True)

SCOPES = ("organisation", "department", "project", "job")


def mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


@app.command(help=N_("What is in the wallet, what is kept for jobs, what was given, and how to top up."))
def wallet(
    ctx: typer.Context,
    entries: Annotated[bool, typer.Option("--entries", help=N_("Every movement, newest first."))] = False,
) -> None:
    session = of(ctx)
    if entries:
        moves = session.portal.money.wallet_entries()
        columns = [("at", t("time")), ("kind", t("kind")), ("amount", t("amount")), ("reference", t("reference"))]
        session.show({"items": moves}, listing(columns, moves))
        return
    found = session.portal.money.wallet()
    session.emit(found)
    if session.json:
        return
    transfer = mapping(found.get("bank_transfer"))
    rows = [
        (t("mode"), text(found.get("mode"))),
        (t("balance"), money_text(found.get("balance"))),
        (t("kept for jobs"), money_text(found.get("kept"))),
        (t("available"), money_text(found.get("available"))),
        (t("credit"), money_text(found.get("credit"))),
        (t("bank transfer: our account"), text(transfer.get("account")) or t("ask the operator")),
        (t("bank transfer: text to write"), text(transfer.get("printed"))),
    ]
    session.out.print(pairs(rows))
    hours = rows_of(found.get("hours"))
    if hours:
        columns = [
            ("resource", t("resource")),
            ("left", t("hours left")),
            ("hours", t("hours given")),
            ("expires_at", t("until")),
            ("reason", t("reason")),
        ]
        session.out.print(listing(columns, hours, title=t("Granted hours")))
    credits = rows_of(found.get("credits"))
    if credits:
        columns = [
            ("left", t("left")),
            ("amount", t("given")),
            ("expires_at", t("until")),
            ("reason", t("reason")),
        ]
        session.out.print(listing(columns, credits, title=t("Credits")))


@app.command("credit-notes", help=N_("What was taken back of invoices."))
def credit_notes(ctx: typer.Context) -> None:
    session = of(ctx)
    found = session.portal.money.credit_notes()
    columns = [
        ("number", t("number")),
        ("invoice_number", t("invoice")),
        ("total", t("total")),
        ("off_open", t("no longer to pay")),
        ("to_credit", t("to your credit")),
        ("reason", t("reason")),
    ]
    session.show({"items": found}, listing(columns, found))


def show_budgets(session: Session, found: list[Row]) -> None:
    columns = [
        ("id", "id"),
        ("scope", t("scope")),
        ("name", t("name")),
        ("amount", t("amount")),
        ("spent", t("spent")),
        ("percent", "%"),
        ("left", t("left")),
        ("forecast", t("forecast")),
        ("at_limit", t("at 100 %")),
    ]
    session.show({"items": found}, listing(columns, found))


@budget.command("list", help=N_("Budgets of this month: spent, left, forecast to its end."))
def list_budgets(ctx: typer.Context) -> None:
    session = of(ctx)
    show_budgets(session, session.portal.money.budgets())


@budget.command("set", help=N_("Set the budget of a scope; one that is there is replaced at once."))
def set_budget(
    ctx: typer.Context,
    scope: Annotated[str, typer.Argument(help=N_("organisation, department, project or job."))],
    amount: Annotated[str, typer.Argument(help=N_("So much a month, with tax, in your currency: 30.00"))],
    key: Annotated[str, typer.Option(help=N_("The department, project or job."))] = "",
    at_limit: Annotated[str, typer.Option(help=N_("At 100 %: notify, block or stop."))] = "notify",
    alert: Annotated[str, typer.Option(help=N_("Per cents at which people are told: 50,75,90,100"))] = "",
) -> None:
    session = of(ctx)
    if scope not in SCOPES:
        raise typer.BadParameter(t("The scope is organisation, department, project or job."))
    body: dict[str, Any] = {"scope": scope, "amount": amount, "key": key, "at_limit": at_limit}
    if alert:
        parts = [part.strip() for part in alert.split(",")]
        if not all(part.isdigit() for part in parts):
            raise typer.BadParameter(t("--alert is a list of whole per cents: 50,75,90,100"))
        body["thresholds"] = [int(part) for part in parts]
    made = session.portal.money.set_budget(body, key=session.key)
    show_budgets(session, [made])


@budget.command("delete", help=N_("Take a budget away."))
def delete_budget(ctx: typer.Context, name: Annotated[str, typer.Argument(metavar="BUDGET")]) -> None:
    session = of(ctx)
    session.portal.money.delete_budget(name)
    session.emit({"deleted": name})
    session.say(t("Budget {name} is gone.", name=name))
