"""What all commands share: the flags that may stand anywhere, where output goes, and one portal connection.

With `--json` every line of stdout is one JSON value and the last one is ``{"exit": …, "source": "job"|"cli"}``;
everything meant for people goes to stderr or is not said. Without it, tables and sentences go to stdout.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from .. import profile
from ..api import Idlewild
from ..http import Http, new_key
from ..words import language, t


def console(stream: Any) -> Console:
    """Colours on a terminal; elsewhere plain text, wide enough not to cut ids."""
    plain = not stream.isatty()
    return Console(file=stream, width=160 if plain else None, highlight=False, soft_wrap=plain, emoji=False)


@dataclass
class Session:
    """One call of the command."""

    json: bool = False
    project: str = ""
    profile_name: str = ""
    yes: bool = False
    dry_run: bool = False
    curl: bool = False
    command: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    out: Console = field(default_factory=lambda: console(sys.stdout))
    err: Console = field(default_factory=lambda: console(sys.stderr))
    key: str = field(default_factory=new_key)
    exit: int = 0
    source: str = "cli"
    note: str = ""
    _portal: Idlewild | None = None
    _profile: profile.Profile | None = None

    @property
    def person(self) -> bool:
        """Somebody sits there who can be asked."""
        return sys.stdin.isatty() and not self.json and not self.yes

    @property
    def who(self) -> profile.Profile:
        if self._profile is None:
            self._profile = profile.load(self.profile_name, self.environ)
        return self._profile

    @property
    def portal(self) -> Idlewild:
        if self._portal is None:
            self._portal = self.connect(self.who)
        return self._portal

    @property
    def wanted_project(self) -> str:
        return self.project or self.who.project

    def connect(self, who: profile.Profile) -> Idlewild:
        show = (lambda line: self.err.print(line, style="dim", markup=False)) if self.curl else None
        patience = float(self.environ.get("IDLEWILD_PATIENCE") or 20)
        return Idlewild(http=Http(url=who.url, key=who.key, language=language(), show=show, patience_s=patience))

    def close(self) -> None:
        if self._portal is not None:
            self._portal.http.close()

    def say(self, sentence: str, *, style: str = "") -> None:
        """A sentence for people."""
        if not self.json:
            self.out.print(sentence, style=style or None, markup=False)

    def warn(self, sentence: str) -> None:
        if not self.json:
            self.err.print(sentence, style="yellow", markup=False)

    def emit(self, value: Any) -> None:
        """A value for programs: one line."""
        if self.json:
            sys.stdout.write(json.dumps(value, ensure_ascii=False, default=str) + "\n")
            sys.stdout.flush()

    def show(self, value: Any, table: Table | None = None) -> None:
        """The same thing to both."""
        self.emit(value)
        if table is not None and not self.json:
            self.out.print(table)

    def ask(self, question: str) -> bool:
        """Yes or no; yes without a person (`-y`, `--json`, no terminal)."""
        return not self.person or bool(typer.confirm(question, default=True))


def of(ctx: typer.Context) -> Session:
    session = ctx.obj
    assert isinstance(session, Session)  # noqa: S101 made by main, for the reader and mypy
    return session


def pairs(rows: Sequence[tuple[str, Any]], *, title: str = "") -> Table:
    """A table of two columns, without a head."""
    table = Table(show_header=False, box=None, title=title or None, title_justify="left", padding=(0, 2, 0, 0))
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for name, value in rows:
        if value not in (None, "", [], {}):
            table.add_row(name, plain(value))
    return table


def listing(columns: Sequence[tuple[str, str]], rows: Sequence[Mapping[str, Any]], *, title: str = "") -> Table:
    """A table of rows; `columns` are (field, heading), the field dotted."""
    table = Table(box=None, title=title or None, title_justify="left", header_style="bold", padding=(0, 2, 0, 0))
    for _, heading in columns:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*[plain(reach(row, name)) for name, _ in columns])
    return table


def reach(row: Any, dotted: str) -> Any:
    """`a.b` of nested objects; the first of several names parted by `|` that is there."""
    for path in dotted.split("|"):
        value = row
        for part in path.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if value not in (None, ""):
            return value
    return None


def plain(value: Any) -> str:
    """A value as people read it: money, yes and no, lists."""
    if value is None or value == "":
        return "–"
    if isinstance(value, bool):
        return t("yes") if value else t("no")
    if isinstance(value, Mapping):
        if set(value) == {"amount", "currency"}:
            return f"{value['amount']} {value['currency']}"
        if "slug" in value or "name" in value:
            return str(value.get("slug") or value.get("name"))
        return ", ".join(f"{name} {plain(part)}" for name, part in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(plain(part) for part in value)
    return str(value)
