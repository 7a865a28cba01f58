"""Turn many decisions into attempts with leases in one transaction: the only place that takes capacity.

What one commit of n placements does, in the order of the house's locks (Task, Attempt, Lease, NodeState, Job):

1. lock the tasks that are still queued under the fence that was decided on (another worker's are skipped);
2. lock the capacity rows in the order of their ids, so that two engines never wait for each other in a circle;
3. look whether the offers are still published under the very price versions that were decided on;
4. go through the plans in order: what still fits is taken from what is left of its node; a plan (one seat, or the seats of a gang) is taken whole or not;
5. write: capacity (summed per node, guarded by `free >= x`), tasks, attempts, leases, decisions, events, wake-ups; each in one statement.

What does not fit any more is an answer (TAKEN), not an error. If the database itself refuses (the trigger on leases stands behind all this), nothing of
the commit stands, and each plan is tried on its own.

The lease's price snapshot::

    {"currency": "CNY", "rental": "fixed", "items": {"core": {"sku", "price_version", "unit_price_micro", "tiers"}, "card": {…}},
     "transfer": {"link": "a→b", "bytes": n, "price_micro_per_gb": n}, "window": null, "discount_ppm": n}
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property
from typing import Any

from django.db import IntegrityError, connection, transaction
from django.db.models import F, Q

from billing.selectors import terms
from marketplace.domain import scu
from marketplace.models import Offer, PriceVersion
from marketplace.models.offers import OfferState
from marketplace.selectors.offers import LiveRow
from portal.outbox.services import put_many
from scheduling.domain import placement
from scheduling.domain.attempt import AttemptState
from scheduling.domain.columns import Row
from scheduling.domain.demand import TaskSpec
from scheduling.domain.fairness import Held
from scheduling.domain.filters import card_count
from scheduling.domain.job import JobState, TaskState
from scheduling.domain.lease import LeaseState
from scheduling.domain.placement import Decision
from scheduling.models import Attempt, Job, Lease, NodeState, PlacementDecision, Task
from scheduling.selectors.rows import held_devices
from scheduling.selectors.snapshot import Market
from scheduling.services import copying, events, leases, live, quotes


class Outcome(StrEnum):
    BOOKED = "booked"
    NOT_MINE = "not_mine"  # another worker has the task, or it moved on
    TAKEN = "taken"  # the place was taken, closed or repriced meanwhile


class Told:
    """What is stored of one decision, worked out once for all tasks that it places."""

    def __init__(self, decision: Decision, market: Market) -> None:
        self.decision, self.market = decision, market
        self.row: Row = decision.problem.table.rows[decision.place]
        self.offer: LiveRow = market.live[self.row.node]
        self.needs = needed(decision)
        self.stored = self._stored()  # at once: the columns go on

    @cached_property
    def prices(self) -> dict[str, Any]:
        """The prices that a lease under this decision keeps to its end, before the tenant's discount."""
        return price_snapshot(self.decision, self.offer, self.row, self.needs)

    def _stored(self) -> dict[str, Any]:
        """The columns of PlacementDecision."""
        decision = self.decision
        inputs, chosen = decision.inputs(), decision.chosen()
        return {
            "seed": 0,  # no chance is involved: ties end in a total order
            "versions": {"policy": decision.problem.policy.version, "scu": scu.VERSION},
            "inputs": inputs,
            "digest": placement.digest(inputs),
            "front": {"size": len(decision.front.rows), "points": decision.points()},
            "choice": {**chosen, "why": decision.why()},
            "alternatives": decision.alternatives(),
            "seen": {
                **decision.seen(),
                **{tier.tier: {"seen": tier.seen, "kept": tier.kept} for tier in decision.tiers or ()},
            },
            "refused": [tier.form() for tier in decision.tiers or ()],
            "transfer": {"lines": chosen["transfer"], "micro": chosen["transfer_micro"]},
        }


@dataclass(frozen=True)
class Plan:
    """One task and where it is to go: a seat, or one seat for each rank of a gang."""

    task: Task
    seats: tuple[Told, ...]

    @property
    def nodes(self) -> tuple[str, ...]:
        """Public ids of its nodes, by rank."""
        return tuple(seat.row.node for seat in self.seats)


@dataclass(frozen=True)
class Booked:
    """What became of a plan; the attempts by rank."""

    outcome: Outcome
    attempts: tuple[Attempt, ...] = ()


@dataclass
class _Left:
    """What is left of one node inside this transaction, and what is taken of it."""

    state: NodeState
    taken: Held = field(default_factory=Held)
    devices: set[str] = field(default_factory=set)

    def fits(self, needs: Held) -> bool:
        state, taken = self.state, self.taken
        return (
            state.free_cores_milli - taken.cores_milli >= needs.cores_milli
            and state.free_memory_mib - taken.memory_mib >= needs.memory_mib
            and state.free_disk_gib - taken.disk_gib >= needs.disk_gib
            and state.free_cards - taken.cards >= needs.cards
        )


