"""A job's state, stored while the job runs and found again by its next attempt, on whichever node that is.

A checkpoint is a tar of `checkpoint.path`, with names from the folder above it. The job goes on while it is read, so a
file counts only if it was the same before and after reading; others are left out (a job that writes `x.tmp` and renames it
is always whole). The bytes are read like outputs: no link is followed, whoever laid it.

**At most one interval is lost**: what counts is the age of the newest *stored* checkpoint, so the next one begins earlier
than an interval after the last by the time that the last one took (`next_ms`). One that changed nothing is not sent again.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from . import clocks
from .protocol import OUTPUT_CHUNK, AssignmentSpec, Code, Reason, StoredCheckpoint, inside_job
from .staging import NO_LINK, StagingError, open_archive
from .transport import Portal, Refused, Sender, Unreachable, Whole

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
TRIES = 8
LONGEST_PAUSE_S = 10.0
LEAST_SHARE = 4  # two checkpoints begin at least a quarter of an interval apart


class TooLarge(Exception):
    """The checkpoint is larger than the job's disk: it cannot be stored."""


@dataclass(frozen=True)
class Snapshot:
    """A tar at its beginning, what was read for it, and what changed under our hands."""

    file: IO[bytes]
    whole: Whole
    manifest: str  # equal for two snapshots of an unchanged path
    begun_ms: int
    files: int
    skipped: int


def next_ms(*, begun_ms: int, took_ms: int, interval_ms: int) -> int:
    """When to begin the next one, so that it is stored when the last is one interval old."""
    return begun_ms + max(interval_ms // LEAST_SHARE, interval_ms - took_ms * 3 // 2)


# ── taking one ────────────────────────────────────────────────────────────────────────────────────────────────────────


def take(folder: Path, path: str, most: int, last: str = "") -> Snapshot | None:
    """A snapshot of `path` below the job's folder; None when nothing is there, or nothing differs from manifest `last`."""
    relative = inside_job(path)
    if relative is None:
        return None
    begun_ms = clocks.boot_ms()
    *parents, name = relative.split("/")
    try:
        where = _open_below(folder, parents)
    except OSError:
        return None
    archive: IO[bytes] = tempfile.TemporaryFile(dir=folder.parent)  # noqa: SIM115 - handed to the caller
    try:
        reader = _Reader(archive, most)
        reader.add(name, where)
        reader.tar.close()
        manifest = reader.manifest.hexdigest()
        if not reader.files or manifest == last:
            archive.close()
            return None
        size = archive.tell()
        return Snapshot(archive, Whole(size, _hash(archive)), manifest, begun_ms, reader.files, reader.skipped)
    except BaseException:
        archive.close()
        raise
    finally:
        os.close(where)


def _open_below(folder: Path, parents: list[str]) -> int:
    where = os.open(folder, FOLDER)
    for parent in parents:
        try:
            below = os.open(parent, FOLDER | NO_LINK, dir_fd=where)
        finally:
            os.close(where)
        where = below
    return where


def _hash(file: IO[bytes]) -> str:
    digest = hashlib.sha256()
    file.seek(0)
    while chunk := file.read(1 << 20):
        digest.update(chunk)
    file.seek(0)
    return digest.hexdigest()


class _Reader:
    """Fills an archive. A file that changed while it was read is cut off again."""

    def __init__(self, archive: IO[bytes], most: int) -> None:
        self.archive, self.left = archive, most
        self.tar = tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT)  # noqa: SIM115
        self.files = self.skipped = 0
        self.manifest = hashlib.sha256()

    def add(self, name: str, where: int) -> None:
        """A file, or a folder with all that is below it."""
        try:
            kind = stat.S_IFMT(os.stat(name, dir_fd=where, follow_symlinks=False).st_mode)
        except OSError:
            return
        if kind != stat.S_IFDIR:
            self._entry(where, name, name)
            return
        self._entry(where, name, name)
        for root, folders, files, fd in os.fwalk(name, dir_fd=where, follow_symlinks=False):
            folders.sort()
            for entry in sorted([*folders, *files]):
                self._entry(fd, entry, f"{root}/{entry}")

    def _entry(self, fd: int, entry: str, name: str) -> None:
        try:
            facts = os.stat(entry, dir_fd=fd, follow_symlinks=False)
        except OSError:
            return  # gone meanwhile
        info = tarfile.TarInfo(name)
        info.mode, info.mtime = stat.S_IMODE(facts.st_mode) & 0o777, int(facts.st_mtime)
        if stat.S_ISDIR(facts.st_mode):
            info.type = tarfile.DIRTYPE
            self._put(info)
        elif stat.S_ISLNK(facts.st_mode):
            self._link(fd, entry, info)
        elif stat.S_ISREG(facts.st_mode):
            self._file(fd, entry, info)

    def _link(self, fd: int, entry: str, info: tarfile.TarInfo) -> None:
        try:
            info.type, info.linkname = tarfile.SYMTYPE, os.readlink(entry, dir_fd=fd)
        except OSError:
            return
        self.manifest.update(f"l {info.name} {info.linkname}\n".encode("utf-8", "surrogateescape"))
        self._put(info)

    def _file(self, fd: int, entry: str, info: tarfile.TarInfo) -> None:
        at, known = self.archive.tell(), len(self.tar.getmembers())
        try:
            with os.fdopen(os.open(entry, os.O_RDONLY | os.O_NONBLOCK | NO_LINK, dir_fd=fd), "rb") as file:
                before = os.fstat(file.fileno())
                info.size = before.st_size
                self._put(info, file)
                same = _same(before, os.fstat(file.fileno())) and _same(before, _named(fd, entry))
        except OSError:  # gone, or became shorter while it was read
            same = False
        if same:
            self.files += 1
            mark = f"f {info.name} {before.st_ino} {before.st_size} {before.st_mtime_ns}\n"
            self.manifest.update(mark.encode("utf-8", "surrogateescape"))
            return
        self.skipped += 1
        self.archive.seek(at)
        self.archive.truncate()
        self.tar.offset = at
        del self.tar.getmembers()[known:]

    def _put(self, info: tarfile.TarInfo, file: IO[bytes] | None = None) -> None:
        self.left -= 512 + info.size
        if self.left < 0:
            raise TooLarge(info.name)
        self.tar.addfile(info, file)


