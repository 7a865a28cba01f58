"""A small portal over HTTP that keeps jobs: what the client's transport, exit codes and Ctrl-C are tested against.

It is stateful (an Idempotency-Key seen again gets the stored answer, a cancelled job is cancelled) and can be told to
misbehave: to be slow, to answer 503 a few times, to drop the connection after the deed is done.
"""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

KEY = "idw_k1abcd_verysecretpart"
POINT = {
    "index": 0,
    "node": "oak",
    "region": "east",
    "zone": "east-a",
    "values": {"cost": "0.10", "time_s": 90, "green": 0.8, "transfer": 0},
    "cost": {
        name: {"amount": amount, "currency": "CNY"}
        for name, amount in (("low", "0.05"), ("expected", "0.10"), ("high", "0.20"))
    },
    "transfer": {"bytes": 2_000_000, "cost": {"amount": "0.01", "currency": "CNY"}},
    "roles": ["cheapest"],
}


@dataclass
class Peer:
    """What it knows and what it was asked."""

    url: str = ""
    asked: list[tuple[str, str, dict[str, str], Any]] = field(default_factory=list)
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    by_key: dict[str, str] = field(default_factory=dict)
    answers: dict[tuple[str, str], list[Callable[["Peer", Any], tuple[int, Any, dict[str, str]]]]] = field(
        default_factory=dict
    )
    drop_after_submit: int = 0
    submit_takes_s: float = 0.0
    points: list[dict[str, Any]] = field(
        default_factory=lambda: [POINT, {**POINT, "index": 1, "node": "elm", "roles": ["fastest"]}]
    )
    finish: dict[str, Any] | None = field(
        default_factory=lambda: {"state": "done", "reason": "finished", "exit_code": 0}
    )
    log: str = "hello\nworld"

    def say(self, method: str, path: str, status: int, body: Any = None, **headers: str) -> None:
        """The next answer to this request, once; several queue up."""
        self.answers.setdefault((method, path), []).append(lambda peer, sent: (status, body, headers))

    def requests(self, method: str, path: str) -> list[tuple[dict[str, str], Any]]:
        return [(headers, body) for m, p, headers, body in self.asked if (m, p) == (method, path)]


