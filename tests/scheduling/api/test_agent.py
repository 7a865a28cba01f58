"""The doors of /agent/v1: what each answers to a right message, and to every wrong one."""

import asyncio
import gzip
import json
from datetime import timedelta
from hashlib import sha256
from typing import Any

import pytest
from django.db import connection
from django.test import AsyncClient, Client

from agent import protocol as wire
from billing.models import UsageRecord
from marketplace.models import Node
from portal import clock
from portal.audit.models import AuditEvent
from scheduling.domain.demand import Input
from scheduling.domain.reasons import EndReason
from scheduling.models import Attempt, AttemptReport, LogChunk, NodeState
from scheduling.services import leases, live
from tests.cast import Person
from tests.factories.market import a_node, an_invited
from tests.factories.running import Work, a_placed, a_queued, a_running, an_output, place

SECRET = "node-secret-of-the-tests"
HARDWARE = {
    "cores_milli": 2000, "memory_mib": 4096, "disk_gib": 20, "arch": "x86_64", "machine_cores": 4, "cpu_model": "Example", "hostname": "h",
    "system": "debian", "kernel": "6", "devices": [],
}  # fmt: skip


class Machine:
    """A node that speaks HTTP."""

    def __init__(self, node: Node, secret: str = SECRET) -> None:
        self.node, self.secret, self.client = node, secret, Client()
        self.lease_secret = ""

    def headers(self, **more: str) -> dict[str, str]:
        return {
            wire.HEADER_WIRE: "1",
            "Authorization": wire.authorization(self.node.public_id, self.secret),
            wire.HEADER_LEASE: self.lease_secret,
            wire.HEADER_BOOT: "boot-1",
            wire.HEADER_INCARNATION: "1",
            **more,
        }

    def post(self, path: str, body: Any, **headers: str) -> Any:
        said = {"boot_id": "boot-1", "incarnation": 1, **body} if isinstance(body, dict) else body
        data = said if isinstance(said, bytes) else json.dumps(said)
        return self.client.post(path, data, content_type="application/json", headers=self.headers(**headers))

    def put(self, path: str, data: bytes, **headers: str) -> Any:
        return self.client.put(
            path,
            data,
            content_type="application/octet-stream",
            headers=self.headers(**{wire.HEADER_FENCE: "1", **headers}),
        )

    def accept(self, work: Work) -> wire.AssignmentSpec:
        answer = self.post(wire.accept_path(work.name), {"fence": 1})
        assert answer.status_code == 200, answer.content
        spec = wire.AssignmentSpec.from_wire(answer.json())
        self.lease_secret = work.secret = spec.lease_secret
        return spec


def phase(seq: int, phase: str, **fields: Any) -> dict[str, Any]:
    return {"fence": 1, "seq": seq, "phase": phase, "frozen": False, "message": "", **fields}


def end(**fields: Any) -> dict[str, Any]:
    return {
        "fence": 1, "seq": 9, "reason": "finished", "started": True, "age_ms": 0, "usage_seq": 9, "counters": [], "exit_code": 0, **fields,
    }  # fmt: skip


def counter(work: Work, **fields: Any) -> dict[str, Any]:
    row = {
        "attempt": work.name, "fence": 1, "resource": "core", "seq": 1, "age_ms": 0, "count_milli": 1000, "qty_us": 1000, **fields,
    }  # fmt: skip
    return {"rows": [row]}


@pytest.fixture
def node(sol: Person) -> Node:
    return a_node(sol)


@pytest.fixture
def machine(node: Node) -> Machine:
    return Machine(node)


@pytest.fixture
def work(ada: Person, node: Node) -> Work:
    """Placed just now: by the real clock, which the doors read."""
    return a_placed(ada, node, now=clock.now(), outputs=(an_output(),))


@pytest.fixture
def running(machine: Machine, work: Work) -> Work:
    machine.accept(work)
    assert machine.post(wire.report_path(work.name), phase(1, "run")).json()["state"] == "running"
    return work


