"""Reading the environment: every setting comes through here, each also as ``NAME_FILE`` (a file that holds the value).

Errors name the variable and give an example; values of secrets are never printed.
"""

import os
from pathlib import Path


class MissingSetting(Exception):
    """A required variable is unset or unreadable; the text names it and shows an example."""


def text(name: str, default: str | None = None, *, example: str = "") -> str:
    """The value of `name`, else of the file ``NAME_FILE`` names, else `default`; MissingSetting if there is none."""
    value = os.environ.get(name)
    if value:
        return value
    path = os.environ.get(f"{name}_FILE")
    if path:
        try:
            return Path(path).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise MissingSetting(f"{name}_FILE names {path}, which cannot be read: {error.strerror}") from None
    if default is None:
        raise MissingSetting(f"{name} is not set" + (f"; for example {name}={example}" if example else ""))
    return default


def flag(name: str, default: bool = False) -> bool:
    """1, true, yes, on → True; 0, false, no, off → False; anything else is an error that names the variable."""
    value = text(name, "1" if default else "0").strip().lower()
    if value in {"1", "true", "yes", "on"}:
        return True
    if value in {"0", "false", "no", "off"}:
        return False
    raise MissingSetting(f"{name} takes 1 or 0, not {value!r}")


def number(name: str, default: int | None = None) -> int:
    """A whole number."""
    value = text(name, None if default is None else str(default), example="8000")
    try:
        return int(value)
    except ValueError:
        raise MissingSetting(f"{name} takes a whole number, not {value!r}") from None


def words(name: str, default: str = "") -> list[str]:
    """A comma-separated list without empty parts."""
    return [part.strip() for part in text(name, default).split(",") if part.strip()]