@dataclass
class _Commit:
    """What the steps of one transaction share."""

    market: Market
    now: datetime
    left: dict[int, _Left]
    fences: dict[int, int]
    sold: set[int]
    versions: set[str]
    held: Mapping[int, frozenset[str]]
    discounts: dict[int, int] = field(default_factory=dict)  # ppm by organisation

    def discount(self, task: Task) -> int:
        """What is taken off the prices for the task's organisation."""
        tenant = task.job.organisation
        if tenant.id not in self.discounts:
            self.discounts[tenant.id] = terms.discount_ppm(tenant)
        return self.discounts[tenant.id]


def take(*, node_id: int, needs: Held) -> bool:
    """Take capacity of one node if it is open and all of it is free; False changes nothing."""
    updated = NodeState.objects.filter(
        node_id=node_id,
        open=True,
        kept_for="",
        free_cores_milli__gte=needs.cores_milli,
        free_memory_mib__gte=needs.memory_mib,
        free_disk_gib__gte=needs.disk_gib,
        free_cards__gte=needs.cards,
    ).update(
        free_cores_milli=F("free_cores_milli") - needs.cores_milli,
        free_memory_mib=F("free_memory_mib") - needs.memory_mib,
        free_disk_gib=F("free_disk_gib") - needs.disk_gib,
        free_cards=F("free_cards") - needs.cards,
    )
    return updated == 1  # 0: another got there first


def book(*, task: Task, decision: Decision, market: Market, now: datetime) -> Booked:
    """Place one task as decided, or say why not."""
    return book_all(plans=[Plan(task, (Told(decision, market),))], market=market, now=now)[0]


def book_all(*, plans: Sequence[Plan], market: Market, now: datetime) -> list[Booked]:
    """Place all that still fits; one answer for each plan, in their order."""
    try:
        with transaction.atomic():
            return _book_all(plans, market, now)
    except IntegrityError:  # the trigger of the lease saw what the row did not say
        if len(plans) == 1:
            return [Booked(Outcome.TAKEN)]
    return [book_all(plans=[plan], market=market, now=now)[0] for plan in plans]


def _book_all(plans: Sequence[Plan], market: Market, now: datetime) -> list[Booked]:
    commit = _begin(plans, market, now)
    answers: list[Booked] = []
    seated: list[tuple[Plan, list[list[str]]]] = []
    for plan in plans:
        if commit.fences.get(plan.task.id) != plan.task.fence:
            answers.append(Booked(Outcome.NOT_MINE))
            continue
        devices = _seat(plan, commit)
        answers.append(Booked(Outcome.TAKEN if devices is None else Outcome.BOOKED))
        if devices is not None:
            seated.append((plan, devices))
            del commit.fences[plan.task.id]  # a task is placed once in a commit
    if not seated:
        return answers
    _take(commit)
    _move_tasks([plan.task for plan, _ in seated])
    made = _write(seated, commit)
    _tell(seated, made, now)
    attempts = iter(made)
    return [Booked(one.outcome, next(attempts)) if one.outcome is Outcome.BOOKED else one for one in answers]


def _begin(plans: Sequence[Plan], market: Market, now: datetime) -> _Commit:
    tasks = Task.objects.select_for_update(skip_locked=True, no_key=True).filter(
        id__in=[plan.task.id for plan in plans], state=TaskState.QUEUED
    )
    fences = dict(tasks.order_by("id").values_list("id", "fence"))
    seats = [seat for plan in plans if plan.task.id in fences for seat in plan.seats]
    nodes = {seat.offer.node_id for seat in seats}
    states = NodeState.objects.select_for_update(no_key=True).filter(node_id__in=nodes).order_by("node_id")
    left = {state.node_id: _Left(state) for state in states}
    sold = Offer.objects.filter(id__in={seat.offer.offer_id for seat in seats}, state=OfferState.PUBLISHED)
    wanted = {version for seat in seats for version, _, _ in seat.offer.prices.values()}
    current = PriceVersion.objects.filter(public_id__in=wanted, valid_from__lte=now).filter(
        Q(valid_until=None) | Q(valid_until__gt=now)
    )
    with_cards = sorted({seat.offer.node_id for seat in seats if seat.needs.cards})
    return _Commit(
        market=market,
        now=now,
        left=left,
        fences=fences,
        sold=set(sold.values_list("id", flat=True)),
        versions=set(current.values_list("public_id", flat=True)),
        held=held_devices(with_cards) if with_cards else {},
    )


