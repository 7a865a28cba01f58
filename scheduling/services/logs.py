"""Log streams: offset-addressed chunks that only grow, kept after the node is gone.

The agent sends gzip chunks of at most 256 KiB (plain), each with the offset at which it begins; the store holds one
contiguous run per attempt and stream
(rule: ``domain.artefact.place``). The bytes are kept as they were printed: colours (ANSI) and broken UTF-8 included.
"""

import zlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils.translation import gettext as _

from portal.kit.errors import Conflict, Finding, InvalidInput, TooLarge
from scheduling.domain.artefact import Piece, place, whole_characters
from scheduling.gateways import objects
from scheduling.models import Attempt, LogChunk
from scheduling.services import live

CHUNK = 256 * 1024
STREAM = 64 * 1024 * 1024
STREAMS = ("stdout", "stderr")
KEPT_FOR = timedelta(days=90)
READ_MOST = 512 * 1024
EXPIRE_BATCH = 500


@dataclass(frozen=True)
class Slice:
    """A part of a stream: bytes [offset, next_offset) of `total`; `complete`: the attempt has ended, nothing
    follows.
    """

    data: bytes
    offset: int
    next_offset: int
    total: int
    complete: bool


def append(*, attempt: Attempt, stream: str, offset: int, packed: bytes, digest: str, now: datetime) -> int:
    """Store a chunk and return the offset wanted next. The same chunk again is fine.

    Conflict `GAP` carries the offset wanted; TooLarge `STREAM_FULL` says that this stream takes no more.
    """
    plain = unpack(packed)
    if sha256(plain).hexdigest() != digest:
        raise _bad("sha256", _("the hash is not that of the unpacked bytes"))
    if not plain:
        raise _bad("body", _("a chunk is not empty"))
    end, known = _end(attempt, stream, offset)
    found = place(offset=offset, length=len(plain), digest=digest, end=end, known=known, most=STREAM)
    if found is Piece.REPEAT:
        return end
    if found is Piece.FULL:
        raise TooLarge(_("This stream holds 64 MiB and takes no more."), code="STREAM_FULL")
    if found is not Piece.APPEND:
        raise Conflict(_("Go on at the offset given."), code="GAP", offset=end)
    name = objects.log_name(attempt.public_id, stream, offset)
    objects.put(name, packed)
    try:
        with transaction.atomic():
            LogChunk.objects.create(
                attempt=attempt,
                stream=stream,
                offset=offset,
                length=len(plain),
                sha256=digest,
                object_name=name,
                received_at=now,
            )
            live.changed(f"job.{attempt.task.job.public_id}.logs")
    except IntegrityError:  # the same chunk, sent twice at once
        return append(attempt=attempt, stream=stream, offset=offset, packed=packed, digest=digest, now=now)
    return offset + len(plain)


def read(*, attempt: Attempt, stream: str, offset: int = 0, most: int = READ_MOST) -> Slice:
    """At most `most` bytes of a stream from `offset` on, cut between characters."""
    total, _known = _end(attempt, stream, -1)
    complete = attempt.ended_at is not None
    offset = min(max(0, offset), total)
    data = bytearray()
    for chunk in _chunks(attempt, stream).filter(offset__gt=offset - CHUNK, offset__lt=offset + most):
        if chunk.offset + chunk.length > offset:
            data += unpack(objects.get(chunk.object_name))[max(0, offset - chunk.offset) :]
        if len(data) >= most:
            break
    cut = bytes(data[:most])
    cut = cut[: whole_characters(cut, last=complete and offset + len(cut) >= total)]
    return Slice(cut, offset, offset + len(cut), total, complete)


def sizes(*, attempt: Attempt) -> dict[str, int]:
    """Bytes stored per stream."""
    return {stream: _end(attempt, stream, -1)[0] for stream in STREAMS}


def unpack(packed: bytes) -> bytes:
    """The plain bytes of a gzip chunk; InvalidInput if it is none, or holds more than a chunk may (a bomb is not
    unpacked).
    """
    machine = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        plain = machine.decompress(packed, CHUNK + 1)
    except zlib.error:
        raise _bad("body", _("the body is not gzip")) from None
    if len(plain) > CHUNK:
        raise _bad("body", _("a chunk has at most 256 KiB"))
    if not machine.eof or machine.unused_data:
        raise _bad("body", _("the gzip data is cut off or followed by something"))
    return plain


def expire(*, now: datetime) -> int:
    """Delete chunks older than 90 days, a batch per call; returns how many."""
    old = list(LogChunk.objects.filter(received_at__lt=now - KEPT_FOR).order_by("id")[:EXPIRE_BATCH])
    for chunk in old:
        objects.delete(chunk.object_name)
    return LogChunk.objects.filter(id__in=[chunk.id for chunk in old]).delete()[0]


def _chunks(attempt: Attempt, stream: str) -> "QuerySet[LogChunk]":
    return LogChunk.objects.filter(attempt=attempt, stream=stream).order_by("offset")


def _end(attempt: Attempt, stream: str, offset: int) -> tuple[int, dict[int, str]]:
    """Where the run ends, and the digest of the chunk at `offset` if there is one."""
    last = _chunks(attempt, stream).last()
    at = _chunks(attempt, stream).filter(offset=offset).first() if last is not None and offset >= 0 else None
    return (last.offset + last.length if last else 0), ({at.offset: at.sha256} if at else {})


def _bad(path: str, message: str) -> InvalidInput:
    return InvalidInput([Finding(path, "bad_chunk", message)], code="MALFORMED")
