"""Folders that a tenant has written: measured and removed whatever shape they have.

- **Deep trees.** A job can nest folders until a path is longer than the kernel takes (4,096 bytes) or a recursion deeper than
  Python's: what a walk could not see would be free disk, and what could not be removed would keep the slot. So a tree deeper
  than `DEEPEST` counts as full, and removal is left to `rm`, which changes folders as it goes.
- **Deleted but open files** stand in no folder and take disk all the same: they are found through the processes that hold them.
"""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

DEEPEST = 200
TOO_DEEP = 1 << 60  # bytes: more than any disk_size
RM = "/bin/rm"


def remove(folder: Path) -> None:
    """The tree is gone, or as much of it as can be."""
    subprocess.run([RM, "-rf", "--", str(folder)], check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def sizes(folder: str) -> Iterator[int]:
    """Bytes on disk of every entry, without following links; a walk that can be interrupted."""
    stack = [(folder, 0)]
    while stack:
        where, depth = stack.pop()
        if depth > DEEPEST:
            yield TOO_DEEP
            continue
        try:
            with os.scandir(where) as entries:
                for entry in entries:
                    try:
                        if entry.is_dir(follow_symlinks=False):
                            stack.append((entry.path, depth + 1))
                        yield entry.stat(follow_symlinks=False).st_blocks * 512
                    except OSError:
                        continue
        except OSError:
            continue


def deleted_sizes(pids: Iterable[int], device: int) -> Iterator[int]:
    """Bytes of files on `device` that these processes hold open or mapped and that no folder names any more, each once."""
    seen: set[int] = set()
    for pid in pids:
        for kind in ("fd", "map_files"):
            try:
                names = os.listdir(f"/proc/{pid}/{kind}")
            except OSError:
                continue
            for name in names:
                try:
                    facts = os.stat(f"/proc/{pid}/{kind}/{name}")
                except OSError:
                    continue
                foreign = facts.st_dev != device or not stat.S_ISREG(facts.st_mode)
                if foreign or facts.st_nlink or facts.st_ino in seen:
                    yield 0
                    continue
                seen.add(facts.st_ino)
                yield facts.st_blocks * 512
