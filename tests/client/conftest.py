"""The small portal, and the command against it: in this process, or as a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from client import words
from client.cli.app import main
from client.cli.session import Session
from tests.client import peer as peers

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Said:
    """What a call of the command left behind."""

    exit: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines() if line.strip()]

    @property
    def last(self) -> dict[str, Any]:
        return self.lines[-1]

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line.get("type") == kind]


Command = Callable[..., Said]


@pytest.fixture
def peer() -> Iterator[peers.Peer]:
    with peers.running() as found:
        yield found


@pytest.fixture
def environ(peer: peers.Peer, tmp_path: Path) -> dict[str, str]:
    return {
        "IDLEWILD_URL": peer.url,
        "IDLEWILD_KEY": peers.KEY,
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "IDLEWILD_PATIENCE": "3",
    }


@pytest.fixture
def idlewild(environ: dict[str, str], capsys: pytest.CaptureFixture[str]) -> Iterator[Command]:
    """Run the command in this process."""

    def call(*argv: str, **changes: str) -> Said:
        err = StringIO()
        wide = Console(file=err, width=300, highlight=False)
        capsys.readouterr()
        session = Session(
            environ={**environ, **changes},
            out=Console(file=(plain := StringIO()), width=300, highlight=False),
            err=wide,
        )
        code = main(argv, session)
        captured = capsys.readouterr()
        return Said(code, captured.out + plain.getvalue(), err.getvalue() + captured.err)

    yield call
    words.set_language("en")


class Speaker:
    """The command with somebody's key, against the real portal."""

    def __init__(self, url: str, key: str, call: Command) -> None:
        self.url, self.key, self._call = url, key, call

    @property
    def environ(self) -> dict[str, str]:
        return {"IDLEWILD_URL": self.url, "IDLEWILD_KEY": self.key, "IDLEWILD_PATIENCE": "10"}

    def __call__(self, *argv: str, **changes: str) -> Said:
        return self._call(*argv, **{**self.environ, **changes})


@pytest.fixture
def live(live_server: Any, idlewild: Command) -> Callable[..., Speaker]:
    """The real portal over HTTP: `live(ada)` is the command with a key of hers."""
    return lambda person, **fields: Speaker(live_server.url, person.key(**fields).text, idlewild)


def process(environ: dict[str, str], *argv: str, **more: Any) -> "subprocess.Popen[str]":
    """The command as people start it."""
    return subprocess.Popen(
        [sys.executable, "-m", "client", *argv],
        cwd=ROOT,
        env={**{name: value for name, value in os.environ.items() if not name.startswith("IDLEWILD_")}, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        **more,
    )
