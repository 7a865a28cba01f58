"""Commands of finance: usage and invoices."""

from pathlib import Path
from typing import Annotated, Optional

import typer

from ..errors import ClientError
from ..models import Row, money_text, rows_of, text
from ..words import N_, t
from .session import Session, listing, of, pairs

invoice = typer.Typer(help=N_("Invoices: list, show, download, verify."), no_args_is_help=True)
app = typer.Typer()

InvoiceArgument = Annotated[str, typer.Argument(metavar="INVOICE", help=N_("An invoice's id or number."))]
KINDS = ("pdf", "csv", "xlsx", "json", "focus", "xml")


class NotVerified(ClientError):
    code = "not_verified"


@app.command(help=N_("What was used, grouped, with what it costs."))
def usage(
    ctx: typer.Context,
    month: Annotated[str, typer.Option(help=N_("A month, such as 2026-10; default: this one."))] = "",
    group_by: Annotated[
        str,
        typer.Option(
            help=N_(
                "project, department, provider, sku, resource, region, zone, node, job, task, hardware, user, day, hour or line."
            )
        ),
    ] = "",
    records: Annotated[bool, typer.Option("--records", help=N_("The usage records themselves."))] = False,
    job: Annotated[str, typer.Option(help=N_("Only records of this job."))] = "",
) -> None:
    session = of(ctx)
    if records or job:
        show_records(session, session.portal.money.records(month=month, job=job))
        return
    found = session.portal.money.usage(month=month, group_by=group_by)
    session.emit(found)
    if session.json:
        return
    rows = rows_of(found.get("lines")) if group_by == "line" else rows_of(found.get("groups"))
    columns = [
        ("name|key|description", t("group")),
        ("resource", t("resource")),
        ("quantity", t("quantity")),
        ("unit", t("unit")),
        ("amount|total", t("amount")),
    ]
    session.out.print(listing(columns, rows))
    session.out.print(pairs([(t("total"), money_text(found.get("total")))]))


def show_records(session: Session, found: list[Row]) -> None:
    columns = [
        ("attempt", t("attempt")),
        ("resource", t("resource")),
        ("seq", "#"),
        ("started_at", t("from")),
        ("ended_at", t("until")),
        ("count_milli", t("count, thousandths")),
        ("node", t("node")),
        ("state", t("state")),
    ]
    session.show({"items": found}, listing(columns, found))


@invoice.command("list", help=N_("List invoices."))
def list_invoices(ctx: typer.Context) -> None:
    session = of(ctx)
    found = session.portal.money.invoices()
    columns = [
        ("id", t("invoice")),
        ("number", t("number")),
        ("month", t("month")),
        ("state", t("state")),
        ("total", t("total")),
        ("due_at", t("due")),
    ]
    session.show({"items": found}, listing(columns, found))


def the_id(session: Session, name: str) -> str:
    """An invoice's id; a number is looked up."""
    if name.startswith("inv_"):
        return name
    return next((text(row.get("id")) for row in session.portal.money.invoices() if row.get("number") == name), name)


@invoice.command("show", help=N_("Show an invoice and its lines."))
def show(ctx: typer.Context, name: InvoiceArgument) -> None:
    session = of(ctx)
    found = session.portal.money.invoice(the_id(session, name))
    session.emit(found)
    if session.json:
        return
    session.out.print(pairs([(key, value) for key, value in found.items() if not isinstance(value, list)]))
    columns = [
        ("n", "#"),
        ("project", t("project")),
        ("provider", t("provider")),
        ("description|sku", t("line")),
    ]
    columns += [
        ("quantity", t("quantity")),
        ("unit", t("unit")),
        ("unit_price", t("unit price")),
        ("amount", t("amount")),
    ]
    session.out.print(listing(columns, rows_of(found.get("lines"))))


@invoice.command("download", help=N_("Save an invoice as PDF, CSV, XLSX, JSON, FOCUS 1.2 or EN 16931 XML."))
def download(
    ctx: typer.Context,
    name: InvoiceArgument,
    target: Annotated[
        Optional[Path], typer.Argument(metavar="DST", help=N_("The file or folder; default: here."))
    ] = None,
    kind: Annotated[str, typer.Option("--format", help=N_("pdf, csv, xlsx, json, focus or xml."))] = "pdf",
) -> None:
    session = of(ctx)
    if kind not in KINDS:
        raise typer.BadParameter(t("--format is pdf, csv, xlsx, json, focus or xml."))
    body = session.portal.money.document(the_id(session, name), kind)
    file = (
        target
        if target is not None and not target.is_dir()
        else (target or Path()) / f"{name}.{'focus.csv' if kind == 'focus' else kind}"
    )
    file.write_bytes(body)
    session.emit({"path": str(file), "size_bytes": len(body)})
    session.say(str(file))


@invoice.command("statement", help=N_("Save a month's statement, or its split bill by department and project."))
def statement(
    ctx: typer.Context,
    month: Annotated[str, typer.Argument(metavar="MONTH", help=N_("A month, such as 2026-10."))],
    target: Annotated[
        Optional[Path], typer.Argument(metavar="DST", help=N_("The file or folder; default: here."))
    ] = None,
    kind: Annotated[str, typer.Option(help=N_("monthly or split."))] = "monthly",
    form: Annotated[str, typer.Option("--format", help=N_("csv or xlsx."))] = "xlsx",
    by: Annotated[str, typer.Option(help=N_("item or instance."))] = "item",
    per: Annotated[str, typer.Option(help=N_("month, day or hour."))] = "month",
) -> None:
    session = of(ctx)
    if kind not in ("monthly", "split") or form not in ("csv", "xlsx"):
        raise typer.BadParameter(t("--kind is monthly or split, --format is csv or xlsx."))
    body = session.portal.money.statement(month, kind, form, by=by, per=per)
    file = target if target is not None and not target.is_dir() else (target or Path()) / f"{month}-{kind}.{form}"
    file.write_bytes(body)
    session.emit({"path": str(file), "size_bytes": len(body)})
    session.say(str(file))


@invoice.command("verify", help=N_("Recompute every line from its usage records; a difference is an error."))
def verify(ctx: typer.Context, name: InvoiceArgument) -> None:
    session = of(ctx)
    found = session.portal.money.verification(the_id(session, name))
    session.emit(found)
    good = found.get("ok")
    if not session.json:
        session.out.print(pairs([(key, value) for key, value in found.items() if not isinstance(value, list)]))
        wrong = [row for row in rows_of(found.get("lines")) if row.get("ok") is False]
        if wrong:
            session.out.print(listing([("n", "#"), ("amount", t("invoiced")), ("recomputed", t("recomputed"))], wrong))
    if good is not True:
        raise NotVerified(t("Invoice {name} does not match its usage records.", name=text(found.get("number")) or name))
    session.say(t("Every line matches its usage records."), style="green")
