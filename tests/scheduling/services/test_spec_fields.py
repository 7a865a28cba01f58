"""Every field of a job spec does what it says, from the submission to the agent and the bill: none is only parsed.

The last test compares this file with `scheduling.domain.spec_fields.SUPPORTED`: a field that is read there and proved
nowhere fails it.
"""

import base64
import gzip
import io
import json
import tarfile
from datetime import timedelta
from hashlib import sha256
from typing import Any

import pytest
from django.test import Client

from agent import protocol as wire
from billing.models import UsageRecord
from billing.selectors.usage import job_cost
from marketplace.models import Node
from portal import clock
from portal.accounts.models import Project
from portal.accounts.services import secrets
from scheduling.domain.attempt import Phase
from scheduling.domain.demand import TaskSpec
from scheduling.domain.spec_fields import SUPPORTED
from scheduling.models import Artefact, Attempt, Job, NodeState, Task
from scheduling.services import checkpoints, cycle, jobs, quotes
from scheduling.services.pieces import Part
from tests.cast import Person
from tests.factories.market import a_link, a_node, a_zone
from tests.factories.running import Work
from tests.factories.work import a_job, an_attempt
from tests.scheduling.services.works import NOW, heard, spec, submit
from tests.sources import ROOT

pytestmark = pytest.mark.django_db

PROVED: set[str] = set()
"""Fields that a test of this file proves."""


def proves(*fields: str) -> Any:
    """Mark a test with the fields that it proves."""
    PROVED.update(fields)
    return lambda test: test


# Field → the test that proves it elsewhere.
ELSEWHERE = {
    "budget.amount": "tests/scheduling/services/test_reports.py::test_a_budget_stops_the_job_when_it_is_used_up",
    "budget.on_exceed": "tests/scheduling/services/test_jobs.py::test_a_spent_budget_holds_or_stops_the_next_attempt",
    "retry.on_events": "tests/scheduling/domain/test_retry.py::test_by_default_interruptions_are_tried_again_and_nothing_else",
    "retry.duration": "tests/scheduling/services/test_cycle.py::test_a_task_past_its_deadline_or_without_capacity_for_too_long_ends",
    "on_disconnect.action": "tests/scheduling/services/test_recovery.py::test_every_cell_of_the_table_of_silence",
    "on_disconnect.for": "tests/scheduling/services/test_recovery.py::test_every_cell_of_the_table_of_silence",
    "resources.job_recovery.strategy": "tests/scheduling/services/test_cycle.py::test_the_next_attempt_goes_where_job_recovery_says",
    "resources.job_recovery.max_restarts_on_errors": "tests/scheduling/services/test_reports.py::test_errors_are_retried_as_often_as_the_tenant_says",
    "num_nodes": "tests/scheduling/services/test_gangs.py::test_all_in_one_zone_or_none",
    "max_duration": "tests/agent/test_node.py::test_why_a_job_ended",
    "outputs.required": "tests/scheduling/services/test_reports.py::test_a_required_output_that_is_not_there_fails_the_attempt",
    "network.mode": "tests/agent/test_selftest.py::test_full",
    "placement.slack": "tests/scheduling/services/test_shifting.py::test_it_waits_no_longer_than_its_slack_and_its_deadline_allow",
    "placement.preset": "tests/scheduling/domain/test_presets.py::test_what_is_written_wins_and_the_expanded_spec_says_the_same",
    "resources.image_id": "tests/scheduling/domain/test_spec.py::test_a_wrong_value_is_answered_with_its_code_place_and_hint",
}
# Groups: their parts are named one by one. Words for people: stored and shown again.
GROUPS = {"budget", "placement", "resources", "resources.job_recovery", "retry", "on_disconnect", "network", "checkpoint", "inputs", "outputs"}  # fmt: skip
SHOWN = {"inputs.name", "inputs.description", "outputs.description"}


# --- what reaches the agent ------------------------------------------------------------------------------------------------
def accepted(work: Work) -> wire.AssignmentSpec:
    """The answer to `accept`, as the agent gets it."""
    headers = {
        wire.HEADER_WIRE: "1",
        "Authorization": wire.authorization(work.node.public_id, "node-secret-of-the-tests"),
        wire.HEADER_BOOT: "boot-1",
        wire.HEADER_INCARNATION: "1",
    }
    body = {"boot_id": "boot-1", "incarnation": 1, "fence": work.attempt.fence}
    answer = Client().post(
        wire.accept_path(work.name), json.dumps(body), content_type="application/json", headers=headers
    )
    assert answer.status_code == 200, answer.content
    return wire.AssignmentSpec.from_wire(answer.json())


