"""Where things lie: the state folder, its parts, and the short folder for sockets. Standard library only; `dev` and the settings agree through it.

One checkout has one state folder, named after the checkout's path, so two clones never share a database:

    STATE/            data (PostgreSQL), pg (its socket), valkey, media, mail, static, get (our wheels), agents/N, log, *.key, demo-password
"""

import hashlib
import os
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOCKET_LIMIT = 103  # macOS; Linux allows 107 bytes for a socket's path


def default_state_dir(root: Path = ROOT) -> Path:
    """The state folder of this checkout when IDLEWILD_STATE_DIR does not say otherwise."""
    mark = hashlib.sha256(str(root).encode()).hexdigest()[:8]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        return Path("/var/lib") / f"idlewild-{mark}"
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / f"idlewild-{mark}"


def state_dir() -> Path:
    """IDLEWILD_STATE_DIR, else the default."""
    named = os.environ.get("IDLEWILD_STATE_DIR")
    return Path(named).expanduser().absolute() if named else default_state_dir()


def _private_short_folder(state: Path) -> Path:
    """A private folder with a short name for sockets of a state folder whose own path is too long (as root the database's account passes through)."""
    mark = hashlib.sha256(str(state).encode()).hexdigest()[:8]
    base = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir())
    if len(str(base)) > SOCKET_LIMIT - 60:
        base = Path("/tmp")  # noqa: S108  # the folder below is 0700 and its owner is checked
    folder = base / f"idlewild-{os.geteuid()}-{mark}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.lstat().st_uid != os.geteuid():
        raise RuntimeError(f"{folder} belongs to somebody else; set XDG_RUNTIME_DIR to a folder of yours")
    folder.chmod(0o711 if os.geteuid() == 0 else 0o700)
    return folder


def socket_dir(state: Path, part: str, longest_name: str) -> Path:
    """STATE/part for a server's socket, or a short private folder where that path would not fit into a socket's address."""
    plain = state / part
    if len(str(plain / longest_name).encode()) <= SOCKET_LIMIT:
        return plain
    return _private_short_folder(state) / part


def postgres_socket_dir(state: Path) -> Path:
    return socket_dir(state, "pg", ".s.PGSQL.5432.lock")


def valkey_socket(state: Path) -> Path:
    return socket_dir(state, "valkey", "s") / "s"


def control_socket(state: Path) -> Path:
    """Where a running `up` takes requests (hold a node down, bring it back)."""
    return socket_dir(state, "run", "control") / "control"


def kept_secret(state: Path, name: str) -> str:
    """The secret in STATE/name, made on first use (0600). Without a state folder yet: one that lasts as long as this process."""
    path = state / name
    try:
        return path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        value = os.urandom(32).hex()
    except PermissionError:
        return os.urandom(32).hex()
    if not state.is_dir():
        return value
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:  # another process of ours was first
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return value
    with os.fdopen(handle, "w") as file:
        file.write(value)
    return value
