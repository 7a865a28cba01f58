"""Runs that the portal orders and times, so that no node is believed about its speed (docs/scu.md).

1. The node asks for a run; the portal draws a nonce and a size, and its clock starts.
2. The node computes and sends the root of a Merkle tree over the *whole* result; the clock stops.
3. Only now the portal draws which leaves it wants to see. The node shows them with their paths.
4. The portal computes those leaves itself. What was not computed before step 2 cannot be shown: who left out a half is caught
   by sixteen leaves in all but one of 65,536 runs, who left out a tenth in four of five.

| kind | work from (nonce, size, parts) | a leaf |
|---|---|---|
| gemm | `parts` left × `parts` right matrices of `size`², entries SHAKE-256 bytes mod 17 − 8 | 8 rows of one product |
| memory | `size` 64-bit words, `parts` passes of x[k] ← (x[k] ⊕ x[k + shift]) · odd | 32 KiB of the end |
| stream | bytes made from a secret of the portal | none: the root is the SHA-256 of the bytes |

Every sum of *gemm* is a whole number below 2^24 (64 · size < 2^24): float32 is exact in any order of summation. A leaf of *memory*
needs 2^parts words of the start, so checking takes milliseconds while the run took seconds.

Trap: the usual check C·r = A·(B·r) against a hash of C binds nothing; the right side costs n² and can be answered without C.
"""

import base64
import binascii
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray


class Kind(StrEnum):
    GEMM = "gemm"
    MEMORY = "memory"
    STREAM = "stream"


class State(StrEnum):
    """Of one run: begun → committed → passed or failed. What is passed or failed stays so."""

    BEGUN = "begun"
    COMMITTED = "committed"
    PASSED = "passed"
    FAILED = "failed"


@dataclass(frozen=True)
class Run:
    """What is to be done."""

    kind: Kind
    nonce: str
    size: int
    parts: int


@dataclass(frozen=True)
class Opened:
    """One leaf as the node shows it: its number, its bytes (base64), the neighbours on the way to the root (hex)."""

    leaf: int
    data: str
    path: tuple[str, ...]


GEMM_ROWS: Final = 8
MEMORY_LEAF: Final = 1 << 15
SEED_BYTES: Final = 1 << 20
GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)
OPENED: Final = 16
SHOWN_WORDS: Final = 4
"""Words of an opened memory leaf that are computed again."""
GOAL_S: Final = 2.5
"""A full run should take so long at the speed that the node expects of itself."""
CLAIM: Final = 1.15
"""A claim may be above what the portal measured by this factor: the way there and back counts as the node's time."""
FREE_CLAIM: Final = 6.0
"""The large product and the triad as only the node timed them may be above the checked ones by this. They enter no SCU: this
keeps gross lies off the pages, and must not refuse a node whose neighbours were noisy in one of the two moments."""
MOST_SIDE, MOST_WORDS, MOST_STREAM = 24, 1 << 26, 64 << 20


def plan(kind: Kind, *, nonce: str, draw: float, expected: float, short: bool) -> Run:
    """The run for a node that expects `expected` (GFLOPS, GB/s) of itself; `draw` in [0, 1) makes its size unforeseeable.

    A lie about `expected` only makes the run longer or shorter, never the verdict kinder.
    """
    expected = expected if math.isfinite(expected) and expected > 0 else 1.0
    goal = 0.05 if short else GOAL_S
    if kind is Kind.GEMM:
        size = int((400 if short else 1500) + draw * (200 if short else 1000))
        side = math.ceil(math.sqrt(goal * expected * 1e9 / (2.0 * size**3)))
        return Run(kind, nonce, size, min(max(side, 2), MOST_SIDE))
    if kind is Kind.MEMORY:
        parts = 8 if short else 16
        words = goal * expected * 1e9 / (40 * parts)
        least = (1 << 19) if short else (1 << 23)
        size = int(min(max(words, least), least if short else MOST_WORDS) * (0.75 + draw / 4)) // 4096 * 4096
        return Run(kind, nonce, size, parts)
    size = int(min(max(expected * 1e9, 2 << 20), MOST_STREAM) * (0.75 + draw / 4))
    return Run(kind, nonce, size if not short else min(size, 2 << 20), 1)


def work(run: Run) -> float:
    """10⁹ operations (gemm) or bytes (memory, stream) of a run."""
    if run.kind is Kind.GEMM:
        return 2.0 * run.size**3 * run.parts**2 / 1e9
    return (40.0 * run.size * run.parts if run.kind is Kind.MEMORY else float(run.size)) / 1e9


