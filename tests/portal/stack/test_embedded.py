"""The embedded servers: made once, never confused by what others left, stopped without a trace."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from portal.stack import embedded, places
from tests.portal.stack.running import open_folder

pytestmark = pytest.mark.stack


@pytest.fixture
def state() -> Iterator[Path]:
    with open_folder() as folder:
        yield folder


@pytest.fixture
def postgres(state: Path) -> Iterator[embedded.Postgres]:
    server = embedded.Postgres(
        state, socket_dir=places.postgres_socket_dir(state), log_dir=state / "log", throwaway=True
    )
    assert server.prepare()
    yield server
    server.stop()


def started(server: embedded.Postgres) -> embedded.Postgres:
    server.start()
    server.wait_ready()
    return server


def test_it_is_made_once(postgres: embedded.Postgres) -> None:
    assert not postgres.prepare()


def test_the_roles_are_those_of_production(postgres: embedded.Postgres) -> None:
    started(postgres).provide()
    postgres.provide()  # twice is once
    with psycopg.connect(postgres.url(embedded.OWNER), autocommit=True) as owner:
        owner.execute("CREATE TABLE thing (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, word text)")
    with psycopg.connect(postgres.url(embedded.APP), autocommit=True) as app:
        app.execute("INSERT INTO thing (word) VALUES ('É')")
        assert app.execute("SELECT lower(word) FROM thing").fetchone() == ("é",)
        for forbidden in (
            "TRUNCATE thing",
            "DROP TABLE thing",
            "CREATE TABLE other ()",
            "SET session_replication_role = replica",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                app.execute(forbidden)


def test_a_pid_file_that_names_a_stranger_harms_nobody(postgres: embedded.Postgres) -> None:
    stranger = subprocess.Popen(["sleep", "60"])
    try:
        pid_file = postgres.data / "postmaster.pid"
        pid_file.write_text(f"{stranger.pid}\n{postgres.data}\n")
        started(postgres)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


@pytest.mark.parametrize("garbage", ["", "what is this\n", "-5\n", "99999999\n"])
def test_garbage_in_the_pid_file_does_not_matter(postgres: embedded.Postgres, garbage: str) -> None:
    (postgres.data / "postmaster.pid").write_text(garbage)
    started(postgres)


def test_a_server_left_over_is_replaced(postgres: embedded.Postgres) -> None:
    first = started(postgres).process
    assert first
    second = embedded.Postgres(postgres.state, socket_dir=postgres.socket_dir, log_dir=postgres.log_dir, throwaway=True)
    try:
        started(second)
        assert first.wait(10) == 0
        assert second.is_ready()
    finally:
        second.stop()


def test_killed_hard_it_starts_again(postgres: embedded.Postgres) -> None:
    process = started(postgres).process
    assert process
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    until_gone = [child for child in psutil.process_iter() if str(postgres.data) in " ".join(_command(child))]
    psutil.wait_procs(until_gone, timeout=10)
    started(postgres)


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return []


def test_another_major_version_is_refused_with_what_to_do(postgres: embedded.Postgres) -> None:
    (postgres.data / "PG_VERSION").write_text("13\n")
    with pytest.raises(embedded.StackError, match=r"made by PostgreSQL 13, this is \d+.*pg_dumpall") as caught:
        postgres.prepare()
    assert "./dev reset" in str(caught.value)


def test_a_server_that_cannot_start_shows_its_log(postgres: embedded.Postgres) -> None:
    (postgres.data / "postgresql.conf").write_text("nonsense = 1\n")
    postgres.start()
    with pytest.raises(embedded.StackError, match="nonsense"):
        postgres.wait_ready()


def test_a_long_path_gets_a_short_folder_for_its_sockets(state: Path) -> None:
    long = state / ("d" * 60) / ("e" * 60) / ("f" * 60)
    long.mkdir(parents=True)
    server = embedded.Postgres(long, socket_dir=places.postgres_socket_dir(long), log_dir=long / "log", throwaway=True)
    assert len(str(server.socket_dir)) < 100
    try:
        server.prepare()
        started(server)
    finally:
        server.stop()
        if server.socket_dir.parent != long:
            for folder in (server.socket_dir, server.socket_dir.parent):
                folder.rmdir()


def test_no_programs_is_said_plainly(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IDLEWILD_PG_BIN_DIR", str(state))
    with pytest.raises(embedded.StackError, match="has no initdb"):
        embedded.postgres_programs(state, embedded.Account())
    monkeypatch.setenv("IDLEWILD_REDIS_SERVER_BIN", str(state / "nothing"))
    with pytest.raises(embedded.StackError, match="is not a program"):
        embedded.valkey_program()


def test_a_folder_that_the_database_may_not_enter_is_named(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root runs the database as another account")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    server = embedded.Postgres(closed / "state", socket_dir=closed / "pg", log_dir=closed, throwaway=True)
    with pytest.raises(embedded.StackError, match="IDLEWILD_STATE_DIR"):
        server.prepare()


def test_valkey_starts_answers_and_stops(state: Path) -> None:
    server = embedded.Valkey(state, socket_path=places.valkey_socket(state), log_dir=state / "log", throwaway=True)
    server.start()
    server.wait_ready()
    process = server.process
    assert process
    replacing = embedded.Valkey(state, socket_path=server.socket_path, log_dir=state / "log", throwaway=True)
    replacing.start()
    replacing.wait_ready()
    assert process.wait(10) == 0, "the left-over was asked to end"
    replacing.stop()
    assert not replacing.is_ready()
    server.stop()


def test_a_secret_is_made_once_and_private(state: Path) -> None:
    first = places.kept_secret(state, "some.key")
    assert places.kept_secret(state, "some.key") == first
    assert len(first) == 64
    assert (state / "some.key").stat().st_mode & 0o777 == 0o600


def test_without_a_state_folder_a_secret_leaves_no_file(tmp_path: Path) -> None:
    assert len(places.kept_secret(tmp_path / "none", "some.key")) == 64
    assert not (tmp_path / "none").exists()


def test_two_checkouts_have_two_state_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/somewhere")
    one, two = (places.default_state_dir(Path(name)) for name in ("/a", "/b"))
    assert one != two
    assert one.name.startswith("idlewild-")
    if os.geteuid() != 0:
        assert one.parent == Path("/somewhere")
