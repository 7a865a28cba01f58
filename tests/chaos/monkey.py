"""What may happen to a market, drawn by a seed: kills, freezes, cuts, restarts; of nodes, of services, of servers.

A deed happens at once and names what must be undone later (thaw, heal, let start again); `Monkey.round` does both. At most so many at a time, so that the
market still has a chance; each is on record with its time, for the judge and the table of take-over times.
"""

import contextlib
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import psutil

from tests.chaos.world import Machine, Service, World, _ip

MOST_NODES_DOWN = 2


@dataclass(frozen=True)
class Done:
    """One deed: `at` in wall seconds, `attempts` = what ran on a node that died for longer than its leases live."""

    name: str
    target: str
    at: float
    attempts: tuple[str, ...] = ()


@dataclass
class Monkey:
    world: World
    seed: int
    scale_s: float  # how long things stay broken: the lease's time to live
    done: list[Done] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.undo: list[tuple[float, str, Callable[[], None]]] = []
        self.deeds: dict[str, tuple[int, Callable[[], str | None]]] = {
            "agent killed": (10, self.agent_killed),
            "supervisor killed": (8, self.supervisor_killed),
            "node killed": (8, self.node_killed),
            "zone killed": (1, self.zone_killed),
            "agent frozen": (6, self.agent_frozen),
            "node frozen": (5, self.node_frozen),
            "supervisor frozen": (4, self.supervisor_frozen),
            "link cut": (6, self.link_cut),
            "link cut one way": (4, self.link_cut_one_way),
            "link flaps": (4, self.link_flaps),
            "link slow": (3, self.link_slow),
            "connections dropped": (4, self.connections_dropped),
            "web killed": (5, self.web_killed),
            "web frozen": (2, self.web_frozen),
            "worker killed": (8, self.worker_killed),
            "beat killed": (4, self.beat_killed),
            "Valkey killed": (2, self.valkey_killed),
            "Valkey emptied": (3, self.valkey_emptied),
            "PostgreSQL killed": (2, self.postgres_killed),
            "PostgreSQL restarted": (2, self.postgres_restarted),
        }

    def round(self) -> None:
        """Undo what is due, start again what has fallen, do one more deed."""
        self.mend()
        names = [*self.deeds]
        name = self.chance.choices(names, [self.deeds[n][0] for n in names])[0]
        self.struck: tuple[str, ...] = ()
        at = time.time()
        target = self.deeds[name][1]()
        if target is not None:
            self.done.append(Done(name, target, at, self.struck))

    def mend(self, *, all_of_it: bool = False) -> None:
        for due in sorted(self.undo, key=lambda entry: entry[0]):
            if all_of_it or due[0] <= time.monotonic():
                self.undo.remove(due)
                due[2]()
        if all_of_it:
            for service in self.world.services.values():
                service.down_until = 0.0
        self.world.tend()

    def later(self, seconds: float, key: str, do: Callable[[], None]) -> None:
        self.undo.append((time.monotonic() + seconds, key, do))

    def a_while(self, least: float = 0.1, most: float = 2.0) -> float:
        """From a blink to beyond the lease."""
        return self.scale_s * self.chance.uniform(least, most)

    # --- nodes --------------------------------------------------------------------------------------------------------------
    def _well(self) -> list[Machine]:
        """Nodes to which nothing happens now."""
        taken = {key for _, key, _ in self.undo}
        return [
            machine for machine in self.world.machines if machine.name not in taken and machine.service.pid is not None
        ]

    def _a_node(self) -> Machine | None:
        well = self._well()
        return self.chance.choice(well) if len(well) > len(self.world.machines) - MOST_NODES_DOWN else None

    def agent_killed(self) -> str | None:
        machine = self._a_node()
        if machine is None:
            return None
        _signal(machine.service, self.chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM]))
        self._hold(machine.service, self.a_while(0.0, 0.6))
        return machine.name

    def _a_supervisor(self) -> tuple[Machine, psutil.Process] | None:
        machine = self._a_node()
        there = machine.supervisors() if machine is not None else []
        return (machine, self.chance.choice(there)) if machine is not None and there else None

    def supervisor_killed(self) -> str | None:
        found = self._a_supervisor()
        if found is None:
            return None
        with contextlib.suppress(psutil.NoSuchProcess):
            found[1].kill()
        return found[0].name

    def supervisor_frozen(self) -> str | None:
        found = self._a_supervisor()
        return self._freeze(found[0], [found[1]]) if found else None

    def node_killed(self) -> str | None:
        machine = self._a_node()
        return self._kill(machine, self.a_while(0.3, 3.0)) if machine else None

    def zone_killed(self) -> str | None:
        region = self.chance.choice(["east", "west"])
        there = [machine for machine in self.world.machines if machine.region == region]
        if not all(machine in self._well() for machine in self.world.machines):
            return None
        away = self.a_while(1.5, 3.0)
        for machine in there:
            self._kill(machine, away)
        return region

    def _kill(self, machine: Machine, away: float) -> str:
        if away > 1.5 * self.scale_s:
            self.struck += running_on(machine)
        tree = machine.tree()
        _each(tree, signal.SIGSTOP)  # as one: nobody sees the others die
        _each([*tree, *machine.tree()], signal.SIGKILL)
        self._hold(machine.service, away)
        return machine.name

    def _hold(self, service: Service, seconds: float) -> None:
        service.down_until = time.monotonic() + seconds
        if service.name.startswith("machine"):
            self.later(seconds, service.name, lambda: None)

    def agent_frozen(self) -> str | None:
        machine = self._a_node()
        if machine is None or machine.service.pid is None:
            return None
        return self._freeze(machine, [psutil.Process(machine.service.pid)])

    def node_frozen(self) -> str | None:
        machine = self._a_node()
        return self._freeze(machine, machine.tree()) if machine else None

    def _freeze(self, machine: Machine, processes: list[psutil.Process]) -> str:
        _each(processes, signal.SIGSTOP)
        machine.frozen = processes

        def thaw() -> None:
            _each(processes, signal.SIGCONT)
            machine.frozen = []

        self.later(self.a_while(), machine.name, thaw)
        return machine.name

    # --- links --------------------------------------------------------------------------------------------------------------
    def link_cut(self) -> str | None:
        machine = self._a_node()
        return self._cut(machine, self.a_while()) if machine else None

    def _cut(self, machine: Machine, seconds: float) -> str:
        if machine.network:
            _ip("link", "set", machine.network, "down")
            self.later(seconds, machine.name, lambda: _ip("link", "set", machine.network, "up"))
        else:
            machine.relay.cut()
            self.later(seconds, machine.name, machine.relay.heal)
        return machine.name

    def link_cut_one_way(self) -> str | None:
        machine = self._a_node()
        if machine is None:
            return None
        up = self.chance.random() < 0.5
        machine.relay.cut(up=up, down=not up)
        self.later(self.a_while(), machine.name, machine.relay.heal)
        return machine.name

    def link_flaps(self) -> str | None:
        machine = self._a_node()
        if machine is None:
            return None
        for n in range(4):
            self.later(n * 0.2 * self.scale_s, machine.name, machine.relay.cut)
            self.later((n * 0.2 + 0.1) * self.scale_s, machine.name, machine.relay.heal)
        return machine.name

    def link_slow(self) -> str | None:
        machine = self._a_node()
        if machine is None:
            return None
        machine.relay.delay_s = 0.05 * self.scale_s
        self.later(self.a_while(), machine.name, machine.relay.heal)
        return machine.name

    def connections_dropped(self) -> str | None:
        machine = self._a_node()
        if machine is None:
            return None
        machine.relay.drop()
        return machine.name

    # --- the platform -------------------------------------------------------------------------------------------------------
    def _a_service(self, kind: str) -> Service | None:
        there = [service for name, service in self.world.services.items() if name.startswith(kind)]
        return self.chance.choice(there) if all(service.pid is not None for service in there) else None

    def _service_killed(self, kind: str) -> str | None:
        service = self._a_service(kind)
        if service is None:
            return None
        _kill_family(service)
        self._hold(service, self.a_while(0.0, 0.5))
        return service.name

    def web_killed(self) -> str | None:
        return self._service_killed("web")

    def worker_killed(self) -> str | None:
        return self._service_killed("worker")

    def beat_killed(self) -> str | None:
        return self._service_killed("beat")

    def web_frozen(self) -> str | None:
        service = self._a_service("web")
        if service is None or any(key == "web" for _, key, _ in self.undo):
            return None
        process = service.process
        _signal(service, signal.SIGSTOP)
        self.later(
            self.a_while(0.1, 1.0),
            "web",
            lambda: process.send_signal(signal.SIGCONT) if process and process.poll() is None else None,
        )
        return service.name

    def valkey_killed(self) -> str | None:
        return self._server_killed("valkey", signal.SIGKILL)

    def valkey_emptied(self) -> str | None:
        if self.world.valkey.process is None or self.world.valkey.process.poll() is not None:
            return None
        self.world.valkey._say(b"FLUSHALL\r\n")
        return "valkey"

    def postgres_killed(self) -> str | None:
        return self._server_killed("postgres", signal.SIGQUIT)  # its immediate stop: recovery at the next start

    def postgres_restarted(self) -> str | None:
        return self._server_killed("postgres", signal.SIGINT)

    def _server_killed(self, name: str, number: int) -> str | None:
        process = getattr(self.world, name).process
        if process is None or process.poll() is not None:
            return None
        process.send_signal(number)
        self.world.server_down_until[name] = time.monotonic() + self.a_while(0.1, 0.6)
        return name


def running_on(machine: Machine) -> tuple[str, ...]:
    """Attempts that run there; none is known while the database is away."""
    from django.db import DatabaseError, connection

    from scheduling.models import Attempt

    try:
        return tuple(
            Attempt.objects.filter(node_id=machine.node.id, state="running").values_list("public_id", flat=True)
        )
    except DatabaseError:
        connection.close()
        return ()


def _signal(service: Service, number: int) -> None:
    if service.process is not None and service.process.poll() is None:
        service.process.send_signal(number)


def _kill_family(service: Service) -> None:
    """A service and its own children at once (Celery's pool)."""
    if service.pid is None:
        return
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(service.pid)
        _each([process, *process.children(recursive=True)], signal.SIGKILL)


def _each(processes: list[psutil.Process], number: int) -> None:
    for process in {process.pid: process for process in processes}.values():
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)
