"""Commands about who: signing in, organisations, projects, keys, secrets."""

import sys
from typing import Annotated, Optional

import typer

from .. import profile
from ..errors import LocalFault
from ..models import mapping, text
from ..words import N_, t
from .session import listing, of, pairs, plain, reach

app = typer.Typer()
org = typer.Typer(help=N_("Organisations you belong to."), no_args_is_help=True)
project = typer.Typer(help=N_("Projects: list, show, create, set."), no_args_is_help=True)
key = typer.Typer(help=N_("API keys: list, create, delete."), no_args_is_help=True)
webhook = typer.Typer(
    help=N_("Webhooks: list, create, test, delete, rotate; what was sent, and again."), no_args_is_help=True
)
secret = typer.Typer(help=N_("Secrets for jobs: list, set, delete; they are never shown."), no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help=N_("Its name or id."))]


@app.command(help=N_("Store a portal's address and a key of yours, readable only by you."))
def login(
    ctx: typer.Context,
    url: Annotated[str, typer.Option(help=N_("The portal's address."))] = "",
    key: Annotated[str, typer.Option(help=N_("An API key; without it you are asked."))] = "",
) -> None:
    session = of(ctx)
    address = url or session.environ.get("IDLEWILD_URL", "")
    if not address.startswith(("http://", "https://")):
        raise typer.BadParameter(t("--url takes the portal's address, such as https://idlewild.example.org."))
    word = (
        key
        or session.environ.get("IDLEWILD_KEY", "")
        or (typer.prompt(t("API key"), hide_input=True) if sys.stdin.isatty() else sys.stdin.readline().strip())
    )
    if not word:
        raise LocalFault(t("No key was given."), code="key_missing")
    who = profile.Profile(
        name=session.profile_name or "default", url=address.rstrip("/"), key=word, project=session.project
    )
    portal = session.connect(who)
    try:
        answer = portal.people.whoami()
    finally:
        portal.http.close()
    file = profile.save(who, session.environ)
    session.emit({"profile": who.name, "url": who.url, "file": str(file), **answer})
    session.say(t("Signed in at {url} as {who}; stored in {file}.", url=who.url, who=named(answer), file=file))


def named(answer: "dict[str, object]") -> str:
    found = mapping(answer)
    person = reach(found, "email|id")
    party = reach(found, "organisation.slug|organisation")
    return f"{plain(person)} ({plain(party)})"


@app.command(help=N_("Say who you are, for which organisation, and what you may do."))
def whoami(ctx: typer.Context) -> None:
    session = of(ctx)
    answer = session.portal.people.whoami()
    session.show({"url": session.who.url, **answer}, pairs([(t("portal"), session.who.url), *answer.items()]))


@org.command("list", help=N_("List your organisations."))
def list_orgs(ctx: typer.Context) -> None:
    session = of(ctx)
    found = session.portal.people.every("organisations")
    columns = [
        ("slug", t("organisation")),
        ("name", t("name")),
        ("role", t("role")),
        ("currency", t("currency")),
        ("parent", t("parent")),
    ]
    session.show({"items": found}, listing(columns, found))


@org.command("show", help=N_("Show an organisation."))
def show_org(ctx: typer.Context, name: NameArgument) -> None:
    session = of(ctx)
    found = mapping(session.portal.people.get("organisations", name).body)
    session.show(found, pairs(list(found.items())))


@project.command("list", help=N_("List projects."))
def list_projects(ctx: typer.Context) -> None:
    session = of(ctx)
    found = session.portal.people.every("projects")
    session.show(
        {"items": found}, listing([("slug", t("project")), ("name", t("name")), ("department", t("department"))], found)
    )


@project.command("show", help=N_("Show a project."))
def show_project(ctx: typer.Context, name: NameArgument) -> None:
    session = of(ctx)
    found = mapping(session.portal.people.get("projects", name).body)
    session.show(found, pairs(list(found.items())))


@project.command("create", help=N_("Make a project."))
def create_project(
    ctx: typer.Context,
    slug: Annotated[str, typer.Argument(metavar="SLUG", help=N_("Its short name: small letters, digits, hyphens."))],
    name: Annotated[str, typer.Option(help=N_("Its name for people."))] = "",
    department: Annotated[str, typer.Option(help=N_("The department that its bills are grouped by."))] = "",
) -> None:
    session = of(ctx)
    found = session.portal.people.create(
        "projects", {"slug": slug, "name": name or slug, "department": department}, key=session.key
    )
    session.show(found, pairs(list(found.items())))


@project.command("set", help=N_("Change a project's name or department."))
def set_project(
    ctx: typer.Context,
    slug: NameArgument,
    name: Annotated[Optional[str], typer.Option(help=N_("Its name for people."))] = None,
    department: Annotated[Optional[str], typer.Option(help=N_("The department that its bills are grouped by."))] = None,
) -> None:
    session = of(ctx)
    body = {field: value for field, value in (("name", name), ("department", department)) if value is not None}
    if not body:
        raise typer.BadParameter(t("Give --name or --department."))
    found = session.portal.people.change("projects", slug, body)
    session.show(found, pairs(list(found.items())))


@key.command("list", help=N_("List API keys."))
def list_keys(ctx: typer.Context) -> None:
    session = of(ctx)
    found = session.portal.people.every("api-keys")
    columns = [
        ("id", t("key")),
        ("name", t("name")),
        ("prefix", t("begins")),
        ("scopes", t("may")),
        ("expires", t("expires")),
        ("last_used", t("last used")),
    ]
    session.show({"items": found}, listing(columns, found))


