"""The portal's side of checked runs for agents under test: the real rules, kept in memory."""

from __future__ import annotations

import hashlib
import itertools
import json
import time
from typing import Any

from agent import protocol as wire
from marketplace.domain import challenge as rules
from marketplace.domain.challenge import Kind, Opened, Run

PIECE = 256 * 1024


class Runs:
    def __init__(self) -> None:
        self.count = itertools.count(1)
        self.runs: dict[str, Run] = {}
        self.promised: dict[str, tuple[str, tuple[int, ...]]] = {}
        self.begun: dict[str, float] = {}
        self.measured: dict[str, float] = {}

    def answer(self, path: str, body: bytes) -> Any:
        """What a call to one of the three doors, or for a stream, is answered."""
        if path == wire.BEGIN_RUN:
            return self._begin(wire.BeginRun.from_wire(json.loads(body)))
        if path == wire.COMMIT_RUN:
            return self._commit(wire.CommitRun.from_wire(json.loads(body)))
        if path == wire.SHOW_RUN:
            asked = wire.ShowRun.from_wire(json.loads(body))
            root, leaves = self.promised[asked.run]
            shown = [Opened(one.leaf, one.data, one.path) for one in asked.opened]
            return self._result(asked.run, rules.check(self.runs[asked.run], root, leaves, shown)).to_wire()
        return self._bytes(path.split("/")[-2])

    def _begin(self, asked: wire.BeginRun) -> Any:
        name = f"run_{next(self.count)}"
        run = rules.plan(Kind(asked.kind.value), nonce=name, draw=0.5, expected=asked.expected, short=asked.short)
        self.runs[name], self.begun[name] = run, time.monotonic()
        return wire.RunOrder(name, asked.kind, run.nonce, run.size, run.parts).to_wire()

    def _commit(self, asked: wire.CommitRun) -> Any:
        run = self.runs[asked.run]
        self.measured[asked.run] = rules.work(run) / (time.monotonic() - self.begun[asked.run])
        self.promised[asked.run] = asked.root, rules.wanted(run, 7)
        if run.kind is not Kind.STREAM:
            return wire.RunLeaves(self.promised[asked.run][1]).to_wire()
        problem = "" if hashlib.sha256(self._bytes(asked.run)).hexdigest() == asked.root else "wrong_result"
        return wire.RunLeaves((), self._result(asked.run, problem)).to_wire()

    def _result(self, run: str, problem: str) -> wire.RunResult:
        return wire.RunResult(not problem, self.measured[run], problem)

    def _bytes(self, run: str) -> bytes:
        size = self.runs[run].size
        pieces = enumerate(range(0, size, PIECE))
        return b"".join(rules.piece(self.runs[run].nonce, i, min(PIECE, size - at)) for i, at in pieces)
