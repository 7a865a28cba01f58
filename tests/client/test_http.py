"""Repeats, keys and errors on the wire."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from client.api import Idlewild
from client.errors import (
    BadSpec,
    Conflict,
    NotAllowed,
    NotFound,
    PortalFault,
    QuoteExpired,
    SpendingRefused,
    TooMany,
    Unreachable,
)
from client.http import Http, masked
from tests.client.peer import KEY, Peer, problem

SPEC = {"run": "echo hi"}


Portal = Callable[..., Idlewild]


@pytest.fixture
def portal(peer: Peer) -> Iterator[Portal]:
    with ExitStack() as open_ones:
        yield lambda **options: open_ones.enter_context(
            Idlewild(http=Http(url=peer.url, key=KEY, patience_s=2.0, **options))
        )


def test_a_lost_answer_is_asked_for_again_with_the_same_key_and_makes_one_job(peer: Peer, portal: Portal) -> None:
    peer.drop_after_submit = 2
    job = portal().jobs.submit(SPEC, quote="quo_1", point=0)
    sent = peer.requests("POST", "/api/v1/jobs")
    assert len(sent) == 3
    assert len({headers["idempotency-key"] for headers, _ in sent}) == 1
    assert list(peer.jobs) == [job.id]


def test_two_submits_have_two_keys(peer: Peer, portal: Portal) -> None:
    client = portal()
    assert client.jobs.submit(SPEC).id != client.jobs.submit(SPEC).id


@pytest.mark.parametrize(
    ("status", "code"), [(429, "rate_limited"), (503, "unavailable"), (502, "x"), (504, "x"), (409, "idempotency_busy")]
)
def test_answers_that_ask_to_come_again_are_obeyed(peer: Peer, portal: Portal, status: int, code: str) -> None:
    waited: list[float] = []
    peer.say("GET", "/api/v1/me", status, problem(status, code), **{"Retry-After": "1"})
    assert portal(sleep=waited.append).people.whoami()["email"] == "ada@example.org"
    assert waited == [1.0]


def test_without_retry_after_the_pauses_grow(peer: Peer, portal: Portal) -> None:
    waited: list[float] = []
    for _ in range(3):
        peer.say("GET", "/api/v1/me", 503, problem(503, "unavailable"))
    portal(sleep=waited.append).people.whoami()
    assert waited == [0.2, 0.4, 0.8]


def test_a_wait_longer_than_our_patience_is_not_begun(peer: Peer, portal: Portal) -> None:
    peer.say("GET", "/api/v1/me", 429, problem(429, "rate_limited"), **{"Retry-After": "60"})
    with pytest.raises(TooMany) as wrong:
        portal().people.whoami()
    assert wrong.value.retry_after == 60


@pytest.mark.parametrize(
    ("status", "code", "kind", "leaves"),
    [
        (400, "bad_request", BadSpec, 200),
        (401, "not_signed_in", NotAllowed, 201),
        (402, "spending_refused", SpendingRefused, 202),
        (403, "forbidden", NotAllowed, 201),
        (404, "not_found", NotFound, 209),
        (409, "invalid_transition", Conflict, 209),
        (409, "quote_expired", QuoteExpired, 208),
        (413, "spec_too_large", BadSpec, 200),
        (422, "bad_spec", BadSpec, 200),
        (500, "internal", PortalFault, 209),
    ],
)
def test_each_refusal_is_an_error_of_its_own_with_its_exit_code(
    portal: Portal, peer: Peer, status: int, code: str, kind: type, leaves: int
) -> None:
    peer.say("POST", "/api/v1/jobs", status, problem(status, code, "Say it.", errors=[{"path": "run"}]))
    with pytest.raises(kind) as wrong:
        portal().jobs.submit(SPEC)
    assert (wrong.value.code, wrong.value.detail, int(wrong.value.exit)) == (code, "Say it.", leaves)  # type: ignore[attr-defined]
    assert len(peer.requests("POST", "/api/v1/jobs")) == 1


def test_a_portal_that_is_away_is_unreachable_after_our_patience() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    away = Http(url=f"http://127.0.0.1:{port}", key=KEY, patience_s=0.5)
    with closing(away), pytest.raises(Unreachable) as wrong:
        away.get("/api/v1/me")
    assert int(wrong.value.exit) == 207


def test_an_answer_that_is_not_ours_is_still_a_sentence(peer: Peer, portal: Portal) -> None:
    peer.say("GET", "/api/v1/me", 301, None, Location="https://elsewhere.example/")
    with pytest.raises(Exception, match="elsewhere"):
        portal().people.whoami()


def test_lists_are_read_to_their_end(peer: Peer, portal: Portal) -> None:
    peer.say("GET", "/api/v1/projects", 200, {"items": [{"slug": "a"}], "next_cursor": "x"})
    peer.say("GET", "/api/v1/projects", 200, {"items": [{"slug": "b"}], "next_cursor": None})
    assert [row["slug"] for row in portal().people.every("projects")] == ["a", "b"]
    assert [query.get("cursor") for _, query in peer.requests("GET", "/api/v1/projects")] == [None, "x"]


def test_the_key_is_never_shown(peer: Peer, portal: Portal) -> None:
    shown: list[str] = []
    portal(show=shown.append).jobs.submit(SPEC)
    assert len(shown) == 1
    assert "Idempotency-Key" in shown[0]
    assert "echo hi" in shown[0]
    assert masked(KEY) in shown[0]
    assert "verysecretpart" not in shown[0]


def test_a_change_is_made_to_the_version_that_was_read(peer: Peer, portal: Portal) -> None:
    peer.say("GET", "/api/v1/projects/vision", 200, {"slug": "vision"}, ETag='"7"')
    peer.say("PATCH", "/api/v1/projects/vision", 200, {"slug": "vision", "name": "Vision"})
    assert portal().people.change("projects", "vision", {"name": "Vision"})["name"] == "Vision"
    assert peer.requests("PATCH", "/api/v1/projects/vision")[0][0]["if-match"] == '"7"'
