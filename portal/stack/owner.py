"""One owner per state folder: a lock held for life (a killed owner loses it by dying), with pid and address inside for whoever comes second."""

import fcntl
import json
import os
from pathlib import Path
from typing import Any


class AlreadyOwned(Exception):
    """Another process has the state folder; `args[0]` is what it wrote about itself."""


class Owner:
    def __init__(self, state: Path, *, about: dict[str, Any]) -> None:
        self.path = state / ".owner"
        self.handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)  # not inherited by children
        try:
            fcntl.flock(self.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            try:
                known = json.loads(self.path.read_text() or "{}")
            except ValueError:
                known = {}
            os.close(self.handle)
            raise AlreadyOwned(known) from None
        self.write(about)

    def write(self, about: dict[str, Any]) -> None:
        os.ftruncate(self.handle, 0)
        os.pwrite(self.handle, json.dumps({"pid": os.getpid(), **about}).encode(), 0)

    def release(self) -> None:
        os.ftruncate(self.handle, 0)
        os.close(self.handle)
