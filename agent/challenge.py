"""Runs that the portal orders and times: work from a nonce that nobody knows before, and a promise that binds the result.

    python -m agent.challenge --threads N [--turn NAME]      one JSON message a line, on stdin and stdout

    out {"ready": true}                                 BLAS is loaded and warm, the turn is ours
    in  {"kind", "nonce", "size", "parts"}              the clock of the portal runs
    out {"root", "took_s"}                              the result is complete; the portal's clock stops with its arrival
    in  {"open": [leaf, ...]}                           leaves of the result that the portal wants to see
    out {"opened": [{"leaf", "data", "path"}, ...]}

*gemm*: `parts` left and `parts` right matrices of `size` × `size`, each product once. Entries are the bytes of SHAKE-256 mod 17
minus 8 as float32: every sum is a whole number below 2^24, so each machine gets the same bits in any order. *memory*: `size`
words of 64 bits, `parts` passes of x[k] <- (x[k] ^ x[k + shift]) * odd; far shifts leave nothing to a cache.

The root of a Merkle tree over the result is sent *before* the portal says which leaves it wants: what was not computed by then
cannot be shown. The rules are those of the portal (marketplace/domain/challenge); docs/scu.md tells them for both.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from . import benchmark

try:
    import numpy
except ImportError:
    numpy = None  # type: ignore[assignment]

GEMM_ROWS = 8
MEMORY_LEAF = 1 << 15  # bytes
SEED_BYTES = 1 << 20
GOLDEN = 0x9E3779B97F4A7C15


def stream(nonce: str, name: str, count: int) -> bytes:
    return hashlib.shake_256(f"{nonce}/{name}".encode()).digest(count)


def matrix(nonce: str, name: str, size: int) -> Any:
    entries = numpy.frombuffer(stream(nonce, name, size * size), dtype=numpy.uint8) % numpy.uint8(17)
    return (entries.astype(numpy.float32) - numpy.float32(8)).reshape(size, size)


def shifts(nonce: str, size: int, parts: int) -> list[tuple[int, int]]:
    """(shift, odd factor) of each pass; shifts are far apart from 0 and from the end."""
    words = numpy.frombuffer(stream(nonce, "passes", 16 * parts), dtype="<u8").reshape(parts, 2)
    return [(size // 8 + int(far) % (3 * size // 4), int(factor) | 1) for far, factor in words]


class Tree:
    """A Merkle tree over pieces of bytes."""

    def __init__(self, leaves: Iterable[bytes]) -> None:
        self.levels = [list(leaves)]
        while len(self.levels[-1]) > 1:
            row = self.levels[-1]
            pairs = [
                hashlib.sha256(b"\1" + row[i] + row[i + 1]).digest() if i + 1 < len(row) else row[i]
                for i in range(0, len(row), 2)
            ]
            self.levels.append(pairs)

    @property
    def root(self) -> str:
        return self.levels[-1][0].hex()

    def path(self, leaf: int) -> list[str]:
        """The neighbours from the leaf up; one that has none is left out."""
        found = []
        for row in self.levels[:-1]:
            beside = leaf ^ 1
            if beside < len(row):
                found.append(row[beside].hex())
            leaf //= 2
        return found


class Work:
    """One run: compute, promise, show."""

    def __init__(self, kind: str, nonce: str, size: int, parts: int, pool: ThreadPoolExecutor) -> None:
        self.kind, self.nonce, self.size, self.parts, self.pool = kind, nonce, size, parts, pool
        self.pieces: list[memoryview] = []
        self.tree = Tree([b""])

    def run(self) -> None:
        self.pieces = self._products() if self.kind == "gemm" else self._passes()
        self.tree = Tree(self.pool.map(_leaf, self.pieces, chunksize=8))

    def _products(self) -> list[memoryview]:
        names = [f"{side}{i}" for i in range(self.parts) for side in ("a", "b")]
        made = dict(zip(names, self.pool.map(lambda name: matrix(self.nonce, name, self.size), names)))
        pieces = []
        for i in range(self.parts):
            for j in range(self.parts):
                product = memoryview(numpy.matmul(made[f"a{i}"], made[f"b{j}"])).cast("B")
                step = GEMM_ROWS * self.size * 4
                pieces += [product[at : at + step] for at in range(0, len(product), step)]
        return pieces

    def _passes(self) -> list[memoryview]:
        size = self.size
        now, then = numpy.empty(size, numpy.uint64), numpy.empty(size, numpy.uint64)
        seed = numpy.frombuffer(stream(self.nonce, "memory", SEED_BYTES), dtype="<u8")
        workers = max(1, self.pool._max_workers)
        cuts = [size * i // workers for i in range(workers + 1)]
        parts = list(zip(cuts, cuts[1:]))

        def fill(part: tuple[int, int]) -> None:
            at = numpy.arange(part[0], part[1], dtype=numpy.uint64)
            numpy.multiply(at, numpy.uint64(GOLDEN), out=now[part[0] : part[1]])
            now[part[0] : part[1]] ^= seed[(at % numpy.uint64(len(seed))).astype(numpy.intp)]

        list(self.pool.map(fill, parts))
        for shift, factor in shifts(self.nonce, size, self.parts):

            def one(
                part: tuple[int, int], far: int = shift, odd: int = factor, source: Any = now, target: Any = then
            ) -> None:
                low, high = part
                turn = min(max(size - far, low), high)  # from here on k + shift begins again at 0
                if low < turn:
                    numpy.bitwise_xor(source[low:turn], source[low + far : turn + far], out=target[low:turn])
                if turn < high:
                    numpy.bitwise_xor(
                        source[turn:high], source[turn + far - size : high + far - size], out=target[turn:high]
                    )
                numpy.multiply(target[low:high], numpy.uint64(odd), out=target[low:high])

            list(self.pool.map(one, parts))
            now, then = then, now
        whole = now.data.cast("B")
        return [whole[at : at + MEMORY_LEAF] for at in range(0, len(whole), MEMORY_LEAF)]

    def open(self, leaves: list[int]) -> list[dict[str, Any]]:
        return [
            {"leaf": leaf, "data": base64.b64encode(self.pieces[leaf]).decode(), "path": self.tree.path(leaf)}
            for leaf in leaves
        ]


def _leaf(piece: memoryview) -> bytes:
    return hashlib.sha256(b"\0" + piece.tobytes()).digest()


def warm(pool: ThreadPoolExecutor) -> None:
    for kind, size in (("gemm", 256), ("memory", 1 << 17)):
        Work(kind, "warm", size, 2, pool).run()


def serve(threads: int) -> None:
    with ThreadPoolExecutor(max(1, threads)) as pool:
        warm(pool)
        _say({"ready": True})
        work: Work | None = None
        for line in sys.stdin:
            asked = json.loads(line)
            if "open" in asked:
                if work is None:
                    sys.exit("asked to open before any run")
                _say({"opened": work.open(asked["open"])})
                continue
            began = time.perf_counter()
            work = Work(asked["kind"], asked["nonce"], asked["size"], asked["parts"], pool)
            work.run()
            _say({"root": work.tree.root, "took_s": time.perf_counter() - began})


def _say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="agent.challenge")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turn", default="")
    wanted = parser.parse_args(arguments)
    if numpy is None:
        sys.exit("numpy is missing (pip install 'idlewild-agent[fingerprint]')")
    turn = benchmark.take_turn(wanted.turn) if wanted.turn else None
    serve(wanted.threads)
    if turn is not None:
        turn.close()


if __name__ == "__main__":
    main()
