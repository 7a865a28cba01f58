"""Role × deed × every door of the REST (house §8): nobody comes in without the deed, nobody with it is kept out."""

import inspect

import pytest

from portal.accounts.models import Role
from portal.accounts.permissions import ROLE_DEEDS, DeedNeeded, OperatorsAlone
from tests.cast import a_member, a_newcomer
from tests.portal.api.doors import doors

TABLE = {
    "work.read": "owner admin developer billing viewer",
    "costs.read": "owner admin developer billing viewer",
    "logs.read": "owner admin developer viewer",
    "jobs.run": "owner admin developer",
    "secrets.set": "owner admin developer",
    "nodes.run": "owner admin developer",
    "offers.price": "owner admin",
    "money.read": "owner admin billing viewer",
    "budgets.set": "owner admin billing",
    "projects.manage": "owner admin",
    "money.move": "owner billing",
    "members.manage": "owner admin",
    "audit.read": "owner admin billing",
    "organisation.manage": "owner",
}


def test_roles_and_deeds_are_those_of_the_house():
    assert {deed: {str(r) for r, deeds in ROLE_DEEDS.items() if deed in deeds} for deed in TABLE} == {
        deed: set(roles.split()) for deed, roles in TABLE.items()
    }
    assert set().union(*ROLE_DEEDS.values()) == set(TABLE)


PUBLIC = {
    "scheduling.api.quotes.JobSpecSchema",
    "portal.accounts.api.errors.Errors",
    "portal.accounts.api.errors.OneError",
}
"""Doors for everybody, by decision."""


def guarded_doors():
    return [door for door in doors() if door.name not in PUBLIC]


def permission(view):
    return next((p for p in view.permission_classes if isinstance(p, DeedNeeded | OperatorsAlone)), None)


def test_every_door_asks_for_a_deed():
    assert [door.name for door in guarded_doors() if permission(door.view) is None] == []


@pytest.mark.parametrize("role", [role.value for role in Role])
def test_each_role_enters_where_its_deeds_lead(db, role):
    owner = a_newcomer("o@example.org", "Org")
    person = owner if role == "owner" else a_member(owner, "m@example.org", role)
    client = person.web()
    wrong = []
    for door in guarded_doors():
        asked = permission(door.view)
        for method in door.methods:
            if isinstance(asked, OperatorsAlone):
                expected = False
            else:
                deed = asked.of(method.upper())
                expected = not deed or deed in ROLE_DEEDS[Role(role)]
            answer = getattr(client, method)(
                door.path, data=None if method == "get" else {}, format=None if method == "get" else "json"
            )
            refused = answer.status_code in ((404,) if isinstance(asked, OperatorsAlone) else (401, 403))
            if refused == expected or answer.status_code >= 500 or answer.status_code == 429:
                wrong.append(f"{role} {method} {door.path}: {answer.status_code} {answer.content[:200]!r}")
    assert wrong == []


def test_a_stranger_without_sign_in_gets_401_everywhere(client, db):
    wrong = []
    for door in guarded_doors():
        for method in door.methods:
            answer = getattr(client, method)(door.path, content_type="application/json")
            if answer.status_code != 401 or answer["Content-Type"] != "application/problem+json":
                wrong.append(f"{method} {door.path}: {answer.status_code}")
    assert wrong == []


NO_KEY_NEEDED = {
    "portal.accounts.api.keys.ApiKeys": "a stored answer would keep the key's text",
    "portal.accounts.api.keys.Secrets": "writing the same name again replaces it",
    "portal.accounts.api.webhooks.Webhooks": "a stored answer would keep the secret; the same address twice is refused",
    "scheduling.api.quotes.Quotes": "a quote costs nothing and holds nothing",
}
SPENDS = {"scheduling.api.jobs.Jobs", "scheduling.api.jobs.Retry", "marketplace.api.provider.Invite", "marketplace.api.catalog.Offers",
          "marketplace.api.catalog.Reprice"}  # fmt: skip


def makes_something(view):
    """Whether the source of its `post` answers 201."""
    return "status=201" in inspect.getsource(view.post)


def test_a_door_that_makes_or_spends_takes_an_idempotency_key():
    without = {
        door.name
        for door in guarded_doors()
        if "post" in door.methods and (makes_something(door.view) or door.name in SPENDS)
        if "@idempotent" not in inspect.getsource(door.view.post)
    }
    assert without == set(NO_KEY_NEEDED)
    assert {door.name for door in guarded_doors()} >= SPENDS
