"""Control groups: v2, v1 and the hybrid of both, under the interface of `groups.py`.

| need | v2 | v1 |
|---|---|---|
| CPU cap, used | cpu.max, cpu.stat usage_usec | cpu.cfs_quota_us, cpuacct.usage (ns) |
| memory cap | memory.max, memory.swap.max, memory.oom.group | memory.limit_in_bytes, then memsw if present |
| peak, OOM | memory.peak (5.19), memory.events oom_kill | memory.max_usage_in_bytes, memory.oom_control oom_kill |
| processes | pids.max | pids.max |
| freeze | cgroup.freeze until cgroup.events says frozen 1 | freezer.state FROZEN until it reads so |
| kill | cgroup.kill (5.14) | freeze, SIGKILL all, thaw (until then they stay), repeat until empty |

On hybrids the limits come from v1, but kill, freeze and used CPU from the v2 tree, which needs no controller for them.

Traps, each of them seen:
- `open(path, "w").write(value)` swallows the kernel's refusal at close: everything is written with `os.write`.
- Groups are made under our own (`/proc/self/cgroup`), in a folder per node: several agents on one machine would else take
  each other's groups for left-overs and kill them.
- v2: a group with processes can't hand out controllers (EBUSY), so the agent first moves itself into a leaf.
- Statistics are read before rmdir; rmdir is repeated on EBUSY; mkdir never accepts an existing group.
- v1: a SIGKILLed process in a frozen group stays until the group is thawed.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from .groups import Group, GroupRefused, Limits, Usage

V1_NEEDED = ("cpu", "cpuacct", "memory", "pids", "freezer")
V2_NEEDED = ("cpu", "memory", "pids")
PERIOD_US = 100_000
SETTLE_S = 2.0  # a freeze takes milliseconds; longer means that the kernel won't


def write(path: Path, value: str) -> None:
    """Write a control file, so that a refusal is an exception that names it."""
    try:
        fd = os.open(path, os.O_WRONLY)
        try:
            os.write(fd, value.encode())
        finally:
            os.close(fd)
    except OSError as error:
        raise GroupRefused(error.errno, f"{error.strerror} writing {value!r}", str(path)) from error


def read(path: Path) -> str:
    return path.read_text()


def read_keyed(path: Path, key: str) -> int:
    for line in read(path).splitlines():
        name, _, value = line.partition(" ")
        if name == key:
            return int(value)
    return 0


def _numbers(path: Path) -> list[int]:
    try:
        return [int(line) for line in read(path).split()]
    except (FileNotFoundError, OSError):
        return []  # ENODEV: the group is being removed


def _wait(done: object, seconds: float = SETTLE_S) -> bool:
    until = time.monotonic() + seconds
    while True:
        if done():  # type: ignore[operator]
            return True
        if time.monotonic() > until:
            return False
        time.sleep(0.001)


def _remove(path: Path) -> None:
    for _ in range(200):
        try:
            path.rmdir()
            return
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            time.sleep(0.005)
    raise GroupRefused(errno.EBUSY, "group does not get empty", str(path))


class _Unified:
    """Freeze, kill and CPU time of a v2 group; needs no controller."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def _events(self, key: str) -> int:
        try:
            return read_keyed(self.path / "cgroup.events", key)
        except FileNotFoundError:
            return 0

    def frozen(self) -> bool:
        return self._events("frozen") == 1

    def freeze(self) -> bool:
        write(self.path / "cgroup.freeze", "1")
        return _wait(self.frozen)

    def thaw(self) -> None:
        write(self.path / "cgroup.freeze", "0")
        _wait(lambda: not self.frozen())

    def pids(self) -> list[int]:
        return _numbers(self.path / "cgroup.procs")

    def kill(self) -> bool:
        if not self.path.exists():
            return True
        try:
            write(self.path / "cgroup.kill", "1")
        except GroupRefused:  # before 5.14
            return self._kill_each()
        return _wait(lambda: self._events("populated") == 0)

    def _kill_each(self) -> bool:
        self.freeze()
        for _ in range(50):
            for pid in self.pids():
                _signal(pid, signal.SIGKILL)
            self.thaw()
            if _wait(lambda: self._events("populated") == 0, 0.1):
                return True
        return False

    def cpu_us(self) -> int:
        return read_keyed(self.path / "cpu.stat", "usage_usec")


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


