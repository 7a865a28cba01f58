"""A portal for agents under test: speaks the real wire over real HTTP, keeps what it is told, and can fall silent.

    with Peer() as portal:
        portal.url; portal.token            for `enroll`
        attempt = portal.assign("echo hi")  an assignment for the only node
        portal.finished(attempt)            waits for its finish report
        portal.mood = "deaf"                answers 503 to everything · "mute": does it, but the answer is lost

Leases are judged as the real portal does: a renewal is granted while the lease is live, an ended one is answered 410.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import itertools
import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import uvicorn

from agent import protocol as wire
from agent.protocol import AssignmentSpec, Resources, Stream
from tests.fakes.runs import Runs

MADE = itertools.count(1)
CLASS = {"ttl_ms": 3000, "renew_ms": 600, "deadline_ms": 2400}  # the scaled lease class


@dataclass
class Lease:
    spec: AssignmentSpec
    state: str = "pending"  # pending, active, ended, lapsed
    cancel: wire.Cancel | None = None
    logs: dict[str, bytes] = field(default_factory=lambda: {"stdout": b"", "stderr": b""})
    outputs: dict[str, bytes] = field(default_factory=dict)
    inputs: dict[int, bytes] = field(default_factory=dict)
    checkpoints: dict[str, bytes] = field(default_factory=dict)  # number → bytes so far
    whole: list[str] = field(default_factory=list)  # numbers of the complete ones, in order
    phases: list[tuple[str, bool]] = field(default_factory=list)
    usage: list[wire.UsageRow] = field(default_factory=list)
    samples: list[wire.Sample] = field(default_factory=list)
    finish: wire.FinishReport | None = None
    finishes: int = 0


class Problem(Exception):
    def __init__(self, status: int, code: str, detail: str = "", **more: Any) -> None:
        super().__init__(detail)
        self.status = status
        self.body = {"status": status, "code": code, "detail": detail, **more}


class Peer:
    def __init__(self) -> None:
        self.token = "token-0123456789"
        self.node = "nod_peer1"
        self.secret = "secret-of-the-node-0001"
        self.used_tokens: set[str] = set()
        self.mood = "ok"
        self.leases: dict[str, Lease] = {}
        self.orders: list[wire.Order] = []
        self.told: set[str] = set()
        self.drained: list[wire.DrainRequest] = []
        self.next_secret = ""  # given with the next sync answer; then the only one that signs in
        self.syncs: list[wire.SyncRequest] = []
        self.inventories: list[wire.InventoryReport] = []
        self.runs = Runs()
        self.story: Callable[[], str] = str  # what the node says, for failures
        self.incarnation = 0
        self.count = 0
        self.hook: Callable[[str, str], None] | None = None  # (method, path) before each call; may raise Problem
        self.loop: asyncio.AbstractEventLoop | None = None
        self.changed = asyncio.Event()
        self.moves: dict[str, str] = {}  # path → where it is now
        self.kept: dict[str, bytes] = {}  # stored checkpoints by id
        self.files: dict[str, bytes] = {}  # served at /files/NAME, as a foreign web server would

    # ── life ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def __enter__(self) -> Peer:
        config = uvicorn.Config(
            self.app,
            host="127.0.0.1",
            port=0,
            log_level="critical",
            lifespan="off",
            interface="asgi3",
            timeout_graceful_shutdown=1,
        )
        self.server = uvicorn.Server(config)
        self.server.install_signal_handlers = lambda: None
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()
        self.until(lambda: self.server.started)
        self.url = f"http://127.0.0.1:{self.server.servers[0].sockets[0].getsockname()[1]}"
        return self

    def _serve(self) -> None:
        asyncio.run(self._served())

    async def _served(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.changed = asyncio.Event()
        await self.server.serve()

    def __exit__(self, *_: object) -> None:
        self.mood = "ok"
        self._poke()
        self.server.should_exit = True
        self.thread.join(20)

    def _poke(self) -> None:
        if self.loop is not None:
            self.loop.call_soon_threadsafe(self.changed.set)

    def until(self, done: Callable[[], Any], seconds: float = 60.0, what: str = "") -> Any:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            got = done()
            if got:
                return got
            time.sleep(0.01)
        raise AssertionError(f"waited {seconds} s in vain {what}\n{self.story()}")

    # ── what a test does ──────────────────────────────────────────────────────────────────────────────────────────────

    def assign(self, run: str, *, contents: Mapping[int, bytes] | None = None, **spec: Any) -> str:
        self.count += 1
        attempt = f"att_{os.getpid()}x{next(MADE):05d}"  # unique on the machine: processes are found by it
        values: dict[str, Any] = {
            "attempt": attempt,
            "task": f"tsk_{self.count:08d}",
            "job": f"job_{self.count:08d}",
            "fence": 1,
            "lease_secret": f"lease-secret-{self.count:08d}",
            "lease_class": "standard",
            **CLASS,
            "frozen_kill_ms": 60_000,
            "run": run,
            "resources": Resources(cores_milli=500, memory_mib=64, disk_mib=64),
            "max_duration_s": 600,
            "usage_every_ms": 300,
            "region": "east",
            **spec,
        }
        self.leases[attempt] = Lease(AssignmentSpec(**values), inputs=dict(contents or {}))
        self._poke()
        return attempt

    def cancel(self, attempt: str, reason: wire.Reason = wire.Reason.CANCELLED_BY_TENANT, grace_ms: int = 2000) -> None:
        lease = self.leases[attempt]
        lease.cancel = wire.Cancel(attempt, lease.spec.fence, reason, grace_ms)
        self._poke()

    def lapse(self, attempt: str) -> None:
        """The portal gave the attempt up: whoever comes with its fence is answered 410."""
        self.leases[attempt].state = "lapsed"
        self._poke()

    def order(self, kind: wire.OrderKind, **more: Any) -> None:
        """It stands in every answer until it is served (drain: until `orders` is cleared)."""
        self.count += 1
        self.orders.append(wire.Order(f"order-{self.count}", kind, **more))
        self._poke()

    def finished(self, attempt: str, seconds: float = 60.0) -> wire.FinishReport:
        lease = self.leases[attempt]
        report = self.until(
            lambda: lease.finish, seconds, f"for the finish of {attempt} ({lease.state}, {lease.phases})"
        )
        assert isinstance(report, wire.FinishReport)
        return report

    def running(self, attempt: str) -> None:
        self.until(lambda: ("run", False) in self.leases[attempt].phases, what=f"for {attempt} to run")

    def log(self, attempt: str, stream: str = "stdout") -> str:
        return self.leases[attempt].logs[stream].decode()

    # ── HTTP ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while True:
            event = await receive()
            body += event.get("body", b"")
            if not event.get("more_body"):
                break
        headers = {k.decode().lower(): v.decode() for k, v in scope["headers"]}
        query = dict(part.split("=") for part in scope["query_string"].decode().split("&") if part)
        try:
            if self.mood == "deaf":
                raise Problem(503, "down")
            if self.hook is not None:
                self.hook(scope["method"], scope["path"])
            answer = await self.handle(scope["method"], scope["path"], headers, query, body)
            status = 200
        except Problem as problem:
            status, answer = problem.status, problem.body
        except wire.BadMessage as bad:
            status, answer = 422, {"code": "MALFORMED", "detail": str(bad), "status": 422}
        if self.mood == "mute":
            await asyncio.sleep(5)
        content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        answered = [(b"content-type", b"application/json")]
        if scope["path"] in self.moves:
            status = 302
            answered.append((b"location", self.moves[scope["path"]].encode()))
        await send({"type": "http.response.start", "status": status, "headers": answered})
        await send({"type": "http.response.body", "body": content})

    async def handle(
        self, method: str, path: str, headers: Mapping[str, str], query: Mapping[str, str], body: bytes
    ) -> Any:
        if path.startswith("/files/"):
            name = path.removeprefix("/files/")
            if name not in self.files:
                raise Problem(404, "not_found")
            return self.files[name]
        if headers.get("idlewild-wire") != "1":
            raise Problem(426, "WIRE_VERSION")
        if path == wire.ENROLL:
            return self._enroll(wire.EnrollRequest.from_wire(json.loads(body)))
        if wire.parse_authorization(headers.get("authorization", "")) != (self.node, self.secret):
            raise Problem(401, "not_signed_in")
        if path == wire.SYNC:
            return await self._sync(wire.SyncRequest.from_wire(json.loads(body)))
        if path == wire.INVENTORY:
            report = wire.InventoryReport.from_wire(json.loads(body))
            self.inventories.append(report)
            served = {"self_test": report.self_test, "fingerprint": report.fingerprint, "inventory": report.runtime}
            self.orders = [order for order in self.orders if served.get(order.kind.value) is None]
            return wire.InventoryAnswer(state="listed").to_wire()
        if path == wire.USAGE:
            return self._usage(wire.UsageBatch.from_wire(json.loads(body)))
        if path == wire.DRAIN:
            self.drained.append(wire.DrainRequest.from_wire(json.loads(body)))
            return wire.Stored("draining").to_wire()
        if path.startswith(f"{wire.BASE}/runs/"):
            return self.runs.answer(path, body)
        _, _, _, _, attempt, act, *rest = path.split("/")
        return self._attempt(attempt, act, rest, headers, query, body)

    def _enroll(self, request: wire.EnrollRequest) -> Any:
        if request.token != self.token:
            raise Problem(404, "TOKEN_UNKNOWN", "no such token")
        if request.token in self.used_tokens:
            raise Problem(409, "TOKEN_USED", "this token has enrolled a node already")
        self.used_tokens.add(request.token)
        return wire.Enrolled(self.node, self.secret, "peer-node", "east", "east-1").to_wire()

    async def _sync(self, request: wire.SyncRequest) -> Any:
        if request.incarnation is None:
            self.incarnation += 1
        elif request.incarnation < self.incarnation:
            raise Problem(409, "SUPERSEDED")
        self.syncs.append(request)
        renewals, fenced = [], []
        for held in request.leases:
            lease = self.leases.get(held.attempt)
            if lease is None or lease.state != "active" or lease.spec.fence != held.fence:
                fenced.append(wire.Fenced(held.attempt, held.fence))
            else:
                renewals.append(
                    wire.Renewal(
                        held.attempt, held.fence, lease.spec.ttl_ms, lease.spec.renew_ms, lease.spec.deadline_ms
                    )
                )
        self.changed.clear()
        if not fenced and not self._news() and request.hold_ms:
            try:
                await asyncio.wait_for(self.changed.wait(), min(request.hold_ms, 3000) / 1000)
            except TimeoutError:
                pass
        self.told.update(order.id for order in self.orders)
        return wire.SyncAnswer(
            incarnation=self.incarnation,
            assignments=tuple(
                wire.Assignment(id, lease.spec.fence, 3000)
                for id, lease in self.leases.items()
                if lease.state == "pending"
            ),
            renewals=tuple(renewals),
            cancels=tuple(lease.cancel for lease in self.leases.values() if lease.cancel and lease.state == "active"),
            fenced=tuple(fenced),
            orders=tuple(self.orders),
            node_secret=self._rotate(),
        ).to_wire()

    def _rotate(self) -> str | None:
        if not self.next_secret:
            return None
        self.secret, self.next_secret = self.next_secret, ""
        return self.secret

    def _news(self) -> bool:
        return any(order.id not in self.told for order in self.orders) or any(
            lease.state == "pending" or (lease.cancel and lease.state == "active") for lease in self.leases.values()
        )

    def _usage(self, batch: wire.UsageBatch) -> Any:
        results = []
        for row in batch.rows:
            lease = self.leases[row.attempt]
            verdict = wire.UsageVerdict.STORED if lease.state == "active" else wire.UsageVerdict.REJECTED_STALE
            if verdict is wire.UsageVerdict.STORED:
                lease.usage.append(row)
            results.append(wire.UsageResult(row.attempt, row.resource, row.seq, verdict))
        return wire.UsageAnswer(tuple(results)).to_wire()

    def _attempt(
        self, attempt: str, act: str, rest: list[str], headers: Mapping[str, str], query: Mapping[str, str], body: bytes
    ) -> Any:
        lease = self.leases.get(attempt)
        if lease is None:
            raise Problem(404, "not_found")
        if act == "accept":
            wire.AcceptRequest.from_wire(json.loads(body))
            if lease.state not in ("pending", "active"):
                raise Problem(409, "TAKEN_BACK")
            lease.state = "active"
            return lease.spec.to_wire()
        if headers.get("idlewild-lease") != lease.spec.lease_secret:
            raise Problem(403, "forbidden")
        if lease.state == "lapsed":
            raise Problem(410, "FENCED")
        if act == "report":
            report = wire.PhaseReport.from_wire(json.loads(body))
            lease.phases.append((report.phase.value, report.frozen))
            return wire.Stored().to_wire()
        if act == "finish":
            lease.finish = wire.FinishReport.from_wire(json.loads(body))
            lease.finishes += 1
            lease.state = "ended"
            return wire.Stored("ended").to_wire()
        if act == "metrics":
            lease.samples.extend(wire.MetricBatch.from_wire(json.loads(body)).samples)
            return wire.Stored().to_wire()
        if act == "logs":
            return self._log(lease, Stream(rest[0]), int(query["offset"]), gzip.decompress(body), headers)
        if act == "inputs":
            content = lease.inputs[int(rest[0])]
            asked = headers.get("range", "")
            return content[int(asked[6:-1]) :] if asked else content
        if act == "outputs":
            return self._output(lease, rest[0], int(query["offset"]), body, headers)
        if act == "checkpoints":
            return self._checkpoint(lease, rest[0], query, body, headers)
        raise Problem(404, "not_found")

    def _log(self, lease: Lease, stream: Stream, offset: int, data: bytes, headers: Mapping[str, str]) -> Any:
        assert headers["idlewild-sha256"] == hashlib.sha256(data).hexdigest()
        have = lease.logs[stream.value]
        if offset + len(data) <= len(have) and have[offset : offset + len(data)] == data:
            return wire.Received(offset + len(data)).to_wire()
        if offset != len(have):
            raise Problem(409, "GAP", offset=len(have))
        lease.logs[stream.value] = have + data
        return wire.Received(len(have) + len(data)).to_wire()

    def _output(self, lease: Lease, name: str, offset: int, data: bytes, headers: Mapping[str, str]) -> Any:
        have = lease.outputs.get(name, b"")
        if offset != len(have):
            raise Problem(409, "GAP", offset=len(have))
        lease.outputs[name] = have + data
        complete = len(have) + len(data) == int(headers["idlewild-total"])
        if complete and hashlib.sha256(lease.outputs[name]).hexdigest() != headers["idlewild-whole-sha256"]:
            raise Problem(422, "MALFORMED", "hash")
        return wire.Received(len(have) + len(data), complete).to_wire()

    def _checkpoint(
        self, lease: Lease, name: str, query: Mapping[str, str], data: bytes, headers: Mapping[str, str]
    ) -> Any:
        if "offset" not in query:
            content = self.kept[name]
            asked = headers.get("range", "")
            return content[int(asked[6:-1]) :] if asked else content
        have = lease.checkpoints.get(name, b"")
        if int(query["offset"]) != len(have):
            raise Problem(409, "GAP", offset=len(have))
        lease.checkpoints[name] = have = have + data
        complete = len(have) == int(headers["idlewild-total"])
        if complete:
            assert hashlib.sha256(have).hexdigest() == headers["idlewild-whole-sha256"]
            lease.whole.append(name)
        return wire.Received(len(have), complete).to_wire()

    def keep(self, name: str, content: bytes) -> wire.StoredCheckpoint:
        """A checkpoint that lies on the portal."""
        self.kept[name] = content
        return wire.StoredCheckpoint(name, len(content), hashlib.sha256(content).hexdigest())

    def retell(self, attempt: str, **changes: Any) -> None:
        """Change what the portal says about an attempt (its fence, its durations)."""
        self.leases[attempt].spec = replace(self.leases[attempt].spec, **changes)
