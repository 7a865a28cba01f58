"""The whole product for one test: the web process, Celery workers and beat as processes, and real agents on this machine.

Everything is a child of the test and dies with it (also if the test is killed); only processes that were started here are signalled. The services run in
the test profile (scaled lease table) unless the test asks for the real one: ``@pytest.mark.real_time``.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest

from portal.settings import LEASE_CLASSES_REAL
from portal.stack.embedded import dies_with_parent
from tests.cast import Person
from tests.factories.market import an_invited
from tests.portal.stack.running import open_folder
from tests.sources import ROOT

T = TypeVar("T")
WORKERS = (("cycle", "cycle", "2"), ("recovery", "recovery", "1"), ("relay", "relay,billing,webhooks", "1"))
PATIENCE_S = 90.0


def eventually(look: Callable[[], T | None], *, within: float = PATIENCE_S, what: str = "", every: float = 0.1) -> T:
    """The first true answer of `look`; a failure that says what was awaited, and what was seen last."""
    until = time.monotonic() + within
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > until:
            pytest.fail(f"not within {within:.0f} s: {what or look.__name__} (last seen: {found!r})")
        time.sleep(every)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Product:
    """The running services."""

    folder: Path
    real_time: bool
    port: int = field(default_factory=free_port)
    children: list[subprocess.Popen[bytes]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def environment(self) -> dict[str, str]:
        more = {"IDLEWILD_BASE_URL": self.url, "PYTHONWARNINGS": "ignore"}
        if self.real_time:
            more["IDLEWILD_LEASE_CLASSES"] = json.dumps(LEASE_CLASSES_REAL)
        return {**os.environ, **more}

    def start(self, name: str, *command: str, environment: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
        """One child; its output goes to a file that a failing test shows."""
        with (self.folder / f"{name}.log").open("ab") as log:
            child = subprocess.Popen(
                [sys.executable, *command],
                cwd=ROOT,
                env=environment or self.environment(),
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=dies_with_parent(signal.SIGTERM),
            )
        self.children.append(child)
        self.names.append(name)
        return child

    def start_services(self) -> None:
        self.start(
            "web", "-m", "uvicorn", "portal.asgi:application", "--host", "127.0.0.1", "--port", str(self.port),
            "--lifespan", "off", "--log-level", "warning", "--timeout-graceful-shutdown", "2",
        )  # fmt: skip
        for name, queues, processes in WORKERS:
            self.start(
                f"worker-{name}", "-m", "celery", "-q", "-A", "portal.celery", "worker", "-Q", queues, "-c", processes,
                "-l", "warning", "--without-gossip", "--without-mingle", "-n", f"{name}@{self.port}",
            )  # fmt: skip
        self.start("beat", "-m", "celery", "-q", "-A", "portal.celery", "beat", "-l", "warning", "--pidfile=")
        eventually(self._answers, what="the web process answers")

    def _answers(self) -> bool:
        if self.children[0].poll() is not None:
            pytest.fail(f"the web process ended: {self.log('web')}")
        try:
            with urllib.request.urlopen(f"{self.url}/healthz", timeout=2) as answer:  # noqa: S310 - our own address
                return bool(answer.status == 200)
        except OSError:
            return False

    def log(self, name: str, last: int = 4_000) -> str:
        path = self.folder / f"{name}.log"
        return path.read_text(errors="replace")[-last:] if path.exists() else ""

    def stop(self) -> None:
        for child in reversed(self.children):
            if child.poll() is None:
                child.terminate()
        until = time.monotonic() + 10
        for child in self.children:
            try:
                child.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                for process in [*psutil.Process(child.pid).children(recursive=True)]:
                    process.kill()
                child.kill()
                child.wait(5)


@dataclass
class Agent:
    """A provider's machine: a real agent with its supervisors and jobs."""

    product: Product
    name: str
    folder: Path
    number: int
    node: Any = None
    process: subprocess.Popen[bytes] | None = None
    own_jobs: bool = True

    def restart(self) -> None:
        """The agent alone is killed and started again; supervisors and jobs live on."""
        assert self.process is not None
        assert not self.own_jobs
        self.process.kill()
        self.process.wait(10)
        self.up(own_jobs=False)

    @property
    def options(self) -> list[str]:
        return ["--state-dir", str(self.folder)]

    def environment(self) -> dict[str, str]:
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("IDLEWILD_", "DATABASE", "REDIS"))
        }
        return kept | {"IDLEWILD_VIRTUAL_CARDS": "2"}

    def enroll(self, token: str) -> None:
        subprocess.run(
            [sys.executable, "-m", "agent", "enroll", token, "--url", self.product.url, *self.options],
            cwd=ROOT, env=self.environment(), check=True, capture_output=True, timeout=60,
        )  # fmt: skip

    def up(self, *, own_jobs: bool = True) -> None:
        """Start the agent; `own_jobs`: its jobs end with it, as in `./dev up`."""
        self.own_jobs = own_jobs
        self.process = self.product.start(
            self.name, "-m", "agent", "up", *self.options, *(["--own-jobs"] if own_jobs else []), "--short-suite", "--cores", "0.5",
            "--slot-uid-base", str(20001 + 100 * self.number), environment=self.environment(),
        )  # fmt: skip

    def kill(self) -> int:
        """The node loses its power: agent, supervisors and jobs, all at once. Returns how many processes died."""
        assert self.process is not None
        tree = [psutil.Process(self.process.pid)]
        tree += tree[0].children(recursive=True)
        for process in tree:
            try:
                process.send_signal(signal.SIGSTOP)
            except psutil.NoSuchProcess:
                continue
        tree += [child for process in list(tree) if process.is_running() for child in process.children(recursive=True)]
        for process in {process.pid: process for process in tree}.values():
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        self.process.wait(10)
        return len(tree)


