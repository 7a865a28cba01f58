"""What agent tests share: a ground (the real sandbox of this machine), jobs under a real supervisor, a portal, a node.

Every test has a state folder and control groups of its own and leaves nothing behind. Where the machine can't make control
groups the tests that need them skip and say so.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agent import clocks, folders
from agent.executors import cgroups
from agent.executors.found import find_bwrap
from agent.launching import Ground, launch, make_folder
from tests.agent.peer import Peer

ROOT = Path(__file__).resolve().parents[2]
WAIT_S = 40.0
COUNT = iter(range(1, 10_000))


def until(done: Callable[[], Any], seconds: float = WAIT_S, what: str = "") -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        got = done()
        if got:
            return got
        time.sleep(0.01)
    raise AssertionError(f"waited {seconds} s in vain {what}")


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def room() -> Iterator[Path]:
    """A folder that the slots' users can reach (pytest's own can't be)."""
    folder = Path(tempfile.mkdtemp(prefix="idlewild-agent-test-"))
    folder.chmod(0o711)
    yield folder
    folders.remove(folder)


@pytest.fixture
def ground(room: Path) -> Iterator[Ground]:
    """The best this machine has."""
    bwrap, why = find_bwrap(room / "tools")
    if not bwrap:
        pytest.skip(f"no sandbox here: {why}")
    layout, _ = cgroups.detect(f"nod_test{os.getpid()}x{next(COUNT)}")
    if layout is not None:
        layout.prepare()
    (room / "attempts").mkdir(mode=0o711)
    yield Ground("nod_test", "bwrap", bwrap, layout, room / "attempts", 20001, True)
    if layout is not None:
        for name in layout.names():
            layout.group(name).kill()
            layout.group(name).remove()
        layout.remove()


@pytest.fixture
def grouped(ground: Ground) -> Ground:
    if ground.layout is None:
        pytest.skip("needs root and control groups (cgroup v1 or v2)")
    return ground


@dataclass
class Job:
    """A job under a real supervisor, without an agent."""

    ground: Ground
    folder: Path
    process: subprocess.Popen[bytes]
    order: dict[str, Any] = field(default_factory=dict)

    def ask(self, **request: Any) -> dict[str, Any]:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(5)
            connection.connect(str(self.folder / "s"))
            connection.sendall(json.dumps(request).encode() + b"\n")
            with connection.makefile("rb") as answers:
                return dict(json.loads(answers.readline()))

    def status(self) -> dict[str, Any]:
        return until(self._status, what=f"for the supervisor: {self.said('supervisor')}")

    def _status(self) -> dict[str, Any] | None:
        try:
            return self.ask(do="status")
        except OSError:
            return None

    def until(self, wanted: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            facts = self.status()
            return facts if wanted(facts) else None

        return dict(until(look, what=f"for {self.folder.name}"))

    def says(self, text: str) -> None:
        until(
            lambda: text in self.said("stdout"), what=f"for {text!r} in {self.said('stdout')!r} {self.said('stderr')!r}"
        )

    def said(self, stream: str) -> str:
        path = self.folder / f"{stream}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def renew(self, ms: int) -> dict[str, Any]:
        return self.ask(do="renew", deadline_ms=clocks.boot_ms() + ms)

    def stop(self, grace_ms: int = 0, reason: str = "cancelled_by_tenant") -> dict[str, Any]:
        return self.ask(do="stop", grace_ms=grace_ms, reason=reason)

    def exit(self, seconds: float = WAIT_S) -> dict[str, Any]:
        self.process.wait(seconds)
        path = self.folder / "exit.json"
        assert path.exists(), self.said("supervisor")
        return dict(json.loads(path.read_text()))

    @property
    def job_folder(self) -> Path:
        return self.folder / "job"

    def group(self) -> Any:
        return cgroups.from_json(self.order["group"])

    def pids(self) -> list[int]:
        return list(self.group().pids())


@pytest.fixture
def start() -> Iterator[Callable[..., Job]]:
    """`start(ground, "echo hi", setup=…, deadline_ms=…)`"""
    jobs: list[Job] = []

    def begin(ground: Ground, run: str, setup: str = "", **more: Any) -> Job:
        name = f"att_{os.getpid()}x{next(COUNT)}"  # unique on the machine: leftovers are found by it
        folder = ground.attempt_folder(name)
        job_folder = make_folder(folder, ground.uid(len(jobs) + 1))
        values: dict[str, Any] = {
            "cores_milli": 500,
            "memory_mib": 64 if ground.layout else 2048,
            "disk_mib": 64,
            "shm_mib": 16,
            "max_duration_ms": 60_000,
            "frozen_kill_ms": 60_000,
            "stop_grace_ms": 500,
            "environment": {"PATH": "/usr/bin:/bin", "HOME": "/job", "IDLEWILD_ATTEMPT": name},
        }
        deadline_ms = clocks.boot_ms() + more.pop("deadline_ms", 60_000)
        phases = [*([("setup", setup)] if setup else []), ("run", run)]
        order = launch(
            ground,
            attempt=name,
            fence=1,
            slot=len(jobs) + 1,
            job_folder=job_folder,
            phases=phases,
            deadline_ms=deadline_ms,
            **{**values, **more},
        )
        (folder / "launch.json").write_text(json.dumps(order))
        with open(folder / "supervisor.log", "wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "agent.supervisor", str(folder)],
                cwd=ROOT,
                start_new_session=True,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        jobs.append(Job(ground, folder, process, order))
        return jobs[-1]

    yield begin
    for job in jobs:
        if job.process.poll() is None:
            job.process.send_signal(signal.SIGCONT)
            job.process.kill()
            job.process.wait()
        if job.ground.layout is not None:
            group = job.group()
            group.kill()
            group.remove()


@dataclass
class Node:
    """A real agent process against the fake portal."""

    portal: Peer
    state: Path
    flags: list[str]
    process: subprocess.Popen[bytes] | None = None
    log: Path = Path()

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "agent", *arguments, "--state-dir", str(self.state)]
        return subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False, env=self.environment()
        )

    def environment(self) -> dict[str, str]:
        return {**os.environ, "IDLEWILD_VIRTUAL_CARDS": "2"}

    def enroll(self) -> None:
        done = self.command("enroll", self.portal.token, "--url", self.portal.url)
        assert done.returncode == 0, done.stderr

    def up(self, *, wait: bool = True) -> None:
        known = len(self.portal.inventories)
        self.log = self.state / "agent.log"
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "agent",
                    "up",
                    "--state-dir",
                    str(self.state),
                    "--cores",
                    "1",
                    "--short-suite",
                    *self.flags,
                ],
                cwd=ROOT,
                stdout=log,
                stderr=log,
                env=self.environment(),
            )
        if wait:
            self.portal.until(lambda: len(self.portal.inventories) > known, what=f"for the inventory: {self.said()}")

    def said(self) -> str:
        return self.log.read_text()[-4000:] if self.log.is_file() else ""

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        assert self.process is not None
        self.process.wait()

    def status(self) -> dict[str, Any]:
        """What `idlewild-agent status --json` shows, without starting a program for it; {} when no agent is there."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(10)
            try:
                connection.connect(str(self.state / "control"))
                connection.sendall(b'{"do": "status"}\n')
                with connection.makefile("rb") as answers:
                    return dict(json.loads(answers.readline()))
            except OSError:
                return {}

    def supervisor(self, attempt: str) -> int:
        def look() -> int | None:
            for one in self.status().get("attempts", []):
                if one["attempt"] == attempt and one["supervisor"]:
                    return int(one["supervisor"])
            return None

        return int(until(look, what=f"for a supervisor of {attempt}"))

    def end(self) -> None:
        """Whatever the test left: agent, supervisors, jobs, groups."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    words = (entry / "cmdline").read_bytes()
                except OSError:
                    continue
                if str(self.state).encode() in words and int(entry.name) != os.getpid():
                    os.kill(int(entry.name), signal.SIGKILL)
        layout, _ = cgroups.detect(self.portal.node)
        if layout is not None:
            for name in layout.names():
                layout.group(name).kill()
                layout.group(name).remove()
            layout.remove()


