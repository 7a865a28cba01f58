"""Outside data (traces, price lists) that is too large or not ours to commit. One resolver: IDLEWILD_REFERENCE_DIR, else `../shared/data` beside the checkout.

A test that needs a file calls ``reference.path("workloads/swf/…")``: where the data is not, the test is skipped with one loud line. Our own cases are
committed under tests/cases and read from there.
"""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CASES = ROOT / "tests" / "cases"


def folder() -> Path | None:
    """Where the data is, or None."""
    named = os.environ.get("IDLEWILD_REFERENCE_DIR")
    candidate = Path(named) if named else ROOT.parent / "shared" / "data"
    return candidate if candidate.is_dir() else None


def path(name: str) -> Path:
    """The file or folder `name` of the outside data; skips the test where it is not."""
    base = folder()
    if base is None or not (base / name).exists():
        pytest.skip(f"reference data is not here: {name} (set IDLEWILD_REFERENCE_DIR)")
    return base / name
