"""Where the command remembers who you are: one JSON file with profiles, readable by its owner only.

``$XDG_CONFIG_HOME/idlewild/config.json`` (default ``~/.config``). The environment wins over the file: IDLEWILD_URL,
IDLEWILD_KEY, IDLEWILD_PROFILE_NAME, so a program needs no file at all. The key is written with mode 0600 from the
first byte, and the file is replaced whole, so a killed `login` leaves the old one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from .errors import Exit, LocalFault
from .words import t


@dataclass(frozen=True)
class Profile:
    """One portal and one key on it; `project` is what jobs go to if nothing else is said."""

    name: str
    url: str
    key: str = ""
    project: str = ""


class NotSignedIn(LocalFault):
    exit, code = Exit.NOT_ALLOWED, "not_signed_in"


def path(environ: Mapping[str, str]) -> Path:
    base = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME") or "~").expanduser() / ".config")
    return Path(base) / "idlewild" / "config.json"


def _stored(environ: Mapping[str, str]) -> dict[str, dict[str, str]]:
    file = path(environ)
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as problem:
        raise NotSignedIn(
            t("{file} cannot be read ({problem}); sign in again with `idlewild login`.", file=file, problem=problem)
        ) from problem
    profiles = data.get("profiles") if isinstance(data, dict) else None
    return profiles if isinstance(profiles, dict) else {}


def save(profile: Profile, environ: Mapping[str, str]) -> Path:
    """Store the profile beside the others."""
    file = path(environ)
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    profiles = {**_stored(environ), profile.name: {k: v for k, v in asdict(profile).items() if k != "name"}}
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        json.dump({"profiles": profiles}, stream, indent=2)
    os.replace(draft, file)
    return file


def load(name: str, environ: Mapping[str, str], *, key_needed: bool = True) -> Profile:
    """The profile to use: the environment first, then the file."""
    wanted = name or environ.get("IDLEWILD_PROFILE_NAME") or "default"
    row = _stored(environ).get(wanted, {})
    if name and not row and not environ.get("IDLEWILD_URL"):
        raise NotSignedIn(t("There is no profile {name}; make it with `idlewild --profile {name} login`.", name=name))
    profile = Profile(
        name=wanted,
        url=(environ.get("IDLEWILD_URL") or row.get("url") or "").rstrip("/"),
        key=environ.get("IDLEWILD_KEY") or row.get("key") or "",
        project=environ.get("IDLEWILD_PROJECT") or row.get("project") or "",
    )
    if not profile.url or (key_needed and not profile.key):
        raise NotSignedIn(
            t("You are not signed in; run `idlewild login --url URL --key KEY` (the portal's page API keys has one).")
        )
    return profile
