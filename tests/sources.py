"""The house's own files, for the tests that read them: what git tracks, or, outside a repository, what lies there."""

import ast
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("portal", "frontend", "scheduling", "billing", "marketplace", "agent", "client")
RULES = ("portal/kit", "scheduling/domain", "billing/domain", "marketplace/domain")
IGNORED = {
    ".git",
    ".venv",
    ".venv-node",
    "node_modules",
    "dist",
    "build",
    "__pycache__",
    ".mypy_cache",
    ".ruff_cache",
    ".pytest_cache",
    ".hypothesis",
}


@cache
def files() -> tuple[Path, ...]:
    """Every file of the house, relative to its root, in order."""
    try:
        done = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            check=True,
            text=True,
        )
        names = [Path(name) for name in done.stdout.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        names = [path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file()]
    return tuple(sorted(name for name in names if not IGNORED & set(name.parts) and (ROOT / name).is_file()))


def python_files(*under: str) -> list[Path]:
    """The Python files below these folders; of all packages when none is named."""
    folders = under or PACKAGES
    return [path for path in files() if path.suffix == ".py" and any(path.is_relative_to(folder) for folder in folders)]


def text(path: Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(text(path), filename=str(path))


def module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_migration(path: Path) -> bool:
    return "migrations" in path.parts