def _seat(plan: Plan, commit: _Commit) -> list[list[str]] | None:
    """Take all seats of a plan, or none: the devices of each, or None."""
    taken: list[tuple[_Left, Held, list[str]]] = []
    for seat in plan.seats:
        left = commit.left.get(seat.offer.node_id)
        devices = None if left is None else _one_seat(plan, seat, left, commit)
        if left is None or devices is None:
            for other, needs, others in taken:
                other.taken = other.taken - needs
                other.devices -= set(others)
            return None
        left.taken = left.taken + seat.needs
        left.devices |= set(devices)
        taken.append((left, seat.needs, devices))
    return [devices for _, _, devices in taken]


def _one_seat(plan: Plan, seat: Told, left: _Left, commit: _Commit) -> list[str] | None:
    state = left.state
    kept = state.kept_for and (state.kept_until is None or state.kept_until > commit.now)
    if not state.open or (kept and state.kept_for != plan.task.public_id) or not left.fits(seat.needs):
        return None
    if seat.offer.offer_id not in commit.sold or any(
        v not in commit.versions for v, _, _ in seat.offer.prices.values()
    ):
        return None
    if not seat.needs.cards:
        return []
    held = commit.held.get(seat.offer.node_id, frozenset()) | left.devices
    free = [
        device
        for cards in seat.offer.cards
        if cards.model == seat.row.card_model and cards.virtual == seat.row.virtual
        for device in cards.local_ids
        if device not in held
    ]
    return free[: seat.needs.cards] if len(free) >= seat.needs.cards else None


# -- writing ---------------------------------------------------------------------------------------------------------------
_TAKE = """
UPDATE scheduling_nodestate AS state
   SET free_cores_milli = state.free_cores_milli - x.cores, free_memory_mib = state.free_memory_mib - x.memory,
       free_disk_gib = state.free_disk_gib - x.disk, free_cards = state.free_cards - x.cards, kept_for = '', kept_until = NULL
  FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[]) AS x(node, cores, memory, disk, cards)
 WHERE state.node_id = x.node AND state.open AND state.free_cores_milli >= x.cores AND state.free_memory_mib >= x.memory
   AND state.free_disk_gib >= x.disk AND state.free_cards >= x.cards
"""


def _take(commit: _Commit) -> None:
    """Capacity, one row per node: `UPDATE … FROM` applies only one of several rows per target, so needs are summed before."""
    rows = [(node, left.taken) for node, left in commit.left.items() if left.taken != Held()]
    columns = [
        [node for node, _ in rows],
        [taken.cores_milli for _, taken in rows],
        [taken.memory_mib for _, taken in rows],
        [taken.disk_gib for _, taken in rows],
        [taken.cards for _, taken in rows],
    ]
    with connection.cursor() as cursor:
        cursor.execute(_TAKE, columns)
        if cursor.rowcount != len(rows):  # cannot be under our locks; then the trigger's answer is right
            raise IntegrityError("capacity changed under a lock")


def _move_tasks(tasks: Sequence[Task]) -> None:
    updated = Task.objects.filter(id__in=[task.id for task in tasks], state=TaskState.QUEUED).update(
        state=TaskState.PLACED, fence=F("fence") + 1, not_before=None, waiting=None, waiting_since=None
    )
    if updated != len(tasks):  # another got there first, under our lock
        raise IntegrityError("a task changed under a lock")
    for task in tasks:
        task.state, task.fence = TaskState.PLACED, task.fence + 1


def _write(seated: Sequence[tuple[Plan, list[list[str]]]], commit: _Commit) -> list[tuple[Attempt, ...]]:
    now = commit.now
    places = [(plan, rank, seat) for plan, _ in seated for rank, seat in enumerate(plan.seats)]
    made = Attempt.objects.bulk_create(
        Attempt(
            task=plan.task,
            node_id=seat.offer.node_id,
            number=plan.task.fence,
            fence=plan.task.fence,
            rank=rank,
            state=AttemptState.ASSIGNED,
            isolation=seat.row.isolation,
            assigned_at=now,
        )
        for plan, rank, seat in places
    )
    devices = [one for _, all_devices in seated for one in all_devices]
    copying.write(
        [
            _lease(plan, seat, attempt, cards, commit)
            for (plan, _, seat), attempt, cards in zip(places, made, devices, strict=True)
        ]
    )
    copying.write(
        [
            PlacementDecision(task=plan.task, attempt=attempt, decided_at=now, **seat.stored)
            for (plan, _, seat), attempt in zip(places, made, strict=True)
        ]
    )
    by_rank = iter(made)
    return [tuple(next(by_rank) for _ in plan.seats) for plan, _ in seated]