# --- right ---------------------------------------------------------------------------------------------------------------
def test_an_attempt_from_accept_to_finish(machine: Machine, work: Work) -> None:
    spec = machine.accept(work)
    assert (spec.run, spec.resources.cores_milli, spec.lease_class, spec.name) == ("true", 1000, "standard", "job")
    assert spec.deadline_ms < spec.ttl_ms
    assert machine.post(wire.report_path(work.name), phase(1, "staging")).json() == {
        "state": "leased",
        "repeated": False,
    }
    assert machine.post(wire.report_path(work.name), phase(2, "run")).json()["state"] == "running"
    log = b"hello\n"
    headers = {wire.HEADER_SHA256: sha256(log).hexdigest(), "Content-Encoding": "gzip"}
    path = wire.log_path(work.name, wire.Stream.STDOUT)
    assert machine.put(f"{path}?offset=0", gzip.compress(log), **headers).json() == {"offset": 6, "complete": False}
    answer = machine.post(wire.USAGE, counter(work, qty_us=10))
    assert answer.json()["results"][0]["verdict"] == "stored"
    digest = sha256(b"42").hexdigest()
    headers = {wire.HEADER_SHA256: digest, wire.HEADER_TOTAL: "2", wire.HEADER_WHOLE_SHA256: digest}
    stored = machine.put(f"{wire.output_path(work.name, 'result')}?offset=0", b"42", **headers)
    assert stored.json() == {"offset": 2, "complete": True}
    body = end(outputs=[{"name": "result", "size": 2, "sha256": digest}])
    done = machine.post(wire.finish_path(work.name), body)
    assert done.json() == {"state": "succeeded", "repeated": False}
    again = machine.post(wire.finish_path(work.name), {**body, "age_ms": 500})
    assert again.json() == {"state": "succeeded", "repeated": True}


def test_a_machine_joins_and_a_used_token_does_not_join_twice(sol: Person) -> None:
    """P24: a used token: 401, nothing changes, one audit event."""
    invited = an_invited(sol, now=clock.now())
    body = {"token": invited.token, "hostname": "h", "agent_version": "1", "boot_id": "b", "hardware": HARDWARE}
    first = Client().post(
        wire.ENROLL, json.dumps(body), content_type="application/json", headers={wire.HEADER_WIRE: "1"}
    )
    joined = wire.Enrolled.from_wire(first.json())
    assert (first.status_code, joined.node) == (200, invited.node.public_id)
    before = Node.objects.get(id=invited.node.id)
    events = AuditEvent.objects.count()
    second = Client().post(
        wire.ENROLL, json.dumps(body), content_type="application/json", headers={wire.HEADER_WIRE: "1"}
    )
    assert (second.status_code, AuditEvent.objects.count()) == (401, events + 1)
    assert Node.objects.get(id=invited.node.id).secret_hash == before.secret_hash


def test_inventory_brings_capacity_up_to_date(machine: Machine, node: Node) -> None:
    body = {"hardware": HARDWARE, "agent_version": "2"}
    answer = machine.post(wire.INVENTORY, body)
    assert answer.json()["state"] in ("listed", "probing")
    node.refresh_from_db()
    assert node.cores_milli == 2000


def test_an_agent_goes_down_and_its_node_is_closed_until_its_next_start(machine: Machine, node: Node) -> None:
    assert machine.post(wire.DRAIN, {"deadline_ms": 1000}).status_code == 200
    assert NodeState.objects.get(node=node).open is False
    node.refresh_from_db()
    assert node.state == "listed"


