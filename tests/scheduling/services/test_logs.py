"""Log streams: contiguous, as printed, read by range, kept after the node is gone, expired after 90 days."""

import gzip
from datetime import timedelta
from hashlib import sha256
from threading import Thread

import pytest
from django.db import connections

from portal.kit.errors import Conflict, TooLarge
from scheduling.models import LogChunk
from scheduling.services import logs
from tests.cast import THEN, Person
from tests.factories.market import a_node
from tests.factories.running import Work, a_running


def put(work: Work, offset: int, data: bytes, stream: str = "stdout") -> int:
    return logs.append(
        attempt=work.fresh(),
        stream=stream,
        offset=offset,
        packed=gzip.compress(data),
        digest=sha256(data).hexdigest(),
        now=THEN,
    )


def test_a_stream_grows_without_gaps_and_streams_are_apart(ada: Person, sol: Person) -> None:
    work = a_running(ada, a_node(sol))
    assert put(work, 0, b"one\n") == 4
    assert put(work, 4, b"two\n") == 8
    assert put(work, 0, b"oops\n", "stderr") == 5
    with pytest.raises(Conflict) as gap:
        put(work, 9, b"x")
    assert gap.value.extra["offset"] == 8
    assert logs.read(attempt=work.fresh(), stream="stdout").data == b"one\ntwo\n"
    assert logs.sizes(attempt=work.fresh()) == {"stdout": 8, "stderr": 5}


def test_a_chunk_sent_again_or_by_two_at_once_is_stored_once(ada: Person, sol: Person) -> None:
    work = a_running(ada, a_node(sol))
    assert [put(work, 0, b"same"), put(work, 0, b"same")] == [4, 4]
    assert LogChunk.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_two_at_once(ada: Person, sol: Person) -> None:
    work = a_running(ada, a_node(sol))
    answers: list[int] = []

    def one() -> None:
        try:
            answers.append(put(work, 0, b"same"))
        finally:
            connections.close_all()

    threads = [Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [4] * 4
    assert LogChunk.objects.count() == 1


def test_reading_by_range_never_cuts_a_character(ada: Person, sol: Person) -> None:
    work = a_running(ada, a_node(sol))
    text = ("算力 \x1b[32m●\x1b[0m " * 40).encode()
    for start in range(0, len(text), 7):
        put(work, start, text[start : start + 7])
    offset, seen = 0, ""
    while True:
        piece = logs.read(attempt=work.fresh(), stream="stdout", offset=offset, most=16)
        if not piece.data:
            break
        seen += piece.data.decode()
        offset = piece.next_offset
    assert seen.encode() == text  # colours included


def test_the_end_is_given_even_if_it_is_half_a_character(ada: Person, sol: Person) -> None:
    work = a_running(ada, a_node(sol))
    put(work, 0, b"a\xe7\xae")
    assert logs.read(attempt=work.fresh(), stream="stdout").data == b"a"
    work.finish(THEN)
    piece = logs.read(attempt=work.fresh(), stream="stdout")
    assert (piece.data, piece.complete) == (b"a\xe7\xae", True)


def test_an_offset_beyond_the_end_waits_there(ada: Person, sol: Person) -> None:
    work = a_running(ada, a_node(sol))
    put(work, 0, b"abc")
    piece = logs.read(attempt=work.fresh(), stream="stdout", offset=99)
    assert (piece.offset, piece.next_offset, piece.total, piece.data) == (3, 3, 3, b"")


def test_a_full_stream_takes_no_more(ada: Person, sol: Person) -> None:
    work = a_running(ada, a_node(sol))
    LogChunk.objects.create(
        attempt=work.attempt,
        stream="stdout",
        offset=0,
        length=logs.STREAM,
        sha256="0" * 64,
        object_name="x",
        received_at=THEN,
    )
    with pytest.raises(TooLarge) as full:
        put(work, logs.STREAM, b"x")
    assert full.value.code == "STREAM_FULL"


def test_chunks_expire_after_ninety_days(ada: Person, sol: Person) -> None:
    work = a_running(ada, a_node(sol))
    put(work, 0, b"old")
    assert logs.expire(now=THEN + timedelta(days=89)) == 0
    assert logs.expire(now=THEN + timedelta(days=91)) == 1
    assert logs.read(attempt=work.fresh(), stream="stdout").total == 0
