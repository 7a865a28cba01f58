"""Jobs that really run, without a process: what the cycle does when it places a task, and an agent that speaks by the
services.

``work = a_running(ada, node)`` has been placed, accepted and started; ``work.finish(...)`` ends it as its agent would.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import F

from marketplace.models import Node
from scheduling.domain.attempt import Phase
from scheduling.domain.demand import Output, Resources, TaskSpec
from scheduling.domain.reasons import EndReason
from scheduling.models import Attempt, Job, Lease, NodeState, Task
from scheduling.services import leases, nodes_sync, reports
from scheduling.services.metering import Reading
from tests.cast import THEN, Person

CORE_PRICE = {"sku": "core:-:fixed", "price_version": "prv_core", "unit_price_micro": 100_000, "tiers": []}
CARD_PRICE = {"sku": "card:A100-80GB:fixed", "price_version": "prv_card", "unit_price_micro": 2_000_000, "tiers": []}


def a_queued(
    of: Person, *, now: datetime = THEN, name: str = "job", budget_minor: int | None = None, **spec: Any
) -> Job:
    """A job of one queued task; `spec` are fields of TaskSpec."""
    resources = spec.pop("resources", Resources(cores_milli=1_000, memory_mib=1_024, disk_gib=1))
    task = TaskSpec(**{"run": "true", **spec}, resources=resources)
    job = Job.objects.create(
        organisation=of.organisation,
        project=of.project,
        name=name,
        submitted_by=of.id,
        spec={"name": name},
        currency=of.organisation.currency,
        budget_minor=budget_minor,
        created_at=now,
    )
    Task.objects.create(job=job, spec=task.form(), queued_at=now)
    return job


def book(node: Node, *, cores_milli: int = 0, memory_mib: int = 0, disk_gib: int = 0, cards: int = 0) -> bool:
    """The cycle's guarded write: free >= x."""
    updated = NodeState.objects.filter(
        node=node,
        free_cores_milli__gte=cores_milli,
        free_memory_mib__gte=memory_mib,
        free_disk_gib__gte=disk_gib,
        free_cards__gte=cards,
    ).update(
        free_cores_milli=F("free_cores_milli") - cores_milli,
        free_memory_mib=F("free_memory_mib") - memory_mib,
        free_disk_gib=F("free_disk_gib") - disk_gib,
        free_cards=F("free_cards") - cards,
    )
    return updated == 1


def place(
    job: Job,
    node: Node,
    *,
    now: datetime = THEN,
    cards: int = 0,
    named: bool = True,
    prices: Mapping[str, Any] | None = None,
) -> Attempt:
    """What the cycle does in one transaction: the task's fence grows, capacity is booked, attempt and lease are
    made.
    """
    task = job.tasks.get()
    spec = TaskSpec.from_form(task.spec)
    needs = {
        "cores_milli": spec.resources.cores_milli,
        "memory_mib": spec.resources.memory_mib,
        "disk_gib": spec.resources.disk_gib,
        "cards": cards,
    }
    times = leases.times(spec.lease_class)
    with transaction.atomic():
        assert Task.objects.filter(id=task.id, state="queued").update(state="placed", fence=F("fence") + 1) == 1
        task.refresh_from_db()
        assert book(node, **needs)
        attempt = Attempt.objects.create(
            task=task, node=node, number=task.fence, fence=task.fence, isolation=node.isolation, assigned_at=now
        )
        Lease.objects.create(
            attempt=attempt,
            node=node,
            fence=task.fence,
            lease_class=spec.lease_class,
            action=spec.on_disconnect,
            grace_ms=spec.wait_for_s * 1000,
            card_model="A100-80GB" if cards else "",
            devices=[f"GPU-{n}" for n in range(cards)] if named else [],
            prices=prices
            or {"currency": job.currency, "rental": "fixed", "items": {"core": CORE_PRICE, "card": CARD_PRICE}},
            created_at=now,
            accept_by=now + timedelta(milliseconds=times.accept_ms),
            expires_at=now + timedelta(milliseconds=times.ttl_ms),
            **needs,
        )
    return attempt