def test_an_input_on_the_portal_is_sent_from_an_offset(ada: Person, machine: Machine, work: Work, node: Node) -> None:
    machine.accept(work)
    data = b"receptor"
    digest = sha256(data).hexdigest()
    headers = {wire.HEADER_SHA256: digest, wire.HEADER_TOTAL: "8", wire.HEADER_WHOLE_SHA256: digest}
    machine.put(f"{wire.output_path(work.name, 'result')}?offset=0", data, **headers)
    machine.post(wire.finish_path(work.name), end(outputs=[{"name": "result", "size": 8, "sha256": digest}]))
    second = a_placed(
        ada,
        node,
        now=clock.now(),
        name="second",
        inputs=(Input("/job/r", url="artefact://result"), Input("/job/x", content="x")),
    )
    machine.lease_secret = ""
    spec = machine.accept(second)
    assert [item.source for item in spec.inputs] == [wire.Source.PORTAL, wire.Source.CONTENT]
    headers = machine.headers(**{wire.HEADER_FENCE: "1"})
    whole = machine.client.get(wire.input_path(second.name, 0), headers=headers)
    assert b"".join(whole.streaming_content) == data
    rest = machine.client.get(wire.input_path(second.name, 0), headers={**headers, "Range": "bytes=3-"})
    assert (rest.status_code, b"".join(rest.streaming_content)) == (206, data[3:])
    for index in (1, 2):
        assert machine.client.get(wire.input_path(second.name, index), headers=headers).status_code == 404


# --- wrong ---------------------------------------------------------------------------------------------------------------
NOBODYS = f"att_{'0' * 26}"
PATHS = [
    *(wire.INVENTORY, wire.SYNC, wire.USAGE, wire.DRAIN),
    *(path(NOBODYS) for path in (wire.accept_path, wire.report_path, wire.finish_path)),
]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("path", PATHS)
def test_a_wrong_envelope_is_refused_and_changes_nothing(path: str, sol: Person) -> None:
    """P24: also A's secret with B's id: 401, nothing changes, one audit event."""
    machine, other = Machine(a_node(sol)), a_node(sol, secret="another")
    before = list(Node.objects.values_list("id", "incarnation", "state"))
    cases = [
        (machine.post(path, {}, **{wire.HEADER_WIRE: "2"}), 426, "WIRE_VERSION"),
        (machine.post(path, {}, Authorization=""), 401, "not_signed_in"),
        (machine.post(path, {}, Authorization="Bearer x"), 401, "not_signed_in"),
        (machine.post(path, b"{"), 400, "bad_request"),
        (machine.post(path, b"[]"), 422, "MALFORMED"),
        (machine.post(path, {"surprise": 1}), 422, "MALFORMED"),
        (machine.post(path, {"boot_id": 7}), 422, "MALFORMED"),
    ]
    for answer, status, code in cases:
        assert (answer.status_code, answer.json()["code"]) == (status, code), answer.content
        assert answer["Content-Type"] == "application/problem+json"
    assert machine.client.get(path, headers=machine.headers()).status_code == 405
    events = AuditEvent.objects.count()
    stolen = Machine(other)  # A's secret with B's id
    answer = stolen.post(path, {})
    assert (answer.status_code, AuditEvent.objects.count()) == (401, events + 1)
    assert list(Node.objects.values_list("id", "incarnation", "state")) == before


@pytest.mark.parametrize(("boot_id", "incarnation"), [("boot-1", 0), ("boot-1", 2), ("boot-0", 1)])
def test_an_older_start_or_a_clone_is_superseded(machine: Machine, work: Work, boot_id: str, incarnation: int) -> None:
    said = {"boot_id": boot_id, "incarnation": max(1, incarnation)} if incarnation else None
    if said is None:
        Node.objects.filter(id=machine.node.id).update(incarnation=2)
        said = {}
    answer = machine.post(wire.accept_path(work.name), {"fence": 1, **said})
    assert (answer.status_code, answer.json()["code"]) == (409, "SUPERSEDED")
    assert Attempt.objects.get().state == "assigned"


def test_accept_refuses_another_nodes_another_fences_and_taken_back_assignments(
    machine: Machine, work: Work, sol: Person
) -> None:
    other = Machine(a_node(sol))
    assert other.post(wire.accept_path(work.name), {"fence": 1}).status_code == 404
    stale = machine.post(wire.accept_path(work.name), {"fence": 2})
    assert (stale.status_code, stale.json()["code"]) == (410, "FENCED")
    assert machine.post(wire.accept_path(work.name), {"fence": 0}).status_code == 422
    leases.ask_stop(attempt_id=work.attempt.id, reason=EndReason.CANCELLED_BY_TENANT, actor="x", now=clock.now())
    back = machine.post(wire.accept_path(work.name), {"fence": 1})
    assert (back.status_code, back.json()["code"], back.json()["state"]) == (409, "TAKEN_BACK", "cancelled")


