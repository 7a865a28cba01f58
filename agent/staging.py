"""Files before and after a job: inputs into its folder, outputs out of it. A job needs no network for them.

The traps are all about trust.
- **Outputs**: the job's folder is written by the tenant and read by root, so every component of an output's path is opened below
  the last one without following links; a link to `/etc/shadow`, a FIFO or a device is `output_missing`, never read.
- **Archives** are opened by a process without privileges that is shut into the job's folder (unpack.py).
- **Addresses** are fetched only from the public network: a tenant must not read the provider's own through an input.
- A wrong hash or size is `input_unreadable`. Both ways resume: a dropped connection goes on at its offset.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import os
import stat
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from . import unpack
from .protocol import (
    OUTPUT_CHUNK,
    WORKDIR,
    AssignmentSpec,
    Code,
    FileKind,
    Input,
    Output,
    Reason,
    Source,
    UploadedOutput,
    inside_job,
)
from .transport import ForbiddenAddress, Portal, Refused, Sender, Unreachable

TRIES = 5
MOST_OUTPUT = 1 << 40
NO_LINK = os.O_NOFOLLOW | os.O_CLOEXEC


class StagingError(Exception):
    """Why a file could not be brought; a reason of the contract and a sentence."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


# ── inputs ────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def bring_inputs(spec: AssignmentSpec, folder: Path, portal: Portal, uid: int | None) -> None:
    """All inputs into a fresh job folder, then everything to the slot's user."""
    sender = Sender(spec.lease_secret, spec.fence)
    for index, item in enumerate(spec.inputs):
        relative = "." if item.unpack and item.path in WORKDIR else inside_job(item.path)
        if relative is None:
            raise StagingError(Reason.INPUT_UNREADABLE, f"{item.path} lies outside of /job")
        if item.unpack or item.kind is FileKind.DIRECTORY:
            await asyncio.to_thread(give_to, folder, uid)  # the archive is opened by the slot's user
            with tempfile.TemporaryFile(dir=folder.parent) as archive:
                await _fetch(spec, index, item, archive, portal, sender)
                archive.seek(0)
                await open_archive(archive, folder, relative, uid, item.path, spec.resources.disk_mib << 20)
            continue
        with _new_file(folder, relative, item) as file:
            await _fetch(spec, index, item, file, portal, sender)
    await asyncio.to_thread(give_to, folder, uid)


def _new_file(folder: Path, relative: str, item: Input) -> IO[bytes]:
    """A new file below the folder; no component is followed if an archive made it a link."""
    *parents, name = relative.split("/")
    where = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for parent in parents:
            try:
                os.mkdir(parent, 0o755, dir_fd=where)
            except FileExistsError:
                pass  # opened below, if it is a folder
            below = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | NO_LINK, dir_fd=where)
            os.close(where)
            where = below
        mode = 0o755 if item.executable else 0o644
        return os.fdopen(os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | NO_LINK, mode, dir_fd=where), "w+b")
    except FileExistsError as error:
        raise StagingError(Reason.INPUT_UNREADABLE, f"{item.path} is there already") from error
    except OSError as error:
        raise StagingError(Reason.INPUT_UNREADABLE, f"{item.path} cannot be written: {error.strerror}") from error
    finally:
        os.close(where)


def give_to(folder: Path, uid: int | None) -> None:
    if uid is None:
        return
    for _, folders, files, fd in os.fwalk(folder):
        for name in [*folders, *files]:
            os.chown(name, uid, uid, dir_fd=fd, follow_symlinks=False)
    os.chown(folder, uid, uid)


