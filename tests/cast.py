"""The cast of all tests: five people who keep their parts.

| who | is |
|---|---|
| ada | owner of the tenant *Moss Lab* (CNY, bills by Asia/Shanghai) |
| ben | developer there |
| cleo | owner of another organisation: a stranger to everything of ada's |
| sol | owner of the provider *Sol Power* |
| staff | operator of the platform, member of nothing |

Each is a :class:`Person`: `.user`, `.organisation`, `.project`, `.actor`, `.web()` (a browser's session) and
`.program()` (an API key). Fixtures make the person (and whom they need) in the test's database: ``def test_x(ada, sol):
…``.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

PASSWORD = "correct horse battery"
THEN = datetime(2026, 11, 2, 8, 0, tzinfo=UTC)
"""When the cast signed up."""


@dataclass
class Person:
    """One of the cast."""

    user: Any
    organisation: Any = None

    @property
    def id(self) -> str:
        return str(self.user.public_id)

    @property
    def actor(self) -> Any:
        from portal.accounts import actors

        return actors.of_user(self.user, self.organisation.slug if self.organisation else None)

    @property
    def member(self) -> Any:
        return self.user.memberships.get(organisation=self.organisation)

    @property
    def project(self) -> Any:
        """The first project of the organisation."""
        return self.organisation.projects.order_by("id").first()

    def web(self, **extra: Any) -> Any:
        """A REST client with this person's session (CSRF not enforced)."""
        from rest_framework.test import APIClient

        client = APIClient(**extra)
        client.force_login(self.user, backend="django.contrib.auth.backends.ModelBackend")
        return client

    def browser(self) -> Any:
        """A Django client with this person's session, for pages."""
        from django.test import Client

        client = Client()
        client.force_login(self.user, backend="django.contrib.auth.backends.ModelBackend")
        return client

    def key(self, *, scopes: Any = None, **fields: Any) -> Any:
        """A new API key: `.key` the row, `.text` what is shown once."""
        from portal.accounts.services import keys

        return keys.create(member=self.member, name="test", by=self.id, scopes=scopes, now=THEN, **fields)

    def program(self, *, scopes: Any = None) -> Any:
        """A REST client that sends a key of this person."""
        from rest_framework.test import APIClient

        client = APIClient()
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {self.key(scopes=scopes).text}")
        return client


def a_newcomer(
    email: str, organisation: str, *, currency: str = "CNY", period_timezone: str = "Asia/Shanghai", name: str = ""
) -> Person:
    """Somebody who signs up with an organisation of their own."""
    from portal.accounts.services.sign_up import sign_up

    made = sign_up(
        email=email,
        password=PASSWORD,
        name=name or email.split("@")[0].capitalize(),
        organisation_name=organisation,
        currency=currency,
        period_timezone=period_timezone,
        now=THEN,
    )
    return Person(made.user, made.organisation)


def a_member(of: Person, email: str, role: str) -> Person:
    """Somebody of that role in `of`'s organisation."""
    from portal.accounts.models import Membership
    from portal.accounts.services.sign_up import create_user

    user = create_user(email=email, password=PASSWORD, name=email.split("@")[0].capitalize(), now=THEN)
    Membership.objects.create(user=user, organisation=of.organisation, role=role, created_at=THEN)
    return Person(user, of.organisation)


@pytest.fixture
def ada(db: None) -> Person:
    return a_newcomer("ada@example.org", "Moss Lab")


@pytest.fixture
def ben(ada: Person) -> Person:
    return a_member(ada, "ben@example.org", "developer")


@pytest.fixture
def cleo(db: None) -> Person:
    return a_newcomer("cleo@example.org", "Clear Water")


@pytest.fixture
def sol(db: None) -> Person:
    return a_newcomer("sol@example.org", "Sol Power")


@pytest.fixture
def staff(db: None) -> Person:
    from portal.accounts.services.sign_up import create_user

    return Person(create_user(email="staff@example.org", password=PASSWORD, name="Staff", operator=True, now=THEN))