BAD_PHASES = [
    ({"fence": 2}, 410, "FENCED"),
    ({"phase": "dancing"}, 422, "MALFORMED"),
    ({"seq": 0}, 422, "MALFORMED"),
    ({"seq": 1, "phase": "uploading"}, 409, "report_differs"),
    ({"phase": "pulling"}, 409, "invalid_transition"),
]


@pytest.mark.parametrize(("fields", "status", "code"), BAD_PHASES)
def test_bad_phase_reports(machine: Machine, running: Work, fields: dict[str, Any], status: int, code: str) -> None:
    answer = machine.post(wire.report_path(running.name), phase(2, "run") | fields)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert (Attempt.objects.get().state, Attempt.objects.get().phase) == ("running", "run")
    assert AttemptReport.objects.count() == 1


def test_a_foreign_lease_secret_opens_nothing(machine: Machine, running: Work) -> None:
    machine.lease_secret = "x" * 40
    log, digest = gzip.compress(b"x"), sha256(b"x").hexdigest()
    path = wire.log_path(running.name, wire.Stream.STDOUT)
    answers = [
        machine.post(wire.report_path(running.name), phase(2, "uploading")),
        machine.post(wire.finish_path(running.name), end()),
        machine.put(f"{path}?offset=0", log, **{wire.HEADER_SHA256: digest}),
        machine.put(f"{wire.output_path(running.name, 'result')}?offset=0", b"x", **{wire.HEADER_SHA256: digest}),
        machine.client.get(wire.input_path(running.name, 0), headers=machine.headers(**{wire.HEADER_FENCE: "1"})),
    ]
    assert [answer.status_code for answer in answers] == [404] * 5
    assert LogChunk.objects.count() == 0


BAD_FINISHES = [
    ({"fence": 2}, 410, "FENCED"),
    ({"reason": "bored"}, 422, "MALFORMED"),
    ({"reason": "preempted"}, 422, "MALFORMED"),
    ({"counters": [{"resource": "core", "count_milli": -1, "qty_us": 0}]}, 422, "MALFORMED"),
    ({"outputs": [{"name": "../x", "size": 1, "sha256": "0" * 64}]}, 422, "MALFORMED"),
    ({"exit_code": 10_000}, 422, "MALFORMED"),
]


@pytest.mark.parametrize(("fields", "status", "code"), BAD_FINISHES)
def test_bad_finishes(machine: Machine, running: Work, fields: dict[str, Any], status: int, code: str) -> None:
    answer = machine.post(wire.finish_path(running.name), end(**fields))
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert Attempt.objects.get().state == "running"
    assert UsageRecord.objects.count() == 0


BAD_USAGE = [
    ({"resource": "love"}, 422, ""),
    ({"seq": 0}, 422, ""),
    ({"qty_us": -1}, 422, ""),
    ({"qty_us": 1.5}, 422, ""),
    ({"fence": 2}, 200, "rejected_stale"),
]


@pytest.mark.parametrize(("fields", "status", "verdict"), BAD_USAGE)
def test_bad_usage(machine: Machine, running: Work, fields: dict[str, Any], status: int, verdict: str) -> None:
    answer = machine.post(wire.USAGE, counter(running, **fields))
    assert answer.status_code == status
    if verdict:
        assert answer.json()["results"][0]["verdict"] == verdict
    assert UsageRecord.objects.filter(state="ok").count() == 0


def test_usage_of_another_nodes_attempt_is_not_found(running: Work, sol: Person) -> None:
    answer = Machine(a_node(sol)).post(wire.USAGE, counter(running))
    assert (answer.status_code, UsageRecord.objects.count()) == (404, 0)