class V2Group(Group):
    """All in one folder of the v2 tree."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._tree = _Unified(path)
        self._sampled_peak = 0

    def create(self, limits: Limits) -> None:
        self.path.mkdir()
        write(self.path / "cpu.max", f"{max(1000, limits.cores_milli * PERIOD_US // 1000)} {PERIOD_US}")
        write(self.path / "memory.max", str(limits.memory_mib << 20))
        if (self.path / "memory.swap.max").exists():
            write(self.path / "memory.swap.max", "0")
        write(self.path / "memory.oom.group", "1")
        write(self.path / "pids.max", str(limits.pids))

    def join(self, pid: int) -> None:
        write(self.path / "cgroup.procs", str(pid))

    def usage(self) -> Usage:
        now = int(read(self.path / "memory.current"))
        peak_file = self.path / "memory.peak"
        peak = int(read(peak_file)) if peak_file.exists() else max(now, self._sampled_peak)
        self._sampled_peak = peak
        return Usage(self._tree.cpu_us(), peak, now, read_keyed(self.path / "memory.events", "oom_kill"))

    def pids(self) -> list[int]:
        return self._tree.pids()

    def freeze(self) -> bool:
        return self._tree.freeze()

    def frozen(self) -> bool:
        return self._tree.frozen()

    def thaw(self) -> None:
        self._tree.thaw()

    def kill(self) -> bool:
        return self._tree.kill()

    def remove(self) -> None:
        _remove(self.path)

    def to_json(self) -> dict[str, object]:
        return {"kind": "v2", "path": str(self.path)}


class V1Group(Group):
    """A folder per controller; with `unified`, a hybrid: freeze, kill and CPU time from the v2 tree."""

    def __init__(self, paths: dict[str, Path], unified: Path | None = None) -> None:
        self.paths = paths
        self._unified = _Unified(unified) if unified is not None else None

    def _folders(self) -> list[Path]:
        folders = list(dict.fromkeys(self.paths.values()))  # controllers may be mounted together
        return [*folders, self._unified.path] if self._unified else folders

    def create(self, limits: Limits) -> None:
        for folder in self._folders():
            folder.mkdir()
        write(self.paths["cpu"] / "cpu.cfs_period_us", str(PERIOD_US))
        write(self.paths["cpu"] / "cpu.cfs_quota_us", str(max(1000, limits.cores_milli * PERIOD_US // 1000)))
        memory = self.paths["memory"]
        cap = str(limits.memory_mib << 20)
        write(memory / "memory.limit_in_bytes", cap)
        if (memory / "memory.memsw.limit_in_bytes").exists():
            write(memory / "memory.memsw.limit_in_bytes", cap)
        if int(read(memory / "memory.limit_in_bytes")) > limits.memory_mib << 20:
            raise GroupRefused(errno.EINVAL, "memory limit not kept", str(memory))
        write(self.paths["pids"] / "pids.max", str(limits.pids))

    def join(self, pid: int) -> None:
        for folder in self._folders():
            write(folder / "cgroup.procs", str(pid))

    def usage(self) -> Usage:
        memory = self.paths["memory"]
        return Usage(
            self._unified.cpu_us() if self._unified else int(read(self.paths["cpuacct"] / "cpuacct.usage")) // 1000,
            int(read(memory / "memory.max_usage_in_bytes")),
            int(read(memory / "memory.usage_in_bytes")),
            read_keyed(memory / "memory.oom_control", "oom_kill"),
        )

    def pids(self) -> list[int]:
        return _numbers(self.paths["pids"] / "cgroup.procs")

    def freeze(self) -> bool:
        if self._unified is not None:
            return self._unified.freeze()
        # The kernel may answer FREEZING; asking again is what moves it on.
        return _wait(self._frozen_when_asked)

    def _frozen_when_asked(self) -> bool:
        write(self.paths["freezer"] / "freezer.state", "FROZEN")
        return self.frozen()

    def frozen(self) -> bool:
        if self._unified is not None:
            return self._unified.frozen()
        try:
            return read(self.paths["freezer"] / "freezer.state").strip() == "FROZEN"
        except FileNotFoundError:
            return False

    def thaw(self) -> None:
        if self._unified is not None:
            self._unified.thaw()
            return
        write(self.paths["freezer"] / "freezer.state", "THAWED")

    def kill(self) -> bool:
        if self._unified is not None:
            gone = self._unified.kill()
            return _wait(lambda: not self.pids()) and gone
        if not self.paths["freezer"].exists():
            return True
        for _ in range(50):
            self.freeze()
            for pid in self.pids():
                _signal(pid, signal.SIGKILL)
            self.thaw()
            if _wait(lambda: not self.pids(), 0.1):
                return True
        return False

    def remove(self) -> None:
        for folder in reversed(self._folders()):
            _remove(folder)

    def to_json(self) -> dict[str, object]:
        return {
            "kind": "v1",
            "paths": {name: str(path) for name, path in self.paths.items()},
            "unified": str(self._unified.path) if self._unified else None,
        }


def from_json(data: dict[str, object]) -> Group:
    """Open a journaled group again."""
    if data["kind"] == "v2":
        return V2Group(Path(str(data["path"])))
    paths = data["paths"]
    assert isinstance(paths, dict)  # noqa: S101 - written by to_json
    unified = data["unified"]
    return V1Group({str(k): Path(str(v)) for k, v in paths.items()}, Path(str(unified)) if unified else None)


# ── what this machine offers ──────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Layout:
    """Where this agent makes its groups: a folder per node below the agent's own group."""

    kind: str  # v2, v1, hybrid
    bases: dict[str, Path]  # controller → folder of this node; v2 and hybrids have "unified"

    def group(self, name: str) -> Group:
        if self.kind == "v2":
            return V2Group(self.bases["unified"] / name)
        paths = {controller: self.bases[controller] / name for controller in V1_NEEDED}
        return V1Group(paths, self.bases["unified"] / name if self.kind == "hybrid" else None)

    def names(self) -> set[str]:
        """Groups that are there, ours or left over by an agent of this node that was killed."""
        found: set[str] = set()
        for base in self.bases.values():
            if base.exists():
                found.update(entry.name for entry in base.iterdir() if entry.is_dir())
        return found - {"agent"}

    def prepare(self) -> None:
        for base in self.bases.values():
            base.mkdir(exist_ok=True)

    def remove(self) -> None:
        """Leave nothing behind; a base that still has a group stays."""
        for base in self.bases.values():
            try:
                base.rmdir()
            except OSError:
                pass


