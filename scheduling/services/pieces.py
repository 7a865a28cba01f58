"""Large things that arrive in parts: outputs and checkpoints, resumable, each part and the whole checked by its hash.

The row that is filled has `parts`, `size_bytes`, `sha256`, `complete` and `object_name`, and is locked by the caller.
"""

from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Protocol

from django.utils.translation import gettext as _

from portal.kit.errors import Conflict, Finding, InvalidInput, TooLarge
from scheduling.domain.artefact import Piece, place
from scheduling.gateways import objects

CHUNK = 4 * 1024 * 1024
MOST = 1024**4


class Filled(Protocol):
    """A row that is filled part by part."""

    parts: list[Any]
    size_bytes: int
    sha256: str
    complete: bool
    object_name: str


@dataclass(frozen=True)
class Part:
    """One part as it came in; the one that completes the whole carries the hash of the whole."""

    offset: int
    data: bytes
    digest: str
    total: int
    whole_digest: str | None


@dataclass(frozen=True)
class Stored:
    """The offset wanted next; `complete`: the whole is there and its hash right."""

    offset: int
    complete: bool


def check(part: Part) -> None:
    """Before a row is looked for: the size of a part, and that it arrived as it was sent."""
    if len(part.data) > CHUNK:
        raise TooLarge(_("A part has at most 4 MiB."))
    if sha256(part.data).hexdigest() != part.digest:
        raise _bad("sha256", _("the hash is not that of the bytes"))


def take(row: Filled, part: Part) -> Stored:
    """Store one part and change `row`, which the caller saves. A wrong hash of the whole empties it: begin again at 0."""
    if row.complete:
        return Stored(row.size_bytes, complete=True)
    end = sum(length for _offset, length, _digest in row.parts)
    known = {one[0]: one[2] for one in row.parts}
    found = place(offset=part.offset, length=len(part.data), digest=part.digest, end=end, known=known, most=MOST)
    if found in (Piece.CONFLICT, Piece.GAP):
        raise Conflict(_("Go on at the offset given."), code="GAP", offset=end)
    if found is Piece.FULL or part.offset + len(part.data) > part.total:
        raise _bad("total", _("the output is longer than announced"))
    if found is Piece.APPEND and part.data:
        objects.put(objects.part_name(row.object_name, part.offset, part.digest), part.data)
        row.parts = [*row.parts, [part.offset, len(part.data), part.digest]]
        end += len(part.data)
    row.size_bytes = end
    if end == part.total and part.whole_digest:
        if _hash(row) != part.whole_digest:
            drop(row)
            row.parts, row.size_bytes = [], 0
            return Stored(0, complete=False)
        row.complete, row.sha256 = True, part.whole_digest
    return Stored(end, row.complete)


def read(row: Filled, start: int = 0) -> Any:
    """The bytes from `start` on, in pieces."""
    for offset, length, digest in row.parts:
        if offset + length > start:
            yield from objects.pieces(objects.part_name(row.object_name, offset, digest), max(0, start - offset))


def drop(row: Filled) -> None:
    """Remove the stored bytes."""
    for offset, _length, digest in row.parts:
        objects.delete(objects.part_name(row.object_name, offset, digest))


def _hash(row: Filled) -> str:
    whole = sha256()
    for piece in read(row):
        whole.update(piece)
    return whole.hexdigest()


def _bad(path: str, message: str) -> InvalidInput:
    return InvalidInput([Finding(path, "bad_part", message)], code="MALFORMED")