def placed(job: Job, *, now: Any = NOW) -> Work:
    """The job after one cycle that found a place for it."""
    heard(now=now)
    assert len(cycle.run(now=now).placed) == 1, job.tasks.get().waiting
    attempt = Attempt.objects.select_related("node").latest("id")
    return Work(job, attempt.node, attempt)


def packed(**files: str) -> str:
    """A folder as the command packs it."""
    room = io.BytesIO()
    with tarfile.open(fileobj=room, mode="w") as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text.encode()))
    return "data:application/gzip;base64," + base64.b64encode(gzip.compress(room.getvalue(), mtime=0)).decode()


@proves(
    "name", "run", "setup", "envs", "secrets", "workdir", "inputs.url", "inputs.content", "inputs.path", "inputs.type", "inputs.sha256",
    "inputs.size_bytes", "outputs.path", "outputs.name", "outputs.type", "outputs.size_bytes", "resources.cpus", "resources.memory",
    "resources.disk_size", "resources.accelerators", "on_disconnect.lease",
)  # fmt: skip
def test_the_agent_is_told_what_the_tenant_wrote(ada: Person, sol: Person) -> None:
    now = clock.now()
    a_node(sol, gpus=2, now=now - timedelta(hours=1))
    secrets.put(organisation=ada.organisation, name="HUB", value="s3cret", by=ada.id, now=now)
    of = an_attempt(a_job(ada), a_node(sol, offered=False))
    stored = Artefact.objects.create(
        organisation=ada.organisation, job=of.task.job, task=of.task, attempt=of, name="receptor", path="/job/r", region="east",
        size_bytes=3, sha256="c" * 64, object_name="objects/r", complete=True, published=True, created_at=now,
        expires_at=now + timedelta(days=1),
    )  # fmt: skip
    Task.objects.filter(id=of.task_id).update(state="done")
    folder = packed(**{"main.py": "print(1)"})
    job = submit(
        ada,
        now=now,
        name="tiles",
        run="python main.py",
        setup="pip list",
        envs={"EPOCHS": "40"},
        secrets={"HUB": None},
        workdir=folder,
        inputs=[
            {"url": "https://example.org/b", "path": "b", "size_bytes": 7, "sha256": "d" * 64, "region": "east"},
            {"content": "lines\n", "path": "/job/c.txt"},
            {"url": f"artefact://{stored.name}", "path": "d", "type": "DIRECTORY"},
        ],
        outputs=[{"path": "/job/out", "name": "best", "type": "DIRECTORY", "size_bytes": 9}],
        resources={"cpus": "1.5", "memory": 3, "disk_size": 5, "accelerators": "A100-80GB:2"},
        max_price="10",
        max_duration="90m",
        on_disconnect={"action": "replace", "lease": "fast"},
    )
    told = accepted(placed(job, now=now))
    assert (told.name, told.run, told.setup) == ("tiles", "python main.py", "pip list")
    assert dict(told.envs)["EPOCHS"] == "40"
    assert dict(told.secrets) == {"HUB": "s3cret"}
    assert (told.lease_class, told.max_duration_s) == ("fast", 5_400)
    assert (told.resources.cores_milli, told.resources.memory_mib, told.resources.disk_mib) == (1_500, 3_072, 5_120)
    assert len(told.resources.devices) == 2
    by_path = {item.path: item for item in told.inputs}
    work_folder = by_path.pop("/job")
    assert (work_folder.unpack, work_folder.content) == (True, folder.rpartition(",")[2])
    assert by_path["/job/b"].url == "https://example.org/b"
    assert (by_path["/job/b"].sha256, by_path["/job/b"].size) == ("d" * 64, 7)
    assert base64.b64decode(by_path["/job/c.txt"].content or "") == b"lines\n"
    assert (by_path["/job/d"].source, by_path["/job/d"].kind) == (wire.Source.PORTAL, wire.FileKind.DIRECTORY)
    assert [(o.name, o.path, o.kind, o.required) for o in told.outputs] == [
        ("best", "/job/out", wire.FileKind.DIRECTORY, True)
    ]


@proves("network.hosts")
def test_the_agent_is_told_which_hosts_the_job_may_reach(ada: Person, sol: Person) -> None:
    now = clock.now()
    a_node(sol, now=now - timedelta(hours=1))
    hosts = ["hub.example.org:443", "mirror.example.org:8443"]
    open_to = submit(ada, now=now, network={"mode": "allow", "hosts": hosts})
    assert accepted(placed(open_to, now=now)).egress == tuple(hosts)
    closed = submit(ada, now=now)
    assert accepted(placed(closed, now=now)).egress == ()