async def open_archive(archive: IO[bytes], folder: Path, relative: str, uid: int | None, path: str, most: int) -> None:
    """In a process of its own, which shuts itself into the folder (unpack.py)."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        f"{__package__}.unpack",
        str(folder),
        relative,
        str(uid if uid is not None else os.getuid()),
        str(most),
        stdin=archive,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        cwd=str(Path(__file__).resolve().parent.parent),
    )
    try:
        _, said = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        raise
    if process.returncode == unpack.TOO_LARGE:
        raise StagingError(Reason.DISK_FULL, f"{path}: unpacked it is larger than the job's disk_size")
    if process.returncode != 0:
        words = said.decode(errors="replace")[-300:]
        raise StagingError(Reason.INPUT_UNREADABLE, f"{path}: not a usable tar archive: {words}")


async def _fetch(
    spec: AssignmentSpec, index: int, item: Input, file: IO[bytes], portal: Portal, sender: Sender
) -> None:
    if item.source is Source.CONTENT:
        try:
            file.write(base64.b64decode(item.content, validate=True))
        except (binascii.Error, ValueError) as error:
            raise StagingError(Reason.INPUT_UNREADABLE, f"{item.path}: content is not base64") from error
    else:
        await _download(spec, index, item, file, portal, sender)
    file.flush()
    size = file.tell()
    if item.size is not None and item.size != size:
        raise StagingError(Reason.INPUT_UNREADABLE, f"{item.path}: {size} bytes came, {item.size} were announced")
    if item.sha256 is not None:
        file.seek(0)
        if await asyncio.to_thread(_hash, file) != item.sha256:
            raise StagingError(Reason.INPUT_UNREADABLE, f"{item.path}: its sha256 differs from the announced one")


def _hash(file: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while True:
        chunk = file.read(1 << 20)
        if not chunk:
            return digest.hexdigest()
        digest.update(chunk)


async def _download(
    spec: AssignmentSpec, index: int, item: Input, file: IO[bytes], portal: Portal, sender: Sender
) -> None:
    most = spec.resources.disk_mib << 20
    for attempt in range(TRIES):
        offset = file.tell()
        try:
            # Foreign addresses never see the node's sign-in: headers are added per call.
            from_portal = item.source is Source.PORTAL
            chunks = (
                portal.get_input(spec.attempt, index, offset, sender) if from_portal else portal.fetch(item.url, offset)
            )
            async for chunk in chunks:
                file.write(chunk)
                if file.tell() > most:
                    raise StagingError(Reason.DISK_FULL, f"{item.path} is larger than the job's disk_size")
            return
        except Refused as refused:
            if refused.fenced:
                raise
            raise StagingError(Reason.INPUT_UNREADABLE, f"{item.path}: answered {refused.status}") from refused
        except ForbiddenAddress as refused:
            raise StagingError(Reason.INPUT_UNREADABLE, f"{item.path}: {refused}") from refused
        except Unreachable as failure:
            if attempt == TRIES - 1:
                raise StagingError(Reason.INPUT_UNREADABLE, f"{item.path}: {failure}") from failure
            await asyncio.sleep(0.5 * 2**attempt)


# ── outputs ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Opened:
    """An output opened without following links, and its size and hash."""

    file: IO[bytes]
    size: int
    sha256: str


def open_output(folder: Path, output: Output, most: int = MOST_OUTPUT) -> Opened | None:
    """None when it isn't there (or is a link or no regular file, which is the same to us)."""
    relative = inside_job(output.path)
    if relative is None:
        return None
    *parents, name = relative.split("/")
    where = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for parent in parents:
            below = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | NO_LINK, dir_fd=where)
            os.close(where)
            where = below
        kind = stat.S_IFMT(os.stat(name, dir_fd=where, follow_symlinks=False).st_mode)
        if output.kind is FileKind.DIRECTORY:
            if kind != stat.S_IFDIR:
                return None
            file = _pack(name, where, folder.parent, most)
        elif kind == stat.S_IFREG:
            file = os.fdopen(os.open(name, os.O_RDONLY | os.O_NONBLOCK | NO_LINK, dir_fd=where), "rb")
        else:
            return None
    except OSError:
        return None
    finally:
        os.close(where)
    digest = _hash(file)
    size = file.tell()
    return Opened(file, size, digest)


