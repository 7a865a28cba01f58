"""Bytes outside the database: log chunks and outputs, in files or S3 (settings: STORAGES).

Names are made here and hold nothing a tenant chose, so no name can leave its folder. Writing the same name again
replaces it.
"""

from collections.abc import Iterator

from django.core.files.base import ContentFile
from django.core.files.storage import default_storage

from portal import ids

READ = 1024 * 1024


def log_name(attempt: str, stream: str, offset: int) -> str:
    """Where a log chunk lies (gzip)."""
    return f"logs/{attempt}/{stream}/{offset:012d}.gz"


def artefact_name(attempt: str, name: str) -> str:
    """The common beginning of an output's parts."""
    return f"artefacts/{attempt}/{ids.digest(name)[:32]}"


def checkpoint_name(attempt: str, number: int) -> str:
    """The common beginning of a checkpoint's parts."""
    return f"checkpoints/{attempt}/{number:019d}"


def part_name(object_name: str, offset: int, sha256: str) -> str:
    """Where the part of an output that begins at `offset` lies; other bytes get another name."""
    return f"{object_name}/{offset:015d}-{sha256[:16]}"


def put(name: str, data: bytes) -> None:
    """Store bytes under exactly this name."""
    if default_storage.exists(name):
        default_storage.delete(name)
    default_storage.save(name, ContentFile(data))


def get(name: str) -> bytes:
    """All bytes of an object."""
    with default_storage.open(name, "rb") as stored:
        return bytes(stored.read())


def pieces(name: str, start: int = 0) -> Iterator[bytes]:
    """The bytes of an object from `start` on, in pieces."""
    with default_storage.open(name, "rb") as stored:
        stored.seek(start)
        while piece := stored.read(READ):
            yield piece


def delete(name: str) -> None:
    """Remove an object; gone already is fine."""
    default_storage.delete(name)