@proves("checkpoint.path", "checkpoint.interval", "checkpoint.keep")
@pytest.mark.parametrize("keep", [1, 2])
def test_the_agent_is_told_what_to_store_and_as_many_are_kept_as_the_tenant_says(
    ada: Person, sol: Person, keep: int
) -> None:
    now = clock.now()
    a_node(sol, now=now - timedelta(hours=1))
    wish = {"path": "/job/ckpt", "interval": "7m", "keep": keep}
    work = placed(submit(ada, now=now, checkpoint=wish), now=now)
    told = accepted(work)
    assert told.checkpoint == wire.CheckpointPlan("/job/ckpt", 420_000)
    work.secret = told.lease_secret
    work.report(Phase.RUN, now)
    for number in (1, 2, 3):
        data = b"state of %d" % number
        digest = sha256(data).hexdigest()
        part = Part(0, data, digest, len(data), digest)
        checkpoints.upload(attempt=work.fresh(), number=number, part=part, age=timedelta(0), now=clock.now())
    assert [row.number for row in checkpoints.offered(task=work.task)] == [3, 2][:keep]


# --- what reaches the bill -------------------------------------------------------------------------------------------------
@proves("project", "labels", "resources.labels")
def test_project_department_and_labels_are_on_the_usage_record(ada: Person, sol: Person) -> None:
    a_node(sol)
    Project.objects.create(
        organisation=ada.organisation, slug="vision", name="Vision", department="Optics", created_at=NOW
    )
    work = placed(submit(ada, project="vision", labels={"team": "moss"}, resources={"labels": {"run": "7"}}))
    work.accept(NOW)
    work.report(Phase.RUN, NOW)
    assert work.use(1_000_000, NOW + timedelta(seconds=1)) == "stored"
    row = UsageRecord.objects.get()
    assert (row.project_name, row.department) == ("Vision", "Optics")
    assert row.labels == {"team": "moss", "run": "7"}


def test_set_up_is_billed_and_what_comes_before_it_is_not(ada: Person, sol: Person) -> None:
    """`setup` runs before `run` in the same attempt; pulling and staging cost nothing."""
    a_node(sol)
    work = placed(submit(ada, setup="pip list"))
    work.accept(NOW)
    staged = NOW + timedelta(seconds=300)
    work.report(Phase.STAGING, NOW + timedelta(seconds=1))
    assert UsageRecord.objects.count() == 0
    work.report(Phase.SETUP, staged)
    ended = staged + timedelta(seconds=360)
    work.finish(ended, reason="setup_failed", readings=[("core", 1_000, 360_000_000)])
    row = UsageRecord.objects.get()
    assert (row.started_at, row.ended_at, row.qty_us) == (staged, ended, 360_000_000)
    assert job_cost(work.job.public_id).total.text() == "0.01"
    assert work.task.reason == "setup_failed"


# --- what decides the place ------------------------------------------------------------------------------------------------
# field → (what makes it impossible, the reason that is told, the same field with a value that fits)
LIMITS: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    "max_price": ({"max_price": "0.09"}, "price_over_max", {"max_price": "0.10"}),
    "resources.cpus": ({"resources": {"cpus": 9}, "max_price": "9"}, "cores_short", {"resources": {"cpus": 8}}),
    "resources.memory": ({"resources": {"memory": 33}}, "memory_short", {"resources": {"memory": 32}}),
    "resources.disk_size": ({"resources": {"disk_size": 201}}, "disk_short", {"resources": {"disk_size": 200}}),
    "resources.accelerators": (
        {"resources": {"accelerators": "A100-80GB:3"}, "max_price": "9"}, "cards_short",
        {"resources": {"accelerators": "A100-80GB:2"}, "max_price": "9"},
    ),
    "resources.scu": ({"resources": {"scu": 1_000}, "task_type": "data"}, "region_scu_short", {"resources": {"scu": "0.001"}, "task_type": "data"}),
    "resources.infra": ({"resources": {"infra": "west/*/*"}}, "region_not_wanted", {"resources": {"infra": "east/a/*"}}),
    "resources.use_spot": ({"resources": {"use_spot": True}}, "offer_closed_now", {"resources": {"use_spot": False}}),
    "placement.min_green": ({"placement": {"min_green": "0.61"}}, "green_under_min", {"placement": {"min_green": "0.6"}}),
    "placement.min_reliability": (
        {"placement": {"min_reliability": "0.9"}}, "reliability_under_min", {"placement": {"min_reliability": "0"}},
    ),
    "placement.max_latency_ms": (
        {"placement": {"max_latency_ms": 19, "latency_to": "west"}}, "link_over_latency",
        {"placement": {"max_latency_ms": 20, "latency_to": "west"}},
    ),
    "placement.regions": ({"placement": {"regions": ["west"]}}, "region_not_wanted", {"placement": {"regions": ["east", "west"]}}),
    "placement.avoid": ({"placement": {"avoid": ["east/a"]}}, "region_avoided", {"placement": {"avoid": ["west"]}}),
    "placement.deadline": ({"placement": {"deadline": "59m"}}, "deadline_passed", {"placement": {"deadline": "61m"}}),
    "on_disconnect.lease": (
        {"on_disconnect": {"action": "replace", "lease": "fast"}}, "lease_class_unsupported",
        {"on_disconnect": {"action": "replace", "lease": "standard"}},
    ),
}  # fmt: skip
PROVED.update([*LIMITS, "placement.latency_to"])