def problem(status: int, code: str, detail: str = "No.", **more: Any) -> dict[str, Any]:
    return {
        "type": f"urn:{code}",
        "title": "No",
        "status": status,
        "code": code,
        "detail": detail,
        "errors": [],
        **more,
    }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    peer: Peer

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _serve(self) -> None:
        peer = self.peer
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        path = urlsplit(self.path).path
        query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        peer.asked.append(
            (self.command, path, {k.lower(): v for k, v in self.headers.items()}, body if body is not None else query)
        )
        queued = peer.answers.get((self.command, path))
        if queued:
            status, answer, headers = queued.pop(0)(peer, body)
        elif self.headers.get("Authorization") != f"Bearer {KEY}":
            status, answer, headers = 401, problem(401, "not_signed_in"), {}
        else:
            status, answer, headers = self._route(path, query, body)
        if path == "/api/v1/jobs" and self.command == "POST" and peer.drop_after_submit:
            peer.drop_after_submit -= 1
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        self._answer(status, answer, headers)

    do_GET = do_POST = do_PATCH = do_DELETE = _serve  # noqa: N815 the base class's names

    def _answer(self, status: int, answer: Any, headers: dict[str, str]) -> None:
        raw = answer if isinstance(answer, bytes) else b"" if answer is None else json.dumps(answer).encode()
        try:
            self.send_response(status)
            kind = "application/octet-stream" if isinstance(answer, bytes) else "application/json"
            for name, value in {"Content-Type": kind, **headers, "Content-Length": str(len(raw))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(raw)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # a killed client

    def _route(self, path: str, query: dict[str, str], body: Any) -> tuple[int, Any, dict[str, str]]:
        parts = path.removeprefix("/api/v1/").split("/")
        peer = self.peer
        if path == "/api/v1/me":
            return 200, {"email": "ada@example.org", "organisation": {"slug": "moss"}, "deeds": ["jobs.run"]}, {}
        if path == "/api/v1/quotes":
            return 200, self._quote(), {}
        if parts[0] == "quotes":
            return 200, self._quote(), {}
        if path == "/api/v1/jobs" and self.command == "POST":
            return self._submit(body)
        if path == "/api/v1/jobs":
            wanted = [job for job in peer.jobs.values() if job["state"] in query.get("state", job["state"]).split(",")]
            return 200, {"items": wanted, "next_cursor": None}, {}
        if parts[0] == "jobs":
            return self._job(parts, query)
        if parts[0] == "artefacts":
            return 200, b"bytes of it", {}
        return 404, problem(404, "not_found"), {}

    def _quote(self) -> dict[str, Any]:
        refused = [
            {"tier": "node", "reason": "price_over_max", "count": 3, "asked": "1.00", "best": "1.20", "unit": "CNY/h"}
        ]
        pick = 0 if self.peer.points else None
        return {
            "id": "quo_1",
            "points": self.peer.points,
            "pick": pick,
            "reason": {"text": "Knee."},
            "refused": refused,
            "expires_at": "2026-11-30T12:00:00Z",
        }

    def _submit(self, body: Any) -> tuple[int, Any, dict[str, str]]:
        peer, key = self.peer, self.headers.get("Idempotency-Key", "")
        if key in peer.by_key:
            return 201, peer.jobs[peer.by_key[key]], {"Idempotent-Replayed": "true"}
        time.sleep(peer.submit_takes_s)
        job = {
            "id": f"job_{len(peer.jobs) + 1}",
            "name": "hello",
            "project": "default",
            "state": "running",
            "reason": "",
            "created_at": "2026-11-30T11:00:00Z",
            "spec": body["spec"],
        }
        peer.jobs[job["id"]] = job
        peer.by_key[key] = job["id"]
        return 201, job, {}

    def _job(self, parts: list[str], query: dict[str, str]) -> tuple[int, Any, dict[str, str]]:
        peer = self.peer
        name, _, deed = parts[1].partition(":")
        job = peer.jobs.get(name)
        if job is None:
            return 404, problem(404, "not_found", "There is nothing here that you can see."), {}
        below = parts[2] if len(parts) > 2 else ""
        if deed == "cancel":
            job |= {"state": "cancelled", "reason": "cancelled_by_tenant"}
            return 202, job, {}
        if not below:
            if job["state"] == "running" and peer.finish:
                job |= {"state": peer.finish["state"], "reason": peer.finish["reason"]}
            return 200, job, {}
        ended = peer.finish or {}
        attempt = {
            "id": "att_1",
            "task": "main",
            "number": 1,
            "node": {"id": "nod_1", "name": "oak"},
            "state": "failed",
            "reason": job["reason"],
            "exit_code": ended.get("exit_code"),
        }
        if below == "attempts":
            return 200, {"items": [attempt], "next_cursor": None}, {}
        if below == "tasks":
            return (
                200,
                {
                    "items": [{"id": "tsk_1", "name": "main", "state": job["state"], "reason": job["reason"]}],
                    "next_cursor": None,
                },
                {},
            )
        if below == "events":
            return (
                200,
                {
                    "items": [
                        {"sequence": n, "type": f"job.{state}", "data": {}, "created_at": "2026-11-30T11:00:00Z"}
                        for n, state in enumerate(dict.fromkeys(["queued", job["state"]]), start=1)
                    ],
                    "next_cursor": None,
                },
                {},
            )
        if below == "logs":
            raw = peer.log if query.get("stream") == "stdout" else ""
            offset = int(query.get("offset", "0"))
            return (
                200,
                {
                    "text": raw[offset:],
                    "offset": offset,
                    "next_offset": len(raw),
                    "total": len(raw),
                    "complete": job["state"] != "running",
                },
                {},
            )
        if below == "artefacts":
            return (
                200,
                {
                    "items": [{"id": "art_1", "name": "report", "path": "/job/out/report.txt", "size_bytes": 11}],
                    "next_cursor": None,
                },
                {},
            )
        return 200, {}, {}


@contextmanager
def running() -> Iterator[Peer]:
    peer = Peer()
    handler = type("Handler", (_Handler,), {"peer": peer})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        peer.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield peer
        finally:
            server.shutdown()
            thread.join()
