"""`manage.py up`: PostgreSQL, Valkey, migrations, web, workers, beat and the demo's agents, started in order, restarted when they fall, stopped in order.

Two threads. The *main* thread forks, waits and stops (a child's death signal belongs to the thread that forked it). The *story* thread walks through the
start: it asks the main thread for children and waits for what they do. Requests also come from outside through a socket (`portal.stack.control`).

    start   PostgreSQL → Valkey → migrate → web, until /healthz answers → workers, recovery, relay, beat → (demo: seed, enroll, agents, main job)
    stop    main job → agents → workers and beat → web → Valkey → PostgreSQL; 10 s each, then SIGKILL to its group
"""

import argparse
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from portal.stack import control, embedded, nodes, places
from portal.stack.children import LOG_BYTES, CannotStart, Child, describe_exit
from portal.stack.owner import AlreadyOwned, Owner
from portal.stack.story import Story

ROUND_S = 0.1
GRACE_S = 10.0
NAME_WIDTH = 13


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev up", description="Runs Idlewild: PostgreSQL, Valkey, web, workers, and the demo's four nodes."
    )
    parser.add_argument(
        "--port", type=int, default=int(os.environ.get("IDLEWILD_PORT", "8000")), help="port of the web (8000)"
    )
    parser.add_argument("--empty", action="store_true", help="no demo market and no local nodes")
    parser.add_argument(
        "--demo", action="store_true", help="the demo market and its main job, also on a database that is in use"
    )
    parser.add_argument(
        "--check", action="store_true", help="run the main job, then stop: exit code 0 if it finished, else 1"
    )
    parser.add_argument(
        "--public",
        metavar="URL",
        help="serve others too: bind all addresses and advertise URL, so that other machines can enroll",
    )
    return parser.parse_args(words)


