"""The doors that belong to no business."""

from pathlib import Path

import pytest
from django.test import Client

from portal import softstate

WHEEL = "idlewild_agent-0.1.0-py3-none-any.whl"


@pytest.fixture
def wheels(settings: pytest.FixtureRequest, tmp_path: Path) -> Path:
    settings.IDLEWILD_GET_DIR = tmp_path
    (tmp_path / WHEEL).write_bytes(b"wheel")
    (tmp_path / "secret.txt").write_text("no")
    return tmp_path


@pytest.mark.django_db
def test_healthz_says_how_it_is(client: Client) -> None:
    answer = client.get("/healthz")
    assert answer.status_code == 200
    assert answer.json() == {"status": "ok", "database": "up", "redis": "up"}


@pytest.mark.django_db
def test_without_redis_it_is_still_well(client: Client, settings: pytest.FixtureRequest) -> None:
    settings.REDIS_URL = "unix:///nowhere/s?db=0"
    softstate._client.cache_clear()
    try:
        answer = client.get("/healthz")
    finally:
        softstate._client.cache_clear()
    assert answer.status_code == 200
    assert answer.json()["redis"] == "down"


@pytest.mark.django_db
def test_readyz_wants_all_migrations(client: Client) -> None:
    answer = client.get("/readyz")
    assert answer.status_code == 200, answer.json()
    assert answer.json() == {"status": "ready", "missing": []}


def test_our_wheels_are_served(client: Client, wheels: Path) -> None:
    assert f"/get/{WHEEL}" in client.get("/get/").content.decode()
    answer = client.get(f"/get/{WHEEL}")
    assert answer.status_code == 200
    assert b"".join(answer.streaming_content) == b"wheel"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "name",
    ["secret.txt", "idlewild_agent-9.9.9-py3-none-any.whl", "..%2Fsecret.txt", "idlewild_other-0.1.0-py3-none-any.whl"],
)
def test_nothing_else_is_served(client: Client, wheels: Path, name: str) -> None:
    assert client.get(f"/get/{name}").status_code == 404


def test_the_index_names_only_wheels(client: Client, wheels: Path) -> None:
    assert "secret" not in client.get("/get/").content.decode()
