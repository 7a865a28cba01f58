"""How the twin tells its events: signed as the vendor signs, once or often, in order or not, or never.

Without an endpoint nothing is sent by itself: a test takes `due()` and posts each body where it likes. With ``auto`` a thread delivers to the endpoints
that were made over the interface, again after a failure.
"""

import hashlib
import hmac
import json
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx

from tests.fakes.stripe_twin.books import Books

Send = Callable[[bytes, dict[str, str]], int]


def sign(body: bytes, secret: str, at: int) -> str:
    """The header ``Stripe-Signature`` of a body that is sent at that time."""
    digest = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"


class Hooks:
    """Delivery of the books' events, with its knobs."""

    def __init__(self, books: Books) -> None:
        self.books = books
        self.secret = "whsec_twin"
        self.duplicate = 1
        """How often each event is sent."""
        self.drop = 0.0
        """Share of the events that are never sent."""
        self.shuffle: random.Random | None = None
        """Set: they are sent in any order."""
        self._sent = 0
        self._wanted = threading.Event()
        self._stop = False

    def due(self) -> Iterator[tuple[bytes, dict[str, str]]]:
        """Body and headers of every delivery that is due; each event is due once."""
        with self.books.lock:
            events = self.books.events[self._sent :]
            self._sent = len(self.books.events)
        chance = self.shuffle or random.Random(0)
        events = [event for event in events for _ in range(self.duplicate) if chance.random() >= self.drop]
        if self.shuffle:
            self.shuffle.shuffle(events)
        for event in events:
            yield self.pack(event)

    def pack(self, event: dict[str, Any], *, secret: str = "", at: int | None = None) -> tuple[bytes, dict[str, str]]:
        """One event as it is posted."""
        body = json.dumps(event).encode()
        when = self.books.clock.now() if at is None else at
        return body, {"Content-Type": "application/json", "Stripe-Signature": sign(body, secret or self.secret, when)}

    def deliver(self, send: Send) -> list[int]:
        """Send what is due; the statuses."""
        return [send(body, headers) for body, headers in self.due()]

    # --- by itself, to the endpoints ----------------------------------------------------------------------------------
    def nudge(self) -> None:
        self._wanted.set()

    def start(self, url: str) -> threading.Thread:
        """A thread that posts every event to `url`, and again a second later if it was not taken."""

        def run() -> None:
            waiting: list[tuple[bytes, dict[str, str]]] = []
            while not self._stop:
                self._wanted.wait(1.0)
                self._wanted.clear()
                waiting = [packed for packed in [*waiting, *self.due()] if not 200 <= post(url, *packed) < 300][-1_000:]

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread

    def stop(self) -> None:
        self._stop = True
        self._wanted.set()


def post(url: str, body: bytes, headers: dict[str, str]) -> int:
    """Status of a POST; 0 when nobody answers."""
    try:
        return httpx.post(url, content=body, headers=headers, timeout=10).status_code
    except httpx.HTTPError:
        return 0
