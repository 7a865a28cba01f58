"""`up` as a whole: it starts, heals, refuses to run twice, and leaves nothing behind."""

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.portal.stack.running import Up, alive, clean_environment, free_port, open_folder, status_of, wait_until
from tests.sources import ROOT

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def state() -> Iterator[Path]:
    """One state folder for the module: the first start makes the database, the others find it."""
    with open_folder() as folder:
        yield folder / "state"


@pytest.fixture(scope="module")
def up(state: Path) -> Iterator[Up]:
    running = Up(state, "--empty")
    running.wait_for("Idlewild: http", 120)
    yield running
    if running.process.poll() is None:
        running.kill()


def test_it_starts_and_says_where_it_is(up: Up) -> None:
    assert any("PostgreSQL" in line and "Valkey" in line for line in up.lines)
    assert str(up.port) in up.wait_for("Idlewild: http")
    assert str(up.state) in up.wait_for("data: ")
    assert status_of(up.port) == 200


def test_a_second_one_is_told_where_the_first_is(up: Up) -> None:
    began = time.monotonic()
    second = subprocess.run(
        [sys.executable, "manage.py", "up", "--empty", "--port", str(free_port())],
        cwd=ROOT, env=clean_environment(up.state), capture_output=True, text=True, check=False, timeout=20,
    )  # fmt: skip
    assert second.returncode == 1
    assert f"already running, pid {up.process.pid}" in second.stderr
    assert time.monotonic() - began < 5


def test_one_command_uses_the_servers_that_run(up: Up) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "portal.stack.one_command", "migrate", "--check"],
        cwd=ROOT, env=clean_environment(up.state), capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "words",
    [("postgres", "-D"), ("valkey-server",), ("uvicorn",), ("worker-relay@",)],
    ids=["PostgreSQL", "Valkey", "web", "worker"],
)
def test_what_is_killed_comes_back(up: Up, words: tuple[str, ...]) -> None:
    wait_until(lambda: status_of(up.port) == 200, 30, "well before the kill")
    victim = up.child(*words)
    victim.send_signal(signal.SIGKILL)
    wait_until(lambda: not alive([victim]), 10, "the victim's end")
    wait_until(
        lambda: len([child for child in psutil.Process(up.process.pid).children() if _has(child, words)]) == 1,
        30,
        "the successor",
    )
    # 1 to 4 s on two idle cores; the other worker of this test run may be using both.
    wait_until(lambda: status_of(up.port) == 200, 30, f"/healthz after SIGKILL of {words}")


def _has(process: psutil.Process, words: tuple[str, ...]) -> bool:
    try:
        return alive([process]) != [] and all(word in " ".join(process.cmdline()) for word in words)
    except psutil.NoSuchProcess:
        return False


def test_killed_itself_it_leaves_no_process(up: Up) -> None:
    if sys.platform != "linux":
        pytest.skip("only Linux sends a death signal")
    family = up.family()
    assert len(family) > 6
    up.kill()
    wait_until(lambda: not alive(family), 10, "the end of all its processes")


def test_it_goes_on_after_that_and_stops_clean(up: Up, state: Path) -> None:
    again = Up(state, "--empty")
    try:
        again.wait_for("Idlewild: http", 120)
        assert not any("migrated" in line for line in again.lines), "nothing was new"
        family = again.family()
        began = time.monotonic()
        assert again.stop() == 0
        assert time.monotonic() - began < 15
        assert not alive(family)
    finally:
        if again.process.poll() is None:
            again.kill()


def test_a_port_in_use_stops_the_start_before_anything_runs(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        up = Up(tmp_path / "state", "--empty", port=port)
        assert up.process.wait(20) == 1
        up.stop()
        assert f"port {port} is used by another program: ./dev up --port {port + 1}" in "\n".join(up.lines)
        assert not (tmp_path / "state" / "data").exists()


def test_production_does_not_run_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "up"], cwd=ROOT, env=clean_environment(tmp_path / "state", IDLEWILD_PROFILE="production"),
        capture_output=True, text=True, check=False, timeout=20,
    )  # fmt: skip
    assert done.returncode == 1
    assert "docs/operate/production.md" in done.stderr
    assert not (tmp_path / "state").exists()


def test_a_command_without_servers_says_how_to_start_them(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "showmigrations"], cwd=ROOT, env=clean_environment(tmp_path / "state"),
        capture_output=True, text=True, check=False, timeout=20,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == "embedded services are not running: ./dev up, or ./dev manage showmigrations\n"