def leaves(run: Run) -> int:
    """How many leaves its result has."""
    if run.kind is Kind.GEMM:
        return run.parts**2 * -(-run.size // GEMM_ROWS)
    return -(-run.size * 8 // MEMORY_LEAF) if run.kind is Kind.MEMORY else 0


def wanted(run: Run, seed: int) -> tuple[int, ...]:
    """Which leaves to show: drawn with `seed` after the promise came."""
    total = leaves(run)
    if not total:
        return ()
    generator = np.random.default_rng(seed)
    return tuple(sorted(int(i) for i in generator.choice(total, size=min(OPENED, total), replace=False)))


def check(run: Run, root: str, asked: Sequence[int], opened: Sequence[Opened]) -> str:
    """ "" when every asked leaf is shown, belongs to `root` and is right; else what is wrong, in one word."""
    if sorted(shown.leaf for shown in opened) != sorted(asked):
        return "other_leaves"
    total = leaves(run)
    for shown in opened:
        try:
            data = base64.b64decode(shown.data, validate=True)
        except (binascii.Error, ValueError):
            return "unreadable"
        if climb(total, shown.leaf, data, shown.path) != root:
            return "other_root"
        right = _right_rows if run.kind is Kind.GEMM else _right_words
        if not right(run, shown.leaf, data):
            return "wrong_result"
    return ""


def climb(total: int, leaf: int, data: bytes, path: Sequence[str]) -> str:
    """The root that a leaf of a tree of `total` leaves leads to."""
    digest, rest = hashlib.sha256(b"\0" + data).digest(), list(path)
    while total > 1:
        beside = leaf ^ 1
        if beside < total:
            if not rest:
                return ""
            other = bytes.fromhex(rest.pop(0)) if _is_digest(rest[0]) else b""
            digest = hashlib.sha256(b"\1" + (other + digest if leaf & 1 else digest + other)).digest()
        leaf, total = leaf // 2, -(-total // 2)
    return digest.hex() if not rest else ""


def _is_digest(text: str) -> bool:
    return len(text) == 64 and all(letter in "0123456789abcdef" for letter in text)


def _stream(nonce: str, name: str, count: int) -> bytes:
    return hashlib.shake_256(f"{nonce}/{name}".encode()).digest(count)


def matrix(nonce: str, name: str, size: int, rows: slice = slice(None)) -> NDArray[np.float32]:
    """Some rows of a matrix of *gemm*."""
    low, high, _ = rows.indices(size)
    data = _stream(nonce, name, high * size)[low * size :]
    return ((np.frombuffer(data, dtype=np.uint8) % 17).astype(np.float32) - 8).reshape(high - low, size)


def _right_rows(run: Run, leaf: int, data: bytes) -> bool:
    product, block = divmod(leaf, -(-run.size // GEMM_ROWS))
    left, right = divmod(product, run.parts)
    rows = slice(block * GEMM_ROWS, min((block + 1) * GEMM_ROWS, run.size))
    made = matrix(run.nonce, f"a{left}", run.size, rows) @ matrix(run.nonce, f"b{right}", run.size)
    return bool(made.astype("<f4").tobytes() == data)


def _right_words(run: Run, leaf: int, data: bytes) -> bool:
    first = leaf * MEMORY_LEAF // 8
    count = min(MEMORY_LEAF // 8, run.size - first)
    if len(data) != count * 8:
        return False
    shown = np.frombuffer(data, dtype="<u8")
    places = [count * i // SHOWN_WORDS for i in range(SHOWN_WORDS)]
    return all(int(shown[i]) == word(run, first + i) for i in places)


def word(run: Run, place: int) -> int:
    """One word of the end of a *memory* run, from the 2^parts words of its start that it depends on."""
    passes = np.frombuffer(_stream(run.nonce, "passes", 16 * run.parts), dtype="<u8").reshape(run.parts, 2)
    far = [run.size // 8 + int(shift) % (3 * run.size // 4) for shift in passes[:, 0]]
    places = np.array([place], dtype=np.int64)
    for shift in reversed(far):
        places = np.concatenate((places, (places + shift) % run.size))
    seed = np.frombuffer(_stream(run.nonce, "memory", SEED_BYTES), dtype="<u8")
    values: Any = places.astype(np.uint64) * GOLDEN ^ seed[places % len(seed)]
    for factor in passes[:, 1]:
        half = len(values) // 2
        values = (values[:half] ^ values[half:]) * np.uint64(int(factor) | 1)
    return int(values[0])


def piece(secret: str, index: int, size: int) -> bytes:
    """Bytes `index` of a stream that only the portal can make, in pieces of `size` bytes."""
    return _stream(secret, f"stream{index}", size)


@dataclass(frozen=True)
class Checked:
    """A passed run: its kind and what the portal's clock measured (GFLOPS, GB/s)."""

    kind: str
    measured: float


def above(claim: float, measured: float) -> bool:
    """Is a claim more than the portal's clock allows?"""
    return claim > CLAIM * measured