@pytest.mark.parametrize("field", LIMITS)
def test_a_limit_keeps_a_job_waiting_with_its_reason_and_lets_it_start_when_it_fits(
    ada: Person, sol: Person, field: str
) -> None:
    impossible, reason, fitting = LIMITS[field]
    node = a_node(sol, gpus=2)
    Node.objects.filter(id=node.id).update(lease_classes=["standard"])
    a_zone("west")
    a_link("west", "east", rtt_ms=20)
    heard()
    waits = submit(ada, **impossible)
    assert cycle.run(now=NOW).placed == {}
    assert waits.tasks.get().waiting["reason"] == reason
    starts = submit(ada, **fitting)
    assert list(cycle.run(now=NOW).placed) == [starts.tasks.get().public_id]


@proves("placement.verified")
def test_verified_means_only_measured_nodes(ada: Person, sol: Person) -> None:
    a_node(sol, measured=False)
    heard()
    waits = submit(ada)
    assert cycle.run(now=NOW).placed == {}
    assert waits.tasks.get().waiting["reason"] == "unverified"
    anything = submit(ada, placement={"verified": False})
    assert list(cycle.run(now=NOW).placed) == [anything.tasks.get().public_id]


@pytest.fixture
def market(sol: Person) -> dict[str, Node]:
    """One cheap, one green, one between; all equally quick."""
    nodes = {
        "cheap": a_node(sol, region="east", name="cheap", prices={"core": "0.10"}, terms={"green_ratio": "0.1"}),
        "green": a_node(sol, region="west", name="green", prices={"core": "0.30"}, terms={"green_ratio": "0.9"}),
        "middle": a_node(sol, region="north", name="middle", prices={"core": "0.20"}, terms={"green_ratio": "0.8"}),
    }
    for a in ("east", "west", "north"):
        for b in ("east", "west", "north"):
            if a != b:
                a_link(a, b, price=20_000)
    heard()
    return nodes


PICKS: list[tuple[dict[str, Any], str]] = [
    ({"pick": "cheapest"}, "cheap"),
    ({"pick": "greenest"}, "green"),
    ({"pick": "weights", "weights": {"cost": 1, "green": 9}}, "green"),
    ({"pick": "weights", "weights": {"cost": 9, "green": 1}}, "cheap"),
    ({"pick": "knee"}, "middle"),
    ({"pick": "knee", "optimize": ["cost"]}, "cheap"),
    ({"pick": "knee", "optimize": ["green"]}, "green"),
]


@proves("placement.pick", "placement.weights", "placement.optimize")
@pytest.mark.usefixtures("market")
@pytest.mark.parametrize(("wish", "name"), PICKS)
def test_the_wish_decides_between_places(ada: Person, wish: dict[str, Any], name: str) -> None:
    assert placed(submit(ada, placement=wish)).node.name == name


@proves("inputs.region", "inputs.size_bytes")
@pytest.mark.usefixtures("market")
def test_the_job_goes_to_its_data_when_moving_them_costs_more(ada: Person) -> None:
    """50 GB in the west for 0.02 a GB cost 1.00 to move; the node there costs 0.20 an hour more."""
    data = {"url": "https://example.org/x", "path": "x", "region": "west"}
    here = submit(ada, placement={"pick": "cheapest"}, inputs=[{**data, "size_bytes": 50 * 10**9}])
    assert placed(here).node.name == "green"
    small = submit(ada, placement={"pick": "cheapest"}, inputs=[{**data, "size_bytes": 10**9}])
    assert placed(small).node.name == "cheap"


