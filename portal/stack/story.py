"""The start of `up`, told step by step in a thread of its own: migrations, web, workers, and the demo.

It forks nothing itself: it asks the supervisor's main thread for children (`portal.stack.supervisor`) and waits for what they do.

    migrate → web, until /healthz answers → workers, recovery, relay, beat → where it is → (demo: seed, enroll, agents, main job)
"""

import hashlib
import os
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

from portal.stack import embedded, nodes, places
from portal.stack.children import CannotStart, describe_exit

if TYPE_CHECKING:
    from portal.stack.supervisor import Supervisor

WEB_READY_S = 60.0
WEB_FALLS = 3
AGENTS_READY_S = 240.0
SIGN_INS = (("tenant", "owner@example.org"), ("provider", "provider@example.org"), ("operator", "operator@example.org"))
ISOLATION = {
    "full": "full (sandbox and control groups)",
    "bwrap": "bwrap (sandbox without control groups: limits are not exclusive; every page says so)",
    "none": "none (this kernel refuses sandboxes: jobs run unprotected, only for this demo; every page says so)",
}


class Story:
    """What `up` does after its servers run."""

    def __init__(self, up: "Supervisor") -> None:
        self.up = up

    def tell(self) -> None:
        try:
            self._migrate()
            self._start_web()
            self._start_workers()
            self._start_stand_in()
            self._say_where()
            self._demo()
        except CannotStart as problem:
            if not self.up.stopping.is_set():
                self.up.fail(str(problem))
        except Exception as problem:  # whatever it is, `up` must not hang half started
            self.up.fail(f"the start failed: {type(problem).__name__}: {problem}")

    def _migrate(self) -> None:
        mark, sum_file = migrations_sum(), self.up.state / "migrated"
        if self.up.postgres is not None and sum_file.exists() and sum_file.read_text() == mark:
            return
        began = time.monotonic()
        if self.up.once("migrate", self.up.python("manage.py", "migrate", "--verbosity=0"), quiet=True) != 0:
            raise CannotStart(self._with_log("the migrations failed", "migrate"))
        sum_file.write_text(mark)
        if not self.up.options.empty and not (self.up.state / "demo" / "nodes.json").exists():
            (self.up.state / "demo" / "wanted").touch()
        self.up.say("system", f"migrated {time.monotonic() - began:.1f} s")

    def _with_log(self, what: str, name: str) -> str:
        path = self.up.log_dir / f"{name}.log"
        return f"{what}\n{embedded.log_tail(path)}\n({path})"

    def _start_web(self) -> None:
        began = time.monotonic()
        command = self.up.python(
            # WhiteNoise and downloads stream by plain iterators; Django would say so at each.
            "-W", "ignore:StreamingHttpResponse must consume", "-m", "uvicorn", "portal.asgi:application",
            "--host", self.up.host, "--port", str(self.up.options.port), "--lifespan", "off", "--log-level", "warning", "--no-access-log",
            "--timeout-graceful-shutdown", "5",
        )  # fmt: skip
        web = self.up.child("web", command, environment={"IDLEWILD_DB_POOL": "1"})
        until = time.monotonic() + WEB_READY_S
        while not is_healthy(self.up.local_url):
            if self.up.stopping.is_set():
                raise CannotStart("stopping")
            if web.fails >= WEB_FALLS or time.monotonic() > until:
                raise CannotStart(self._with_log("the web did not get ready", "web"))
            time.sleep(0.1)
        self.up.say(
            "system",
            f"web ready {time.monotonic() - began:.1f} s ({time.monotonic() - self.up.began:.1f} s after the start)",
        )

    def _start_workers(self) -> None:
        worker = (
            "-W",
            "ignore",
            "-m",
            "celery",
            "-q",
            "-A",
            "portal.celery",
            "worker",
            "-l",
            "warning",
            "--without-gossip",
            "--without-mingle",
        )
        for name, queues, processes in (
            ("worker-cycle", "cycle", ("-c", "2")),
            ("recovery", "recovery", ("-c", "1")),
            ("worker-relay", "relay,billing", ("-c", "1")),
            ("worker-webhooks", "webhooks", ("-P", "solo")),
        ):
            self.up.child(name, self.up.python(*worker, "-Q", queues, *processes, "-n", f"{name}@%h"))
        self.up.child(
            "beat",
            self.up.python(
                "-W", "ignore", "-m", "celery", "-q", "-A", "portal.celery", "beat", "-l", "warning", "--pidfile="
            ),
        )

    def _start_stand_in(self) -> None:
        """The labelled stand-in for the payment service, so that a visitor can press "pay"."""
        if self.up.stand_in:
            command = self.up.python(
                "-m", "tests.fakes.stripe_twin", "--port", str(self.up.options.port + 1),
                "--hook", f"{self.up.local_url}/hooks/stripe", "--state", str(self.up.state / "demo" / "payments.json"),
            )  # fmt: skip
            self.up.child("payments", command)

    def _say_where(self) -> None:
        password = self.up.state / "demo-password"
        sign_in = f"   sign in: {SIGN_INS[0][1]}, password in {password}" if password.exists() else ""
        self.up.say("system", f"Idlewild: {self.up.url}{sign_in}   (Ctrl-C stops everything)")
        self.up.say(
            "system",
            f"data: {self.up.state} ({megabytes(self.up.state)} MB)   mail: {self.up.state / 'mail'}   start over: ./dev reset",
        )
        if self.up.options.public and not self.up.url.startswith("https://"):
            self.up.say(
                "system",
                "WARNING: without TLS everyone on the way can read passwords and secrets: put a proxy with a certificate in front",
            )
        if not (places.ROOT / "frontend" / "dist" / "manifest.json").exists():
            self.up.say(
                "system",
                "the pages' bundle is not built (no Node?): pages work, but look plain and do not update by themselves",
            )

    # --- the demo -----------------------------------------------------------------------------------------------------------------
    def _demo(self) -> None:
        demo = self.up.state / "demo"
        wanted, ran = demo / "wanted", demo / "ran"
        if self.up.options.demo or (self.up.options.check and not (demo / "nodes.json").exists()):
            wanted.touch()
        if self.up.options.empty:
            return
        if wanted.exists() and not (demo / "nodes.json").exists():
            began = time.monotonic()
            if self.up.once("demo", self.up.python("manage.py", "demo_seed")) != 0:
                raise CannotStart(self._with_log("the demo market could not be filled", "demo"))
            self.up.say("system", f"demo market filled {time.monotonic() - began:.1f} s")
        self.up.nodes = nodes.local_nodes(self.up.state)
        self._start_agents()
        for role, address in SIGN_INS if self.up.nodes else ():
            self.up.say("system", f"sign in as {role}: {address}, password in {self.up.state / 'demo-password'}")
        if self.up.options.check or (wanted.exists() and (self.up.options.demo or not ran.exists())):
            ran.touch()
            wanted.unlink(missing_ok=True)
            code = self.up.once("demo", self.up.python("-m", "portal.demo.main_job"), limit_s=900)
            if code == 0:
                self.up.say("system", f"main job finished ({time.monotonic() - self.up.began:.0f} s after the start)")
            else:
                self.up.say(
                    "system",
                    f"the main job did not finish ({describe_exit(code)}); its log: {self.up.log_dir / 'demo.log'}",
                )
            if self.up.options.check:
                self.up.exit_code = 0 if code == 0 else 1
                self.up.stopping.set()

    def _start_agents(self) -> None:
        began = time.monotonic()
        for node in self.up.nodes:
            node.folder.mkdir(parents=True, exist_ok=True)
            node.folder.chmod(0o711)  # slot users pass through to their job's folder
            if not node.is_enrolled and self.up.once(node.name, node.enroll_command(self.up.local_url)) != 0:
                raise CannotStart(self._with_log(f"{node.name} could not enroll", node.name))
            node.follow(self.up.local_url)
            cards = os.environ.get("IDLEWILD_VIRTUAL_CARDS", "2")
            self.up.child(node.name, node.up_command(), environment={"IDLEWILD_VIRTUAL_CARDS": cards})
        if self.up.nodes:
            self.up.say(
                "system",
                f"{len(self.up.nodes)} nodes started {time.monotonic() - began:.1f} s; they measure themselves one after the other",
            )
            self._wait_for_nodes()

    def _wait_for_nodes(self) -> None:
        """Until each is listed (sandbox proved, fingerprint measured); says how well this machine isolates jobs."""
        began, waiting = time.monotonic(), {node.name: node for node in self.up.nodes}
        isolation = ""
        while waiting and time.monotonic() - began < AGENTS_READY_S:
            for name, node in list(waiting.items()):
                if self.up.stopping.is_set():
                    raise CannotStart("stopping")
                status = node.status()
                isolation = str(status.get("isolation") or isolation)
                if status.get("enrolment") == "listed":
                    del waiting[name]
            time.sleep(0.5)
        self.up.say("system", f"isolation on this machine: {ISOLATION.get(isolation, 'not known yet')}")
        if waiting:
            self.up.say(
                "system",
                f"not listed after {AGENTS_READY_S:.0f} s: {', '.join(waiting)} (logs: {self.up.log_dir}/agent-N.log)",
            )
        else:
            self.up.say("system", f"all nodes are listed {time.monotonic() - began:.1f} s")


# --- small helps -----------------------------------------------------------------------------------------------------------
def is_healthy(url: str) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{url}/healthz", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError, ValueError):
        return False


def migrations_sum() -> str:
    """One sum over all migrations: unchanged since the last start means nothing to do."""
    total = hashlib.sha256()
    folders = [places.ROOT / name for name in ("portal", "marketplace", "scheduling", "billing")]
    for path in sorted(path for folder in folders for path in folder.glob("**/migrations/*.py")):
        total.update(str(path.relative_to(places.ROOT)).encode() + path.read_bytes())
    lock = places.ROOT / "requirements.lock"  # Django and allauth bring migrations too
    total.update(lock.read_bytes() if lock.exists() else b"")
    return total.hexdigest()


def megabytes(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.lstat().st_blocks * 512
        except OSError:
            continue
    return round(total / 1_000_000)
