"""Rate limits count in soft state; without it there is no limit, and a warning."""

import pytest
from django.test import RequestFactory

from portal import softstate
from portal.api import throttling
from portal.kit.errors import TooMany


@pytest.fixture
def three(settings):
    """Three of everything in an hour."""
    limits = {
        name: {"count": 3, "seconds": 3600, "of": row["of"]} for name, row in settings.IDLEWILD_RATE_LIMITS.items()
    }
    settings.IDLEWILD_RATE_LIMITS = limits


def test_the_fourth_read_within_the_hour_is_told_when_to_come_back(ada, three):
    client = ada.web()
    assert [client.get("/api/v1/me").status_code for _ in range(4)] == [200, 200, 200, 429]
    answer = client.get("/api/v1/me")
    assert (answer.json()["code"], int(answer["Retry-After"]) > 0) == ("rate_limited", True)


def test_reads_and_writes_and_persons_are_counted_apart(ada, cleo, three):
    for _ in range(4):
        ada.web().get("/api/v1/me")
    assert ada.web().post("/api/v1/projects", {"slug": "a"}, format="json").status_code == 201
    assert cleo.web().get("/api/v1/me").status_code == 200
    assert ada.program().get("/api/v1/me").status_code == 200, "a key is somebody of its own"


def test_a_door_without_a_view_counts_by_address(db, three):
    for _ in range(3):
        throttling.check("enroll", "192.0.2.1")
    with pytest.raises(TooMany) as refused:
        throttling.check("enroll", "192.0.2.1")
    assert refused.value.extra["retry_after"] > 0
    throttling.check("enroll", "192.0.2.2")


def test_without_the_store_there_is_no_limit(ada, three, settings):
    softstate._client.cache_clear()
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    try:
        assert [throttling.over("read", "somebody") for _ in range(5)] == [None] * 5
    finally:
        softstate._client.cache_clear()


def test_the_address_behind_trusted_proxies(settings):
    def seen(near, forwarded=""):
        return throttling.address(RequestFactory().get("/", REMOTE_ADDR=near, HTTP_X_FORWARDED_FOR=forwarded))

    settings.IDLEWILD_TRUSTED_PROXIES = ["10.0.0.1", "10.0.0.2"]
    assert seen("192.0.2.1", "198.51.100.1") == "192.0.2.1", "a stranger's header is not believed"
    assert seen("10.0.0.1", "203.0.113.9, 198.51.100.1, 10.0.0.2") == "198.51.100.1"
    assert seen("10.0.0.1") == "10.0.0.1"
