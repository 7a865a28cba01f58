"""A job's processes without control groups: signals to everything below its supervisor. For plain users; not exclusive.

What it cannot do, and says so: a chain of forks can evade the stop signals, so a tree that does not settle is killed
instead of frozen; memory and processes are limited per process only; CPU time is what can be seen of the living plus what
their parents have inherited, and never reported below its last value. On the `process` executor a double fork would escape,
therefore the supervisor is a subreaper: orphans come back to it.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from .groups import Group, Limits, Usage

TICK_US = 1_000_000 // os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
SETTLE_S = 0.8


def stat_fields(pid: int) -> list[str]:
    """Fields 3… of /proc/PID/stat (state first); empty when the process is gone. The name may hold spaces and brackets."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return []
    return text[text.rindex(")") + 2 :].split()


def start_time(pid: int) -> int | None:
    """When the process started, in clock ticks since boot: with the pid, it names a process for good."""
    fields = stat_fields(pid)
    return int(fields[19]) if fields and fields[0] != "Z" else None


def descendants(root: int) -> dict[int, list[str]]:
    """Everything below `root`, without it."""
    children: dict[int, list[int]] = {}
    stats: dict[int, list[str]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            fields = stat_fields(int(entry))
            if fields:
                stats[int(entry)] = fields
                children.setdefault(int(fields[1]), []).append(int(entry))
    found: dict[int, list[str]] = {}
    waiting = list(children.get(root, []))
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found[pid] = stats[pid]
            waiting.extend(children.get(pid, []))
    return found


def _marked(mark: bytes) -> list[int]:
    """Processes that carry the attempt's name in their environment: what a killed supervisor left behind."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            try:
                if mark in Path(f"/proc/{entry}/environ").read_bytes().split(b"\0"):
                    found.append(int(entry))
            except OSError:
                continue
    return found


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


class TreeGroup(Group):
    """Everything below the supervisor with pid `root`."""

    exclusive = False

    def __init__(self, root: int, attempt: str, root_start: int | None = None) -> None:
        self.root = root
        self.attempt = attempt
        self.root_start = root_start if root_start is not None else start_time(root)
        self._cpu_us = 0
        self._peak = 0

    def create(self, limits: Limits) -> None:
        return

    def join(self, pid: int) -> None:
        return

    def _tree(self) -> dict[int, list[str]]:
        if self.root_start is None or start_time(self.root) != self.root_start:
            return {}  # the supervisor is gone, and its pid may be another's
        return descendants(self.root)

    def usage(self) -> Usage:
        tree = self._tree()
        ticks = sum(sum(int(field) for field in fields[11:15]) for fields in tree.values())
        now = sum(int(fields[21]) for fields in tree.values()) * PAGE
        self._cpu_us = max(self._cpu_us, ticks * TICK_US)
        self._peak = max(self._peak, now)
        return Usage(self._cpu_us, self._peak, now, 0)

    def pids(self) -> list[int]:
        return [pid for pid, fields in self._tree().items() if fields[0] != "Z"]

    def freeze(self) -> bool:
        until = time.monotonic() + SETTLE_S
        quiet = 0
        while time.monotonic() < until:
            moving = [pid for pid, fields in self._tree().items() if fields[0] not in "TZ"]
            for pid in moving:
                _signal(pid, signal.SIGSTOP)
            quiet = 0 if moving else quiet + 1
            if quiet == 3:
                return True
            time.sleep(0.002)
        self.kill()
        return False

    def frozen(self) -> bool:
        states = [fields[0] for fields in self._tree().values() if fields[0] != "Z"]
        return bool(states) and all(state == "T" for state in states)

    def thaw(self) -> None:
        for pid in self.pids():
            _signal(pid, signal.SIGCONT)

    def kill(self) -> bool:
        mark = f"IDLEWILD_ATTEMPT={self.attempt}".encode()
        for _ in range(200):
            left = {*self.pids(), *_marked(mark)} - {os.getpid(), self.root}
            if not left:
                return True
            for pid in left:
                _signal(pid, signal.SIGKILL)
            time.sleep(0.002)
        return False

    def remove(self) -> None:
        return

    def to_json(self) -> dict[str, object]:
        return {"kind": "tree", "root": self.root, "attempt": self.attempt, "root_start": self.root_start}


def from_json(data: dict[str, object]) -> TreeGroup:
    start = data["root_start"]
    return TreeGroup(int(str(data["root"])), str(data["attempt"]), int(str(start)) if start is not None else None)
