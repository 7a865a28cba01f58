"""The engine's loops, compiled: the only module that imports numba and moocore.

=========  =================================================================================================================
name       what it needs
=========  =================================================================================================================
numpy      nothing: always there, complete
moocore    the package (extra `fast`): its front of a set of vectors, the rest as NumPy
numba      the package (extra `fast`): bodies of ``domain.loops``, compiled with explicit signatures and kept on disk
=========  =================================================================================================================

All give the same answers. Nothing is compiled while somebody waits: :func:`warm` compiles (``manage.py warm``, at deployment)
and leaves a mark with the versions of compiler, processor and loops; :func:`ready` says whether that mark is there, and
without it a process serves with NumPy.

Compiled code cannot call a plain function, so callees are compiled first and put in the place of their names in a copy of
the caller. No fast-math, no threads: the same operations in the same order.
"""

import hashlib
import inspect
import logging
import platform
import types
from collections.abc import Callable
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from scheduling.domain import kernels, loops
from scheduling.domain.kernels import PLAIN, Kernels

log = logging.getLogger("idlewild.engine")

NUMPY, MOOCORE, NUMBA = "numpy", "moocore", "numba"
NAMES = (NUMPY, MOOCORE, NUMBA)
GROUP = "uint32[::1], uint32[::1], uint16[::1], uint8[::1], uint16[::1]"
SIGNATURES = {
    "dominates": "boolean(float64[:,::1], int64, float64[:,::1], int64)",
    "freshen": f"void(int64, int64, int64, {GROUP}, {GROUP})",
    "worse_than": "void(float64[:,::1], float64[:,::1], int64[::1], boolean[::1])",
    "filtered": "int64(float64[:,::1], int64[::1], int64[::1])",
}
"""In the order in which they call each other."""


def installed(name: str) -> bool:
    """Are the packages of a backend there?"""
    return name == NUMPY or find_spec(name) is not None


def load(name: str, *, state: Path | None = None) -> Kernels:
    """The kernels of a backend. `state`: where compiled code is kept (without it, it is compiled for this process alone).

    ValueError for an unknown name, ImportError where its package is missing.
    """
    if name == NUMPY:
        return PLAIN
    if name == MOOCORE:
        return _moocore()
    if name == NUMBA:
        return _numba(state)
    raise ValueError(f"there is no engine backend {name!r}: use one of {', '.join(NAMES)}")


def warm(state: Path) -> Kernels:
    """Compile everything, try it, and leave the mark that it is done."""
    made = load(NUMBA, state=state)
    _try(made)
    mark = _mark(state)
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.write_text("compiled\n")
    return made


def ready(state: Path) -> bool:
    """Has :func:`warm` compiled these loops, with this compiler, for this processor?"""
    return installed(NUMBA) and _mark(state).exists()


def best(state: Path, wanted: str = "auto") -> Kernels:
    """The kernels to serve with: `wanted`, or the quickest that needs no compilation now. NumPy whenever something is amiss."""
    name = (NUMBA if ready(state) else MOOCORE if installed(MOOCORE) else NUMPY) if wanted == "auto" else wanted
    try:
        made = load(name, state=state)
        _try(made)
    except Exception as problem:  # a broken compiler must not stop placement
        log.warning(
            "the engine's %s backend is not usable (%s: %s); NumPy serves", name, type(problem).__name__, problem
        )
        return PLAIN
    return made


def _try(made: Kernels) -> None:
    """One small answer of each kernel, compared with NumPy's."""
    vectors = np.array([[1.0, 2.0], [2.0, 1.0], [2.0, 2.0], [1.0, 2.0]])
    if not np.array_equal(made.front(vectors), PLAIN.front(vectors)):
        raise RuntimeError("its front differs")
    if not np.array_equal(made.worse_than(vectors, vectors[:2]), PLAIN.worse_than(vectors, vectors[:2])):
        raise RuntimeError("its comparison differs")
    columns = tuple(np.array([3, 5, 4], dtype=kind) for kind in (np.uint32, np.uint32, np.uint16, np.uint8, np.uint16))
    entries = tuple(column[:1].copy() for column in columns)
    made.freshen(0, 0, 3, *columns, *entries)
    if [int(entry[0]) for entry in entries] != [5, 5, 5, 5, 3]:
        raise RuntimeError("its summaries differ")


# -- moocore --------------------------------------------------------------------------------------------------------------
def _moocore() -> Kernels:
    is_nondominated = import_module("moocore").is_nondominated

    def front(vectors: Any) -> Any:
        if not len(vectors) or vectors.shape[1] < 2:  # it compares at least two columns
            return PLAIN.front(vectors)
        return is_nondominated(vectors, keep_weakly=True)

    return Kernels(MOOCORE, PLAIN.freshen, front, PLAIN.worse_than)


# -- numba ----------------------------------------------------------------------------------------------------------------
def _numba(state: Path | None) -> Kernels:
    numba = import_module("numba")
    if state is not None:
        folder = _folder(state)
        folder.mkdir(parents=True, exist_ok=True)
        numba.config.CACHE_DIR = str(folder)
    compiled: dict[str, Any] = {}
    for name, signature in SIGNATURES.items():
        body = _bound(getattr(loops, name), compiled)
        compiled[name] = numba.njit(signature, cache=state is not None)(body)
    return kernels.of_loops(
        NUMBA, freshen=compiled["freshen"], worse_than=compiled["worse_than"], filtered=compiled["filtered"]
    )


def _bound(body: Callable[..., Any], compiled: dict[str, Any]) -> Callable[..., Any]:
    """A copy of a loop that calls compiled callees."""
    copy = types.FunctionType(body.__code__, {**body.__globals__, **compiled}, body.__name__)
    copy.__module__, copy.__qualname__ = body.__module__, body.__qualname__
    return copy


def _folder(state: Path) -> Path:
    return state / "numba" / f"{metadata.version('numba')}-{platform.machine()}"


def _mark(state: Path) -> Path:
    """Named after what was compiled."""
    source = inspect.getsource(loops) + repr(SIGNATURES) + platform.python_version()
    return _folder(state) / f"ready-{hashlib.sha256(source.encode()).hexdigest()[:16]}"
