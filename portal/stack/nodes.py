"""The demo's provider machines: four agents on this one, each with its own state folder, slot users and share of the cores.

A *node* is the agent, its supervisors and all their job processes. Killing a node kills all of these; killing the agent alone would lose no job.
"""

import json
import os
import signal
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

COUNT = 4
FEWER = "IDLEWILD_DEMO_NODES"  # on a small machine, and in tests
SLOT_UIDS_FROM = 20_001
SLOT_UIDS_EACH = 100
LEAST_CORES = 0.5
GONE_S = 10.0
STATUS_S = 5.0


@dataclass(frozen=True)
class LocalNode:
    """One of them, counted from 1."""

    number: int
    folder: Path
    token: str = ""
    label: str = ""

    @property
    def name(self) -> str:
        return f"agent-{self.number}"

    @property
    def is_enrolled(self) -> bool:
        return (self.folder / "node.json").exists()

    @property
    def node_id(self) -> str:
        """Its id at the portal, "" before it has enrolled."""
        try:
            return str(json.loads((self.folder / "node.json").read_text(encoding="utf-8"))["node"])
        except (OSError, ValueError, KeyError):
            return ""

    def follow(self, portal: str) -> None:
        """A node enrolled at this portal under another port (`./dev up --port`) goes on under the present one."""
        path = self.folder / "node.json"
        identity = json.loads(path.read_text(encoding="utf-8"))
        if identity.get("url") == portal:
            return
        fresh = path.with_suffix(".moved")
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w") as file:
            json.dump({**identity, "url": portal}, file)
        fresh.replace(path)

    @property
    def _share(self) -> list[str]:
        """What this node has of the machine: folder, cores, users for its jobs' slots."""
        first_uid = SLOT_UIDS_FROM + SLOT_UIDS_EACH * (self.number - 1)
        cores = max(LEAST_CORES, (os.cpu_count() or 1) / COUNT)
        return [
            "--state-dir",
            str(self.folder),
            "--cores",
            f"{cores:g}",
            "--slot-uid-base",
            str(first_uid),
            "--own-jobs",
            "--short-suite",
        ]

    def enroll_command(self, portal: str) -> list[str]:
        return [sys.executable, "-m", "agent", "enroll", self.token, "--url", portal, *self._share]

    def up_command(self) -> list[str]:
        return [sys.executable, "-m", "agent", "up", *self._share]

    def status(self) -> dict[str, Any]:
        """What the running agent says of itself, on its control socket; {} when it does not answer."""
        try:
            folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)  # by descriptor: a socket's path is short
        except OSError:
            return {}
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(STATUS_S)
                connection.connect(f"/proc/self/fd/{folder}/control")
                connection.sendall(b'{"do": "status"}\n')
                answer: dict[str, Any] = json.loads(connection.makefile().readline() or "{}")
        except (OSError, ValueError):
            return {}
        finally:
            os.close(folder)
        return answer


def folder_of(state: Path, number: int) -> Path:
    return state / "agents" / str(number)


def local_nodes(state: Path) -> list[LocalNode]:
    """The nodes that the demo's seed gave tokens to (STATE/demo/nodes.json: a list of {"token", "label"}), in order."""
    try:
        given: list[dict[str, Any]] = json.loads((state / "demo" / "nodes.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    return [
        LocalNode(n, folder_of(state, n), str(row["token"]), str(row.get("label", "")))
        for n, row in enumerate(given[: int(os.environ.get(FEWER, COUNT))], start=1)
    ]


def processes_of(node: LocalNode, agent_pid: int | None) -> list[psutil.Process]:
    """Agent, supervisors and jobs: by descent from the agent, and by the node's folders in their command (supervisors outlive agents)."""
    found: dict[int, psutil.Process] = {}
    folder, apart = str(node.folder) + os.sep, f"idlewild-jobs-{node.node_id}{os.sep}"
    for process in psutil.process_iter():
        try:
            is_agent = process.pid == agent_pid
            words = process.cmdline()
            if (
                is_agent
                or any(word.startswith(folder) or word == folder.rstrip(os.sep) for word in words)
                or any(apart in word for word in words)
            ):
                for each in [process, *process.children(recursive=True)]:
                    found[each.pid] = each
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    found.pop(os.getpid(), None)
    return list(found.values())


def is_alive(process: psutil.Process) -> bool:
    """Neither gone nor waiting to be reaped."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def kill_node(node: LocalNode, agent_pid: int | None) -> list[int]:
    """SIGKILL, the agent first so that it starts nothing more, again until nothing is left; the pids."""
    killed: list[int] = []
    until = time.monotonic() + GONE_S
    while time.monotonic() < until:
        alive = [process for process in processes_of(node, agent_pid) if is_alive(process)]
        if not alive:
            break
        alive.sort(key=lambda process: process.pid != agent_pid)
        for process in alive:
            try:
                process.send_signal(signal.SIGKILL)
            except psutil.NoSuchProcess:
                continue
            if process.pid not in killed:
                killed.append(process.pid)
        time.sleep(0.05)
    return killed
