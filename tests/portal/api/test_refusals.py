"""Each documented error code is provoked by a test that names it; those that the doors of /api/v1 give are asked for here."""

import re
from datetime import timedelta
from hashlib import sha256
from typing import Any

import pytest
from django.db.models import Model
from django.test import Client

from agent import protocol as wire
from billing.models import AllocationRule, FapiaoRequest, Invoice, InvoiceDocument
from billing.services import allocations
from marketplace.models import CheckedRun
from marketplace.services import challenges
from portal import clock
from portal.accounts.models import Membership, Organisation
from portal.api.codes import CODES
from portal.audit.models import AuditEvent
from scheduling.models import Artefact
from scheduling.services import artefacts, jobs
from tests.cast import Person, a_member, a_newcomer
from tests.factories.hardware import SomeHardware, cards
from tests.factories.market import a_node, an_invited
from tests.factories.running import a_running, an_output
from tests.factories.work import a_job
from tests.scheduling.services.works import submit
from tests.sources import ROOT, python_files

pytestmark = pytest.mark.django_db

# Told only to who lost a race that the guards of the database decided; the winner's deed stands, so there is nothing to see from outside.
OF_RACES = {"artefact_moved", "attempt_moved", "job_moved", "lease_moved", "task_moved", "invoice_changed"}
NARROWED = {"upgrade_required": "WIRE_VERSION", "state": "invalid_transition"}
"""Codes of a class that every place of the code narrows to another one."""


def test_every_code_is_named_by_a_test() -> None:
    words = "\n".join((ROOT / path).read_text() for path in python_files("tests") if path.name != "test_codes.py")
    silent = {code for code in CODES if not re.search(rf"\b{code}\b", words)}
    assert silent == set(), "provoke it, and see that nothing changed"


def refused(answer: Any, status: int, code: str) -> None:
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.content


ABSENT = [
    ("/api/v1/artefacts/art_nothing", "artefact_not_found"),
    ("/api/v1/nodes/nod_nothing", "node_not_found"),
    ("/api/v1/offers/ofr_nothing", "offer_not_found"),
    ("/api/v1/projects/nothing", "project_not_found"),
    ("/api/v1/regions/nothing", "region_not_found"),
]


@pytest.mark.parametrize(("path", "code"), ABSENT)
def test_what_is_absent_is_named(ada: Person, path: str, code: str) -> None:
    refused(ada.program().get(path), 404, code)


def test_parts_of_a_job_that_are_absent(ada: Person, staff: Person) -> None:
    job = a_job(ada)
    refused(ada.program().get(f"/api/v1/jobs/{job.public_id}/logs?task=nothing"), 404, "task_not_found")
    refused(ada.program().get(f"/api/v1/jobs/{job.public_id}/logs?attempt=9"), 404, "attempt_not_found")
    refused(staff.web().post("/api/v1/decisions/dec_nothing:replay"), 404, "decision_not_found")


def test_an_ended_job_keeps_its_priority(ada: Person) -> None:
    job = jobs.cancel(job=submit(ada), by=ada.id, now=clock.now())
    answer = ada.program().patch(f"/api/v1/jobs/{job.public_id}", {"priority": 1}, HTTP_IF_MATCH="*")
    refused(answer, 409, "job_ended")
    job.refresh_from_db()
    assert job.priority == 5


def test_members_are_invited_once_and_not_above_ones_own_role(ada: Person) -> None:
    admin = a_member(ada, "ada.min@example.org", "admin")
    refused(
        ada.web().post("/api/v1/members", {"email": admin.user.email, "role": "viewer"}, format="json"),
        409,
        "already_member",
    )
    refused(
        admin.web().post("/api/v1/members", {"email": "new@example.org", "role": "owner"}, format="json"),
        403,
        "above_own_role",
    )
    assert Membership.objects.filter(organisation=ada.organisation).count() == 2


def test_an_invitation_is_for_its_person_once(ada: Person, cleo: Person) -> None:
    from portal.accounts.models import Role
    from portal.accounts.services import members

    made = members.invite(
        organisation=ada.organisation,
        email="new@example.org",
        role="viewer",
        by=ada.id,
        by_role=Role.OWNER,
        now=clock.now(),
    )
    refused(cleo.web().post("/api/v1/invitations:accept", {"token": made.token}, format="json"), 403, "other_person")
    new = a_newcomer("new@example.org", "New")
    assert new.web().post("/api/v1/invitations:accept", {"token": made.token}, format="json").status_code == 201
    refused(new.web().post("/api/v1/invitations:accept", {"token": made.token}, format="json"), 404, "invitation_over")
    assert not ada.organisation.memberships.filter(user=cleo.user).exists()