@pytest.fixture
def ground() -> Iterator[Path]:
    """Where the nodes stand; it outlives the product, whose end stops them."""
    with open_folder() as folder:
        yield folder


@pytest.fixture
def product(request: pytest.FixtureRequest, transactional_db: None, tmp_path: Path, ground: Path) -> Iterator[Product]:
    """All services, on this test's database and soft store."""
    running = Product(tmp_path, real_time=request.node.get_closest_marker("real_time") is not None)
    try:
        running.start_services()
        yield running
    except BaseException:
        for name in running.names:
            sys.stderr.write(f"--- {name}\n{running.log(name)}\n")
        raise
    finally:
        running.stop()


@pytest.fixture(autouse=True)
def _show_logs(request: pytest.FixtureRequest) -> Iterator[None]:
    """What the processes said, when a walk fails."""
    yield
    running = request.node.funcargs.get("product")
    if running is not None and request.session.testsfailed:
        for name in running.names:
            sys.stderr.write(f"--- {name}\n{running.log(name)}\n")


@pytest.fixture
def a_machine(product: Product, sol: Person, ground: Path) -> Callable[..., Agent]:
    """Make a real node of sol's: invited, enrolled, measured, listed, offered."""
    made: list[Agent] = []

    def make(name: str = "", *, region: str = "east", wait: bool = True, own_jobs: bool = True, **prices: str) -> Agent:
        number = len(made)
        label = name or f"machine-{number}"
        terms = {"prices": {"core": "0.10", "card": "2.00", **prices}}
        invited = an_invited(sol, region=region, name=label, terms=terms, now=_now())
        agent = Agent(product, f"agent-{label}", ground / label, number, invited.node)
        made.append(agent)
        agent.folder.mkdir(mode=0o711)
        agent.enroll(invited.token)
        agent.up(own_jobs=own_jobs)
        if wait:
            listed(agent)
        return agent

    return make


def listed(*agents: Agent) -> None:
    """Wait until these nodes are listed and take work."""
    from scheduling.models import NodeState

    def all_there() -> bool:
        ids = [agent.node.id for agent in agents]
        return NodeState.objects.filter(node_id__in=ids, node__state="listed", open=True).count() == len(agents)

    eventually(all_there, what="the nodes are listed")


def _now() -> Any:
    from portal import clock

    return clock.now()