@dataclass
class Work:
    """One attempt, and its agent's side of it."""

    job: Job
    node: Node
    attempt: Attempt
    secret: str = ""
    seq: int = 0

    @property
    def name(self) -> str:
        return self.attempt.public_id

    def fresh(self) -> Attempt:
        """The attempt as it is now."""
        return Attempt.objects.select_related("lease", "task__job", "node").get(id=self.attempt.id)

    @property
    def task(self) -> Task:
        return Task.objects.get(id=self.attempt.task_id)

    def accept(self, now: datetime) -> "reports.Assigned":
        taken = reports.accepted(node=self.node, attempt=self.name, fence=self.attempt.fence, now=now)
        self.secret = taken.secret
        return taken

    def report(self, phase: Phase | None, now: datetime, *, seq: int | None = None, **fields: Any) -> "reports.Answer":
        self.seq = seq if seq is not None else self.seq + 1
        said = {"frozen": False, "message": "", "fence": self.attempt.fence, **fields}
        return reports.progress(
            node=self.node, attempt=self.name, secret=self.secret, seq=self.seq, phase=phase, now=now, **said
        )

    def use(
        self, qty: int, now: datetime, *, seq: int = 1, resource: str = "core", count: int = 1_000, **at: Any
    ) -> str:
        """Report a cumulative counter; the verdict."""
        reading = Reading(resource, seq, count, qty, at.get("until", now))
        fence = at.get("fence", self.attempt.fence)
        return reports.used(node=self.node, rows=[(self.name, fence, reading)], now=now)[0]

    def finish(self, now: datetime, *, reason: str = "finished", seq: int = 100, **fields: Any) -> "reports.Answer":
        said: dict[str, Any] = {
            "fence": self.attempt.fence,
            "started": True,
            "age": timedelta(0),
            "readings": [],
            "usage_seq": 1_000,
            "exit_code": 0 if reason == "finished" else 1,
            **fields,
        }
        body = {name: str(value) for name, value in {"reason": reason, "seq": seq, **said}.items() if name != "age"}
        report = reports.Finish(seq=seq, reason=EndReason(reason), body=body, **said)
        return reports.finished(node=self.node, attempt=self.name, secret=self.secret, report=report, now=now)

    def sync(self, now: datetime, *, seq: int = 1, at_ms: int | None = None, **fields: Any) -> "nodes_sync.Answer":
        """One sync of the node that names this lease."""
        return a_sync(self.node, now, seq=seq, at_ms=at_ms, leases=[(self.name, self.attempt.fence)], **fields)


def a_sync(
    node: Node,
    now: datetime,
    *,
    seq: int = 1,
    leases: Any = (),
    acknowledges: int | None = None,
    hold_ms: int = 0,
    at_ms: int | None = None,
    **fields: Any,
) -> "nodes_sync.Answer":
    """A sync of the node's newest agent start."""
    row = Node.objects.select_related("organisation", "zone__region").get(id=node.id)
    said = nodes_sync.Said(
        boot_id=fields.get("boot_id", row.boot_id),
        incarnation=fields.get("incarnation", row.incarnation),
        seq=seq,
        acknowledges=seq - 1 if acknowledges is None else acknowledges,
        hold_ms=hold_ms,
        leases=tuple(nodes_sync.HeldLease(name, fence, fields.get("frozen", False)) for name, fence in leases),
        draining=fields.get("draining", False),
    )
    return nodes_sync.hear(node=row, said=said, now=now, at_ms=at_ms)


def a_placed(of: Person, node: Node, *, now: datetime = THEN, cards: int = 0, **spec: Any) -> Work:
    """A job whose task has a place: assigned, not accepted."""
    job = a_queued(of, now=now, **spec)
    return Work(job, node, place(job, node, now=now, cards=cards))


def a_running(of: Person, node: Node, *, now: datetime = THEN, cards: int = 0, **spec: Any) -> Work:
    """A job whose process runs since `now`."""
    work = a_placed(of, node, now=now, cards=cards, **spec)
    work.accept(now)
    work.report(Phase.RUN, now)
    return work


def an_output(name: str = "result", path: str = "/job/result.txt", **fields: Any) -> Output:
    return Output(name, path, **fields)
