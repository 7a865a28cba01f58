"""The signature of webhooks, and when a failed one is tried again."""

import hashlib
import hmac
from datetime import UTC, datetime, timedelta

import pytest

from portal.kit import webhooks

NOW = datetime(2026, 11, 2, 8, tzinfo=UTC)
T = int(NOW.timestamp())
BODY = b'{"id":"evt_1"}'


def test_a_signature_holds_for_its_body_secret_and_time_only() -> None:
    header = webhooks.signature(["one"], BODY, at=T)
    assert header.startswith(f"t={T},v1=")
    assert webhooks.is_signed(header, "one", BODY, now=T + 300)
    assert not webhooks.is_signed(header, "one", BODY, now=T + 301)
    assert not webhooks.is_signed(header, "one", BODY, now=T - 301)
    assert not webhooks.is_signed(header, "two", BODY, now=T)
    assert not webhooks.is_signed(header, "one", BODY + b" ", now=T)


def test_while_a_secret_is_replaced_both_sign() -> None:
    header = webhooks.signature(["new", "old"], BODY, at=T)
    assert webhooks.is_signed(header, "new", BODY, now=T)
    assert webhooks.is_signed(header, "old", BODY, now=T)


@pytest.mark.parametrize("header", ["", "v1=00", "t=now,v1=00", f"t={T},t={T},v1=00", f"t={T}"])
def test_what_is_no_signature_is_refused(header: str) -> None:
    assert not webhooks.is_signed(header, "one", BODY, now=T)


def test_the_known_vector() -> None:
    """As any receiver computes it: HMAC-SHA256 of `t.body`."""
    digest = hmac.new(b"one", b'1000.{"id":"evt_1"}', hashlib.sha256).hexdigest()
    assert webhooks.signature(["one"], BODY, at=1000) == f"t=1000,v1={digest}"


def test_eight_retries_and_then_never() -> None:
    waits = [webhooks.next_try(tries=tries, now=NOW) for tries in range(1, 10)]
    assert waits[0] == NOW + timedelta(seconds=10)
    assert waits[7] == NOW + timedelta(hours=24)
    assert waits[8] is None
