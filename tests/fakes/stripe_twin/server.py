"""A stand-in for Stripe: a stateful HTTP server on 127.0.0.1 that the real stripe-python speaks to.

::

    with Twin() as twin:                                  # its own port; twin.url
        client = stripe.StripeClient(twin.key, base_addresses={"api": twin.url})
        twin.pay(session_id)                              # a visitor of the hosted page pays
        for body, headers in twin.hooks.due(): …          # or twin.hooks.deliver() to the endpoints

| knob | what it does |
|---|---|
| ``twin.fault("500", "POST /v1/transfers")`` | the next such call: see `KINDS` |
| ``twin.clock.set(…)``, ``.advance(seconds)`` | its own time: keys are forgotten after 24 h, pages expire, balances become available |
| ``twin.hooks.duplicate, .shuffle, .drop`` | how events are delivered |
| ``twin.drift(currency, amount)`` | money that nothing explains |
| ``twin.books`` with ``rules.…`` | disputes, requirements of accounts, refunds that fail, payouts |

Idempotency as at the vendor: the same key and body again is answered from memory (a stored 500 too) with ``Idempotent-Replayed``; another body is
refused; a refusal of shape is not remembered; after 24 h a key is new.
"""

import hashlib
import json
import re
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.fakes.stripe_twin import pages, routes, rules, vendor
from tests.fakes.stripe_twin.books import Books, Clock, Refused
from tests.fakes.stripe_twin.hooks import Hooks

KEY_LIFE = 86_400
KINDS = {
    "drop": "the effect happens, the answer never arrives",
    "cut": "the connection breaks before anything happens",
    "500": "nothing happens, and the 500 is remembered under the key",
    "500_after": "the effect happens, and the 500 is remembered under the key",
    "429": "too many requests; nothing is remembered",
    "409": "another request holds the object; nothing is remembered",
    "delay_before": "it waits, then happens",
    "delay_after": "it happens, then the answer waits",
}


class Cut(Exception):
    """The connection ends without an answer."""


@dataclass
class Fault:
    kind: str
    pattern: re.Pattern[str]
    times: int
    seconds: float


@dataclass
class Answer:
    """What is remembered under a key."""

    fingerprint: str
    at: int
    status: int = 0
    body: bytes = b""
    done: bool = False