def test_usage_said_twice_and_out_of_order(machine: Machine, running: Work) -> None:
    def verdict(**fields: Any) -> str:
        return str(machine.post(wire.USAGE, counter(running, **fields)).json()["results"][0]["verdict"])

    assert verdict(seq=3, qty_us=900) == "stored"
    assert verdict(seq=3, qty_us=900) == "duplicate"
    assert verdict(seq=3, qty_us=901) == "conflict"
    assert verdict(seq=2, qty_us=500) == "rejected_stale"
    assert verdict(seq=4, qty_us=800) == "conflict"
    assert sum(UsageRecord.objects.values_list("qty_us", flat=True)) == 900


def test_bad_log_chunks(machine: Machine, running: Work) -> None:
    path = wire.log_path(running.name, wire.Stream.STDOUT)

    def put(data: bytes, *, offset: str = "0", packed: bytes | None = None, digest: str = "", **headers: str) -> Any:
        return machine.put(
            f"{path}?offset={offset}",
            gzip.compress(data) if packed is None else packed,
            **{wire.HEADER_SHA256: digest or sha256(data).hexdigest(), **headers},
        )

    cases = [
        (put(b"x", offset="5"), 409, "GAP"),
        (put(b"x", offset="-1"), 422, "MALFORMED"),
        (put(b"x", offset="x"), 422, "MALFORMED"),
        (put(b""), 422, "MALFORMED"),
        (put(b"x", digest="0" * 64), 422, "MALFORMED"),
        (put(b"x", packed=b"not gzip"), 422, "MALFORMED"),
        (put(b"x", packed=gzip.compress(b"x")[:-3]), 422, "MALFORMED"),
        (put(b"0" * (wire.LOG_CHUNK + 1)), 422, "MALFORMED"),
        (put(b"0" * 50_000_000), 422, "MALFORMED"),  # a bomb is not unpacked
        (put(b"x", **{wire.HEADER_FENCE: "2"}), 410, "FENCED"),
        (put(b"x", **{wire.HEADER_INCARNATION: "2"}), 409, "SUPERSEDED"),
    ]
    for answer, status, code in cases:
        assert (answer.status_code, answer.json()["code"]) == (status, code), answer.content
    assert cases[0][0].json()["offset"] == 0
    assert machine.put(f"/agent/v1/attempts/{running.name}/logs/stdin?offset=0", b"x").status_code == 404
    assert LogChunk.objects.count() == 0
    assert put(b"abc").json()["offset"] == 3
    assert put(b"abc").json()["offset"] == 3
    assert (put(b"abd").status_code, put(b"bc", offset="1").json()["offset"]) == (409, 3)
    assert LogChunk.objects.count() == 1


def test_bad_output_parts(machine: Machine, running: Work) -> None:
    def put(
        data: bytes, *, name: str = "result", offset: int = 0, total: str = "4", whole: str = "", digest: str = ""
    ) -> Any:
        headers = {wire.HEADER_SHA256: digest or sha256(data).hexdigest(), wire.HEADER_TOTAL: total}
        if whole:
            headers[wire.HEADER_WHOLE_SHA256] = whole
        return machine.put(f"{wire.output_path(running.name, name)}?offset={offset}", data, **headers)

    assert put(b"ab", name="other").status_code == 404
    assert put(b"ab", digest="0" * 64).status_code == 422
    assert put(b"ab", total="").status_code == 422
    assert put(b"abcde").status_code == 422
    gap = put(b"ab", offset=2)
    assert (gap.status_code, gap.json()["code"], gap.json()["offset"]) == (409, "GAP", 0)
    assert put(b"ab").json() == {"offset": 2, "complete": False}
    assert put(b"ab").json() == {"offset": 2, "complete": False}
    assert put(b"cd", offset=2, whole="0" * 64).json() == {"offset": 0, "complete": False}
    assert put(b"ab").json()["offset"] == 2
    assert put(b"cd", offset=2, whole=sha256(b"abcd").hexdigest()).json() == {"offset": 4, "complete": True}


