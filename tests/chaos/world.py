"""A whole market as processes, each of which may be killed: PostgreSQL, Valkey, two webs, workers, two beats, agents with supervisors and jobs.

Children are started from the main thread alone (their death signal belongs to the thread that forked them) and started again by `tend`, as a service manager
would. Nothing but what was started here is ever signalled. The lease table is the tests' scaled one, or the real one.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from portal.stack import embedded
from portal.stack.embedded import dies_with_parent
from tests.chaos.relay import Relay
from tests.portal.stack.running import free_port
from tests.sources import ROOT

START_S = 240.0  # beside other work
WEBS, BEATS = 2, 2
WORKERS = {
    "worker-cycle-1": "cycle",
    "worker-cycle-2": "cycle",
    "worker-recovery": "recovery",
    "worker-relay": "relay,billing,webhooks",
}
PLACES = (("east", "a"), ("east", "b"), ("west", "a"), ("west", "a"))


@dataclass
class Service:
    """A child that is wanted; `down_until`: held down on purpose until then (monotonic)."""

    name: str
    command: list[str]
    environment: dict[str, str]
    log: Path
    process: subprocess.Popen[bytes] | None = None
    down_until: float = 0.0
    starts: int = 0

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process is not None and self.process.poll() is None else None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command, cwd=ROOT, env=self.environment, stdout=log, stderr=subprocess.STDOUT,
                preexec_fn=dies_with_parent(signal.SIGTERM),
            )  # fmt: skip
        self.starts += 1

    def tend(self) -> None:
        if self.pid is None and time.monotonic() >= self.down_until:
            self.start()


@dataclass
class Machine:
    """A provider's node: the agent is a service; supervisors and jobs are found by the node's own folder."""

    name: str
    region: str
    zone: str
    folder: Path
    service: Service
    relay: Relay
    node: Any
    frozen: list[psutil.Process] = field(default_factory=list)
    network: str = ""  # the name of its link, where it stands in a network namespace of its own

    def supervisors(self) -> list[psutil.Process]:
        """The agent's per-attempt supervisors, also those of an agent that was killed."""
        mark, found = str(self.folder), []
        for process in psutil.process_iter(["pid", "cmdline"]):
            words = process.info["cmdline"] or []
            if (
                process.info["pid"] != self.service.pid
                and "agent.supervisor" in " ".join(words)
                and mark in " ".join(words)
            ):
                found.append(process)
        return found

    def tree(self) -> list[psutil.Process]:
        """Every process of the node: agent, supervisors, sandboxes, jobs."""
        roots = self.supervisors()
        if self.service.pid is not None:
            with contextlib.suppress(psutil.NoSuchProcess):
                roots.insert(0, psutil.Process(self.service.pid))
        known: dict[int, psutil.Process] = {}
        for root in roots:
            with contextlib.suppress(psutil.NoSuchProcess):
                for process in [root, *root.children(recursive=True)]:
                    known[process.pid] = process
        return list(known.values())


