"""Commands of the market: offers to look for, and the provider's nodes and offers."""

from typing import Annotated, Any, Optional

import typer

from ..models import Row, rows_of, text
from ..words import N_, t
from .session import Session, listing, of, pairs, plain

offers = typer.Typer(help=N_("Search what is for sale."), no_args_is_help=True)
node = typer.Typer(help=N_("Provider: invite, list, drain and retire nodes."), no_args_is_help=True)
offer = typer.Typer(help=N_("Provider: publish, reprice, pause and withdraw offers."), no_args_is_help=True)

NodeArgument = Annotated[str, typer.Argument(metavar="NODE", help=N_("A node's id or name."))]
OfferArgument = Annotated[str, typer.Argument(metavar="OFFER", help=N_("An offer's id."))]
Price = Annotated[str, typer.Option(help=N_("Prices per hour, such as card=1.20,core=0.02."))]
Spot = Annotated[str, typer.Option(help=N_("The interruptible price as a factor, such as 0.6."))]
Green = Annotated[str, typer.Option(help=N_("The share of renewable energy, 0 to 1."))]
Window = Annotated[Optional[list[str]], typer.Option(help=N_("Hours with a price of their own: '22:00-07:00*0.5'."))]
Until = Annotated[str, typer.Option(help=N_("When the offer ends (RFC 3339)."))]

OFFER_COLUMNS = [
    ("id", "offer"),
    ("node.name|name", "node"),
    ("region", "region"),
    ("gpu_name", "card"),
    ("num_gpus", "cards"),
    ("cpu_cores", "cores"),
    ("price_card_hour", "card-hour"),
    ("price_core_hour", "core-hour"),
    ("dph", "price"),
    ("currency", "currency"),
    ("green_ratio", "green"),
    ("reliability", "reliability"),
    ("state|kind", "state"),
]
HEADINGS = {
    "offer": N_("offer"),
    "node": N_("node"),
    "region": N_("region"),
    "zone": N_("zone"),
    "card": N_("card"),
    "cards": N_("cards"),
    "cores": N_("cores"),
    "card-hour": N_("per card-hour"),
    "core-hour": N_("per core-hour"),
    "price": N_("per hour"),
    "currency": N_("currency"),
    "green": N_("green"),
    "reliability": N_("reliability"),
    "state": N_("state"),
    "name": N_("name"),
    "isolation": N_("isolation"),
}


def headed(columns: "list[tuple[str, str]]") -> "list[tuple[str, str]]":
    return [(name, t(HEADINGS[heading])) for name, heading in columns]


@offers.command(
    "search", help=N_("Find offers: fields, operators and values, such as 'num_gpus>=1 price_card_hour<2'.")
)
def search(
    ctx: typer.Context,
    filter: Annotated[
        str, typer.Argument(metavar="FILTER", help=N_("Clauses that must all hold; empty for all."))
    ] = "",
    order: Annotated[
        Optional[list[str]],
        typer.Option("-o", "--order", help=N_("Sort by this field; FIELD- for downwards; up to three.")),
    ] = None,
    task_type: Annotated[str, typer.Option(help=N_("For SCU: training inference data simulation render custom."))] = "",
    origin: Annotated[str, typer.Option("--from", help=N_("The region that distances are measured from."))] = "",
    limit: Annotated[int, typer.Option(min=1, max=200, help=N_("How many at most."))] = 50,
    no_default: Annotated[
        bool, typer.Option("--no-default", help=N_("Also unverified, full and closed ones."))
    ] = False,
) -> None:
    session = of(ctx)
    params: dict[str, Any] = {
        "filter": filter,
        "order": ",".join(order or []),
        "task_type": task_type,
        "from": origin,
        "limit": limit,
    }
    found = session.portal.market.offers(**params, no_default="true" if no_default else "")
    session.emit(found)
    if session.json:
        return
    rows = rows_of(found)
    session.out.print(listing(headed(OFFER_COLUMNS), rows))
    defaults = found.get("applied_defaults")
    hidden = found.get("hidden")
    if defaults and not no_default:
        session.say(
            t(
                "Shown are only: {defaults}; hidden: {hidden}. `--no-default` shows all.",
                defaults=plain(defaults),
                hidden=plain(hidden),
            ),
            style="dim",
        )
    if not rows:
        for row in rows_of(found.get("relax")):
            session.say(
                t(
                    "Without {clause}: {count} offers.",
                    clause=row.get("clause"),
                    count=row.get("count"),
                )
            )


