"""`./dev backup` and `./dev restore`: rows, files and keys come back; what would overwrite or mislead is refused."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from portal.stack import backup, embedded, places
from tests.portal.stack.running import open_folder

pytestmark = [pytest.mark.stack]


@pytest.fixture
def base() -> Iterator[Path]:
    with open_folder() as folder:
        yield folder


def cluster(state: Path) -> embedded.Postgres:
    state.mkdir(mode=0o711, exist_ok=True)
    return embedded.Postgres(state, socket_dir=places.postgres_socket_dir(state), log_dir=state / "log")


@pytest.fixture
def market(base: Path) -> Iterator[embedded.Postgres]:
    """A state folder with a row, a file and a key; its database runs."""
    postgres = cluster(base / "state")
    postgres.prepare()
    postgres.start()
    postgres.wait_ready()
    write(postgres, "CREATE TABLE kept (what text)", "INSERT INTO kept VALUES ('before')")
    (base / "state" / "media" / "outputs").mkdir(parents=True)
    (base / "state" / "media" / "outputs" / "one").write_bytes(b"42\n")
    (base / "state" / "vault.key").write_text("secret")
    yield postgres
    postgres.stop()


def write(postgres: embedded.Postgres, *words: str) -> None:
    with psycopg.connect(postgres.url("postgres", "postgres"), autocommit=True) as connection:
        for word in words:
            connection.execute(word)


def kept(state: Path) -> list[str]:
    postgres = cluster(state)
    postgres.start()
    postgres.wait_ready()
    try:
        with psycopg.connect(postgres.url("postgres", "postgres")) as connection:
            return [row[0] for row in connection.execute("SELECT what FROM kept ORDER BY what")]
    finally:
        postgres.stop()


def test_a_stopped_market_comes_back(base: Path, market: embedded.Postgres, capsys: pytest.CaptureFixture[str]) -> None:
    market.stop()
    backup.take(base / "state", base / "copy", follow=False)
    backup.restore(base / "new", base / "copy")
    assert kept(base / "new") == ["before"]
    assert (base / "new" / "media" / "outputs" / "one").read_bytes() == b"42\n"
    assert (base / "new" / "vault.key").read_text() == "secret"
    assert (base / "new" / "vault.key").stat().st_mode & 0o777 == 0o600
    assert "restored" in capsys.readouterr().out
    with pytest.raises(backup.CannotBackUp, match="not empty"):
        backup.take(base / "state", base / "copy", follow=False)
    with pytest.raises(backup.CannotBackUp, match="holds a database already"):
        backup.restore(base / "new", base / "copy")
    with pytest.raises(backup.CannotBackUp, match="no backup: base, wal"):
        backup.restore(base / "other", base / "state")


def test_what_was_written_after_the_base_backup_comes_back_by_the_log(base: Path, market: embedded.Postgres) -> None:
    backup.prepare(base / "copy")
    receiver = backup.follow_database(market, base / "copy")
    backup.take_database(market, base / "copy")
    write(market, "INSERT INTO kept VALUES ('later')")
    assert market.process is not None
    market.process.kill()  # the disaster
    market.process.wait(10)
    receiver.wait(20)
    fresh = cluster(base / "new")
    last = backup.restore_database(fresh, base / "copy")
    fresh.stop()
    assert last is not None
    assert kept(base / "new") == ["before", "later"]


def test_a_damaged_backup_is_refused_before_anything_is_touched(base: Path, market: embedded.Postgres) -> None:
    backup.prepare(base / "copy")
    backup.take_database(market, base / "copy")
    (base / "copy" / "base" / "PG_VERSION").write_text("1")
    with pytest.raises(backup.CannotBackUp, match="damaged"):
        backup.restore_database(cluster(base / "new"), base / "copy")
    assert not (base / "new" / "data").exists()
