"""One job's process group, whatever the machine offers: create, join, usage, freeze, thaw, kill, remove.

Three backends under one interface: `cgroups.py` (v2, v1, hybrid; exclusive) and `tree.py` (signals to a process tree; for
plain users, labelled "not exclusive"). The supervisor, the agent and the next agent after a restart all act on the same
group, so a group is nothing but paths: it can be written to the journal and opened again from there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What the job may use."""

    cores_milli: int
    memory_mib: int
    pids: int = 4096


@dataclass(frozen=True)
class Usage:
    """Counters since the group was made."""

    cpu_us: int = 0
    mem_peak_bytes: int = 0
    mem_now_bytes: int = 0
    oom_kills: int = 0


class GroupRefused(OSError):
    """The kernel refused to make, limit, freeze or empty a group."""


class Group(ABC):
    """See the module. All methods but `create` may be called by any process of the node, again and again."""

    exclusive: bool = True

    @abstractmethod
    def create(self, limits: Limits) -> None:
        """Make it, empty; refused if it is there already (a left-over frozen group would freeze the next job)."""

    @abstractmethod
    def join(self, pid: int) -> None:
        """Put a process, just forked and alone, into the group."""

    @abstractmethod
    def usage(self) -> Usage: ...

    @abstractmethod
    def pids(self) -> list[int]: ...

    @abstractmethod
    def freeze(self) -> bool:
        """Stop everything; True when the kernel says that it stands still, False when it had to be killed instead."""

    @abstractmethod
    def frozen(self) -> bool: ...

    @abstractmethod
    def thaw(self) -> None: ...

    @abstractmethod
    def kill(self) -> bool:
        """SIGKILL to everything, frozen or not; True when nothing is left."""

    @abstractmethod
    def remove(self) -> None: ...

    @abstractmethod
    def to_json(self) -> dict[str, object]: ...
