"""One process per attempt, the parent of its job: deadline, freeze, kill, limits, logs, statistics, exit record.

    python -m agent.supervisor FOLDER     reads FOLDER/launch.json (and deletes it), ends when the job has ended

It outlives the agent, so everything it needs is imported before the job starts (an upgrade replaces files) and it speaks a
frozen protocol on the socket FOLDER/s, one JSON line each way: `renew {deadline_ms}`, `stop {grace_ms, reason}`, `status {}`.
It leaves FOLDER/last.json (every 2 s), FOLDER/stdout.log, stderr.log, and at the end FOLDER/exit.json.

- **Deadline**: freezes the whole tree when the lease's deadline passes, thaws on a later renewal, kills after ten minutes.
  As exclusive as a kill, but a stall on the portal's side costs a pause, not a training run.
- **Stop**: a shell that doesn't catch TERM is SIGSTOPped (else the script would run its *next* command when the current one
  dies), all others but bubblewrap's own two processes get TERM; kill when none of those is left or the grace is over.
- **OOM**: told by the group's counter, never by an exit code; on v1 only one process dies, so the rest is killed here.
- **Start failure**: no `exit-code` on bubblewrap's status descriptor = the sandbox failed, not the tenant's script.
- If this process dies, the job dies (`--die-with-parent`, which follows the *thread*: jobs start in the main thread).
"""

from __future__ import annotations

import ctypes
import json
import os
import selectors
import signal
import socket
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from . import clocks, egress, folders
from .executors import cgroups, tree
from .executors.groups import Group, GroupRefused, Limits, Usage
from .executors.sandbox import Sandbox, start
from .meter import RunClock
from .protocol import Phase, Reason

TICK_S = 0.1
SAMPLE_MS = 2000
TELL_MS = 500
DISK_EVERY_MS = 5000
DISK_STEP = 2000  # entries looked at per tick
LOG_MOST = 64 * 1024 * 1024
CUT_NOTE = b"\n[idlewild: output cut here, the limit of 64 MiB is reached]\n"
SIGXFSZ_EXIT = 128 + signal.SIGXFSZ
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36

LIBC = ctypes.CDLL(None, use_errno=True)


class Spool:
    """A job's output stream on its way to a file: secrets masked, length capped."""

    def __init__(self, path: Path, masks: list[bytes]) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._masks = sorted((mask for mask in masks if len(mask) >= 4), key=len, reverse=True)
        self._held = b""
        self.size = os.fstat(self._file).st_size
        self._full = False

    def write(self, data: bytes) -> None:
        if not self._masks:
            self._put(data)
            return
        text = self._held + data
        for mask in self._masks:
            text = text.replace(mask, b"***")
        keep = self._unfinished(text)
        self._held = text[len(text) - keep :]
        self._put(text[: len(text) - keep])

    def _unfinished(self, text: bytes) -> int:
        """How much of the end may be the beginning of a secret."""
        longest = 0
        for mask in self._masks:
            for length in range(min(len(mask) - 1, len(text)), longest, -1):
                if text.endswith(mask[:length]):
                    longest = length
                    break
        return longest

    def close(self) -> None:
        self._put(self._held)
        self._held = b""
        os.close(self._file)

    def _put(self, data: bytes) -> None:
        if self._full or not data:
            return
        room = LOG_MOST - len(CUT_NOTE) - self.size
        if len(data) > room:
            data = data[:room] + CUT_NOTE
            self._full = True
        view = memoryview(data)
        while view:
            view = view[os.write(self._file, view) :]
        self.size += len(data)