def _mounts() -> tuple[dict[str, tuple[Path, str]], tuple[Path, str] | None]:
    """Mount point and root of every v1 controller, and of the v2 tree."""
    v1: dict[str, tuple[Path, str]] = {}
    v2: tuple[Path, str] | None = None
    for line in read(Path("/proc/self/mountinfo")).splitlines():
        left, _, right = line.partition(" - ")
        fields, kind = left.split(), right.split()
        if kind[0] == "cgroup2":
            v2 = (Path(fields[4]), fields[3])
        elif kind[0] == "cgroup":
            for option in kind[2].split(","):
                v1[option] = (Path(fields[4]), fields[3])
    return v1, v2


def _own() -> dict[str, str]:
    """Our group in every hierarchy; "" is the v2 tree."""
    own: dict[str, str] = {}
    for line in read(Path("/proc/self/cgroup")).splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            own[controller] = path
    return own


def _folder(mount: tuple[Path, str], own: str) -> Path:
    point, root = mount
    inside = own[len(root) :] if root != "/" and own.startswith(root) else own
    return point / inside.strip("/") if inside.strip("/") else point


def _writable(folder: Path) -> bool:
    return folder.is_dir() and os.access(folder, os.W_OK)


def _hand_down(folder: Path, name: str) -> Path | None:
    """v2: give our controllers to a folder of this node. Needs our own group to be without processes of its own."""
    try:
        controllers = read(folder / "cgroup.controllers").split()
        if not set(V2_NEEDED) <= set(controllers):
            return None
        handed = " ".join(f"+{controller}" for controller in V2_NEEDED)
        if not set(V2_NEEDED) <= set(read(folder / "cgroup.subtree_control").split()):
            leaf = folder / "agent"
            leaf.mkdir(exist_ok=True)
            write(leaf / "cgroup.procs", str(os.getpid()))
            write(folder / "cgroup.subtree_control", handed)
        base = folder / name
        base.mkdir(exist_ok=True)
        write(base / "cgroup.subtree_control", handed)
        return base
    except OSError:
        return None


def detect(node: str) -> tuple[Layout | None, str]:
    """The layout for this node, or None and why not."""
    name = f"idlewild-{node}"
    v1, v2 = _mounts()
    own = _own()
    if v2 is not None and _writable(_folder(v2, own.get("", "/"))):
        base = _hand_down(_folder(v2, own.get("", "/")), name)
        if base is not None:
            return Layout("v2", {"unified": base}), ""
    missing = [c for c in V1_NEEDED if c not in v1 or c not in own or not _writable(_folder(v1[c], own[c]))]
    if missing:
        return (
            None,
            f"no writable cgroup controller {', '.join(missing)} (run as root, or delegate a group to this user)",
        )
    bases = {c: _folder(v1[c], own[c]) / name for c in V1_NEEDED}
    unified = _folder(v2, own.get("", "/")) if v2 is not None else None
    if unified is not None and _writable(unified) and (unified / "cgroup.procs").exists():
        return Layout("hybrid", {**bases, "unified": unified / name}), ""
    return Layout("v1", bases), ""
