"""Nonsense, strangers and dead keys at every door of /api/v1: the documented refusal, and nothing has changed.

The doors come out of the URL table (tests/portal/api/doors.py), so a new one is tested by being there: one that takes an id needs a row in
`OWN`, or the first test here fails.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.db import transaction

from billing.domain import bank_files
from billing.models import HostedPage, Payment, Payout
from billing.selectors import bank
from billing.services import allocations, bank_transfers, budgets, credit_notes, fapiao, usage
from portal import clock
from portal.accounts.models import ApiKey, Project
from portal.accounts.services import keys, secrets, webhooks
from portal.kit.money import Money
from scheduling.models import Artefact
from scheduling.services import quotes
from tests.billing.books import a_fact, october
from tests.cast import Person, a_member
from tests.factories.market import a_node
from tests.factories.work import a_job, an_attempt
from tests.portal.api.doors import Door, doors
from tests.portal.api.test_doors import PUBLIC
from tests.scheduling.services.works import heard, spec, submit

pytestmark = pytest.mark.django_db

BUSINESSES = ("accounts", "marketplace", "scheduling", "billing")
# What a refused request may leave: that a key was used.
MAY_MOVE = {"ApiKey.last_used_at", "User.last_login"}
MADE_ON_DEMAND = {"InvoiceDocument"}  # the first reader of a PDF has it printed
# Seen by every tenant, by decision: places and what is for sale.
OPEN = re.compile(r"/regions/|^/api/v1/capacity/|^/api/v1/offers/[^:]+$|/fingerprints$")


@pytest.fixture
def own(ada: Person, settings: Any) -> dict[str, str]:
    """One of each thing, all of ada's: resource → its id in the address."""
    settings.IDLEWILD_RATE_LIMITS = {
        name: {**row, "count": 1_000_000} for name, row in settings.IDLEWILD_RATE_LIMITS.items()
    }
    now = clock.now()
    node = a_node(ada, now=now - timedelta(hours=1))
    heard(now=now)
    job = submit(ada, now=now)
    attempt = an_attempt(a_job(ada, name="older"), node)
    kept = Artefact.objects.create(
        organisation=ada.organisation, job=attempt.task.job, task=attempt.task, attempt=attempt, name="best", path="/job/best",
        size_bytes=1, sha256="a" * 64, object_name="objects/a", complete=True, published=True, created_at=now,
        expires_at=now + timedelta(days=1),
    )  # fmt: skip
    secrets.put(organisation=ada.organisation, name="HUB", value="x", by=ada.id, now=now)
    vision = Project.objects.create(organisation=ada.organisation, slug="vision", name="Vision", created_at=now)
    quote = quotes.make(actor_org=ada.organisation, project=None, spec=spec(), by=ada.id, now=now)
    usage.record(fact=(fact := a_fact(ada.organisation)), now=fact.ended_at)
    invoice = october(ada.organisation)
    note = credit_notes.issue(
        invoice=invoice, total=Money(1, "CNY"), reason="x", reference="of the tests", by="usr_staff", now=now
    )
    asked = fapiao.request(
        invoice=invoice, kind="normal", buyer_name="Moss", buyer_code="91110000600037341L", by=ada.id, now=now
    )
    rule = allocations.set_rule(
        organisation=ada.organisation, name="", source_kind="department", source="Platform", method="equal", weights=[],
        from_month="2026-12", by=ada.id, now=now,
    )  # fmt: skip
    budget = budgets.set_budget(
        organisation_id=ada.organisation.id, scope="organisation", amount=Money(10_000, "CNY"), by=ada.id, now=now
    )
    bank_transfers.import_statement(
        name="x", data=f"{bank_files.TEMPLATE}2026-11-11,1,CNY,a,b,c,B1".encode(), by="usr_staff", now=now
    )
    transfer = bank.unmatched().get()
    paid = Payment.objects.create(
        organisation=ada.organisation, invoice=invoice, purpose="invoice", currency="CNY", amount_minor=700, state="succeeded", by=ada.id,
        created_at=now,
    )  # fmt: skip
    page = HostedPage.objects.create(
        organisation=ada.organisation, kind="checkout", payment=paid, by=ada.id, created_at=now
    )
    sent = Payout.objects.create(
        organisation=ada.organisation, currency="CNY", amount_minor=700, state="paid", created_at=now
    )
    ben = a_member(ada, "ben@example.org", "developer")
    told = webhooks.create(organisation=ada.organisation, url="https://x.org", types=[], by=ada.id, now=now)
    delivery = webhooks.test(endpoint=told.endpoint, by=ada.id, now=now)
    return {
        "webhooks": told.endpoint.public_id,
        "webhook-deliveries": delivery.public_id,
        "organisations": ada.organisation.slug,
        "projects": vision.slug,
        "members": ben.id,
        "api-keys": ben.key().key.public_id,
        "secrets": "HUB",
        "errors": "not_found",
        "regions": node.zone.region.slug,
        "capacity": node.zone.region.slug,
        f"capacity/{node.zone.region.slug}": node.zone.slug,
        "offers": node.offers.get().public_id,
        "nodes": node.public_id,
        "quotes": quote.public_id,
        "jobs": job.public_id,
        "artefacts": kept.public_id,
        "invoices": invoice.public_id,
        "fapiao": asked.public_id,
        "allocation-rules": rule.public_id,
        "budgets": budget.public_id,
        "credit-notes": note.public_id,
        "bank-transfers": transfer.public_id,
        "payments": paid.public_id,
        "pages": page.public_id,
        "payouts": sent.public_id,
    }


