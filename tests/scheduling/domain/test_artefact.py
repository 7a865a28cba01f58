"""Bytes that arrive in pieces, and the life of a stored output."""

from itertools import product

import pytest

from portal.kit.errors import InvalidTransition
from scheduling.domain.artefact import ArtefactEvent, ArtefactState, Piece, place, step, whole_characters

KNOWN = {0: "aa", 10: "bb"}


@pytest.mark.parametrize(
    ("offset", "length", "digest", "expected"),
    [
        (15, 5, "cc", Piece.APPEND),
        (0, 10, "aa", Piece.REPEAT),
        (10, 5, "bb", Piece.REPEAT),
        (10, 5, "xx", Piece.CONFLICT),
        (3, 5, "cc", Piece.CONFLICT),
        (16, 5, "cc", Piece.GAP),
        (15, 86, "cc", Piece.FULL),
        (15, 85, "cc", Piece.APPEND),
    ],
)
def test_a_piece_is_appended_repeated_or_refused(offset: int, length: int, digest: str, expected: Piece) -> None:
    assert place(offset=offset, length=length, digest=digest, end=15, known=KNOWN, most=100) is expected


@pytest.mark.parametrize(("state", "event"), list(product(ArtefactState, ArtefactEvent)))
def test_a_stored_output_ends_once(state: ArtefactState, event: ArtefactEvent) -> None:
    if state is ArtefactState.STORED:
        expected = {ArtefactEvent.DELETE: ArtefactState.DELETED, ArtefactEvent.EXPIRE: ArtefactState.EXPIRED}
        assert step(state, event) is expected[event]
    else:
        with pytest.raises(InvalidTransition):
            step(state, event)


@pytest.mark.parametrize("text", ["plain", "é", "算力", "🙂", "\x1b[31mred\x1b[0m"])
def test_text_is_cut_between_characters(text: str) -> None:
    data = ("ab" + text).encode()
    for end in range(len(data) + 1):
        cut = whole_characters(data[:end], last=False)
        data[:cut].decode()
        assert end - cut < 4
    assert whole_characters(data, last=False) == len(data)


def test_the_last_piece_is_taken_whole_and_bytes_that_are_no_text_pass() -> None:
    assert whole_characters(b"\xe7\xae", last=True) == 2
    assert whole_characters(b"\x80\x80\x80\x80", last=False) == 4
    assert whole_characters(b"", last=False) == 0
