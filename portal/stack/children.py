"""A child of the supervisor: how it is started, restarted, heard and ended.

| what happens | then |
|---|---|
| it ends by itself | again after min(30, 2^fails − 1) s; a run of 30 s or more forgets earlier fails; the exit code and the wait are printed |
| it is down on purpose | it stays down until it is wanted again |
| it is a job to be done once | its exit code is kept, whoever waits for it goes on |
| the supervisor dies | the kernel sends it its stop signal (Linux) |
"""

import logging
import logging.handlers
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from portal.stack.embedded import dies_with_parent

LOG_BYTES = 20 * 1024 * 1024
LOG_FILES = 3
LONGEST_WAIT_S = 30
GOOD_RUN_S = 30.0

UNSAID = (
    "worker: Warm shutdown (MainProcess)",
    "worker: Cold shutdown (MainProcess)",
)  # Celery says so even when asked to be quiet

Say = Callable[[str, str], None]


class CannotStart(Exception):
    """The start is off; the text says why."""


class Child:
    """One process under a name. Its methods are called by the supervisor's main thread only (the death signal belongs to the thread that forks)."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        environment: Mapping[str, str],
        log_dir: Path,
        say: Say,
        folder: Path,
        once: bool = False,
        quiet: bool = False,
        stop_signal: int = signal.SIGTERM,
    ) -> None:
        self.name, self.command, self.environment, self.folder = (
            name,
            [str(part) for part in command],
            dict(environment),
            folder,
        )
        self.once, self.quiet, self.stop_signal, self.say = once, quiet, stop_signal, say
        self.log = log_dir / f"{name}.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.wanted = False
        self.fails = 0
        self.started_at = 0.0
        self.due_at = 0.0
        self.ended = threading.Event()  # a job done once: it has ended
        self.exit_code: int | None = None

    # --- called in every round -----------------------------------------------------------------------------------------------
    def tend(self) -> None:
        """Start it when it is due, note when it has ended."""
        if self.process is not None and self.process.poll() is not None:
            self._note_end(self.process.returncode)
        if self.process is None and self.wanted and time.monotonic() >= self.due_at:
            self._spawn()

    def _spawn(self) -> None:
        self.started_at = time.monotonic()
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self.folder,
            env=self.environment,
            start_new_session=True,
            preexec_fn=dies_with_parent(self.stop_signal),
        )
        out = self.process.stdout
        assert out is not None  # noqa: S101  # PIPE was asked for
        threading.Thread(target=self._listen, args=(out,), name=f"hear {self.name}", daemon=True).start()

    def _note_end(self, code: int) -> None:
        self.process = None
        self.exit_code = code
        if self.once:
            self.wanted = False
            self.ended.set()
            return
        if not self.wanted:
            return
        self.fails = 1 if time.monotonic() - self.started_at >= GOOD_RUN_S else self.fails + 1
        wait = min(LONGEST_WAIT_S, 2**self.fails - 1)
        self.due_at = time.monotonic() + wait
        self.say("system", f"{self.name} ended with {describe_exit(code)}; again in {wait} s")

    def _listen(self, out: IO[bytes]) -> None:
        """Copy its words to its log and, with its name in front, to the terminal."""
        logger = logging.Logger(self.name)  # noqa: LOG001  # not in the tree of loggers: this is a file, not a program's log
        logger.addHandler(rotating(self.log))
        with out:
            for raw in out:
                line = raw.decode(errors="replace").rstrip()
                logger.info(line)
                if line and not self.quiet and line not in UNSAID:
                    self.say(self.name, line)
        for handler in logger.handlers:
            handler.close()

    # --- asked for -----------------------------------------------------------------------------------------------------------
    def want(self) -> None:
        self.wanted, self.due_at = True, 0.0
        self.ended.clear()

    def ask_to_stop(self) -> None:
        self.wanted = False
        self.signal(self.stop_signal)

    def signal(self, number: int) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)

    def kill_group(self) -> None:
        """SIGKILL to it and to everything it started in its session."""
        self.wanted = False
        if self.process is not None:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                return

    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None


def rotating(path: Path) -> logging.Handler:
    path.parent.mkdir(parents=True, exist_ok=True)
    handler = logging.handlers.RotatingFileHandler(
        path, maxBytes=LOG_BYTES, backupCount=LOG_FILES - 1, encoding="utf-8"
    )
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    return handler


def describe_exit(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