def test_who_belongs_nowhere_is_told_what_to_do(staff: Person) -> None:
    refused(staff.web().get("/api/v1/jobs"), 404, "no_organisation")


def test_we_answer_with_json(ada: Person) -> None:
    refused(ada.program().get("/api/v1/jobs", HTTP_ACCEPT="text/csv"), 406, "not_acceptable")


def test_an_output_that_is_gone_and_one_that_was_not_asked_for(ada: Person, sol: Person) -> None:
    from portal.kit.errors import Conflict, NotFound

    now = clock.now()
    work = a_running(ada, a_node(sol), now=now - timedelta(seconds=5), outputs=(an_output(),))
    with pytest.raises(NotFound) as unknown:
        artefacts.upload(
            attempt=work.fresh(),
            name="other",
            offset=0,
            data=b"x",
            digest=sha256(b"x").hexdigest(),
            total=1,
            whole_digest="",
            now=now,
        )
    assert unknown.value.code == "output_unknown"
    Artefact.objects.create(
        organisation=ada.organisation, job=work.job, task=work.task, attempt=work.attempt, name="result", path="/job/result.txt",
        size_bytes=1, sha256="a" * 64, object_name="objects/a", complete=False, created_at=now, expires_at=now + timedelta(days=1),
    )  # fmt: skip
    with pytest.raises(Conflict) as incomplete:
        artefacts.publish(attempt=work.fresh(), names=["result"], now=now)
    assert incomplete.value.code == "output_incomplete"
    row = Artefact.objects.get()
    Artefact.objects.filter(id=row.id).update(state="deleted")
    row.refresh_from_db()
    with pytest.raises(NotFound) as gone:
        list(artefacts.content(artefact=row))
    assert gone.value.code == "artefact_gone"


def test_a_portal_without_virtual_cards_takes_none(sol: Person, settings: Any) -> None:
    settings.IDLEWILD_VIRTUAL_CARDS = False
    invited = an_invited(sol, now=clock.now())
    hardware = SomeHardware(devices=cards(1, virtual=True))
    devices = [
        {"id": d.id, "kind": d.kind, "model": d.model, "memory_mib": d.memory_mib, "driver": d.driver, "virtual": True}
        for d in hardware.devices
    ]
    body = {
        "token": invited.token, "hostname": "h", "agent_version": "1", "boot_id": "b",
        "hardware": {
            "cores_milli": 2000, "memory_mib": 4096, "disk_gib": 20, "arch": "x86_64", "machine_cores": 4, "cpu_model": "Example", "hostname": "h",
            "system": "debian", "kernel": "6", "devices": devices,
        },
    }  # fmt: skip
    answer = Client().post(wire.ENROLL, body, content_type="application/json", headers={wire.HEADER_WIRE: "1"})
    refused(answer, 422, "virtual_card_refused")
    invited.node.refresh_from_db()
    assert invited.node.state == "invited"


def test_an_invoice_that_was_paid_is_not_voided(ada: Person) -> None:
    """`invoice_has_payments`: write a credit note instead."""
    from billing.services import invoices, usage
    from portal.kit.errors import Conflict
    from portal.kit.money import Money
    from tests.billing.books import AFTER_OCTOBER, a_fact, october

    usage.record(fact=(fact := a_fact(ada.organisation, seconds=3600)), now=fact.ended_at)
    invoice = october(ada.organisation)
    invoices.record_payment(
        invoice=invoice, amount=Money(100, "CNY"), reference="bank 1", by="usr_x", now=AFTER_OCTOBER
    )
    with pytest.raises(Conflict) as paid:
        invoices.void(invoice=invoice, reason="wrong", by="usr_x", now=AFTER_OCTOBER)
    assert paid.value.code == "invoice_has_payments"
    invoice.refresh_from_db()
    assert invoice.state == "partially_paid"


USCC = "91110000600037341L"


def billed(organisation: Organisation, **values: Any) -> Invoice:
    """The October of an organisation that used one card for an hour."""
    from billing.services import usage
    from tests.billing.books import a_fact, october

    fact = a_fact(organisation, attempt_ref=f"att_{organisation.id}", seconds=3600, **values)
    usage.record(fact=fact, now=fact.ended_at)
    return october(organisation)


def rows(model: type[Model]) -> list[Any]:
    """All that a table says, with the count of deeds in the audit trail."""
    return [AuditEvent.objects.count(), *model._default_manager.order_by("pk").values()]


