"""The provider's command: what it says when all is well, and when it is not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent.cli import _cores, _duration_ms
from agent.config import Config, Identity, load_identity, save_identity
from agent.launching import Ground
from agent.service import unit
from tests.agent.conftest import ROOT
from tests.agent.peer import Peer, Problem


def agent(*arguments: str, state: Path | None = None) -> subprocess.CompletedProcess[str]:
    folder = ["--state-dir", str(state)] if state else []
    return subprocess.run(
        [sys.executable, "-m", "agent", *arguments, *folder],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=dict(os.environ),
    )


def test_enroll_once_then_say_so(portal: Peer, tmp_path: Path) -> None:
    done = agent("enroll", portal.token, "--url", portal.url, "--cores", "0.5", state=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"enrolled as {portal.node} peer-node (east/east-1)" in done.stdout
    assert (tmp_path / "node.json").stat().st_mode & 0o077 == 0
    again = agent("enroll", portal.token, "--url", portal.url, state=tmp_path)
    assert again.returncode == 1
    assert "enrolled already" in again.stderr


@pytest.mark.parametrize("word", ["enroll", "enrol"])
def test_a_used_token(portal: Peer, tmp_path: Path, word: str) -> None:
    portal.used_tokens.add(portal.token)
    done = agent(word, portal.token, "--url", portal.url, state=tmp_path)
    assert done.returncode == 1
    assert "this token has enrolled a node already - each token enrolls one node: make another" in done.stderr
    assert not (tmp_path / "node.json").exists()


@pytest.mark.parametrize(
    ("status", "code", "detail", "says"),
    [
        (401, "TOKEN_EXPIRED", "this token was good until yesterday", "was good until yesterday - make a new token"),
        (
            401,
            "TOKEN_UNKNOWN",
            "This enrolment token is unknown.",
            "is unknown. - check that the token was pasted whole",
        ),
        (422, "MALFORMED", "hardware.arch: is required", "hardware.arch: is required"),
    ],
)
def test_what_the_portal_refuses(portal: Peer, tmp_path: Path, status: int, code: str, detail: str, says: str) -> None:
    def refuse(method: str, path: str) -> None:
        raise Problem(status, code, detail)

    portal.hook = refuse
    done = agent("enroll", portal.token, "--url", portal.url, state=tmp_path)
    assert done.returncode == 1
    assert says in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["enroll", "token-0123456789", "--url", "market.example.org"], 2, "--url must be the portal's address"),
        (["enroll", "token-0123456789"], 2, "--url must be the portal's address"),
        (["enroll", "short", "--url", "http://127.0.0.1:9"], 1, "token: must have from 8 to 200 characters"),
        (["up", "--cores", "lots"], 2, "'lots' is not a number of cores"),
        (["up", "--cores", "0.01"], 2, "at least 0.1 cores"),
        (["down", "--deadline", "soon"], 2, "'soon' is not a duration"),
        (["up", "--executor", "magic"], 2, "invalid choice"),
        (["up"], 1, "not enrolled"),
        (["status"], 3, "not running, not enrolled"),
        (["down"], 1, "no agent is running"),
        ([], 2, "COMMAND"),
    ],
)
def test_wrong_usage(tmp_path: Path, arguments: list[str], code: int, says: str) -> None:
    done = agent(*arguments, state=tmp_path if arguments else None)
    assert (done.returncode, says in done.stderr) == (code, True), done.stderr
    assert "Traceback" not in done.stderr


def test_a_damaged_identity_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "node.json").write_text('{"node": 5')
    done = agent("up", state=tmp_path)
    assert done.returncode == 1
    assert "is damaged" in done.stderr
    assert "enroll this node again" in done.stderr


def test_wrong_virtual_cards_name_the_variable(portal: Peer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IDLEWILD_VIRTUAL_CARDS", "many")
    done = agent("enroll", portal.token, "--url", portal.url, state=tmp_path)
    assert (done.returncode, "IDLEWILD_VIRTUAL_CARDS" in done.stderr) == (1, True)


def test_self_test_shows_every_check(grouped: Ground) -> None:
    done = agent("self-test")
    assert done.returncode == 0, done.stdout
    assert "isolation: full" in done.stdout
    assert "FAIL" not in done.stdout
    shown = json.loads(agent("self-test", "--json").stdout)
    assert shown["isolation"] == "full"
    assert {"memory_limit", "process_limit", "kill_reaches_all", "freeze_at_deadline", "files_apart"} <= {
        c["name"] for c in shown["checks"]
    }


def test_a_bare_process_never_counts_as_isolated() -> None:
    done = agent("self-test", "--executor", "process")
    assert done.returncode == 1
    assert "isolation: none (process, cgroups none)" in done.stdout


def test_the_agent_needs_nothing_of_the_server() -> None:
    code = (
        "import sys, agent.cli, agent.supervisor, agent.benchmark\n"
        "bad = {'django', 'celery', 'portal', 'scheduling', 'rest_framework'} & {m.split('.')[0] for m in sys.modules}\n"
        "assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_numbers() -> None:
    assert [_cores(text) for text in ("4", "0.5", "1.25", "0.125")] == [4000, 500, 1250, 125]
    assert [_duration_ms(text) for text in ("90s", "10m", "2h", "7d")] == [90_000, 600_000, 7_200_000, 604_800_000]


def test_identity_round_trip(tmp_path: Path) -> None:
    assert load_identity(tmp_path / "node.json") is None
    me = Identity("http://x", "nod_1", "s", "n", "r", "z")
    save_identity(tmp_path / "sub" / "node.json", me)
    assert load_identity(tmp_path / "sub" / "node.json") == me


def test_the_service_keeps_jobs_over_a_restart(tmp_path: Path) -> None:
    text = unit(Path("/opt/env/bin/python"), "idlewild_agent", Config(tmp_path, cores_milli=2500, short_suite=True))
    assert f"ExecStart=/opt/env/bin/python -m idlewild_agent up --state-dir {tmp_path} --executor sandbox" in text
    assert "--cores 2.500" in text
    assert "KillMode=process" in text
    assert "Delegate=yes" in text


def test_an_address_for_probes_that_makes_no_sense_is_refused_at_once(tmp_path: Path) -> None:
    done = agent("up", "--probe-listen", "somewhere", state=tmp_path)
    assert done.returncode == 2
    assert "write HOST:PORT, for example 203.0.113.7:7070" in done.stderr