def test_after_the_end_every_byte_is_refused(machine: Machine, running: Work) -> None:
    machine.post(wire.finish_path(running.name), end(reason="exit_nonzero", exit_code=3))
    log = wire.log_path(running.name, wire.Stream.STDERR)
    answer = machine.put(f"{log}?offset=0", gzip.compress(b"x"), **{wire.HEADER_SHA256: sha256(b"x").hexdigest()})
    assert (answer.status_code, answer.json()["code"]) == (410, "FENCED")
    assert machine.post(wire.report_path(running.name), phase(5, "run")).status_code == 410


# --- the held sync -------------------------------------------------------------------------------------------------------
def a_sync(**fields: Any) -> dict[str, Any]:
    return {"boot_id": "boot-1", "incarnation": 1, "seq": 1, "acknowledges": 0, "hold_ms": 0, "leases": [], **fields}


async def asked(machine: Machine, **fields: Any) -> Any:
    return await AsyncClient().post(
        wire.SYNC, json.dumps(a_sync(**fields)), content_type="application/json", headers=machine.headers()
    )


@pytest.mark.django_db(transaction=True)
async def test_a_first_sync_gets_its_number_and_the_older_start_is_superseded(machine: Machine) -> None:
    first = await asked(machine, incarnation=None)
    assert wire.SyncAnswer.from_wire(first.json()).incarnation == 2
    old = await asked(machine)
    assert (old.status_code, old.json()["code"]) == (409, "SUPERSEDED")


@pytest.mark.django_db(transaction=True)
async def test_an_assignment_ends_the_hold_at_once(machine: Machine, ada: Person) -> None:
    job = await asyncio.to_thread(apart, a_queued, ada, now=clock.now())
    held = asyncio.create_task(asked(machine, hold_ms=3_000))
    await asyncio.sleep(0.3)
    assert not held.done()
    began = asyncio.get_running_loop().time()
    await asyncio.to_thread(apart, _place_and_wake, job, machine.node)
    answer = wire.SyncAnswer.from_wire((await held).json())
    assert asyncio.get_running_loop().time() - began < 2.0
    assert [one.fence for one in answer.assignments] == [1]


@pytest.mark.django_db(transaction=True)
async def test_news_are_told_at_once_and_what_was_told_does_not_end_the_next_hold(machine: Machine, work: Work) -> None:
    first = await asked(machine, hold_ms=500)
    assert len(first.json()["assignments"]) == 1
    began = asyncio.get_running_loop().time()
    second = await asked(machine, seq=2, acknowledges=1, hold_ms=500)
    assert asyncio.get_running_loop().time() - began >= 0.45
    assert len(second.json()["assignments"]) == 1
    lost = await asked(machine, seq=4, acknowledges=2, hold_ms=500)  # the answer to 3 never came
    assert lost.json()["renewals"] == []


@pytest.mark.django_db(transaction=True)
async def test_many_held_syncs_hold_no_database_connection(sol: Person) -> None:
    machines = [await asyncio.to_thread(apart, _machine, sol, n) for n in range(20)]
    held = [asyncio.create_task(asked(one, hold_ms=2_500)) for one in machines]
    await asyncio.sleep(1.5)
    used = await asyncio.to_thread(apart, _connections)
    assert used <= 6
    for one in machines:
        await asyncio.to_thread(apart, _wake, one.node)
    answers = await asyncio.gather(*held)
    assert [answer.status_code for answer in answers] == [200] * 20


@pytest.mark.django_db(transaction=True)
async def test_an_agent_that_asks_too_often_is_slowed_down(machine: Machine, settings: Any) -> None:
    settings.IDLEWILD_RATE_LIMITS = {
        **settings.IDLEWILD_RATE_LIMITS,
        "agent": {"count": 2, "seconds": 60, "of": "node"},
    }
    answers = [await asked(machine, seq=n, acknowledges=n - 1) for n in range(1, 10)]
    assert [answer.status_code for answer in answers][:6] == [200] * 6
    assert [answer.status_code for answer in answers].count(429) >= 1
    late = next(answer for answer in answers if answer.status_code == 429)
    assert late.headers["Retry-After"] == "60"


