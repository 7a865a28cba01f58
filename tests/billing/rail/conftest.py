"""The product wired to the twin by settings alone, and the few moves that its tests make: keep promises, tell events, close a month."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from billing.domain.ledger import AccountKind
from billing.domain.rail import RAIL
from billing.models import Invoice
from billing.selectors import balances
from portal import clock
from portal.outbox import services as outbox
from portal.outbox.models import OutboxMessage
from tests.billing.books import a_tenant, rated
from tests.fakes.stripe_twin.server import Twin

CARD_HOUR = 3_600_000_000


class Rail:
    """The twin, and the product at one moment."""

    def __init__(self, twin: Twin) -> None:
        self.twin = twin
        self.now = datetime(2026, 11, 10, 9, tzinfo=UTC)
        self.set(self.now)

    def set(self, now: datetime) -> None:
        self.now = now
        self.twin.clock.set(now.timestamp())

    def wait(self, **length: float) -> None:
        self.set(self.now + timedelta(**length))

    def relay(self, rounds: int = 8) -> None:
        """Keep promises until none is due; the mails are left alone."""
        OutboxMessage.objects.filter(topic__in=["mail", "invoice.pdf"], sent_at=None).update(sent_at=self.now)
        for _ in range(rounds):
            if not outbox.relay(now=self.now):
                return

    def tell(self) -> list[int]:
        """Deliver what the twin has to tell, through the real door."""
        door = Client()
        return self.twin.hooks.deliver(lambda body, headers: self.post(door, body, headers))

    def post(self, door: Client, body: bytes, headers: dict[str, str]) -> int:
        answer = door.post(
            "/hooks/stripe",
            body,
            content_type="application/json",
            headers={"Stripe-Signature": headers.get("Stripe-Signature", "")},
        )
        return int(answer.status_code)

    def drift(self, currency: str) -> int:
        """What the rail has more than the ledger says."""
        return self.twin.books.whole("", currency.lower()) + balances.of(RAIL, AccountKind.CASH, currency)

    def all_in_balance(self) -> None:
        assert set(balances.trial().values()) <= {0}
        assert self.twin.checks == []


@pytest.fixture
def twin() -> Iterator[Twin]:
    with Twin() as running:
        yield running


@pytest.fixture
def rail(twin: Twin, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Rail:
    settings.STRIPE_SECRET_KEY = twin.key
    settings.STRIPE_WEBHOOK_SECRET = twin.hooks.secret
    settings.IDLEWILD_STRIPE_API_BASE = twin.url
    made = Rail(twin)
    monkeypatch.setattr(clock, "now", lambda: made.now)  # the doors' one source of time, moved by the test
    return made


def an_invoice(currency: str = "EUR", amount: int = 10_000, **values: Any) -> Invoice:
    """An issued invoice of one line: `amount` minor units in a currency of two places."""
    tenant = values.pop("tenant", None) or a_tenant(currency=currency)
    return rated(tenant, (CARD_HOUR, amount * 10_000), currency=currency, **values)
