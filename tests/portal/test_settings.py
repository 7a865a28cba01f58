"""The settings of each profile, loaded in a process of their own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.portal.stack.running import clean_environment
from tests.sources import ROOT

REQUIRED = {
    "DATABASE_URL": "postgresql://idlewild_app:x@db.internal/idlewild",
    "REDIS_URL": "redis://redis.internal:6379/0",
    "IDLEWILD_SECRET_KEY": "s" * 64,
    "IDLEWILD_VAULT_KEYS": "k1:" + "v" * 64,
    "IDLEWILD_ALLOWED_HOSTS": "idlewild.example.org",
    "IDLEWILD_BASE_URL": "https://idlewild.example.org",
    "IDLEWILD_S3_BUCKET": "idlewild",
    "EMAIL_URL": "smtp://u:p@mail.example.org:587?tls=1",
    "IDLEWILD_EMAIL_FROM": "Idlewild <no-reply@example.org>",
}


def load(state: Path, expression: str, **environment: str) -> subprocess.CompletedProcess[str]:
    script = f"import json\nfrom portal import settings\nprint(json.dumps({expression}, default=str))"
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        cwd=ROOT,
        env=clean_environment(state, **environment),
        capture_output=True,
        text=True,
        check=False,
    )


def value(state: Path, expression: str, **environment: str) -> object:
    done = load(state, expression, **environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def production(**changes: str) -> dict[str, str]:
    return {"IDLEWILD_PROFILE": "production", **REQUIRED, **changes}


def test_production_loads_when_all_is_named(tmp_path: Path) -> None:
    wanted = (
        "[settings.DATABASES['default']['HOST'], settings.SESSION_COOKIE_SECURE, settings.DEBUG, settings.EMAIL_HOST]"
    )
    assert value(tmp_path / "none", wanted, **production()) == ["db.internal", True, False, "mail.example.org"]
    assert not (tmp_path / "none").exists(), "production writes no file"


@pytest.mark.parametrize("name", sorted(REQUIRED))
def test_production_names_what_is_missing(tmp_path: Path, name: str) -> None:
    environment = production()
    del environment[name]
    done = load(tmp_path / "none", "1", **environment)
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("django.core.exceptions.ImproperlyConfigured: ")
    assert name in last
    assert "for example" in last
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("name", ["IDLEWILD_ALLOW_UNSAFE_NODES", "IDLEWILD_VIRTUAL_CARDS"])
def test_production_refuses_what_only_a_demo_may(tmp_path: Path, name: str) -> None:
    done = load(tmp_path / "none", "1", **production(**{name: "1"}))
    assert "ImproperlyConfigured" in done.stderr
    assert name in done.stderr.strip().splitlines()[-1]


def test_production_takes_a_shared_folder_instead_of_a_bucket(tmp_path: Path) -> None:
    environment = production(IDLEWILD_MEDIA_ROOT="/srv/media")
    del environment["IDLEWILD_S3_BUCKET"]
    assert value(tmp_path / "none", "settings.MEDIA_ROOT", **environment) == "/srv/media"


def test_a_secret_may_lie_in_a_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("from-a-file-" * 5 + "\n")
    environment = production(IDLEWILD_SECRET_KEY_FILE=str(secret))
    del environment["IDLEWILD_SECRET_KEY"]
    assert value(tmp_path / "none", "settings.SECRET_KEY", **environment) == "from-a-file-" * 5


def test_the_embedded_profile_needs_nothing(tmp_path: Path) -> None:
    wanted = "[settings.DATABASES['default']['USER'], settings.REDIS_URL, settings.ALLOWED_HOSTS[0], settings.IDLEWILD_MAIL_TO_FILES]"
    assert value(tmp_path / "none", wanted) == [
        "idlewild_app",
        f"unix://{tmp_path}/none/valkey/s?db=0",
        "localhost",
        True,
    ]


def test_the_app_never_gets_the_owners_address_in_production(tmp_path: Path) -> None:
    assert value(tmp_path / "none", "settings.IDLEWILD_MIGRATE_DATABASE_URL", **production()) == ""


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("IDLEWILD_PROFILE", "staging"),
        ("IDLEWILD_LEASE_CLASSES", "fast"),
        ("IDLEWILD_RATE_LIMITS", "[1]"),
        ("REDIS_URL", "memcached://h"),
        ("DATABASE_URL", "postgresql://h/db?no_such_word=1"),
        ("EMAIL_URL", "imap://h"),
        ("IDLEWILD_PORT", "eighty"),
        ("IDLEWILD_DB_POOL", "maybe"),
    ],
)
def test_a_wrong_value_is_refused_by_name(tmp_path: Path, name: str, wrong: str) -> None:
    done = load(tmp_path / "none", "1", **{name: wrong})
    assert done.returncode != 0
    assert name in done.stderr.strip().splitlines()[-1]


def test_a_knob_of_a_table_can_be_turned_alone(tmp_path: Path) -> None:
    changed = json.dumps({"fast": {"ttl_ms": 7_000}})
    rows = value(tmp_path / "none", "settings.IDLEWILD_LEASE_CLASSES", IDLEWILD_LEASE_CLASSES=changed)
    assert isinstance(rows, dict)
    assert (rows["fast"]["ttl_ms"], rows["fast"]["renew_ms"], rows["standard"]["ttl_ms"]) == (7_000, 1_500, 15_000)


def test_the_lease_table_keeps_its_promises(tmp_path: Path) -> None:
    """The agent freezes before the portal takes a lease back, whatever the class; a renewal fits several times into a time to live."""
    rows = value(tmp_path / "none", "{**settings.LEASE_CLASSES_REAL, 'test': settings.LEASE_CLASS_OF_TESTS}")
    assert isinstance(rows, dict)
    for name, row in rows.items():
        assert row["deadline_ms"] < row["ttl_ms"] < row["lapse_ms"], name
        assert row["renew_ms"] * 3 < row["deadline_ms"], name
        assert row["renew_ms"] * 2 < row["suspect_ms"] < row["lapse_ms"], name