def prices(word: str) -> dict[str, str]:
    """`card=1.20,core=0.02` as amounts per hour."""
    found: dict[str, str] = {}
    for part in filter_empty(word.split(",")):
        name, equals, amount = part.partition("=")
        if not equals or name not in {"card", "core"} or not amount:
            raise typer.BadParameter(t("--price takes card=AMOUNT,core=AMOUNT, not {word!r}.", word=word))
        found[name] = amount
    return found


def filter_empty(words: list[str]) -> list[str]:
    return [word.strip() for word in words if word.strip()]


def windows(words: Optional[list[str]]) -> list[dict[str, str]]:
    """`22:00-07:00*0.5` as from, to and factor."""
    found = []
    for word in words or []:
        hours, star, factor = word.partition("*")
        start, dash, end = hours.partition("-")
        if not dash or not star:
            raise typer.BadParameter(
                t("--window takes FROM-TO*FACTOR, such as 22:00-07:00*0.5, not {word!r}.", word=word)
            )
        found.append({"from": start.strip(), "to": end.strip(), "factor": factor.strip()})
    return found


def terms(
    price: str, spot: str, green: str, window: Optional[list[str]], until: str, refuse_past_due: bool
) -> dict[str, Any]:
    """What the flags say about an offer; nothing for what they leave out."""
    said: dict[str, Any] = {
        "prices": prices(price),
        "spot_factor": spot,
        "green_ratio": green,
        "windows": windows(window),
        "until": until,
    }
    said["refuse_past_due"] = refuse_past_due or None
    return {name: value for name, value in said.items() if value not in ("", None, [], {})}


@node.command("invite", help=N_("Make an enrolment token and the line to paste on the node; the token is shown once."))
def invite(
    ctx: typer.Context,
    region: Annotated[str, typer.Option(help=N_("The node's region."))],
    zone: Annotated[str, typer.Option(help=N_("The node's zone."))] = "",
    name: Annotated[str, typer.Option(help=N_("The node's name."))] = "",
    price: Price = "",
    spot: Spot = "",
    green: Green = "",
    window: Window = None,
    until: Until = "",
    refuse_past_due: Annotated[
        bool, typer.Option("--refuse-past-due", help=N_("No jobs of tenants with overdue invoices."))
    ] = False,
) -> None:
    session = of(ctx)
    body: dict[str, Any] = {"region": region, **({"zone": zone} if zone else {}), **({"name": name} if name else {})}
    body.update(terms(price, spot, green, window, until, refuse_past_due))
    answer = session.portal.market.invite(body, key=session.key)
    session.emit(answer)
    session.say(t("Paste this line on the node; the token is shown only now:"))
    session.say(text(answer.get("line") or answer.get("command") or answer.get("token")))


@node.command("list", help=N_("List your nodes."))
def list_nodes(ctx: typer.Context) -> None:
    session = of(ctx)
    found = session.portal.market.nodes()
    columns = [
        ("id", "node"),
        ("name", "name"),
        ("region", "region"),
        ("zone", "zone"),
        ("state", "state"),
        ("isolation", "isolation"),
        ("offer", "offer"),
    ]
    session.show({"items": found}, listing(headed(columns), found))


def the_node(session: Session, name: str) -> Row:
    """By id, or by name among one's own."""
    if name.startswith("nod_"):
        return session.portal.market.node(name)
    found = [row for row in session.portal.market.nodes() if row.get("name") == name]
    if len(found) != 1:
        raise typer.BadParameter(t("{count} nodes are called {name}; give the id.", count=len(found), name=name))
    return found[0]