def _named(fd: int, entry: str) -> os.stat_result | None:
    try:
        return os.stat(entry, dir_fd=fd, follow_symlinks=False)
    except OSError:
        return None


def _same(before: os.stat_result, after: os.stat_result | None) -> bool:
    if after is None:
        return False
    seen = (before.st_ino, before.st_size, before.st_mtime_ns, before.st_ctime_ns)
    return seen == (after.st_ino, after.st_size, after.st_mtime_ns, after.st_ctime_ns)


# ── sending one ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def send(spec: AssignmentSpec, number: int, shot: Snapshot, portal: Portal) -> bool:
    """True when the portal has it whole. False: not this time (the next one will do). Raises Refused when fenced."""
    sender = Sender(spec.lease_secret, spec.fence)
    offset, failures = 0, 0
    while failures < TRIES:
        shot.file.seek(offset)
        data = shot.file.read(OUTPUT_CHUNK)
        age_ms = max(0, clocks.boot_ms() - shot.begun_ms)
        try:
            got = await portal.put_checkpoint(spec.attempt, number, offset, data, shot.whole, age_ms, sender)
        except Unreachable:
            failures += 1
            await asyncio.sleep(min(LONGEST_PAUSE_S, 0.3 * 2**failures))
            continue
        except Refused as refused:
            moved = refused.problem.offset
            if refused.problem.code != Code.GAP.value or moved is None or moved > shot.whole.size:
                if refused.fenced:
                    raise
                return False
            failures, offset = failures + 1, moved
            continue
        if got.complete:
            return True
        failures, offset = (0, got.offset) if got.offset > offset else (failures + 1, got.offset)
    return False


# ── beginning with one ────────────────────────────────────────────────────────────────────────────────────────────────


async def restore(spec: AssignmentSpec, folder: Path, portal: Portal, uid: int | None) -> str:
    """Lay the newest readable checkpoint where the job will look for it; its id, or "" when there is none at all.

    StagingError `platform_fault` when the portal names some and none can be read: rather another attempt than the whole
    work again. Raises Refused when fenced.
    """
    plan = spec.checkpoint
    if plan is None or not plan.kept:
        return ""
    why = ""
    for stored in plan.kept:
        with tempfile.TemporaryFile(dir=folder.parent) as archive:
            why = await _download(spec, stored, archive, portal)
            if not why:
                archive.seek(0)
                try:
                    await open_archive(
                        archive, folder, _above(plan.path), uid, plan.path, spec.resources.disk_mib << 20
                    )
                except StagingError as error:
                    why = error.message
                else:
                    return stored.id
    raise StagingError(Reason.PLATFORM_FAULT, f"no stored checkpoint can be read: {why}")


def _above(path: str) -> str:
    return (inside_job(path) or "").rpartition("/")[0] or "."


async def _download(spec: AssignmentSpec, stored: StoredCheckpoint, file: IO[bytes], portal: Portal) -> str:
    """What is wrong with it, or ""."""
    sender = Sender(spec.lease_secret, spec.fence)
    for attempt in range(TRIES):
        try:
            async for chunk in portal.get_checkpoint(spec.attempt, stored.id, file.tell(), sender):
                file.write(chunk)
                if file.tell() > stored.size:
                    return f"{stored.id} is longer than announced"
        except Refused as refused:
            if refused.fenced:
                raise
            return f"{stored.id} answered {refused.status}"
        except Unreachable as failure:
            if attempt == TRIES - 1:
                return f"{stored.id}: {failure}"
            await asyncio.sleep(min(LONGEST_PAUSE_S, 0.3 * 2**attempt))
            continue
        break
    file.flush()
    if await asyncio.to_thread(_hash, file) != stored.sha256:
        return f"{stored.id} has another sha256 than it should"
    return ""