BAD_SYNCS = [
    {"acknowledges": 1},
    {"leases": [{"attempt": "att_x", "fence": 0, "phase": "run"}]},
    {"leases": [{"attempt": f"att_{'0' * 26}", "fence": 1, "phase": "run"}] * 2},
    {"hold_ms": 60_001},
    {"seq": 0},
]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("fields", BAD_SYNCS)
async def test_bad_syncs(machine: Machine, fields: dict[str, Any]) -> None:
    answer = await asked(machine, **fields)
    assert (answer.status_code, answer.json()["code"]) == (422, "MALFORMED")


@pytest.mark.django_db(transaction=True)
async def test_a_lease_that_is_not_the_nodes_is_fenced(machine: Machine, ada: Person, sol: Person) -> None:
    foreign = await asyncio.to_thread(apart, _running_elsewhere, ada, sol)
    unknown = f"att_{'0' * 26}"
    held = [{"attempt": name, "fence": 1, "phase": "run", "frozen": False} for name in (foreign, unknown)]
    answer = wire.SyncAnswer.from_wire((await asked(machine, leases=held)).json())
    assert [one.attempt for one in answer.fenced] == [foreign, unknown]
    assert answer.renewals == ()


def apart(step: Any, *args: Any, **named: Any) -> Any:
    """In a thread of its own that leaves no connection behind."""
    try:
        return step(*args, **named)
    finally:
        connection.close()


def _place_and_wake(job: Any, node: Node) -> None:
    place(job, node, now=clock.now())
    live.wake(node.public_id)


def _machine(sol: Person, number: int) -> Machine:
    return Machine(a_node(sol, name=f"m{number}"))


def _wake(node: Node) -> None:
    live.wake(node.public_id)


def _running_elsewhere(ada: Person, sol: Person) -> str:
    return a_running(ada, a_node(sol), now=clock.now() - timedelta(seconds=1)).name


def _connections() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
        return int(cursor.fetchone()[0])


def test_a_report_of_links_is_answered_with_what_to_probe(node: Node, sol: Person) -> None:
    key = "ab" * 16
    other = Machine(a_node(sol, region="west", name="west"))
    told = {"sequence": 1, "links": [], "beacon_host": "8.8.4.4", "beacon_port": 7070, "beacon_key": key}
    assert other.post(wire.LINKS, told).status_code == 200
    mine = Machine(node)
    answer = mine.post(wire.LINKS, {"sequence": 1, "links": [{"region": "west", "rtt_us": 30_000}]})
    plan = wire.LinkPlan.from_wire(answer.json())
    assert plan.targets == (wire.LinkTarget("west", "8.8.4.4", 7070, key),)
    assert plan.period_ms == 5_000


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"sequence": 0}, "sequence"),
        ({"sequence": 1, "beacon_port": 7070}, "beacon_key"),
        ({"sequence": 1, "links": [{"region": "west", "rtt_us": 0}]}, "links[0].rtt_us"),
        ({"sequence": 1, "links": [{"region": "w", "rtt_us": 1}, {"region": "w", "rtt_us": 2}]}, "links"),
    ],
)
def test_a_report_of_links_that_breaks_the_wire_names_the_field(node: Node, body: Any, path: str) -> None:
    answer = Machine(node).post(wire.LINKS, body)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["path"] == path


@pytest.mark.parametrize("host", ["10.0.0.7", "169.254.169.254", "inner.example.org", "::1"])
def test_nobody_is_sent_to_an_inner_address(node: Node, host: str, settings: Any) -> None:
    settings.IDLEWILD_ALLOW_UNSAFE_NODES = False
    told = {"sequence": 1, "beacon_host": host, "beacon_port": 7070, "beacon_key": "ab" * 16}
    answer = Machine(node).post(wire.LINKS, told)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["path"] == "beacon_host"
    settings.IDLEWILD_ALLOW_UNSAFE_NODES = True
    assert Machine(node).post(wire.LINKS, {**told, "sequence": 2}).status_code == 200