class World:
    """Start, tend, stop. `with World(…) as world`."""

    def __init__(self, *, real_time: bool = False, machines: int = 4, namespaces: bool = False) -> None:
        self.real_time, self.count, self.namespaces = real_time, machines, namespaces
        self.folder = Path(tempfile.mkdtemp(prefix="idlewild-chaos-"))
        self.folder.chmod(0o711)
        self.services: dict[str, Service] = {}
        self.machines: list[Machine] = []
        self.ports: dict[str, int] = {}
        self.postgres = embedded.Postgres(self.folder, socket_dir=self.folder / "pg", log_dir=self.folder / "log")
        self.valkey = embedded.Valkey(
            self.folder, socket_path=self.folder / "valkey" / "s", log_dir=self.folder / "log"
        )
        self.server_down_until = {"postgres": 0.0, "valkey": 0.0}
        self.person: Any = None

    # --- start and stop -----------------------------------------------------------------------------------------------------
    def __enter__(self) -> "World":
        try:
            self._start_servers()
            self._start_services()
            self._start_machines()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        for machine in self.machines:
            for process in [*machine.tree(), *machine.frozen]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            machine.relay.stop()
            if machine.network:
                _ip("netns", "del", machine.network)
        running = [service.process for service in self.services.values() if service.pid is not None and service.process]
        for process in running:
            process.send_signal(signal.SIGCONT)
            process.terminate()
        until = time.monotonic() + 10
        for process in running:
            try:
                process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                for child in [*psutil.Process(process.pid).children(recursive=True)]:
                    child.kill()
                process.kill()
                process.wait(5)
        self.valkey.stop()
        self.postgres.stop()
        if not any(error):  # kept for a look when something went wrong
            shutil.rmtree(self.folder, ignore_errors=True)

    def _start_servers(self) -> None:
        self.valkey.start()
        self.postgres.prepare()
        self.postgres.start()
        self.postgres.wait_ready()
        self.valkey.wait_ready()
        self.postgres.provide()
        server = f"host={self.folder / 'pg'} dbname={embedded.DATABASE}"
        os.environ |= {
            "IDLEWILD_PROFILE": "test", "DJANGO_SETTINGS_MODULE": "portal.settings", "IDLEWILD_STATE_DIR": str(self.folder),
            "IDLEWILD_SECRET_KEY": "only for tests, and long enough for every use of it",
            "IDLEWILD_VAULT_KEYS": "t1:only-for-tests-only-for-tests-only-for-tests",
            "DATABASE_URL": f"{server} user={embedded.APP}", "IDLEWILD_MIGRATE_DATABASE_URL": f"{server} user={embedded.OWNER}",
            "REDIS_URL": self.valkey.url(), "PYTHONWARNINGS": "ignore",
        }  # fmt: skip
        for name in range(1, WEBS + 1):
            self.ports[f"web-{name}"] = free_port()
        os.environ["IDLEWILD_BASE_URL"] = f"http://127.0.0.1:{self.ports['web-1']}"
        subprocess.run([sys.executable, "manage.py", "migrate", "--verbosity=0"], cwd=ROOT, check=True)
        import django

        django.setup()
        if self.real_time:
            from portal.settings import LEASE_CLASSES_REAL

            os.environ["IDLEWILD_LEASE_CLASSES"] = json.dumps(
                {name: row | {"usage_ms": 5_000} for name, row in LEASE_CLASSES_REAL.items()}
            )

    def _service(self, name: str, *words: str, environment: dict[str, str] | None = None) -> Service:
        service = Service(name, [sys.executable, *words], environment or {**os.environ}, self.folder / f"{name}.log")
        self.services[name] = service
        service.start()
        return service

    def _start_services(self) -> None:
        for name, port in self.ports.items():
            self._service(
                name, "-m", "uvicorn", "portal.asgi:application", "--host", "127.0.0.1", "--port", str(port),
                "--lifespan", "off", "--log-level", "warning", "--timeout-graceful-shutdown", "2",
            )  # fmt: skip
        for name, queues in WORKERS.items():
            self._service(
                name, "-m", "celery", "-q", "-A", "portal.celery", "worker", "-Q", queues, "-c", "1", "-l", "warning",
                "--without-gossip", "--without-mingle", "-n", f"{name}@{self.ports['web-1']}",
            )  # fmt: skip
        for n in range(1, BEATS + 1):
            self._service(
                f"beat-{n}", "-m", "celery", "-q", "-A", "portal.celery", "beat", "-l", "warning", "--pidfile="
            )
        self.wait(lambda: all(answers(port) for port in self.ports.values()), START_S, "the web processes answer")

    def _start_machines(self) -> None:
        from portal import clock
        from tests.cast import a_newcomer
        from tests.factories.market import an_invited

        self.person = a_newcomer("ada@example.org", "Moss Lab")
        provider = a_newcomer("sol@example.org", "Sol Power")
        for n in range(self.count):
            region, zone = PLACES[n % len(PLACES)]
            name = f"machine-{n}"
            invited = an_invited(
                provider,
                region=region,
                zone=zone,
                name=name,
                terms={"prices": {"core": "0.10", "card": "2.00"}},
                now=clock.now(),
            )
            self.machines.append(self._machine(n, name, region, zone, invited))
        self.wait(self._listed, START_S, "the nodes are listed")

    def _machine(self, n: int, name: str, region: str, zone: str, invited: Any) -> Machine:
        folder = self.folder / name
        folder.mkdir(mode=0o711)
        network, before, host = (f"iwchaos{os.getpid() % 10_000}-{n}"[:15], [], "127.0.0.1")
        if self.namespaces:
            host, before = _namespace(network, n)
        relay = Relay(lambda: [("127.0.0.1", port) for port in self.ports.values()], host)
        url = f"http://{host}:{relay.port}"
        environment = {
            word: value for word, value in os.environ.items() if not word.startswith(("IDLEWILD_", "DATABASE", "REDIS", "DJANGO"))
        } | {"IDLEWILD_VIRTUAL_CARDS": "2"}  # fmt: skip
        subprocess.run(
            [*before, sys.executable, "-m", "agent", "enroll", invited.token, "--url", url, "--state-dir", str(folder)],
            cwd=ROOT, env=environment, check=True, capture_output=True, timeout=60,
        )  # fmt: skip
        up = [
            "agent",
            "up",
            "--state-dir",
            str(folder),
            "--short-suite",
            "--cores",
            "0.5",
            "--slot-uid-base",
            str(20001 + 100 * n),
        ]
        service = Service(name, [*before, sys.executable, "-m", *up], environment, self.folder / f"{name}.log")
        service.start()
        self.services[name] = service
        return Machine(
            name, region, zone, folder, service, relay, invited.node, network=network if self.namespaces else ""
        )

    def _listed(self) -> bool:
        from scheduling.models import NodeState

        return NodeState.objects.filter(node__state="listed", open=True).count() == len(self.machines)

    # --- while it runs ------------------------------------------------------------------------------------------------------
    def tend(self) -> None:
        """Start again what has fallen and is not held down."""
        for service in self.services.values():
            service.tend()
        for name in ("postgres", "valkey"):
            server = getattr(self, name)
            if (
                server.process is not None
                and server.process.poll() is not None
                and time.monotonic() >= self.server_down_until[name]
            ):
                self.server_down_until[name] = time.monotonic() + 0.5  # orphaned backends may need another try
                server.start()

    def wait(self, look: Callable[[], Any], seconds: float, what: str | Callable[[], object]) -> Any:
        """The first true answer of `look`, tending meanwhile; a database that is away is no answer."""
        from django.db import DatabaseError, close_old_connections, connection

        until = time.monotonic() + seconds
        while True:
            try:
                if found := look():
                    return found
            except DatabaseError:
                connection.close()
            if time.monotonic() > until:
                raise AssertionError(f"not within {seconds:.0f} s: {what() if callable(what) else what}")
            self.tend()
            close_old_connections()
            time.sleep(0.1)

    def logs(self) -> Iterator[tuple[str, str]]:
        for path in sorted(self.folder.glob("*.log")):
            yield path.stem, path.read_text(errors="replace")[-2_000:]


def answers(port: int) -> bool:
    import urllib.request

    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def _namespace(name: str, n: int) -> tuple[str, list[str]]:
    """A network namespace with one link to us: our end's address, and how to start a program in it. Needs root."""
    ours, theirs = f"10.213.{n}.1", f"10.213.{n}.2"
    _ip("netns", "add", name)
    _ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
    _ip("addr", "add", f"{ours}/30", "dev", name)
    _ip("link", "set", name, "up")
    for words in (
        ["addr", "add", f"{theirs}/30", "dev", "eth0"],
        ["link", "set", "eth0", "up"],
        ["link", "set", "lo", "up"],
    ):
        _ip("-n", name, *words)
    return ours, ["ip", "netns", "exec", name]
