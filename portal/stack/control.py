"""Asking a running `up` to hold a node down or to bring it back: a socket in the state folder, one line of JSON each way.

The demo's main job uses it to show a node dying; tests and benchmarks too. Whoever can open the socket (0700 folder) could kill the processes anyway.
"""

import json
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from portal.stack import places

ENVIRONMENT = "IDLEWILD_CONTROL"  # the socket's path, given to the demo's processes
ANSWER_S = 60.0


class NotRunning(Exception):
    """There is no `up` to ask."""


# --- the asking side -------------------------------------------------------------------------------------------------------
def ask(do: str, **words: Any) -> dict[str, Any]:
    """One request; its answer. An answer with ``error`` raises ValueError."""
    path = os.environ.get(ENVIRONMENT) or str(places.control_socket(places.state_dir()))
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(ANSWER_S)
            connection.connect(path)
            connection.sendall(json.dumps({"do": do, **words}).encode() + b"\n")
            answer: dict[str, Any] = json.loads(connection.makefile().readline() or "{}")
    except OSError as problem:
        raise NotRunning(f"no running ./dev up answers at {path}: {problem}") from None
    if "error" in answer:
        raise ValueError(answer["error"])
    return answer


def hold_down(name: str) -> dict[str, Any]:
    """SIGKILL to a node (`agent-2`): the agent, its supervisors and all they started; it stays down. The answer lists the pids."""
    return ask("hold_down", name=name)


def bring_back(name: str) -> dict[str, Any]:
    """Let a node that was held down start again."""
    return ask("bring_back", name=name)


def status() -> dict[str, Any]:
    """Name → {pid, running, wanted} of each child, and the agents' nodes."""
    return ask("status")


# --- the answering side ----------------------------------------------------------------------------------------------------
class Server:
    """Takes one request at a time and answers what `perform` returns; `perform` may be slow, it runs in a thread of its own."""

    def __init__(self, path: Path, perform: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        self.path, self.perform = path, perform
        path.parent.mkdir(parents=True, exist_ok=True)
        path.parent.chmod(0o700)
        path.unlink(missing_ok=True)
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(str(path))
        self.socket.listen(8)
        threading.Thread(target=self._serve, name="control", daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return  # closed
            with connection:
                try:
                    connection.settimeout(5)
                    answer = self._answer(connection.makefile().readline())
                    connection.sendall(json.dumps(answer).encode() + b"\n")
                except OSError:
                    continue

    def _answer(self, line: str) -> dict[str, Any]:
        try:
            return self.perform(json.loads(line))
        except (ValueError, KeyError) as problem:
            return {"error": str(problem)}

    def close(self) -> None:
        self.socket.close()
        self.path.unlink(missing_ok=True)
