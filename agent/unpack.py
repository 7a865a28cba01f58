"""Opens a tenant's archive where it can do no harm: a process of its own, shut into the job's folder, without privileges.

    python -m agent.unpack JOBFOLDER INSIDE UID MOST_BYTES < archive.tar

Root first loads everything it will need, then changes its root to the job's folder and becomes the slot's user; only then is the
archive read. tarfile's "data" filter refuses devices and ways out; that filter has had holes, hence the rest. Sizes are added up
from the headers before anything is written, so a bomb costs a few blocks. Exit codes: 0 · 3 unusable · 4 too large.
"""

from __future__ import annotations

import bz2  # noqa: F401 - loaded now: after the change of root nothing can be
import encodings.idna
import encodings.utf_8  # noqa: F401
import gzip  # noqa: F401
import lzma
import os
import sys
import tarfile
import zlib
from typing import IO

UNUSABLE, TOO_LARGE = 3, 4
MOST_ENTRIES = 500_000


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


def unpack(archive: IO[bytes], target: str, most: int) -> None:
    os.makedirs(target, exist_ok=True)
    total = 0
    with tarfile.open(fileobj=archive) as tar:
        for count, member in enumerate(tar):
            total += member.size + 512
            if total > most or count > MOST_ENTRIES:
                raise TooLarge
            tar.extract(member, target, filter="data")


def main(arguments: list[str]) -> int:
    folder, inside, uid, most = arguments[0], arguments[1], int(arguments[2]), int(arguments[3])
    if not hasattr(tarfile, "data_filter"):
        sys.stderr.write("this node's Python is too old to unpack archives safely")
        return UNUSABLE
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