def _lease(plan: Plan, seat: Told, attempt: Attempt, devices: Sequence[str], commit: _Commit) -> Lease:
    spec, now = TaskSpec.from_form(plan.task.spec), commit.now
    accept_by = now + timedelta(milliseconds=leases.times(spec.lease_class).accept_ms)
    return Lease(
        attempt=attempt,
        node_id=seat.offer.node_id,
        fence=plan.task.fence,
        state=LeaseState.PENDING,
        lease_class=spec.lease_class,
        action=spec.on_disconnect,
        grace_ms=spec.wait_for_s * 1_000,
        cores_milli=seat.needs.cores_milli,
        memory_mib=seat.needs.memory_mib,
        disk_gib=seat.needs.disk_gib,
        cards=seat.needs.cards,
        card_model=seat.row.card_model if seat.needs.cards else "",
        devices=list(devices),
        prices={**seat.prices, "discount_ppm": commit.discount(plan.task)},
        created_at=now,
        accept_by=accept_by,
        expires_at=accept_by,
    )


def _tell(seated: Sequence[tuple[Plan, list[list[str]]]], made: Sequence[tuple[Attempt, ...]], now: datetime) -> None:
    """Events of the jobs, their state, and who is to wake up."""
    happened: dict[int, list[events.Happened]] = defaultdict(list)
    queued: set[int] = set()
    for (plan, _), attempts in zip(seated, made, strict=True):
        for seat, attempt in zip(plan.seats, attempts, strict=True):
            row = seat.row
            data = {
                "node": row.node,
                "name": row.name,
                "region": row.region,
                "zone": row.zone,
                "fence": plan.task.fence,
            }
            told = events.Happened("attempt.assigned", plan.task.public_id, attempt.public_id, data)
            happened[plan.task.job_id].append(told)
        queued.add(plan.task.job_id)
    started = set(events.lock_jobs(queued).filter(state=JobState.QUEUED).values_list("id", flat=True))
    updated = Job.objects.filter(id__in=started, state=JobState.QUEUED).update(
        state=JobState.RUNNING, reason="", ended_at=None
    )
    if updated != len(started):  # cannot be under our locks
        raise IntegrityError("a job changed under a lock")
    for job in started:  # a placed task makes its job running (`domain.job`)
        happened[job].append(events.Happened(f"job.{JobState.RUNNING.value}"))
    events.write_all(happened=happened, now=now)
    nodes = list(dict.fromkeys(node for plan, _ in seated for node in plan.nodes))
    mark = seated[0][0].task
    messages = [(f"{node}.{mark.public_id}.{mark.fence}", {"node": node}) for node in nodes]
    put_many(topic="agent.wake", messages=messages, now=now)
    live.wake(*nodes)
    live.changed(*_topics([plan for plan, _ in seated]), *(f"node.{node}" for node in nodes))


def _topics(plans: Sequence[Plan]) -> list[str]:
    jobs = [plan.task.job for plan in plans]
    return [f"job.{job.public_id}" for job in jobs] + [f"org.{job.organisation.public_id}.jobs" for job in jobs]


# -- what a decision means for its lease -----------------------------------------------------------------------------------
def needed(decision: Decision) -> Held:
    """What the chosen row must give."""
    request = decision.problem.request
    cards = int(card_count(request, decision.problem.table, slice(decision.place, decision.place + 1))[0])
    return Held(request.cores_milli, request.memory_mib, request.disk_gib, cards)


def price_snapshot(decision: Decision, offer: LiveRow, row: Row, needs: Held) -> dict[str, Any]:
    """The prices that a lease keeps to its end; the commit adds the tenant's `discount_ppm`."""
    request = decision.problem.request
    prices = quotes.prices_of(offer, request.rental, row.card_model if needs.cards else "")
    items = {
        resource: {key: item[key] for key in ("sku", "price_version", "unit_price_micro", "tiers")}
        for resource, item in prices.items()
    }
    return {
        "currency": offer.currency,
        "rental": request.rental,
        "items": items,
        "transfer": _transfer(decision, row),
        "window": dict(offer.window) if offer.window else None,
    }


def _transfer(decision: Decision, row: Row) -> dict[str, Any] | None:
    """What is moved between regions; several links are told as one at their mean price, so that the amount is the same."""
    lines = [line for line in decision.problem.paths.lines(decision.problem.request.data, row.region) if line["micro"]]
    if not lines:
        return None
    size, micro = sum(line["bytes"] for line in lines), sum(line["micro"] for line in lines)
    price = lines[0]["price_micro_per_gb"] if len(lines) == 1 else -(-micro * 10**9 // size)
    return {
        "link": ", ".join(line["link"] for line in lines),
        "bytes": size,
        "price_micro_per_gb": price,
        "lines": lines,
    }