def test_a_cost_is_shared_by_one_rule_at_a_time(ada: Person) -> None:
    web, address = ada.web(), "/api/v1/allocation-rules"
    body = {"source_kind": "department", "source": "Platform", "method": "equal", "from_month": "2026-12"}
    first = web.post(address, body, format="json")
    assert first.status_code == 201, first.content
    before = rows(AllocationRule)
    refused(web.post(address, body | {"method": "usage"}, format="json"), 409, "rule_exists")
    assert rows(AllocationRule) == before
    assert web.post(f"{address}/{first.json()['id']}/end", {"month": "2027-01"}, format="json").status_code == 200
    assert web.post(address, body | {"from_month": "2027-01"}, format="json").status_code == 201


def test_a_rule_neither_begins_nor_ends_in_a_month_that_is_closed(ada: Person) -> None:
    from billing.selectors import splits
    from tests.billing.books import AFTER_OCTOBER

    web, address = ada.web(), "/api/v1/allocation-rules"
    body = {"source_kind": "department", "source": "Research", "method": "equal", "from_month": "2026-09"}
    rule = allocations.set_rule(
        organisation=ada.organisation, **body, name="", weights=[("Vision", 1)], by=ada.id, now=AFTER_OCTOBER
    )
    billed(ada.organisation)
    before, bills = rows(AllocationRule), splits.of_month(ada.organisation, "2026-10")
    closed = {"source": "Platform", "from_month": "2026-10"}
    refused(web.post(address, body | closed, format="json"), 409, "month_is_closed")
    refused(web.post(f"{address}/{rule.public_id}/end", {"month": "2026-10"}, format="json"), 409, "month_is_closed")
    assert rows(AllocationRule) == before
    assert splits.of_month(ada.organisation, "2026-10") == bills


def test_a_fapiao_is_asked_for_once(ada: Person) -> None:
    web, address = ada.web(), f"/api/v1/invoices/{billed(ada.organisation).public_id}/fapiao"
    assert web.post(address, {"buyer_name": "Moss", "buyer_code": USCC}, format="json").status_code == 201
    before = rows(FapiaoRequest)
    refused(web.post(address, {"buyer_name": "Other", "buyer_code": USCC}, format="json"), 409, "fapiao_exists")
    assert rows(FapiaoRequest) == before


@pytest.mark.parametrize("why", ["dollars", "free", "void"])
def test_some_invoices_get_no_fapiao(db: None, why: str) -> None:
    from billing.services import invoices
    from tests.billing.books import AFTER_OCTOBER

    currency = "USD" if why == "dollars" else "CNY"
    person = a_newcomer("d@example.org", "Dunes", currency=currency)
    invoice = billed(person.organisation, currency=currency, unit_price_micro=0 if why == "free" else 4_000_000)
    if why == "void":
        invoice = invoices.void(invoice=invoice, reason="wrong", by="usr_x", now=AFTER_OCTOBER)
    address, before = f"/api/v1/invoices/{invoice.public_id}/fapiao", rows(FapiaoRequest)
    body = {"buyer_name": "Dunes", "buyer_code": USCC}
    refused(person.web().post(address, body, format="json"), 409, "fapiao_impossible")
    assert rows(FapiaoRequest) == before
    assert person.web().get(address).json()["items"] == []


def test_an_e_invoice_needs_both_countries(settings: Any, db: None) -> None:
    settings.IDLEWILD_ISSUER_COUNTRY, settings.IDLEWILD_ISSUER_TAX_ID = "FR", "FR40303265045"
    person = a_newcomer("e@example.org", "Elm", currency="EUR")
    invoice = billed(person.organisation, currency="EUR")
    before = rows(InvoiceDocument)
    answer = person.web().get(f"/api/v1/invoices/{invoice.public_id}.xml")
    refused(answer, 409, "e_invoice_incomplete")
    assert "country of the organisation" in answer.json()["detail"]
    assert rows(InvoiceDocument) == before


def test_a_node_has_its_own_benchmark_runs_only(sol: Person) -> None:
    own, other = a_node(sol), a_node(sol)
    run = challenges.begin(node=other, kind=challenges.Kind.STREAM, expected=1.0, short=True, now=clock.now()).public_id
    client, before = Client(), rows(CheckedRun)
    headers = {
        wire.HEADER_WIRE: "1",
        "Authorization": wire.authorization(own.public_id, "node-secret-of-the-tests"),
    }
    said = {"boot_id": "boot-1", "incarnation": 1, "run": run}
    for path, body in ((wire.COMMIT_RUN, said | {"root": "a" * 64}), (wire.SHOW_RUN, said | {"opened": []})):
        refused(client.post(path, body, content_type="application/json", headers=headers), 404, "run_not_found")
    refused(client.get(wire.stream_path(run), headers=headers), 404, "run_not_found")
    assert rows(CheckedRun) == before
    headers["Authorization"] = wire.authorization(other.public_id, "node-secret-of-the-tests")
    assert client.get(wire.stream_path(run), headers=headers).status_code == 200, "its own node gets it"
