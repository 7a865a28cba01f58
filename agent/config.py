"""Where an agent keeps its things and how it was told to run."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

VERSION = "0.1.0"
DEFAULT_STATE = "/var/lib/idlewild-agent"


@dataclass(frozen=True)
class Identity:
    """Who this node is; written once by `enroll`, the secret again when the portal rotates it."""

    url: str
    node: str
    secret: str
    name: str = ""
    region: str = ""
    zone: str = ""


@dataclass(frozen=True)
class Config:
    state: Path
    executor: str = "sandbox"  # sandbox (the best case that is proved) or process
    cores_milli: int | None = None
    slot_uid_base: int = 20001
    own_jobs: bool = False
    short_suite: bool = False
    benchmark: bool = True
    probe_listen: str = ""  # HOST:PORT where probes of other regions are answered; "" = nowhere
    probe_address: str = ""  # HOST where others reach it; "" = where the portal sees us

    @property
    def identity_file(self) -> Path:
        return self.state / "node.json"

    @property
    def journal_file(self) -> Path:
        return self.state / "journal.sqlite"

    @property
    def control_socket(self) -> Path:
        return self.state / "control"


def default_state() -> Path:
    if os.geteuid() == 0:
        return Path(DEFAULT_STATE)
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(base) / "idlewild-agent"


def load_identity(path: Path) -> Identity | None:
    try:
        data = json.loads(path.read_text())
        return Identity(**data)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} is damaged ({error}): enroll this node again") from error


def save_identity(path: Path, identity: Identity) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "w") as file:
        json.dump(asdict(identity), file)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