def addresses(own: dict[str, str]) -> Iterator[tuple[Door, str]]:
    """Every guarded door, with the id of a thing that is there."""
    for door in doors():
        if door.name in PUBLIC or "decisions" in door.path:
            continue
        path = door.path
        for resource, public_id in own.items():
            path = re.sub(rf"(?<=/{resource}/)(nothing-there|nothing|usr_0)(?=[/.:]|$)", public_id, path)
        yield door, path


def world() -> dict[str, list[Any]]:
    """All rows of all businesses."""
    rows: dict[str, list[Any]] = {}
    for model in (model for name in BUSINESSES for model in apps.get_app_config(name).get_models()):
        if model.__name__ in MADE_ON_DEMAND:
            continue
        fields = [f.attname for f in model._meta.concrete_fields if f"{model.__name__}.{f.attname}" not in MAY_MOVE]
        rows[model.__name__] = list(model._default_manager.order_by("pk").values_list(*fields))
    return rows


@contextmanager
def undone() -> Iterator[None]:
    """What happens inside is rolled back."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def problem(answer: Any) -> bool:
    return answer["Content-Type"].startswith("application/problem+json") and {"code", "detail", "status"} <= set(
        answer.json()
    )


def test_every_door_with_an_id_has_a_thing_here(own: dict[str, str]) -> None:
    assert [path for _, path in addresses(own) if re.search(r"/(nothing-there|nothing|usr_0)(?=[/.:]|$)", path)] == []


NO_BODY = [
    "{",
    "[]",
    "7",
    '"x"',
    "[1, 2",
    '{"a": NaN}',
    "\ufeff{}",
    '{"surprise": 1}',
    '{"spec\\u0000": 1}',
    "[" * 5_000,
]


def test_a_body_that_is_none_is_refused_everywhere_and_changes_nothing(ada: Person, own: dict[str, str]) -> None:
    client, before, wrong = ada.program(), world(), []
    for door, path in addresses(own):
        for method in {"post", "patch"} & set(door.methods):
            for body in NO_BODY:
                answer = getattr(client, method)(path, body, content_type="application/json", HTTP_IF_MATCH="*")
                if answer.status_code not in (400, 403, 404, 413, 415, 422) or not problem(answer):
                    wrong.append(f"{method} {path} {body[:20]}: {answer.status_code} {answer.content[:120]!r}")
    assert wrong == []
    after = world()
    assert [name for name in before if before[name] != after[name]] == []


NONSENSE = [
    None,
    True,
    -1,
    10**30,
    1.5,
    "",
    "\0",
    "x" * 70_000,
    "💥",
    [],
    {},
    ["x"],
    {"x": 1},
    [None],
    {"amount": "NaN"},
    "1e999",
]


def test_no_value_of_a_field_breaks_a_door(ada: Person, own: dict[str, str]) -> None:
    """Each documented field of each body, with values of every kind: an answer or a problem, never a crash."""
    client, wrong = ada.program(), []
    fields = documented_fields(client)
    assert len(fields) > 15
    for door, path in addresses(own):
        for method in {"post", "patch"} & set(door.methods):
            for field in fields.get((method, shape(door.path)), ()):
                for value in NONSENSE:
                    with undone():
                        answer = getattr(client, method)(
                            path, json.dumps({field: value}), content_type="application/json", HTTP_IF_MATCH="*"
                        )
                    if answer.status_code >= 500 or (answer.status_code >= 400 and not problem(answer)):
                        wrong.append(
                            f"{method} {path} {field}={value!r:.40}: {answer.status_code} {answer.content[:120]!r}"
                        )
    assert wrong == []


def shape(path: str) -> str:
    """An address without what stands for an id, to compare the URL table with the schema."""
    return (
        re.sub(r"\{[^}]+\}|nothing-there|nothing|usr_0|(?<=lines/)1", "*", path)
        .replace(":suspend", ":*")
        .replace(":pause", ":*")
        .replace(":undrain", ":*")
    )


def documented_fields(client: Any) -> dict[tuple[str, str], list[str]]:
    document = client.get("/api/v1/openapi.json").json()
    found: dict[tuple[str, str], list[str]] = {}
    for path, methods in document["paths"].items():
        for method, told in methods.items():
            body = told.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            name = body.get("$ref", "").rpartition("/")[2]
            properties = document["components"]["schemas"].get(name, body).get("properties", {})
            if properties:
                found[method, shape(path)] = list(properties)
    return found


QUERIES = ["limit=0", "limit=-1", "limit=abc", "limit=99999999999999999999", "cursor=%00", "cursor=!", "cursor=" + "A" * 5_000, "since=%00",
           "month=2026-13", "month=%00", "state=%00", "q=%00", "project=%00", "offset=-1", "colour=red"]  # fmt: skip


def test_no_question_breaks_a_door(ada: Person, own: dict[str, str]) -> None:
    client, before, wrong = ada.program(), world(), []
    for door, path in addresses(own):
        if "get" not in door.methods:
            continue
        for query in QUERIES:
            answer = client.get(f"{path}?{query}")
            if answer.status_code >= 500 or (answer.status_code >= 400 and not problem(answer)):
                wrong.append(f"{path}?{query[:30]}: {answer.status_code} {getattr(answer, 'content', b'')[:120]!r}")
    assert wrong == []
    after = world()
    assert [name for name in before if before[name] != after[name]] == []


def test_what_belongs_to_others_is_404_at_every_door_and_stays_as_it_is(cleo: Person, own: dict[str, str]) -> None:
    client, before, wrong = cleo.program(), world(), []
    for door, path in addresses(own):
        if path == door.path or (OPEN.search(path) and not path.endswith(":reprice")):
            continue
        for method in door.methods:
            body = None if method == "get" else {}
            answer = getattr(client, method)(path, body, HTTP_IF_MATCH="*")
            if answer.status_code not in (404, 422) or not problem(answer):
                wrong.append(f"{method} {path}: {answer.status_code} {answer.content[:120]!r}")
            if method in ("get", "delete") and answer.status_code != 404:
                wrong.append(f"{method} {path}: {answer.status_code}")
    assert wrong == []
    after = world()
    assert [name for name in before if before[name] != after[name]] == []


@pytest.mark.parametrize("end", ["expired", "revoked", "tampered"])
def test_a_key_that_is_over_opens_no_door(ada: Person, own: dict[str, str], end: str) -> None:
    client, made = ada.program(), ada.key()
    text = made.text
    if end == "expired":
        ApiKey.objects.filter(id=made.key.id).update(expires_at=clock.now() - timedelta(seconds=1))
    elif end == "revoked":
        keys.revoke(key=made.key, by=ada.id, now=clock.now())
    else:
        text = text[:-4] + "0000"
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {text}")
    before, wrong = world(), []
    for door, path in addresses(own):
        for method in door.methods:
            answer = getattr(client, method)(path, None if method == "get" else {}, HTTP_IF_MATCH="*")
            if answer.status_code != 401 or not problem(answer):
                wrong.append(f"{method} {path}: {answer.status_code}")
    assert wrong == []
    assert world() == before