@key.command("create", help=N_("Make an API key; its secret is shown once."))
def create_key(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help=N_("What it is for."))],
    scope: Annotated[
        Optional[list[str]],
        typer.Option(help=N_("A deed it may do, such as jobs.run; may be repeated; default: all of yours.")),
    ] = None,
    expires: Annotated[str, typer.Option(help=N_("When it ends (RFC 3339)."))] = "",
) -> None:
    session = of(ctx)
    body = {"name": name, **({"scopes": scope} if scope else {}), **({"expires": expires} if expires else {})}
    if session.project:
        body["project"] = session.project
    found = session.portal.people.create("api-keys", body, key=session.key)
    session.emit(found)
    session.say(t("The key is shown only now:"))
    session.say(text(found.get("key") or found.get("secret") or found.get("token")))


@key.command("delete", help=N_("Revoke an API key."))
def delete_key(ctx: typer.Context, name: NameArgument) -> None:
    session = of(ctx)
    session.portal.people.delete("api-keys", name)
    session.say(t("{name} is gone.", name=name))


@secret.command("list", help=N_("List the names of secrets."))
def list_secrets(ctx: typer.Context) -> None:
    session = of(ctx)
    found = session.portal.people.every("secrets")
    session.show(
        {"items": found}, listing([("name", t("name")), ("project", t("project")), ("updated", t("changed"))], found)
    )


@secret.command("set", help=N_("Store a secret; its value is read from the terminal or from stdin, never from a flag."))
def set_secret(
    ctx: typer.Context, name: Annotated[str, typer.Argument(metavar="NAME", help=N_("The variable's name in jobs."))]
) -> None:
    session = of(ctx)
    value = typer.prompt(t("Value"), hide_input=True) if sys.stdin.isatty() else sys.stdin.read().rstrip("\n")
    if not value:
        raise LocalFault(t("The value is empty."), code="value_missing")
    body = {"name": name, "value": value, **({"project": session.project} if session.project else {})}
    found = session.portal.people.create("secrets", body, key=session.key)
    session.emit(found)
    session.say(t("{name} is stored.", name=name))


@secret.command("delete", help=N_("Delete a secret."))
def delete_secret(ctx: typer.Context, name: NameArgument) -> None:
    session = of(ctx)
    rows = session.portal.people.every("secrets")
    found = next((text(row.get("id")) or name for row in rows if row.get("name") == name), name)
    session.portal.people.delete("secrets", found)
    session.say(t("{name} is gone.", name=name))


@webhook.command("list", help=N_("List the addresses that are told what happens."))
def list_webhooks(ctx: typer.Context) -> None:
    session = of(ctx)
    found = session.portal.people.every("webhooks")
    columns = [("id", t("id")), ("url", t("address")), ("types", t("told of")), ("enabled", t("on"))]
    session.show({"items": found}, listing(columns, found))


@webhook.command("create", help=N_("Tell an https address what happens; its secret is shown once."))
def create_webhook(
    ctx: typer.Context,
    url: Annotated[str, typer.Argument(metavar="URL", help=N_("https, to a public address."))],
    type: Annotated[
        Optional[list[str]], typer.Option(help=N_("Such as job.done; may be repeated; default: everything."))
    ] = None,
) -> None:
    session = of(ctx)
    found = session.portal.people.create("webhooks", {"url": url, "types": type or []}, key=session.key)
    session.emit(found)
    session.say(t("The secret is shown only now:"))
    session.say(text(found.get("secret")))


@webhook.command("test", help=N_("Send a test event to a webhook."))
def test_webhook(ctx: typer.Context, name: NameArgument) -> None:
    session = of(ctx)
    session.emit(session.portal.people.create(f"webhooks/{name}:test", {}, key=session.key))
    session.say(t("A test event is on its way."))


@webhook.command("rotate", help=N_("A new secret for a webhook; the old one signs too for a day."))
def rotate_webhook(ctx: typer.Context, name: NameArgument) -> None:
    session = of(ctx)
    found = session.portal.people.create(f"webhooks/{name}:rotate", {}, key=session.key)
    session.emit(found)
    session.say(t("The secret is shown only now:"))
    session.say(text(found.get("secret")))


@webhook.command("deliveries", help=N_("What was sent to a webhook, newest first."))
def list_deliveries(ctx: typer.Context, name: NameArgument) -> None:
    session = of(ctx)
    found = session.portal.people.every(f"webhooks/{name}/deliveries")
    columns = [("id", t("id")), ("type", t("event")), ("subject", t("about")), ("state", t("state"))]
    session.show({"items": found}, listing(columns, found))


@webhook.command("resend", help=N_("Send a delivery of a webhook again."))
def resend_delivery(ctx: typer.Context, name: NameArgument) -> None:
    session = of(ctx)
    session.emit(session.portal.people.create(f"webhook-deliveries/{name}:resend", {}, key=session.key))
    session.say(t("It is sent again."))


@webhook.command("delete", help=N_("Delete a webhook."))
def delete_webhook(ctx: typer.Context, name: NameArgument) -> None:
    session = of(ctx)
    session.portal.people.delete("webhooks", name)
    session.say(t("{name} is gone.", name=name))
