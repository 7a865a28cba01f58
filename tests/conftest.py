"""What all tests share: the database of this worker (a copy of one migrated template), a clean soft store, the cast.

The app connects as `idlewild_app`, as in production; tables belong to `idlewild_owner`. A transactional test ends with our own `flush`
(portal/stack/testing), because append-only tables refuse TRUNCATE even from their owner.
"""

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

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
    with (run / "copy.lock").open("w") as lock, psycopg.connect(admin_url, autocommit=True) as admin:
        fcntl.flock(lock, fcntl.LOCK_EX)
        admin.execute(f"DROP DATABASE IF EXISTS {database_name()} WITH (FORCE)")
        admin.execute(
            f"CREATE DATABASE {database_name()} TEMPLATE {TEMPLATE} OWNER {embedded.OWNER} STRATEGY file_copy"
        )
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
