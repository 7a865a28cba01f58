"""A private PostgreSQL and Valkey per test run, started before the settings load; `addopts` names this plugin.

One *run* has one server pair; its xdist workers take a database copy and a Redis number each. The servers live in a temporary folder and end with the run
(and with the process that started them, should it be killed). ``IDLEWILD_TEST_NO_DB=1`` starts nothing: rules need no database. DATABASE_URL, REDIS_URL and
IDLEWILD_TEST_ADMIN_URL (a superuser) set: those servers are used instead.
"""

import os
import shutil
import tempfile
import time
from pathlib import Path

import pytest

from portal.stack import addresses, embedded

TEMPLATE = "idlewild"
_servers: dict[str, object] = {}


def worker() -> str:
    """This process's name within the run: gw0, gw1 … or main."""
    return os.environ.get("PYTEST_XDIST_WORKER", "main")


def database_name() -> str:
    return f"idlewild_test_{worker()}_{os.environ.get('IDLEWILD_TEST_MARK', '0')}"


def without_database() -> bool:
    return os.environ.get("IDLEWILD_TEST_NO_DB") == "1"


def _run_folder(who: embedded.Account) -> Path:
    """A temporary folder that the database's account can enter."""
    base = tempfile.gettempdir()
    if not embedded.may_enter(Path(base), who):
        base = "/tmp"  # noqa: S108  # TMPDIR lies under a 0700 folder; ours below has a random name
    folder = Path(tempfile.mkdtemp(prefix="idlewild-test-", dir=base))
    folder.chmod(0o711)
    return folder


def _start_servers() -> None:
    began = time.monotonic()
    who = embedded.account()
    folder = _run_folder(who)
    os.environ["IDLEWILD_TEST_RUN_DIR"] = str(folder)
    _servers["folder"] = folder
    postgres = embedded.Postgres(folder, socket_dir=folder / "pg", log_dir=folder / "log", throwaway=True)
    valkey = embedded.Valkey(folder, socket_path=folder / "valkey" / "s", log_dir=folder / "log", throwaway=True)
    _servers["postgres"], _servers["valkey"] = postgres, valkey
    valkey.start()
    postgres.prepare()
    postgres.start()
    postgres.wait_ready()
    valkey.wait_ready()
    postgres.provide()
    os.environ["IDLEWILD_TEST_ADMIN_URL"] = postgres.url("postgres", "postgres")
    os.environ["IDLEWILD_TEST_REDIS_URL"] = valkey.url()
    os.environ["IDLEWILD_TEST_HEADER"] = (
        f"PostgreSQL {postgres.version}, Valkey {valkey.version}, ready in {time.monotonic() - began:.1f} s"
    )


def _external() -> None:
    folder = Path(tempfile.mkdtemp(prefix="idlewild-test-"))
    _servers["folder"] = folder
    os.environ["IDLEWILD_TEST_RUN_DIR"] = str(folder)
    os.environ["IDLEWILD_TEST_MARK"] = str(os.getpid())
    os.environ["IDLEWILD_TEST_REDIS_URL"] = os.environ["REDIS_URL"]
    os.environ["IDLEWILD_KEY_PREFIX"] = f"idlewild-test-{os.getpid()}"
    os.environ["IDLEWILD_TEST_HEADER"] = "servers: DATABASE_URL and REDIS_URL"


def _environment() -> None:
    """What the settings of this process read."""
    os.environ["IDLEWILD_PROFILE"] = "test"
    os.environ["IDLEWILD_SECRET_KEY"] = "only for tests, and long enough for every use of it"  # noqa: S105
    os.environ["IDLEWILD_VAULT_KEYS"] = "t1:only-for-tests-only-for-tests-only-for-tests"
    os.environ["DJANGO_SETTINGS_MODULE"] = "portal.settings"
    if without_database():
        os.environ["DATABASE_URL"] = "host=/nonexistent dbname=none user=none"
        os.environ["REDIS_URL"] = "unix:///nonexistent?db=0"
        return
    state = Path(os.environ["IDLEWILD_TEST_RUN_DIR"]) / f"state-{worker()}"
    state.mkdir(exist_ok=True)
    os.environ["IDLEWILD_STATE_DIR"] = str(state)
    admin = addresses.database(os.environ["IDLEWILD_TEST_ADMIN_URL"])
    server = " ".join(f"{word}={admin[name]}" for word, name in (("host", "HOST"), ("port", "PORT")) if admin.get(name))
    os.environ["DATABASE_URL"] = f"{server} dbname={database_name()} user={embedded.APP}"
    os.environ["IDLEWILD_MIGRATE_DATABASE_URL"] = f"{server} dbname={TEMPLATE} user={embedded.OWNER}"
    number = 0 if worker() == "main" else int(worker().removeprefix("gw")) + 1
    os.environ["REDIS_URL"] = addresses.with_database_number(os.environ["IDLEWILD_TEST_REDIS_URL"], number)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    first = "PYTEST_XDIST_WORKER" not in os.environ
    if first and not without_database():
        if os.environ.get("IDLEWILD_TEST_ADMIN_URL"):
            _external()
        else:
            try:
                _start_servers()
            except embedded.StackError as problem:
                _stop_servers()
                raise pytest.UsageError(str(problem)) from None
    _environment()


def pytest_report_header(config: pytest.Config) -> str:
    return os.environ.get("IDLEWILD_TEST_HEADER", "no database, no Redis (IDLEWILD_TEST_NO_DB)")


def _stop_servers() -> None:
    for name in ("valkey", "postgres"):
        server = _servers.pop(name, None)
        if isinstance(server, embedded.Postgres | embedded.Valkey):
            server.stop()
    folder = _servers.pop("folder", None)
    if isinstance(folder, Path):
        shutil.rmtree(folder, ignore_errors=True)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    _stop_servers()