def _pack(name: str, where: int, room: Path, most: int) -> IO[bytes]:
    """A directory as a tar archive; links stay links, devices and sockets are left out. Files with holes count whole."""
    archive: IO[bytes] = tempfile.TemporaryFile(dir=room)  # noqa: SIM115 - handed to the caller
    try:
        with tarfile.open(fileobj=archive, mode="w") as tar:
            for root, folders, files, fd in os.fwalk(name, dir_fd=where, follow_symlinks=False):
                inside = os.path.relpath(root, name)
                for entry in sorted([*folders, *files]):
                    most -= _pack_one(tar, fd, entry, os.path.normpath(os.path.join(inside, entry)), most)
    except BaseException:
        archive.close()
        raise
    archive.seek(0)
    return archive


def _pack_one(tar: tarfile.TarFile, fd: int, entry: str, name: str, most: int) -> int:
    """Bytes added."""
    facts = os.stat(entry, dir_fd=fd, follow_symlinks=False)
    info = tarfile.TarInfo(name)
    info.mode, info.mtime = stat.S_IMODE(facts.st_mode) & 0o777, int(facts.st_mtime)
    if stat.S_ISDIR(facts.st_mode):
        info.type = tarfile.DIRTYPE
        tar.addfile(info)
    elif stat.S_ISLNK(facts.st_mode):
        info.type, info.linkname = tarfile.SYMTYPE, os.readlink(entry, dir_fd=fd)
        tar.addfile(info)
    elif stat.S_ISREG(facts.st_mode):
        with os.fdopen(os.open(entry, os.O_RDONLY | os.O_NONBLOCK | NO_LINK, dir_fd=fd), "rb") as file:
            info.size = os.fstat(file.fileno()).st_size
            if info.size > most:
                raise StagingError(Reason.OUTPUT_REFUSED, f"the output is larger than the job's disk_size ({name})")
            tar.addfile(info, file)
    return 512 + info.size


async def take_outputs(spec: AssignmentSpec, folder: Path, portal: Portal) -> tuple[UploadedOutput, ...]:
    """Upload what is there; a missing required output is the tenant's error, a failing upload ours."""
    taken = []
    for output in spec.outputs:
        opened = await asyncio.to_thread(open_output, folder, output, spec.resources.disk_mib << 20)
        if opened is None:
            if output.required:
                raise StagingError(Reason.OUTPUT_MISSING, f"output {output.name} ({output.path}) was not written")
            continue
        with opened.file:
            await _upload(spec, output.name, opened, portal)
        taken.append(UploadedOutput(output.name, opened.size, opened.sha256))
    return tuple(taken)


async def _upload(spec: AssignmentSpec, name: str, opened: Opened, portal: Portal) -> None:
    sender = Sender(spec.lease_secret, spec.fence)
    offset, failures = 0, 0
    while True:
        opened.file.seek(offset)
        data = opened.file.read(OUTPUT_CHUNK)
        try:
            got = await portal.put_output(spec.attempt, name, offset, data, opened.size, opened.sha256, sender)
        except Refused as refused:
            moved = refused.problem.offset
            if refused.problem.code == Code.GAP.value and moved is not None and moved <= opened.size:
                failures += 1
                offset = moved
            elif refused.fenced:
                raise
            else:
                raise StagingError(
                    Reason.OUTPUT_REFUSED if refused.status in (413, 422) else Reason.UPLOAD_FAILED,
                    f"output {name}: {refused.problem.detail or refused.status}",
                ) from refused
        except Unreachable as failure:
            failures += 1
            if failures >= 2 * TRIES:
                raise StagingError(Reason.UPLOAD_FAILED, f"output {name}: {failure}") from failure
            await asyncio.sleep(min(10.0, 0.3 * 2**failures))
            continue
        else:
            failures = 0
            offset = got.offset
            if got.complete:
                return
        if failures >= 2 * TRIES or offset > opened.size:
            raise StagingError(Reason.UPLOAD_FAILED, f"output {name}: the portal loses what it was sent")
