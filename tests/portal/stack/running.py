"""A whole `up` of its own for a test: own state folder, own port; only processes that the test started are ever signalled."""

import contextlib
import os
import queue
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from tests.sources import ROOT

TEST_ONLY = (
    "IDLEWILD_PROFILE", "DATABASE_URL", "REDIS_URL", "IDLEWILD_MIGRATE_DATABASE_URL", "IDLEWILD_SECRET_KEY", "IDLEWILD_VAULT_KEYS",
    "IDLEWILD_KEY_PREFIX", "PYTEST_CURRENT_TEST", "COV_CORE_SOURCE", "IDLEWILD_GET_DIR",
)  # fmt: skip


def clean_environment(state: Path, **more: str) -> dict[str, str]:
    """The environment of a person's shell, not of this test run."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in TEST_ONLY and not name.startswith("IDLEWILD_TEST_")
    }
    return kept | {"IDLEWILD_STATE_DIR": str(state)} | more


@contextlib.contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that, as root, the database's account and the jobs' users may pass through. Not pytest's own: each run closes that again (0700)."""
    folder = Path(tempfile.mkdtemp(prefix="idlewild-test-state-"))
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Up:
    """`manage.py up …`, heard line by line."""

    def __init__(self, state: Path, *options: str, port: int | None = None, **environment: str) -> None:
        self.state, self.port = state, port or free_port()
        self.lines: list[str] = []
        self._new: queue.Queue[str] = queue.Queue()
        self.process = subprocess.Popen(
            [sys.executable, "manage.py", "up", "--port", str(self.port), *options],
            cwd=ROOT, env=clean_environment(state, **environment), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stdout
        with self.process.stdout as out:
            for line in out:
                self.lines.append(line.rstrip())
                self._new.put(line.rstrip())

    def wait_for(self, words: str, seconds: float = 60) -> str:
        until = time.monotonic() + seconds
        for line in list(self.lines):
            if words in line:
                return line
        while time.monotonic() < until:
            try:
                line = self._new.get(timeout=0.2)
            except queue.Empty:
                if self.process.poll() is not None:
                    break
                continue
            if words in line:
                return line
        raise AssertionError(f"{words!r} was not said; said was:\n" + "\n".join(self.lines[-40:]))

    def family(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def child(self, *words: str) -> psutil.Process:
        """The one direct child whose command has all these words."""
        found = [
            child
            for child in psutil.Process(self.process.pid).children()
            if all(word in " ".join(child.cmdline()) for word in words)
        ]
        assert len(found) == 1, f"{words}: {found}"
        return found[0]

    def stop(self, seconds: float = 30) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(seconds)
        self._listener.join(5)
        return code

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)
        self._listener.join(5)


def status_of(port: int) -> int:
    """The status of /healthz; 0 when nobody answers."""
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
            f"http://127.0.0.1:{port}/healthz", timeout=5
        ) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
    except OSError:
        return 0


def wait_until(true: Any, seconds: float, what: str) -> float:
    """Seconds until `true()` holds."""
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        if true():
            return time.monotonic() - began
        time.sleep(0.1)
    raise AssertionError(f"{what}: not within {seconds} s")


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    living = []
    for process in processes:
        try:
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                living.append(process)
        except psutil.NoSuchProcess:
            continue
    return living