@dataclass
class Twin:
    """The server and its knobs."""

    key: str = "sk_test_twin"
    port: int = 0
    host: str = "127.0.0.1"
    books: Books = field(default_factory=Books)
    faults: list[Fault] = field(default_factory=list)
    answers: dict[str, Answer] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)  # "POST /v1/…", in order
    checks: list[str] = field(default_factory=list)  # where an answer differed from the vendor's types: always empty

    def __post_init__(self) -> None:
        self.hooks = Hooks(self.books)
        self._pause = 0.0

    # --- life ---------------------------------------------------------------------------------------------------------
    def __enter__(self) -> "Twin":
        twin = self

        class Handler(_Handler):
            pass

        Handler.twin = twin
        self._server = _Server((self.host, self.port), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def clock(self) -> Clock:
        return self.books.clock

    # --- knobs ----------------------------------------------------------------------------------------------------------
    def fault(self, kind: str, on: str = ".*", *, times: int = 1, seconds: float = 0.2) -> None:
        """The next `times` calls whose ``METHOD /path`` matches `on` go wrong in that way."""
        if kind not in KINDS:
            raise ValueError(f"a fault is one of {', '.join(KINDS)}")
        self.faults.append(Fault(kind, re.compile(on), times, seconds))

    def pay(self, session_id: str, number: str = rules.GOOD, *, answered: bool = True) -> dict[str, Any]:
        """A visitor of the hosted page types in a card and presses pay."""
        with self.books.lock:
            return rules.fulfil(self.books, session_id, number, answered=answered)

    def drift(self, currency: str, amount: int) -> None:
        """Money appears (or is gone) without a transaction of ours."""
        with self.books.lock:
            self.books.move("", currency.lower(), amount)

    def count(self, kind: str, **equal: Any) -> int:
        """How many objects of a kind there are with those values."""
        rows = self.books.all(kind)
        return sum(all(row.get(name) == value for name, value in equal.items()) for row in rows)

    # --- a request --------------------------------------------------------------------------------------------------------
    def answer(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, bytes, dict[str, str]]:
        """Status, body and headers of an API call; Cut when no answer is to arrive."""
        parts = urlsplit(target)
        self.calls.append(f"{method} {parts.path}")
        given = decode(body.decode() if method == "POST" else parts.query)
        fault = self._next_fault(f"{method} {parts.path}")
        pause = self._pause
        if fault == "delay_before":
            time.sleep(pause)
        if fault == "cut":
            raise Cut
        if fault in ("429", "409"):
            kind = (
                ("rate_limit", "Too many requests.")
                if fault == "429"
                else ("lock_timeout", "This object cannot be accessed right now.")
            )
            return int(fault), _json(Refused(int(fault), *kind, kind="api_error").body), {}
        key = headers.get("Idempotency-Key", "") if method == "POST" else ""
        if key:
            known = self._known(key, f"{method} {parts.path} {json.dumps(given, sort_keys=True)}")
            if known is not None:
                return known
        status, answer, keep = self._perform(method, parts.path, headers, given, fault)
        if key:
            with self.books.lock:
                if keep:
                    row = self.answers[key]
                    row.status, row.body, row.done = status, answer, True
                else:
                    del self.answers[key]
        self.hooks.nudge()
        if fault == "delay_after":
            time.sleep(pause)
        if fault == "drop":
            raise Cut
        return status, answer, {}

    def _next_fault(self, line: str) -> str:
        for fault in self.faults:
            if fault.times and fault.pattern.search(line):
                fault.times -= 1
                self._pause = fault.seconds
                return fault.kind
        return ""

    def _known(self, key: str, text: str) -> tuple[int, bytes, dict[str, str]] | None:
        """The remembered answer; None when the key is new, which claims it."""
        fingerprint = hashlib.sha256(text.encode()).hexdigest()
        with self.books.lock:
            row = self.answers.get(key)
            if row is None or row.at + KEY_LIFE <= self.clock.now():
                self.answers[key] = Answer(fingerprint, self.clock.now())
                return None
            if row.fingerprint != fingerprint:
                refused = Refused(
                    400, "idempotency_key_reused", "Keys for idempotent requests can only be used with the same parameters they were first used with.",
                    kind="idempotency_error",
                )  # fmt: skip
                return 400, _json(refused.body), {}
            if not row.done:
                refused = Refused(
                    409,
                    "idempotency_key_in_use",
                    "There is another in-progress request using this key.",
                    kind="idempotency_error",
                )
                return 409, _json(refused.body), {}
            return row.status, row.body, {"Idempotent-Replayed": "true"}

    def _perform(
        self, method: str, path: str, headers: Mapping[str, str], given: dict[str, Any], fault: str
    ) -> tuple[int, bytes, bool]:
        """Status, body, and whether it is remembered under the key (a refusal of shape is not)."""
        broken = _json(Refused(500, "api_error", "Something went wrong on our end.", kind="api_error").body)
        if headers.get("Authorization") != f"Bearer {self.key}":
            return 401, _json(Refused(401, "api_key_invalid", "Invalid API Key provided.").body), False
        if fault == "500":
            return 500, broken, True
        try:
            route, ids = routes.find(method, path)
            expand = given.pop("expand", [])
            read = vendor.params(route.shape, given)
            with self.books.lock:
                made = route.deed(routes.Call(self.books, ids, read, routes.owner_of(headers), self.url))
                text = _json(self._checked(made, expand if isinstance(expand, list) else [expand]))
        except vendor.BadParameter as wrong:
            return 400, _json(Refused(400, wrong.code, wrong.message, param=wrong.param).body), False
        except Refused as refused:
            return refused.status, _json(refused.body), True
        return (500, broken, True) if fault == "500_after" else (200, text, True)

    def _checked(self, made: dict[str, Any], expand: list[str]) -> dict[str, Any]:
        """The object, compared with the vendor's type, with what was asked to be expanded."""
        for row in made["data"] if made["object"] in ("list", "search_result") else [made]:
            if row["object"] in vendor.RESOURCES and not row.get("deleted"):
                self.checks += [
                    f"{row['object']}: {fault}" for fault in vendor.faults(vendor.resource(row["object"]), row)
                ]
        made = json.loads(json.dumps(made))
        for path in expand:
            self._expand([made], path.split("."))
        return made

    def _expand(self, rows: list[dict[str, Any]], path: list[str]) -> None:
        for row in rows:
            value = row.get(path[0])
            if isinstance(value, list):
                self._expand([part for part in value if isinstance(part, dict)], path[1:])
                continue
            if isinstance(value, str) and value in self.books.objects:
                row[path[0]] = value = json.loads(json.dumps(self.books.objects[value]))
            if isinstance(value, dict) and path[1:]:
                self._expand([value], path[1:])


def decode(text: str) -> dict[str, Any]:
    """``a[b][0]=c`` as nested dicts and lists."""
    tree: dict[str, Any] = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        head, *rest = re.findall(r"[^\[\]]+|(?<=\[)(?=\])", name)
        at: dict[str, Any] = tree
        for step, following in zip([head, *rest], [*rest, None], strict=True):
            step = step or str(len(at))
            if following is None:
                at[step] = value
            else:
                at = at.setdefault(step, {})
    return {name: _listed(value) for name, value in tree.items()}


def _listed(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if value and all(name.isdigit() for name in value):
        return [_listed(value[name]) for name in sorted(value, key=int)]
    return {name: _listed(inner) for name, inner in value.items()}


def _json(body: Any) -> bytes:
    return json.dumps(body).encode()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


class _Handler(BaseHTTPRequestHandler):
    twin: Twin
    protocol_version = "HTTP/1.1"
    timeout = 30

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else 21 requests a second

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if not self.path.startswith("/v1/"):
            status, text, headers = pages.answer(self.twin, self.command, self.path, body)
            return self._send(status, text, {"Content-Type": "text/html; charset=utf-8", **headers})
        try:
            status, answer, more = self.twin.answer(self.command, self.path, dict(self.headers), body)
        except Cut:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return None
        return self._send(status, answer, {"Content-Type": "application/json", "Request-Id": "req_twin", **more})

    def _send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Silent: the test prints what it needs."""
