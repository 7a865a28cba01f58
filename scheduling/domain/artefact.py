"""Bytes that arrive in pieces: log streams and outputs; and the life of a stored output.

A piece says at which offset it begins. The store holds one contiguous run from 0:

=========================================  ===============================================
the piece                                  becomes
=========================================  ===============================================
begins where the run ends                  ``append``
begins earlier, at a known piece's offset  ``repeat`` if it is the same bytes, else ``conflict``
begins earlier, elsewhere                  ``conflict``
begins later                               ``gap``: the sender goes on at the run's end
would make the run too long                ``full``
=========================================  ===============================================

An artefact is stored, then deleted by its owner or expired at its date.
"""

from collections.abc import Mapping
from enum import StrEnum

from portal.kit import machine


class Piece(StrEnum):
    APPEND = "append"
    REPEAT = "repeat"
    CONFLICT = "conflict"
    GAP = "gap"
    FULL = "full"


class ArtefactState(StrEnum):
    STORED = "stored"
    DELETED = "deleted"
    EXPIRED = "expired"


class ArtefactEvent(StrEnum):
    DELETE = "delete"
    EXPIRE = "expire"


TABLE: dict[tuple[ArtefactState, ArtefactEvent], tuple[ArtefactState, tuple[()]]] = {
    (ArtefactState.STORED, ArtefactEvent.DELETE): (ArtefactState.DELETED, ()),
    (ArtefactState.STORED, ArtefactEvent.EXPIRE): (ArtefactState.EXPIRED, ()),
}


def step(state: ArtefactState, event: ArtefactEvent) -> ArtefactState:
    """The state after `event`; InvalidTransition when there is no such arrow."""
    return machine.step(TABLE, state, event)[0]


def place(*, offset: int, length: int, digest: str, end: int, known: Mapping[int, str], most: int) -> Piece:
    """Where a piece of `length` bytes at `offset` belongs: the run ends at `end`, `known` maps offsets of stored
    pieces to their digests.
    """
    if offset > end:
        return Piece.GAP
    if offset < end:
        return Piece.REPEAT if known.get(offset) == digest else Piece.CONFLICT
    return Piece.FULL if end + length > most else Piece.APPEND


def whole_characters(data: bytes, *, last: bool) -> int:
    """How many bytes of `data` end on a character of UTF-8; `last`: nothing follows, so all of them."""
    if last:
        return len(data)
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0b1100_0000 == 0b1000_0000:  # inside a character
            continue
        wanted = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
        return len(data) if back >= wanted else len(data) - back
    return len(data)  # no UTF-8 at all: shown as it is
