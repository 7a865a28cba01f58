"""What all tests share: the database of this worker (a copy of one migrated template), a clean soft store, the cast.

The app connects as `idlewild_app`, as in production; tables belong to `idlewild_owner`. A transactional test ends with our own `flush`
(portal/stack/testing), because append-only tables refuse TRUNCATE even from their owner.

The end of a run is judged too: a process left behind fails it, and with CI=true a skipped test that tests/expected_skips.txt does not name.
"""

import fcntl
import fnmatch
import os
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from importlib import import_module
from pathlib import Path

import psutil
import psycopg
import pytest
from django.utils import translation

from portal.stack import embedded
from portal.stack.pytest_plugin import TEMPLATE, database_name, without_database
from tests.cast import ada, ben, cleo, sol, staff

__all__ = ["ada", "ben", "cleo", "sol", "staff"]  # fixtures for every test

ROOT = Path(__file__).resolve().parent.parent


def _migrate_template_once(run: Path, environment: dict[str, str]) -> None:
    """The first worker migrates the template database; the others wait for it."""
    with (run / "template.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (run / "template.ok").exists():
            return
        if (run / "template.failed").exists():
            pytest.exit((run / "template.failed").read_text(), returncode=3)
        command = [sys.executable, str(ROOT / "manage.py"), "migrate", "--verbosity=0"]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            text = f"the migrations failed:\n{done.stdout}\n{done.stderr}"
            (run / "template.failed").write_text(text)
            pytest.exit(text, returncode=3)
        (run / "template.ok").touch()


@pytest.fixture(scope="session")
def django_db_setup(django_test_environment: None, django_db_blocker: object) -> Iterator[None]:
    """This worker's database: `CREATE DATABASE … TEMPLATE` of the migrated one."""
    if without_database():
        pytest.fail("this test needs the database: run it without IDLEWILD_TEST_NO_DB")
    admin_url = os.environ["IDLEWILD_TEST_ADMIN_URL"]
    run = Path(os.environ["IDLEWILD_TEST_RUN_DIR"])
    _migrate_template_once(run, {**os.environ})
    import_module("portal.celery")  # the app whose broker the outbox nudges
    with (run / "copy.lock").open("w") as lock, psycopg.connect(admin_url, autocommit=True) as admin:
        fcntl.flock(lock, fcntl.LOCK_EX)
        admin.execute(f"DROP DATABASE IF EXISTS {database_name()} WITH (FORCE)")
        admin.execute(
            f"CREATE DATABASE {database_name()} TEMPLATE {TEMPLATE} OWNER {embedded.OWNER} STRATEGY file_copy"
        )
        admin.execute(f"REVOKE TEMPORARY ON DATABASE {database_name()} FROM PUBLIC")  # a copy does not inherit it
    yield
    from django.db import connections

    with django_db_blocker.unblock():  # type: ignore[attr-defined]
        connections.close_all()


@pytest.fixture(autouse=True)
def _clean_soft_store(request: pytest.FixtureRequest) -> None:
    """Tests that use the database start with an empty soft store: limits and heartbeats of the last test are gone."""
    if not without_database() and {"db", "transactional_db", "live"} & set(request.fixturenames):
        import redis
        from django.conf import settings

        with redis.Redis.from_url(settings.REDIS_URL) as client:
            client.flushdb()


@pytest.fixture(autouse=True)
def _english_again() -> Iterator[None]:
    """A test that read pages in Chinese leaves no language behind for the next."""
    yield
    translation.deactivate()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Browser tests come last: Playwright keeps a loop running in its thread, under which no other test could start one."""
    items.sort(key=lambda item: "tests/e2e/" in item.nodeid)


# --- the end of a run ------------------------------------------------------------------------------------------------------
_skipped: dict[str, str] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail"):
        _skipped[report.nodeid] = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)


def _unexpected_skips() -> list[str]:
    expected = [
        line.split("  #")[0].strip()
        for line in (ROOT / "tests" / "expected_skips.txt").read_text().splitlines()
        if line.strip() and not line.startswith("#")
    ]
    return [
        f"{test}: {why}"
        for test, why in sorted(_skipped.items())
        if not any(fnmatch.fnmatch(test, pattern) for pattern in expected)
    ]


def _left_behind(seconds: float = 10.0) -> list[str]:
    """Processes that carry this run's mark in their environment and do not end within `seconds`."""
    mark = os.environ.get("IDLEWILD_TEST_RUN_DIR")
    if mark is None:
        return []
    family = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    until = time.monotonic() + seconds
    while True:
        found = []
        for process in psutil.process_iter(["pid"]):
            try:
                if (
                    process.pid not in family
                    and process.environ().get("IDLEWILD_TEST_RUN_DIR") == mark
                    and process.status() != "zombie"
                ):
                    found.append(f"{process.pid}: {' '.join(process.cmdline())[:200]}")
            except (psutil.NoSuchProcess, psutil.AccessDenied, OSError):
                continue
        if not found or time.monotonic() > until:
            return found
        time.sleep(0.2)


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, None, None]:
    yield
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    problems = [f"left behind: {line}" for line in _left_behind()]
    if os.environ.get("CI") == "true":
        problems += [f"skipped, and not in tests/expected_skips.txt: {line}" for line in _unexpected_skips()]
    if problems:
        session.config.stash[_problems] = problems
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


_problems = pytest.StashKey[list[str]]()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in config.stash.get(_problems, []):
        terminalreporter.write_line(line, red=True)
    missing = sorted({why for why in _skipped.values() if "reference data is not here" in why})
    if missing:
        terminalreporter.write_line(
            f"!!! OUTSIDE DATA IS NOT HERE: {len(missing)} tests were skipped; set IDLEWILD_REFERENCE_DIR", yellow=True
        )