@proves("work", "task_type")
def test_work_and_type_of_task_say_how_long_it_takes(ada: Person, sol: Person) -> None:
    a_node(sol)
    heard()

    def seconds(**changes: Any) -> float:
        quote = quotes.make(
            actor_org=ada.organisation, project=None, spec=spec(max_duration="7d", **changes), by=ada.id, now=NOW
        )
        return float(quote.points[0]["time_s"])

    once, twice = seconds(work="0.01"), seconds(work="0.02")
    assert once == pytest.approx(twice / 2, rel=0.01)
    kinds = {kind: seconds(work="0.01", task_type=kind) for kind in ("data", "training", "simulation")}
    assert len(set(kinds.values())) > 1, "the weights of a type change the node's SCU"


@proves("priority")
def test_the_higher_priority_goes_first(ada: Person, sol: Person) -> None:
    a_node(sol, cores=1)
    heard()
    submit(ada, priority=4)
    later = submit(ada, priority=6)
    assert list(cycle.run(now=NOW).placed) == [later.tasks.get().public_id]


# --- what decides what comes after an end ----------------------------------------------------------------------------------
@proves("resources.job_recovery.recover_on_exit_codes")
@pytest.mark.parametrize(("code", "state"), [(75, "queued"), (74, "failed")])
def test_a_listed_exit_code_is_an_interruption(ada: Person, sol: Person, code: int, state: str) -> None:
    a_node(sol)
    work = placed(submit(ada, resources={"job_recovery": {"recover_on_exit_codes": [75]}}))
    work.accept(NOW)
    work.report(Phase.RUN, NOW)
    work.finish(NOW + timedelta(seconds=5), reason="exit_nonzero", exit_code=code)
    assert work.task.state == state
    assert work.fresh().exit_code == code


def test_a_job_that_ran_too_long_is_billed_and_not_tried_again(ada: Person, sol: Person) -> None:
    """`max_duration`: the agent ends it (tests/agent); the portal bills it and lets it be."""
    a_node(sol)
    work = placed(submit(ada, max_duration="6m"))
    assert TaskSpec.from_form(work.task.spec).max_duration_s == 360
    work.accept(NOW)
    work.report(Phase.RUN, NOW)
    work.finish(
        NOW + timedelta(seconds=361), reason="time_limit", exit_code=None, readings=[("core", 1_000, 360_000_000)]
    )
    assert (work.fresh().state, work.task.state, work.task.reason) == ("timeout", "failed", "time_limit")
    assert job_cost(work.job.public_id).total.text() == "0.01"
    assert Task.objects.filter(state="queued").count() == 0
    assert NodeState.objects.get().free_cores_milli == 8_000


def test_a_held_job_waits_for_its_budget_however_long_it_takes(ada: Person, sol: Person) -> None:
    """`on_exceed: hold` is no lack of capacity: `retry.duration` counts from the moment the budget is raised."""
    a_node(sol)
    job = submit(ada, budget={"amount": "0.10", "on_exceed": "hold"}, retry={"duration": "1h"}, max_duration="2h")
    work = placed(job)
    work.accept(NOW)
    work.report(Phase.RUN, NOW)
    spent = NOW + timedelta(minutes=61)
    work.use(3_660_000_000, spent)
    work.finish(spent, reason="budget_exhausted", readings=[("core", 1_000, 3_660_000_000)])
    for later in (spent, spent + timedelta(days=3)):
        heard(now=later)
        cycle.run(now=later)
        task = job.tasks.get()
        assert (task.state, task.waiting["reason"]) == ("queued", "budget_held")
    jobs.change(job=Job.objects.get(), values={"budget_minor": 100}, by=ada.id, now=later)
    assert placed(job, now=later + timedelta(seconds=1)).attempt.fence == 2


def test_what_is_said_for_people_is_shown_again(ada: Person) -> None:
    job = submit(ada, inputs=[{"content": "x", "path": "x", "name": "tiles", "description": "of moss"}])
    assert job.spec["inputs"][0]["name"] == "tiles"
    again = jobs.submit(tenant=ada.organisation, project=None, spec=job.spec, by=ada.id, now=NOW)
    assert again.spec == job.spec


# --- and no field is left out ----------------------------------------------------------------------------------------------
def test_every_field_of_the_spec_is_proved() -> None:
    fields = {f"{where}.{name}".lstrip(".") for where, names in SUPPORTED.items() for name in names}
    named = PROVED | set(ELSEWHERE) | GROUPS | SHOWN
    assert fields - named == set(), "a field is read, and no test shows what it does"
    assert named - fields == set(), "this file names a field that does not exist"


def test_the_tests_named_here_exist() -> None:
    for field, where in ELSEWHERE.items():
        path, _, name = where.partition("::")
        assert f"def {name}(" in (ROOT / path).read_text(), f"{field}: {where}"
