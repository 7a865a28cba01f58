"""The tree of commands, its help in the language asked for, and how any end becomes an exit code."""

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text
from typer import rich_utils

from ..errors import ClientError, Exit, Refused
from ..models import text
from ..words import N_, language, set_language, t
from . import jobs, market, money, payments, people, wallet
from .session import Session

VALUED = ("--project", "--profile", "--lang")
PLAIN = ("--json", "-y", "--yes", "--dry-run", "--curl")

TYPERS_CTRL_C = 130  # what typer makes of a KeyboardInterrupt: an exit code, handed back
HELP_OF_HELP = N_("Show this message and exit.")  # written by typer itself

app = typer.Typer(
    name="idlewild",
    no_args_is_help=True,
    add_completion=False,
    help=N_("Run jobs on idle machines: quote, run, follow, and read what it cost."),
)
for part in (jobs.app, money.app, payments.app, wallet.app, people.app):
    app.registered_commands.extend(part.registered_commands)
for name, group in (
    ("offers", market.offers),
    ("node", market.node),
    ("offer", market.offer),
    ("invoice", money.invoice),
    ("budget", wallet.budget),
    ("payout", payments.payout),
    ("org", people.org),
    ("project", people.project),
    ("key", people.key),
    ("secret", people.secret),
    ("webhook", people.webhook),
):
    app.add_typer(group, name=name)


@app.callback()
def root(
    ctx: typer.Context,
    json: Annotated[bool, typer.Option("--json", help=N_("JSON lines; the last one tells the exit code."))] = False,
    project: Annotated[str, typer.Option(help=N_("The project to use."))] = "",
    profile: Annotated[str, typer.Option(help=N_("The stored sign-in to use."))] = "",
    yes: Annotated[bool, typer.Option("-y", "--yes", help=N_("Ask nothing."))] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help=N_("Only the quote; nothing is submitted."))] = False,
    curl: Annotated[bool, typer.Option("--curl", help=N_("Show each request as a curl line, the key masked."))] = False,
    lang: Annotated[str, typer.Option(help=N_("en or zh."))] = "",
) -> None:
    session = ctx.obj
    session.json, session.project, session.profile_name = json, project, profile
    session.yes, session.dry_run, session.curl = yes, dry_run, curl
    if lang and not set_language(lang):
        raise typer.BadParameter(t("--lang is en or zh."))


def hoisted(argv: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """The flags that may stand anywhere, moved to the front; and the words after `--`."""
    words = list(argv)
    command: tuple[str, ...] = ()
    if "--" in words:
        at = words.index("--")
        words, command = words[:at], tuple(words[at + 1 :])
    front, rest = [], []
    while words:
        word = words.pop(0)
        if word in PLAIN or word.startswith(tuple(f"{flag}=" for flag in VALUED)):
            front.append(word)
        elif word in VALUED:
            front += [word, *words[:1]]
            del words[:1]
        else:
            rest.append(word)
    return front + rest, command


def wanted_language(words: Sequence[str]) -> str:
    """`--lang`, before the commands (and their help) are read."""
    for at, word in enumerate(words):
        if word == "--lang":
            return "".join(words[at + 1 : at + 2])
        if word.startswith("--lang="):
            return word.partition("=")[2]
    return ""


def translated(command: Any) -> None:
    """The help of a command and of all below it, in the chosen language."""
    own = command.get_help_option(typer.Context(command))
    if own is not None:
        own.help = t(HELP_OF_HELP)
    for owner in (command, *command.params):
        if getattr(owner, "help", None):
            owner.help = t(owner.help)
    if getattr(command, "short_help", None):
        command.short_help = t(command.short_help)
    for below in getattr(command, "commands", {}).values():
        translated(below)


def main(argv: Sequence[str], session: Session) -> int:
    """Run one command; whatever happens becomes a sentence and an exit code."""
    words, session.command = hoisted(argv)
    session.json = "--json" in words
    set_language(
        wanted_language(words)
        or text(session.environ.get("IDLEWILD_LANG") or session.environ.get("LC_ALL") or session.environ.get("LANG"))
    )
    command = typer.main.get_command(app)
    if language() != "en":
        rich_utils.OPTIONS_PANEL_TITLE, rich_utils.COMMANDS_PANEL_TITLE = t("Options"), t("Commands")
        rich_utils.ARGUMENTS_PANEL_TITLE, rich_utils.ERRORS_PANEL_TITLE = t("Arguments"), t("Error")
        translated(command)
    try:
        ended = command.main(args=words, prog_name="idlewild", standalone_mode=False, obj=session)
        if ended == TYPERS_CTRL_C:
            raise KeyboardInterrupt
        code, source = (ended, "cli") if isinstance(ended, int) and ended else (session.exit, session.source)
    except typer.TyperException as wrong:
        code, source = Exit.FLAGS, "cli"
        said(session, wrong.format_message(), {"code": "flags", "detail": wrong.format_message()})
    except ClientError as wrong:
        code, source = int(wrong.exit), "cli"
        refused(session, wrong)
    except (KeyboardInterrupt, typer.Abort):
        code, source = Exit.OTHER, "cli"
        said(session, t("Interrupted."), {"code": "interrupted", "detail": t("Interrupted.")})
    finally:
        session.close()
    session.emit({"exit": int(code), "source": source})
    return int(code)


def said(session: Session, sentence: str, body: Any) -> None:
    session.emit({"error": body})
    if not session.json and sentence:
        session.err.print(Text(sentence, style="red"))


def refused(session: Session, wrong: ClientError) -> None:
    """The sentence, then each finding with what to do about it."""
    said(session, wrong.detail, wrong.as_json())
    if session.json or not isinstance(wrong, Refused):
        return
    if wrong.errors:
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        for row in wrong.errors:
            where = f"{text(row.get('path'))}{':' + text(row.get('line')) if row.get('line') else ''}"
            table.add_row(
                Text(where, style="bold"),
                Text(text(row.get("code")), style="dim"),
                Text(text(row.get("message"))),
                Text(text(row.get("hint")), style="cyan"),
            )
        session.err.print(table)
    if wrong.body.get("request_id") and wrong.status >= 500:
        session.err.print(Text(t("Request {id}.", id=wrong.body["request_id"]), style="dim"))


def start() -> int:
    return main(sys.argv[1:], Session())
