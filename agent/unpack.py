"""Opens a tenant's archive where it can do no harm: a process of its own, shut into the job's folder, without privileges.

    python -m agent.unpack JOBFOLDER INSIDE UID MOST_BYTES < archive.tar

Root first loads everything it will need, then changes its root to the job's folder and becomes the slot's user; only then is the
archive read. tarfile only parses: members are made here, because its extraction filters came with Python 3.11.4 and have had holes.
Every component of a name is opened below the last one without following links, so no link of the archive leads a later member out.
Sizes are added up from the headers before anything is written, so a bomb costs a few blocks. Exit codes: 0 · 3 unusable · 4 too large.
"""

from __future__ import annotations

import bz2  # noqa: F401 - loaded now: after the change of root nothing can be
import encodings.idna
import encodings.utf_8  # noqa: F401
import gzip  # noqa: F401
import lzma
import os
import shutil
import sys
import tarfile
import zlib
from typing import IO

UNUSABLE, TOO_LARGE = 3, 4
MOST_ENTRIES = 500_000
NO_LINK = os.O_NOFOLLOW | os.O_CLOEXEC
FOLDER = os.O_RDONLY | os.O_DIRECTORY | NO_LINK


class TooLarge(Exception):
    pass


def confine(folder: str, uid: int) -> None:
    """As root: into the folder for good, as that user. A plain user stays who it is."""
    os.chdir(folder)
    if os.geteuid() == 0:
        os.chroot(folder)
        os.chdir("/")
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    os.umask(0o022)


class Refused(ValueError):
    """A member that a job has no use for: a way out, a device."""


def unpack(archive: IO[bytes], target: str, most: int) -> None:
    """All members below `target`. Raises TooLarge, Refused, tarfile.TarError, OSError."""
    os.makedirs(target, exist_ok=True)
    top = os.open(target, FOLDER)
    total = 0
    try:
        with tarfile.open(fileobj=archive) as tar:
            for count, member in enumerate(tar):
                total += member.size + 512
                if total > most or count > MOST_ENTRIES:
                    raise TooLarge
                _make(tar, member, top)
    finally:
        os.close(top)


def parts_of(name: str) -> list[str]:
    """Components below the folder; a leading slash is dropped. Raises Refused for a way up."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise Refused(f"{name!r} leads out of the archive")
    return parts


def _inside(parts: list[str], link: str) -> bool:
    """Does a symbolic link at `parts` point below the folder, read as text?"""
    depth = len(parts) - 1
    for part in link.split("/"):
        depth += {"": 0, ".": 0, "..": -1}.get(part, 1)
        if depth < 0:
            return False
    return not link.startswith("/")


def _make(tar: tarfile.TarFile, member: tarfile.TarInfo, top: int) -> None:
    parts = parts_of(member.name)
    if not parts:
        return  # the folder itself
    where = _open_below(top, parts[:-1])
    name = parts[-1]
    try:
        if member.isdir():
            os.close(_step(where, name))
            return
        if not (member.isreg() or member.issym() or member.islnk()):
            raise Refused(f"{member.name!r} is a device or a pipe")
        try:
            os.unlink(name, dir_fd=where)  # the later of two members with one name is the one that stays
        except FileNotFoundError:
            pass
        if member.issym():
            if not _inside(parts, member.linkname):
                raise Refused(f"{member.name!r} links out of the archive")
            os.symlink(member.linkname, name, dir_fd=where)
        elif member.islnk():
            _link(top, parts_of(member.linkname), name, where)
        else:
            _write(tar, member, name, where)
    finally:
        os.close(where)


def _open_below(top: int, parts: list[str]) -> int:
    where = os.dup(top)
    for part in parts:
        below = _step(where, part)
        os.close(where)
        where = below
    return where


def _step(where: int, name: str) -> int:
    """The folder `name` below `where`, made when it is not there; never through a link."""
    try:
        os.mkdir(name, 0o755, dir_fd=where)
    except FileExistsError:
        pass  # opened next, if it is a folder
    return os.open(name, FOLDER, dir_fd=where)


def _link(top: int, parts: list[str], name: str, where: int) -> None:
    if not parts:
        raise Refused("a link to the archive's own folder")
    source = _open_below(top, parts[:-1])
    try:
        os.link(parts[-1], name, src_dir_fd=source, dst_dir_fd=where, follow_symlinks=False)
    finally:
        os.close(source)


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, name: str, where: int) -> None:
    mode = 0o755 if member.mode & 0o100 else 0o644
    content = tar.extractfile(member)
    with os.fdopen(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINK, mode, dir_fd=where), "wb") as file:
        if content is not None:
            shutil.copyfileobj(content, file)
    os.utime(name, (member.mtime, member.mtime), dir_fd=where, follow_symlinks=False)


def main(arguments: list[str]) -> int:
    folder, inside, uid, most = arguments[0], arguments[1], int(arguments[2]), int(arguments[3])
    archive = os.fdopen(0, "rb")
    confine(folder, uid)
    try:
        unpack(archive, inside, most)
    except TooLarge:
        return TOO_LARGE
    except (tarfile.TarError, OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
        sys.stderr.write(str(error)[:500])
        return UNUSABLE
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