@node.command("show", help=N_("Show a node: its checks, hardware, fingerprint and offers."))
def show_node(ctx: typer.Context, name: NodeArgument) -> None:
    session = of(ctx)
    found = the_node(session, name)
    session.show(found, pairs(list(found.items())))


def _deed(session: Session, name: str, deed: str, body: Optional[dict[str, Any]] = None) -> None:
    node_id = text(the_node(session, name).get("id"))
    answer = session.portal.market.node_deed(node_id, deed, body)
    session.emit(answer)
    session.say(t("{name}: {state}", name=name, state=text(answer.get("state"))))


@node.command("drain", help=N_("No new work; running jobs may end until the deadline."))
def drain(
    ctx: typer.Context,
    name: NodeArgument,
    deadline: Annotated[str, typer.Option(help=N_("When running jobs are stopped (RFC 3339)."))] = "",
) -> None:
    _deed(of(ctx), name, "drain", {"deadline": deadline} if deadline else None)


@node.command("undrain", help=N_("Take new work again."))
def undrain(ctx: typer.Context, name: NodeArgument) -> None:
    _deed(of(ctx), name, "undrain")


@node.command("retire", help=N_("Take the node out for good; its history stays."))
def retire(ctx: typer.Context, name: NodeArgument) -> None:
    session = of(ctx)
    if session.ask(t("Retire {name} for good?", name=name)):
        _deed(session, name, "retire")


@offer.command("list", help=N_("List your offers."))
def list_offers(ctx: typer.Context) -> None:
    session = of(ctx)
    found = rows_of(session.portal.market.offers(mine="true", no_default="true"))
    session.show({"items": found}, listing(headed(OFFER_COLUMNS), found))


@offer.command("publish", help=N_("Offer a listed node for sale."))
def publish(
    ctx: typer.Context,
    name: NodeArgument,
    price: Price,
    spot: Spot = "",
    green: Green = "",
    window: Window = None,
    until: Until = "",
    refuse_past_due: Annotated[
        bool, typer.Option("--refuse-past-due", help=N_("No jobs of tenants with overdue invoices."))
    ] = False,
) -> None:
    session = of(ctx)
    body = {
        "node": text(the_node(session, name).get("id")),
        **terms(price, spot, green, window, until, refuse_past_due),
    }
    _told(session, session.portal.market.publish(body, key=session.key))


@offer.command("reprice", help=N_("New prices from now or later; running jobs keep theirs."))
def reprice(
    ctx: typer.Context,
    name: OfferArgument,
    price: Price,
    spot: Spot = "",
    window: Window = None,
    since: Annotated[str, typer.Option("--from", help=N_("When the new prices begin (RFC 3339); default: now."))] = "",
) -> None:
    session = of(ctx)
    body = {**terms(price, spot, "", window, "", False), **({"from": since} if since else {})}
    _told(session, session.portal.market.offer_deed(name, "reprice", body, key=session.key))


@offer.command("pause", help=N_("Sell nothing new for now."))
def pause(ctx: typer.Context, name: OfferArgument) -> None:
    _told(of(ctx), of(ctx).portal.market.offer_deed(name, "pause", key=of(ctx).key))


@offer.command("resume", help=N_("Sell again."))
def resume(ctx: typer.Context, name: OfferArgument) -> None:
    _told(of(ctx), of(ctx).portal.market.offer_deed(name, "resume", key=of(ctx).key))


@offer.command("withdraw", help=N_("End the offer; running jobs are not touched."))
def withdraw(ctx: typer.Context, name: OfferArgument) -> None:
    session = of(ctx)
    if session.ask(t("Withdraw {name} for good?", name=name)):
        _told(session, session.portal.market.offer_deed(name, "withdraw", key=session.key))


def _told(session: Session, answer: Row) -> None:
    session.emit(answer)
    session.say(t("{name}: {state}", name=text(answer.get("id")), state=text(answer.get("state"))))
