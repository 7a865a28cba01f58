"""A job: submitted, placed, run in a sandbox by a real agent, its log and output kept, metered and priced."""

from collections.abc import Callable
from typing import Any

from billing.models import UsageRecord
from billing.selectors.usage import job_cost
from portal import clock
from scheduling.models import Artefact, Attempt, Job, NodeState
from scheduling.services import artefacts, jobs, logs
from tests.cast import Person
from tests.walks.conftest import Agent, eventually


def submit(who: Person, script: str, **fields: Any) -> Job:
    resources = fields.pop("resources", {"cpus": "0.2", "memory": "64MiB", "disk_size": "1GiB"})
    spec = {"name": "walk", "run": script, "max_price": "5.00", "max_duration": "10m", "resources": resources, **fields}
    return jobs.submit(tenant=who.organisation, project=who.project, spec=spec, by=who.id, now=clock.now())


def ended(job: Job) -> Job | None:
    job.refresh_from_db()
    return job if job.state in ("done", "failed", "cancelled") else None


def test_a_job(ada: Person, a_machine: Callable[..., Agent]) -> None:
    machine = a_machine()
    script = 'echo "hello from $IDLEWILD_REGION"; sleep 5; echo 42 > /job/answer; echo 算力 >&2'
    job = submit(ada, script, outputs=[{"name": "answer", "path": "/job/answer"}])
    eventually(lambda: ended(job), what="the job ends")
    attempt = Attempt.objects.select_related("node", "lease").get()
    assert (job.state, attempt.state, attempt.reason, attempt.exit_code) == ("done", "succeeded", "finished", 0), (
        attempt.message
    )
    assert attempt.node_id == machine.node.id
    assert logs.read(attempt=attempt, stream="stdout").data == b"hello from east\n"
    assert logs.read(attempt=attempt, stream="stderr").data.decode() == "算力\n"
    stored = Artefact.objects.get(published=True)
    assert b"".join(artefacts.content(artefact=stored)) == b"42\n"
    metered = sum(UsageRecord.objects.filter(resource="core", state="ok").values_list("qty_us", flat=True))
    ran_us = attempt.stats["ran_us"]
    assert 4_900_000 <= ran_us < 30_000_000
    assert abs(metered - ran_us * 200 // 1000) <= 200_000 * 50 // 1000  # 0.2 cores × unfrozen time, to 50 ms
    assert job_cost(job.public_id).lines
    state = NodeState.objects.get(node_id=machine.node.id)
    assert state.free_cores_milli == state.total_cores_milli
