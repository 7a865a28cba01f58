"""Finds the built bundle. No build, no bundle: pages and forms still work, and the page says what is missing."""

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from django.conf import settings

DIST = Path(__file__).parent / "dist"
ENTRY = "src/main.ts"


@dataclass(frozen=True, slots=True)
class Bundle:
    """The static paths of the script and of its style sheets, relative to STATIC_URL."""

    script: str
    styles: tuple[str, ...]


@lru_cache(maxsize=4)
def _read(path: Path, changed_ns: int) -> Bundle | None:
    entry = json.loads(path.read_text())[ENTRY]
    return Bundle(script=f"console/{entry['file']}", styles=tuple(f"console/{name}" for name in entry.get("css", [])))


def find(dist: Path | None = None) -> Bundle | None:
    """The bundle named by Vite's manifest, or None where there is no (readable) build."""
    manifest = (dist or getattr(settings, "CONSOLE_DIST", DIST)) / "manifest.json"
    try:
        return _read(manifest, manifest.stat().st_mtime_ns)
    except (OSError, ValueError, KeyError):
        return None