class Supervisor:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.state = places.state_dir()
        self.log_dir = self.state / "log"
        self.children: list[Child] = []
        self.requests: queue.Queue[tuple[Callable[[], Any], threading.Event, list[Any]]] = queue.Queue()
        self.stopping = threading.Event()
        self.interrupts = 0
        self.exit_code = 0
        self.postgres: embedded.Postgres | None = None
        self.valkey: embedded.Valkey | None = None
        self.began = time.monotonic()
        self.print_lock = threading.Lock()
        self.nodes: list[nodes.LocalNode] = []
        self.next_rotation = time.monotonic() + 60
        self.services_due = 0.0
        self.host = "0.0.0.0" if options.public else os.environ.get("IDLEWILD_HOST", "127.0.0.1")  # noqa: S104  # asked for with --public
        self.local_url = f"http://127.0.0.1:{options.port}"
        self.stand_in = self._stand_in_wanted()
        self.url = (options.public or os.environ.get("IDLEWILD_BASE_URL") or self.local_url).rstrip("/")

    # --- words -----------------------------------------------------------------------------------------------------------------
    def say(self, name: str, line: str) -> None:
        with self.print_lock:
            sys.stdout.write(f"{name:<{NAME_WIDTH}}| {line}\n")
            sys.stdout.flush()

    def fail(self, text: str) -> None:
        """Print why, stop everything, exit 1."""
        for line in text.splitlines():
            self.say("system", line)
        self.exit_code = 1
        self.stopping.set()

    # --- the main thread ---------------------------------------------------------------------------------------------------------
    def run(self) -> int:
        self.state.mkdir(parents=True, exist_ok=True)
        if embedded.account().uid is not None:
            self.state.chmod(
                0o711
            )  # the database's account passes through, others see nothing: what is private inside is 0700 or 0600
        else:
            self.state.chmod(0o700)
        try:
            owner = Owner(self.state, about={"url": self.url})
        except AlreadyOwned as other:
            known = other.args[0]
            sys.stderr.write(
                f"already running, pid {known.get('pid', '?')}, {known.get('url', '')}: stop it with Ctrl-C there\n"
            )
            return 1
        try:
            return self._run_as_owner()
        except (CannotStart, embedded.StackError) as problem:
            sys.stderr.write(f"{problem}\n")
            return 1
        finally:
            self._stop_everything()
            owner.release()

    def _run_as_owner(self) -> int:
        self._port_must_be_free()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._interrupted)
        self._stop_left_overs()
        self._prepare_state()
        self._start_services()
        self.control = control.Server(places.control_socket(self.state), self._perform)
        threading.Thread(target=Story(self).tell, name="story", daemon=True).start()
        while not self.stopping.is_set():
            self._round()
            time.sleep(ROUND_S)
        self.control.close()
        return self.exit_code

    def _round(self) -> None:
        while True:
            try:
                do, done, answer = self.requests.get_nowait()
            except queue.Empty:
                break
            answer.append(do())
            done.set()
        for child in list(self.children):
            child.tend()
        self._tend_services()
        if time.monotonic() >= self.next_rotation:
            self.next_rotation = time.monotonic() + 60
            for log in (self.log_dir / "postgresql.log", self.log_dir / "valkey.log"):
                rotate_open_log(log)

    def _interrupted(self, number: int, _frame: object) -> None:
        self.interrupts += 1
        self.stopping.set()
        if self.interrupts == 2:
            for child in self.children:
                child.kill_group()

    def in_main(self, do: Callable[[], Any]) -> Any:
        """Run `do` in the main thread and return what it returns."""
        done = threading.Event()
        answer: list[Any] = []
        self.requests.put((do, done, answer))
        while not done.wait(0.2):
            if self.stopping.is_set():
                raise CannotStart("stopping")
        return answer[0]

    # --- before anything -------------------------------------------------------------------------------------------------------
    def _port_must_be_free(self) -> None:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((self.host, self.options.port))
            except OSError:
                raise CannotStart(
                    f"port {self.options.port} is used by another program: ./dev up --port {self.options.port + 1}"
                ) from None

    def _stop_left_overs(self) -> None:
        """Where the kernel sends no death signal, children of a killed `up` may live: those that match pid, start time and command are stopped."""
        try:
            known = json.loads((self.state / "children.json").read_text())
        except (FileNotFoundError, ValueError):
            return
        for row in known:
            try:
                process = psutil.Process(row["pid"])
                if abs(process.create_time() - row["created"]) < 1 and process.cmdline() == row["command"]:
                    process.terminate()
                    process.wait(5)
            except psutil.TimeoutExpired:
                process.kill()
            except (psutil.NoSuchProcess, psutil.AccessDenied, KeyError):
                continue
        (self.state / "children.json").unlink(missing_ok=True)

    def _note_children(self) -> None:
        rows = []
        for child in self.children:
            if child.process is not None and child.is_running():
                try:
                    process = psutil.Process(child.process.pid)
                    rows.append({"pid": process.pid, "created": process.create_time(), "command": process.cmdline()})
                except psutil.NoSuchProcess:
                    continue
        (self.state / "children.json").write_text(json.dumps(rows))

    def _prepare_state(self) -> None:
        for part in ("log", "media", "mail", "static", "get", "demo", "agents"):
            (self.state / part).mkdir(exist_ok=True)
        for part in ("media", "mail", "demo"):
            (self.state / part).chmod(0o700)
        for secret in ("secret.key", "vault.key"):
            places.kept_secret(self.state, secret)

    # --- PostgreSQL and Valkey ----------------------------------------------------------------------------------------------------
    def _start_services(self) -> None:
        told = []
        if not os.environ.get("DATABASE_URL"):
            began = time.monotonic()
            self.postgres = embedded.Postgres(
                self.state, socket_dir=places.postgres_socket_dir(self.state), log_dir=self.log_dir
            )
            if self.postgres.prepare():
                (self.state / "migrated").unlink(missing_ok=True)
            self.postgres.start()
            self.postgres.wait_ready()
            self.postgres.provide()
            told.append(f"PostgreSQL {self.postgres.version} ready {time.monotonic() - began:.1f} s")
        if not os.environ.get("REDIS_URL"):
            began = time.monotonic()
            self.valkey = embedded.Valkey(
                self.state, socket_path=places.valkey_socket(self.state), log_dir=self.log_dir
            )
            self.valkey.start()
            self.valkey.wait_ready()
            told.append(f"Valkey {self.valkey.version} ready {time.monotonic() - began:.1f} s")
        if told:
            self.say("system", " · ".join(told))

    def _tend_services(self) -> None:
        """A fallen server is started again at once (PostgreSQL waits until its orphaned backends have gone: another try each half second)."""
        if time.monotonic() < self.services_due:
            return
        for server in (self.postgres, self.valkey):
            if server is not None and server.process is not None and server.process.poll() is not None:
                self.say(
                    "system",
                    f"{type(server).__name__} ended with {describe_exit(server.process.returncode)}; starting it again",
                )
                self.services_due = time.monotonic() + 0.5
                server.start()

    # --- children ---------------------------------------------------------------------------------------------------------------
    def environment(self, **more: str) -> dict[str, str]:
        """What our processes get: addresses as the options say, no pool unless asked for."""
        port = str(self.options.port)
        given = {name: value for name, value in os.environ.items() if name not in {"IDLEWILD_DB_POOL"}}
        given |= {
            "IDLEWILD_STATE_DIR": str(self.state), "IDLEWILD_PORT": port, "IDLEWILD_BASE_URL": self.url, "IDLEWILD_DB_POOL": "0",
            "PYTHONUNBUFFERED": "1", control.ENVIRONMENT: str(places.control_socket(self.state)),
        }  # fmt: skip
        if self.stand_in:  # a payment service that moves no money, plainly labelled on every page that leads there
            given |= {
                "STRIPE_SECRET_KEY": "sk_test_twin", "STRIPE_WEBHOOK_SECRET": "whsec_twin",
                "IDLEWILD_STRIPE_API_BASE": f"http://127.0.0.1:{self.options.port + 1}",
            }  # fmt: skip
        if self.options.public:
            host = self.options.public.split("://")[-1].split("/")[0].rsplit(":", 1)[0]
            given["IDLEWILD_ALLOWED_HOSTS"] = ",".join(
                filter(None, [os.environ.get("IDLEWILD_ALLOWED_HOSTS", ""), host])
            )
        return given | more

    def _stand_in_wanted(self) -> bool:
        """Only where nobody from outside pays, no key of a real service is set, and the folder of stand-ins is there."""
        asked = os.environ.get("IDLEWILD_STRIPE_STAND_IN", "1") not in {"0", "no", "off"}
        there = (places.ROOT / "tests" / "fakes" / "stripe_twin").is_dir()
        return asked and there and not self.options.public and not os.environ.get("STRIPE_SECRET_KEY")

    def child(
        self,
        name: str,
        command: Sequence[str],
        *,
        once: bool = False,
        quiet: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> Child:
        made = Child(
            name,
            command,
            environment=self.environment(**(environment or {})),
            log_dir=self.log_dir,
            say=self.say,
            folder=places.ROOT,
            once=once,
            quiet=quiet,
        )

        def add() -> None:
            self.children = [child for child in self.children if child.name != name]
            self.children.append(made)
            made.want()
            made.tend()
            self._note_children()

        self.in_main(add)
        return made

    def python(self, *words: str) -> list[str]:
        return [sys.executable, *words]

    def once(self, name: str, command: Sequence[str], *, quiet: bool = False, limit_s: float = 600.0) -> int:
        """Run a job to its end; its exit code."""
        job = self.child(name, command, once=True, quiet=quiet)
        until = time.monotonic() + limit_s
        while not job.ended.wait(0.1):
            if self.stopping.is_set():
                raise CannotStart("stopping")
            if time.monotonic() > until:
                self.in_main(job.kill_group)
                return 124
        return job.exit_code if job.exit_code is not None else 1

    # --- requests from outside --------------------------------------------------------------------------------------------------
    def _perform(self, request: dict[str, Any]) -> dict[str, Any]:
        what = request["do"]
        if what == "status":
            return self._status()
        node = next((node for node in self.nodes if node.name == request["name"]), None)
        child = next((child for child in self.children if child.name == request["name"]), None)
        if node is None or child is None:
            raise ValueError(
                f"there is no node {request['name']!r}; there are: {', '.join(node.name for node in self.nodes) or 'none'}"
            )
        if what == "hold_down":
            pid = child.process.pid if child.process else None
            self.in_main(lambda: setattr(child, "wanted", False))
            killed = nodes.kill_node(node, pid)
            self.say("system", f"{node.name} killed ({len(killed)} processes) and held down on purpose")
            return {"killed": killed}
        if what == "bring_back":
            self.in_main(child.want)
            self.say("system", f"{node.name} may start again")
            return {}
        raise ValueError(f"{what!r} is not a request; there are: status, hold_down, bring_back")

    def _status(self) -> dict[str, Any]:
        rows = {
            child.name: {
                "pid": child.process.pid if child.process else None,
                "running": child.is_running(),
                "wanted": child.wanted,
            }
            for child in self.children
            if not child.once
        }
        for name, server in (("postgresql", self.postgres), ("valkey", self.valkey)):
            if server is not None and server.process is not None:
                rows[name] = {"pid": server.process.pid, "running": server.process.poll() is None, "wanted": True}
        places_of = {node.name: {"folder": str(node.folder), "label": node.label} for node in self.nodes}
        return {"pid": os.getpid(), "url": self.url, "children": rows, "nodes": places_of}

    # --- the end ------------------------------------------------------------------------------------------------------------------
    def _stop_everything(self) -> None:
        jobs = [child for child in self.children if child.once]
        agents = [child for child in self.children if child.name.startswith("agent-")]
        web = [child for child in self.children if child.name == "web"]
        rest = [child for child in self.children if child not in jobs + agents + web]
        for group in (jobs, agents, rest, web):
            self._stop_group(group)
        for server in (self.valkey, self.postgres):
            if server is not None:
                server.stop()
        (self.state / "children.json").unlink(missing_ok=True)

    def _stop_group(self, group: list[Child]) -> None:
        for child in group:
            child.ask_to_stop()
        until = time.monotonic() + GRACE_S
        while any(child.is_running() for child in group) and time.monotonic() < until and self.interrupts < 2:
            time.sleep(0.02)
        for child in group:
            if child.is_running():
                self.say("system", f"{child.name} did not stop by itself: killed")
                child.kill_group()
            if child.process is not None:
                try:
                    child.process.wait(5)
                except subprocess.TimeoutExpired:
                    continue


# --- small helps --------------------------------------------------------------------------------------------------------------
def rotate_open_log(path: Path) -> None:
    """A server keeps its log open (appending): keep a copy, then empty it."""
    try:
        if path.stat().st_size > LOG_BYTES:
            older, old = path.with_suffix(".log.2"), path.with_suffix(".log.1")
            if old.exists():
                old.replace(older)
            old.write_bytes(path.read_bytes())
            os.truncate(path, 0)
    except OSError:
        return


def main(words: Sequence[str]) -> int:
    """Runs until Ctrl-C, SIGTERM, or the end of --check."""
    options = arguments(words)
    if os.environ.get("IDLEWILD_PROFILE", "embedded") == "production":
        sys.stderr.write(
            "manage.py up is for the embedded profile; production runs each part as a unit of its own: docs/operate/production.md\n"
        )
        return 1
    return Supervisor(options).run()
