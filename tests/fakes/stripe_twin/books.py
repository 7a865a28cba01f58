"""The twin's memory: objects, balances, its own clock, its events. Rules are in `rules`, doors in `server`.

One lock guards all of it: a request sees the state of one moment, as it does at the vendor's.
"""

import itertools
import threading
import time
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.stripe_twin import vendor

PLATFORM = ""
"""Owner of the platform's own balance; connected accounts own theirs under their id."""
DAY = 86_400


class Refused(Exception):
    """The service says no: HTTP status, error type, code, sentence."""

    def __init__(
        self, status: int, code: str, message: str, *, kind: str = "invalid_request_error", **more: Any
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": {"type": kind, "code": code, "message": message} | more}


@dataclass
class Clock:
    """The twin's own time in Unix seconds: the machine's, until it is set."""

    fixed: int | None = None

    def now(self) -> int:
        return int(time.time()) if self.fixed is None else self.fixed

    def set(self, seconds: float) -> None:
        self.fixed = int(seconds)

    def advance(self, seconds: float) -> None:
        self.fixed = self.now() + int(seconds)


@dataclass
class Part:
    """A part of a balance that becomes available at a time."""

    amount: int
    available_on: int


@dataclass
class Books:
    """All that the twin knows."""

    clock: Clock = field(default_factory=Clock)
    fee_ppm: int = 29_000
    fee_fixed: int = 30
    dispute_fee: int = 1_500
    pending_days: int = 2
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)  # id → object, in order of making
    balances: dict[tuple[str, str], list[Part]] = field(default_factory=dict)  # (owner, currency) → parts
    events: list[dict[str, Any]] = field(default_factory=list)
    cards: dict[str, str] = field(default_factory=dict)  # payment method → card number
    notes: dict[str, dict[str, Any]] = field(default_factory=dict)  # what the service remembers and does not tell
    lock: threading.RLock = field(default_factory=threading.RLock)
    _numbers: Any = field(default_factory=lambda: itertools.count(1))

    def id(self, prefix: str) -> str:
        return f"{prefix}_twin{next(self._numbers):08d}"

    def make(self, kind: str, prefix: str, **values: Any) -> dict[str, Any]:
        """A new object of the vendor's type `kind` with `values`, kept under its id."""
        made = vendor.blank(vendor.resource(kind))
        for name, value in {"id": self.id(prefix), "created": self.clock.now(), "livemode": False, **values}.items():
            if name in made or name in values:
                made[name] = value
        self.objects[made["id"]] = made
        return made

    def get(self, wanted: str, kind: str) -> dict[str, Any]:
        """That object, or 404 ``resource_missing``."""
        found = self.objects.get(wanted)
        if found is None or found["object"] != kind:
            raise Refused(404, "resource_missing", f"No such {kind}: '{wanted}'", param="id")
        return found

    def all(self, kind: str) -> list[dict[str, Any]]:
        """All objects of a kind, newest first."""
        return [row for row in reversed(self.objects.values()) if row["object"] == kind]

    # --- balances -------------------------------------------------------------------------------------------------------
    def move(self, owner: str, currency: str, amount: int, available_on: int | None = None) -> None:
        self.balances.setdefault((owner, currency), []).append(Part(amount, available_on or self.clock.now()))

    def available(self, owner: str, currency: str) -> int:
        now = self.clock.now()
        return sum(part.amount for part in self.balances.get((owner, currency), []) if part.available_on <= now)

    def whole(self, owner: str, currency: str) -> int:
        return sum(part.amount for part in self.balances.get((owner, currency), []))

    def transaction(
        self, kind: str, amount: int, currency: str, source: str, *, fee: int = 0, owner: str = PLATFORM, days: int = 0
    ) -> dict[str, Any]:
        """A balance transaction, and the balance moved by its net."""
        available_on = self.clock.now() + days * DAY
        made = self.make(
            "balance_transaction", "txn", amount=amount, currency=currency, fee=fee, net=amount - fee, source=source, type=kind,
            reporting_category=kind, status="pending" if days else "available", available_on=available_on, balance_type="payments",
            description=None,
            fee_details=[{"amount": fee, "currency": currency, "type": "stripe_fee", "description": None, "application": None}] if fee else [],
        )  # fmt: skip
        if owner:
            del self.objects[made["id"]]  # the connected account's own list, which we do not serve
        self.move(owner, currency, amount - fee, available_on)
        return made

    # --- events ---------------------------------------------------------------------------------------------------------
    def tell(self, kind: str, about: dict[str, Any], *, account: str = "") -> dict[str, Any]:
        """An event with the object as it is now."""
        made = self.make(
            "event", "evt", type=kind, data={"object": deepcopy(about)}, api_version="2026-10-28.endive", pending_webhooks=1,
            request={"id": None, "idempotency_key": None},
        )  # fmt: skip
        if account:
            made["account"] = account
        self.events.append(made)
        return made
