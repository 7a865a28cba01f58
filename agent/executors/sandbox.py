"""What a supervisor starts: the two executors `bwrap` and `process` under one interface, and the child's first steps.

`bwrap` (any tenant) is the command line that was tried as a whole; `process` is /bin/sh in a new session with an
environment made from nothing, for machines where the kernel refuses sandboxes: it serves its own provider only.

Order in the child matters: new session, join the groups, reset the OOM score, lower the limits, drop groups and uid,
then exec. Dropping the uid **before** bubblewrap is what keeps the job from mapping to the node's root; without the
two `--remount-ro`, `/etc` and `/dev` would be writable. Arguments go by `--args FD`, so that no secret is ever on a command
line. Scripts travel as `--ro-bind-data`, so that the job cannot change them and they need no place in its folder.
"""

from __future__ import annotations

import os
import resource
import signal
from dataclasses import dataclass

from . import seccomp
from .groups import Group

STATUS_FD = 8
SECCOMP_FD = 9
ARGS_FD = 10
SCRIPT_FD = 11
BLOCK_FD = 12
SCRIPT = "/etc/job.sh"
SHELL = ("/bin/sh", "-eu")
TMP_MOST = 1 << 30


@dataclass(frozen=True)
class Sandbox:
    """One phase of a job, ready to be started."""

    executor: str  # bwrap, process
    folder: str  # becomes /job
    script: str
    environment: dict[str, str]
    bwrap: str = ""
    uid: int | None = None  # None: stay who we are (a plain user)
    shm_bytes: int = 64 << 20
    tmp_bytes: int = TMP_MOST
    file_bytes: int | None = None  # RLIMIT_FSIZE
    memory_bytes: int | None = None  # RLIMIT_AS, only without cgroups
    binds: tuple[tuple[str, str], ...] = ()  # device nodes
    waits: bool = False  # start the script only when `go` (see `start`) has been written to


def _memory_file(name: str, content: bytes) -> int:
    fd = os.memfd_create(name)
    _write_all(fd, content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _write_all(fd: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]


def bwrap_arguments(box: Sandbox) -> list[str]:
    """The sandbox, as bubblewrap's arguments (without the program to run)."""
    arguments = [
        "--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
        "--disable-userns", "--hostname", "job", "--die-with-parent", "--new-session", "--cap-drop", "ALL",
        "--ro-bind", "/usr", "/usr",
        "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib",
        "--symlink", "usr/lib64", "/lib64", "--symlink", "usr/sbin", "/sbin",
        "--dir", "/etc",
        "--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache",
        "--ro-bind-try", "/etc/alternatives", "/etc/alternatives",
        "--perms", "0444", "--ro-bind-data", str(SCRIPT_FD), SCRIPT,
        "--proc", "/proc", "--dev", "/dev",
        "--size", str(max(box.shm_bytes, 4096)), "--perms", "1777", "--tmpfs", "/dev/shm",  # noqa: S108 - inside the sandbox
    ]  # fmt: skip
    for source, target in box.binds:
        arguments += ["--dev-bind", source, target]
    arguments += [
        "--remount-ro", "/dev",
        "--size", str(box.tmp_bytes), "--perms", "1777", "--tmpfs", "/tmp",  # noqa: S108 - inside the sandbox
        "--bind", box.folder, "/job", "--remount-ro", "/", "--chdir", "/job", "--clearenv",
    ]  # fmt: skip
    for name, value in box.environment.items():
        arguments += ["--setenv", name, value]
    waiting = ["--block-fd", str(BLOCK_FD)] if box.waits else []
    return [*arguments, *waiting, "--seccomp", str(SECCOMP_FD), "--json-status-fd", str(STATUS_FD)]


def start(box: Sandbox, group: Group, stdout: int, stderr: int, status: int, go: int | None = None) -> int:
    """Fork the job's first process into its group; returns its pid. The main thread must call this: `--die-with-parent`
    kills the job when the *thread* that started it ends. `go`: where a sandbox that `waits` reads its sign."""
    script_fd = _memory_file("script", box.script.encode())
    if box.executor == "bwrap":
        arguments = "\0".join(bwrap_arguments(box)) + "\0"
        args_fd = _memory_file("arguments", arguments.encode())
        filter_fd = seccomp.program()
        argv = [box.bwrap, "--args", str(ARGS_FD), "--", *SHELL, SCRIPT]
        fds = {STATUS_FD: status, SECCOMP_FD: filter_fd, ARGS_FD: args_fd, SCRIPT_FD: script_fd}
        if go is not None:
            fds[BLOCK_FD] = go
        environment: dict[str, str] = {}
    else:
        argv = [*SHELL, f"/proc/self/fd/{SCRIPT_FD}"]
        fds = {SCRIPT_FD: script_fd}
        environment = box.environment
    if box.uid is not None:
        os.fchown(stdout, box.uid, box.uid)  # a root-made pipe refuses `echo > /dev/stdout`
        os.fchown(stderr, box.uid, box.uid)
    pid = os.fork()
    if pid == 0:
        _child(box, group, argv, environment, {0: os.open("/dev/null", os.O_RDONLY), 1: stdout, 2: stderr, **fds})
    for fd in fds.values():
        if fd not in (status, go):
            os.close(fd)
    return pid


def _child(box: Sandbox, group: Group, argv: list[str], environment: dict[str, str], fds: dict[int, int]) -> None:
    """In the child: never returns."""
    step = "start"
    try:
        os.setsid()
        step = "join groups"
        group.join(os.getpid())
        step = "limits"
        _reset_oom_score()
        _lower_limits(box)
        for number in range(1, signal.NSIG):
            if number not in (signal.SIGKILL, signal.SIGSTOP):
                try:
                    signal.signal(number, signal.SIG_DFL)
                except (OSError, ValueError):
                    continue
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        step = "files"
        _place(fds)
        if box.executor != "bwrap":
            os.chdir(box.folder)
        if box.uid is not None:
            step = "uid"
            os.setgroups([])
            os.setresgid(box.uid, box.uid, box.uid)
            os.setresuid(box.uid, box.uid, box.uid)
        os.umask(0o022)
        step = f"exec {argv[0]}"
        os.execve(argv[0], argv, environment)  # noqa: S606 - the point of this program
    except BaseException as error:
        os.write(2, f"idlewild: cannot start the job ({step}): {error}\n".encode())
    os._exit(127)


def _place(fds: dict[int, int]) -> None:
    """Move each descriptor to its number, close all others. Copies first: a source may be another's target."""
    copies = {target: os.dup2(source, 100 + target, inheritable=False) for target, source in fds.items()}
    for target, copy in copies.items():
        os.dup2(copy, target, inheritable=True)
    for fd in range(3, 100):
        if fd not in fds:
            try:
                os.close(fd)
            except OSError:
                continue
    os.closerange(100, 1100)


def _reset_oom_score() -> None:
    try:
        fd = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        os.write(fd, b"0")
        os.close(fd)
    except OSError:
        pass  # raising it again needs no right; where even that is refused the job is merely well protected


def _lower_limits(box: Sandbox) -> None:
    wanted = {resource.RLIMIT_CORE: 0, resource.RLIMIT_NOFILE: 1024}
    if box.file_bytes is not None:
        wanted[resource.RLIMIT_FSIZE] = box.file_bytes
    if box.memory_bytes is not None:
        wanted[resource.RLIMIT_AS] = box.memory_bytes
    for which, value in wanted.items():
        hard = resource.getrlimit(which)[1]
        limit = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (limit, limit))