def write_json(path: Path, data: dict[str, Any], *, durable: bool = False) -> None:
    """Whole or not at all."""
    temporary = path.with_suffix(".tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(fd, json.dumps(data).encode())
        if durable:
            os.fsync(fd)
    finally:
        os.close(fd)
    os.replace(temporary, path)


def open_group(data: dict[str, Any]) -> Group:
    return tree.from_json(data) if data["kind"] == "tree" else cgroups.from_json(data)


class Supervisor:
    def __init__(self, folder: Path, launch: dict[str, Any]) -> None:
        self.folder = folder
        self.launch = launch
        if launch["group"]["kind"] == "tree":
            self.group: Group = tree.TreeGroup(os.getpid(), launch["attempt"])
            LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        else:
            self.group = open_group(launch["group"])
        self.deadline_ms: int = launch["deadline_ms"]
        self.clock = RunClock()
        self.usage = Usage()
        self.phases = [(Phase(name), script) for name, script in launch["phases"]]
        self.phase = self.phases[0][0]
        self.started = False
        self.frozen_since: int | None = None
        self.stopping_until: int | None = None
        self.reason: Reason | None = None  # why we end it; None: it ends by itself
        self.message = ""
        self.exit_code: int | None = None
        self.pid: int | None = None
        self.status_code: int | None = None
        self.init_pid: int | None = None
        self.selector = selectors.DefaultSelector()
        masks = [text.encode() for text in launch["masks"]]
        self.spools = {name: Spool(folder / f"{name}.log", masks) for name in ("stdout", "stderr")}
        self.fds: dict[str, int] = {}
        self._status_text = b""
        self.hosts: list[str] = launch.get("egress", []) if launch["executor"] == "bwrap" else []
        self.bytes = egress.Counters()
        if self.hosts:  # asyncio and all: loaded before the job starts, and only where it is needed
            import_module(f"{__package__}.proxy")
        self.proxy: int | None = None
        self._go: int | None = None
        self._sampled_ms = 0
        self._disk: Iterator[int] | None = None
        self._disk_sum = 0
        self._disk_ms = 0

    # ── the loop ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def run(self) -> None:
        wakeup_read, wakeup_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wakeup_write)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.selector.register(wakeup_read, selectors.EVENT_READ, "wakeup")
        listener = self._listen()
        self.selector.register(listener, selectors.EVENT_READ, "socket")
        try:
            self.group.create(Limits(self.launch["cores_milli"], self.launch["memory_mib"], self.launch["pids"]))
        except OSError as error:
            self._end(Reason.START_FAILED, f"cannot make the control group: {error}")
            return
        while self.phases:
            self.phase, script = self.phases.pop(0)
            if not self._run_phase(script, listener, wakeup_read):
                break
        self._conclude()

    def _run_phase(self, script: str, listener: socket.socket, wakeup: int) -> bool:
        """True when the next phase may start."""
        try:
            self._start(script)
        except (OSError, RuntimeError) as error:
            self.reason, self.message = Reason.START_FAILED, f"the sandbox could not be started: {error}"
            return False
        while True:
            for key, _ in self.selector.select(self._timeout()):
                if key.data == "wakeup":
                    os.read(wakeup, 4096)
                elif key.data == "socket":
                    self._serve(listener)
                else:
                    self._read(key.data)
            self._tick()
            if self._reap():
                break
        self._drain()
        self.exit_code = self.status_code
        return self.reason is None and self._judge()

    def _timeout(self) -> float:
        left = self.deadline_ms - clocks.boot_ms()
        return max(0.0, min(TICK_S, left / 1000)) if self.frozen_since is None else TICK_S

    def _start(self, script: str) -> None:
        launch = self.launch
        box = Sandbox(
            executor=launch["executor"],
            folder=launch["job_folder"],
            script=script,
            environment=launch["environment"],
            bwrap=launch["bwrap"],
            uid=launch["uid"],
            shm_bytes=launch["shm_bytes"],
            tmp_bytes=launch["tmp_bytes"],
            file_bytes=launch["file_bytes"],
            memory_bytes=launch["memory_bytes"],
            binds=tuple((a, b) for a, b in launch["binds"]),
            waits=bool(self.hosts),
        )
        self.status_code, self.init_pid, self._status_text = None, None, b""
        pipes = {name: os.pipe2(os.O_CLOEXEC) for name in ("stdout", "stderr", "status")}
        waiting, self._go = os.pipe2(os.O_CLOEXEC) if self.hosts else (None, None)
        self.pid = start(box, self.group, pipes["stdout"][1], pipes["stderr"][1], pipes["status"][1], waiting)
        if waiting is not None:
            os.close(waiting)
        for name, (reading, writing) in pipes.items():
            os.close(writing)
            os.set_blocking(reading, False)
            self.fds[name] = reading
            self.selector.register(reading, selectors.EVENT_READ, name)
        if launch["executor"] != "bwrap":
            self._mark_started()

    def _mark_started(self) -> None:
        self.started = True
        self.clock.start(clocks.monotonic_us())
        self._sample(force=True)

    def _read(self, name: str) -> bool:
        """One read from a pipe of the job; False when there is nothing more now."""
        fd = self.fds.get(name)
        if fd is None:
            return False
        try:
            data = os.read(fd, 65536)
        except BlockingIOError:
            return False
        if not data:
            self.selector.unregister(fd)
            os.close(fd)
            del self.fds[name]
            return False
        if name == "status":
            self._read_status(data)
        else:
            self.spools[name].write(data)
        return True

    def _read_status(self, data: bytes) -> None:
        self._status_text += data
        *lines, self._status_text = self._status_text.split(b"\n")
        for line in lines:
            fact = json.loads(line)
            if "child-pid" in fact:
                self.init_pid = int(fact["child-pid"])
                self._open_network(self.init_pid)
                self._mark_started()
            if "exit-code" in fact:
                self.status_code = int(fact["exit-code"])

    def _open_network(self, init_pid: int) -> None:
        """The proxy is there before the job's first command; without it the job starts all the same, and gets no answer."""
        if self._go is None:
            return
        try:
            self.proxy = import_module(f"{__package__}.proxy").start(
                init_pid,
                self.hosts,
                self.bytes,
                uid=self.launch["uid"],
                private=self.launch.get("private_egress", False),
            )
        except OSError as error:
            self._kill(Reason.START_FAILED, f"the job's network could not be opened: {error}")
        os.write(self._go, b"1")
        os.close(self._go)
        self._go = None

    def _close_network(self) -> None:
        if self._go is not None:
            os.close(self._go)
            self._go = None
        if self.proxy is not None:
            _signal(self.proxy, signal.SIGKILL)
            self.proxy = None

    def _drain(self) -> None:
        """What is still in the pipes, after the tree is gone."""
        self.group.kill()
        self._close_network()
        for name in list(self.fds):
            while self._read(name):
                pass
            fd = self.fds.pop(name, None)
            if fd is not None:
                self.selector.unregister(fd)
                os.close(fd)

    def _reap(self) -> bool:
        """The one place that waits for children; True when the phase's own process has ended."""
        ended = False
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if pid == self.pid:
                ended = True
                if self.launch["executor"] != "bwrap":
                    self.status_code = _exit_code(status)
        return ended

    def _judge(self) -> bool:
        """The phase ended by itself: what does that mean? True: the next phase may start."""
        if self._oom():
            self.reason, self.message = Reason.OUT_OF_MEMORY, "the memory limit was reached"
        elif self.status_code is None:
            self.reason = Reason.START_FAILED
            self.message = "the sandbox could not be started: " + self._last_words()
        elif self.status_code == SIGXFSZ_EXIT:
            self.reason, self.message = Reason.DISK_FULL, "a file reached the disk limit"
        elif self.status_code != 0:
            self.reason = Reason.SETUP_FAILED if self.phase is Phase.SETUP else Reason.EXIT_NONZERO
            self.message = f"exit code {self.status_code} in {self.phase.value}"
        return self.reason is None

    def _last_words(self) -> str:
        try:
            return (self.folder / "stderr.log").read_bytes()[-300:].decode(errors="replace").strip()
        except OSError:
            return ""

    # ── rules of each tick ────────────────────────────────────────────────────────────────────────────────────────────

    def _tick(self) -> None:
        now = clocks.boot_ms()
        if self.frozen_since is None and now >= self.deadline_ms:
            self._freeze()
        if self.frozen_since is not None:
            if self.stopping_until is not None:
                self.group.kill()  # frozen, it can't tidy up any more
            elif now - self.frozen_since >= self.launch["frozen_kill_ms"]:
                self._kill(Reason.PLATFORM_FAULT, "frozen without a renewal of the lease for too long")
            return
        if self._oom():
            self._kill(Reason.OUT_OF_MEMORY, "the memory limit was reached")
        if self.clock.ran_us(clocks.monotonic_us()) >= self.launch["max_duration_ms"] * 1000:
            self._stop(Reason.TIME_LIMIT, self.launch["stop_grace_ms"], "max_duration is over")
        self._watch_disk(now)
        self._watch_stop(now)
        self._sample()

    def _watch_stop(self, now: int) -> None:
        if self.stopping_until is None:
            return
        if now >= self.stopping_until:
            self.group.kill()
        elif not self._others():
            if self._shell() is not None:
                self.group.kill()  # only the shell is left, which we have stopped
            else:
                # All have ended by themselves: bubblewrap is about to tell the exit code.
                self.stopping_until = min(self.stopping_until, now + TELL_MS)

    def _overrun_us(self) -> int:
        return max(0, clocks.boot_ms() - self.deadline_ms) * 1000

    def _freeze(self) -> None:
        settled = self.group.freeze()
        self.clock.freeze(clocks.monotonic_us(), self._overrun_us())
        self.frozen_since = clocks.boot_ms()
        if not settled:
            self._kill(Reason.PLATFORM_FAULT, "the processes could not be frozen at the deadline and were killed")
        self._sample(force=True)

    def _thaw(self) -> None:
        self.group.thaw()
        self.clock.thaw(clocks.monotonic_us())
        self.frozen_since = None
        self._sample(force=True)

    def _kill(self, reason: Reason, message: str) -> None:
        if self.reason is None:
            self.reason, self.message = reason, message
        self.group.kill()

    def _stop(self, reason: Reason, grace_ms: int, message: str = "") -> None:
        if self.reason is None:
            self.reason, self.message = reason, message
        until = clocks.boot_ms() + grace_ms
        if self.stopping_until is not None:
            self.stopping_until = min(self.stopping_until, until)
            return
        self.stopping_until = until
        if grace_ms == 0 or self.frozen_since is not None:
            self.group.kill()
            return
        shell = self._shell()
        for pid in self._everyone():
            _signal(pid, signal.SIGSTOP if pid == shell and not _catches_term(pid) else signal.SIGTERM)

    def _shell(self) -> int | None:
        if self.launch["executor"] != "bwrap":
            return self.pid
        return next((pid for pid in self.group.pids() if _pid_inside(pid) == 2), None)

    def _everyone(self) -> list[int]:
        """The job's processes, without bubblewrap's two."""
        return [pid for pid in self.group.pids() if pid not in (self.init_pid,) and not self._is_monitor(pid)]

    def _is_monitor(self, pid: int) -> bool:
        return pid == self.pid and self.launch["executor"] == "bwrap"

    def _others(self) -> list[int]:
        """Who may still be tidying up: everyone but a shell that we have stopped."""
        shell = self._shell()
        return [pid for pid in self._everyone() if not (pid == shell and _state(pid) == "T")]

    def _oom(self) -> bool:
        try:
            self.usage = self.group.usage()
        except OSError:
            return False
        return self.usage.oom_kills > 0

    def _disk_walk(self) -> Iterator[int]:
        """All that the job has on the disk of its folder: named files, and deleted ones that it still holds."""
        folder = self.launch["job_folder"]
        yield from folders.sizes(folder)
        yield from folders.deleted_sizes(self.group.pids(), os.stat(folder).st_dev)

    def _watch_disk(self, now: int) -> None:
        if self._disk is None:
            if now - self._disk_ms < DISK_EVERY_MS:
                return
            self._disk, self._disk_sum = self._disk_walk(), 0
        for _ in range(DISK_STEP):
            size = next(self._disk, None)
            if size is None:
                self._disk, self._disk_ms = None, now
                break
            self._disk_sum += size
        if self._disk_sum > self.launch["disk_bytes"]:
            self._kill(Reason.DISK_FULL, "the job's files are larger than its disk_size, or nested too deeply")

    def _sample(self, *, force: bool = False) -> None:
        now = clocks.boot_ms()
        if force or now - self._sampled_ms >= SAMPLE_MS:
            self._sampled_ms = now
            write_json(self.folder / "last.json", self.facts())

    # ── the socket ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _listen(self) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        os.chdir(self.folder)  # a socket path has at most 107 bytes
        Path("s").unlink(missing_ok=True)
        listener.bind("s")
        os.chmod("s", 0o600)
        listener.listen(8)
        listener.setblocking(False)
        return listener

    def _serve(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            connection.settimeout(0.2)
            try:
                request = json.loads(connection.makefile("rb").readline(65536))
                answer = self._answer(request)
            except (OSError, ValueError, KeyError) as error:
                answer = {"error": str(error)}
            try:
                connection.sendall(json.dumps(answer).encode() + b"\n")
            except OSError:
                return

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        if request["do"] == "renew":
            self._renew(int(request["deadline_ms"]))
        elif request["do"] == "stop":
            self._stop(Reason(request["reason"]), int(request["grace_ms"]))
        elif request["do"] != "status":
            return {"error": f"unknown request {request['do']}"}
        return self.facts()

    def _renew(self, deadline_ms: int) -> None:
        late_us = self._overrun_us()
        if self.frozen_since is None and late_us:
            # We were stopped ourselves and the agent froze the tree for us: what ran past the deadline doesn't count.
            self.clock.freeze(clocks.monotonic_us(), late_us)
            self.frozen_since = clocks.boot_ms()
        self.deadline_ms = max(self.deadline_ms, deadline_ms)
        if self.frozen_since is not None and self.deadline_ms > clocks.boot_ms():
            self._thaw()

    def facts(self) -> dict[str, Any]:
        now = clocks.monotonic_us()
        return {
            "attempt": self.launch["attempt"],
            "fence": self.launch["fence"],
            "phase": self.phase.value,
            "started": self.started,
            "frozen": self.frozen_since is not None,
            "stopping": self.stopping_until is not None,
            "deadline_ms": self.deadline_ms,
            "at_ms": clocks.boot_ms(),
            "ran_us": self.clock.ran_us(now, self._overrun_us()),
            "frozen_us": self.clock.frozen_us(now),
            "cpu_us": self.usage.cpu_us,
            "mem_peak_bytes": self.usage.mem_peak_bytes,
            "mem_now_bytes": self.usage.mem_now_bytes,
            "network_bytes": sum(self.bytes.read()) if self.hosts else None,
            "stdout_bytes": self.spools["stdout"].size,
            "stderr_bytes": self.spools["stderr"].size,
            "group": self.group.to_json(),
        }

    # ── the end ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _conclude(self) -> None:
        reason = self.reason or Reason.FINISHED
        self._end(reason, self.message)

    def _end(self, reason: Reason, message: str) -> None:
        self.clock.end(clocks.monotonic_us(), self._overrun_us())
        self.group.kill()
        try:
            self.usage = self.group.usage()
        except OSError:
            pass  # the group was never made
        for spool in self.spools.values():
            spool.close()
        record = {
            **self.facts(),
            "frozen": False,
            "reason": reason.value,
            "exit_code": self.exit_code,
            "message": message,
        }
        if reason is Reason.START_FAILED:
            record["started"] = False
        write_json(self.folder / "exit.json", record, durable=True)
        try:
            self.group.remove()
        except OSError:
            pass  # the agent removes left-overs


def _exit_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def _status_field(pid: int, name: str) -> str:
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return ""


def _catches_term(pid: int) -> bool:
    return bool(int(_status_field(pid, "SigCgt") or "0", 16) >> (signal.SIGTERM - 1) & 1)


def _pid_inside(pid: int) -> int:
    return int((_status_field(pid, "NSpid") or "0").split()[-1])


def _state(pid: int) -> str:
    return _status_field(pid, "State")[:1]


def _protect() -> None:
    """Outlive the job when memory is short. Needs CAP_SYS_RESOURCE; without it we are as likely to be chosen as the job."""
    try:
        fd = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        os.write(fd, b"-900")
        os.close(fd)
    except OSError:
        pass


def main(folder: Path) -> None:
    launch_file = folder / "launch.json"
    launch = json.loads(launch_file.read_text())
    launch_file.unlink()  # it holds the job's secrets
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    if launch["own_jobs"]:
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != launch["agent_pid"]:
            return  # the agent died between fork and prctl
    _protect()
    Supervisor(folder, launch).run()


if __name__ == "__main__":
    main(Path(sys.argv[1]))


__all__ = ["GroupRefused", "Spool", "Supervisor", "main", "open_group", "write_json"]