class Kept:
    """A node that the tests of a module share for as long as it is well: starting one takes seconds."""

    def __init__(self, flags: list[str]) -> None:
        self.flags = flags
        self.node: Node | None = None

    def get(self) -> Node:
        if self.node is not None and (self.node.process is None or self.node.process.poll() is not None):
            self.drop()
        if self.node is None:
            peer = Peer().__enter__()
            peer.node = f"nod_t{os.getpid()}x{next(COUNT)}"
            folder = Path(tempfile.mkdtemp(prefix="idlewild-agent-test-"))
            folder.chmod(0o711)
            self.node = Node(peer, folder, list(self.flags))
            peer.story = self.node.said
            self.node.enroll()
            self.node.up()
        return self.node

    def tidy(self) -> None:
        """Ready for the next test, or gone."""
        assert self.node is not None
        peer = self.node.portal
        peer.mood, peer.hook, peer.orders = "ok", None, []
        for lease in peer.leases.values():
            if lease.state in ("pending", "active"):
                lease.state = "lapsed"
        if self.node.process is None or self.node.process.poll() is not None:
            return
        self.node.process.send_signal(signal.SIGCONT)
        until(
            lambda: self.node is not None and not self.node.status().get("attempts"), what="for the last job to be gone"
        )
        if self.node.status().get("draining"):
            self.drop()
            return
        # A started agent proves its ground first: an assignment of the next test that came before would be let go.
        until(lambda: self.node is not None and self.node.status().get("isolation"), what="for the self-test")

    def drop(self) -> None:
        if self.node is not None:
            self.node.end()
            self.node.portal.__exit__()
            shutil.rmtree(self.node.state, ignore_errors=True)
            self.node = None


@pytest.fixture(scope="module")
def kept() -> Iterator[dict[str, Kept]]:
    keepers = {"node": Kept(["--own-jobs"]), "lasting": Kept([])}
    yield keepers
    for keeper in keepers.values():
        keeper.drop()


@pytest.fixture
def node(kept: dict[str, Kept]) -> Iterator[Node]:
    """Enrolled and up, its jobs its own."""
    yield kept["node"].get()
    kept["node"].tidy()


@pytest.fixture
def lasting(kept: dict[str, Kept]) -> Iterator[Node]:
    """A production node: its jobs outlive the agent."""
    yield kept["lasting"].get()
    kept["lasting"].tidy()


@pytest.fixture
def portal(request: pytest.FixtureRequest) -> Iterator[Peer]:
    """The portal of the test's node, or one of its own."""
    for name in ("node", "lasting"):
        if name in request.fixturenames:
            yield request.getfixturevalue(name).portal
            return
    with Peer() as peer:
        yield peer
