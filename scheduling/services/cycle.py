"""One cycle of placement: load → decide → apply.

1. load the queue and the market once;
2. end what can no longer start (deadline passed, capacity not found in time, budget used up);
3. in turn (`domain.order`): decide, book; when the place was taken meanwhile, look at that node again and decide again;
4. what finds no place keeps its reason, written only when it changes; equal questions are answered once per cycle.

An impossible task costs its turn and nothing else: the next one is looked at in the same cycle. Any number of workers may
run cycles at once: tasks are locked with SKIP LOCKED and every write is guarded; a cycle that lost a race did nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from billing.selectors import balances
from portal.accounts.models import OrganisationState
from portal.kit.errors import Conflict
from portal.kit.money import Money
from scheduling.domain.columns import Table
from scheduling.domain.demand import TaskSpec
from scheduling.domain.job import TaskEvent, TaskState
from scheduling.domain.placement import Decision, decide_in_order, feasible
from scheduling.domain.reasons import EndReason, RetryEvent, Tier, WaitReason
from scheduling.models import NodeState, Task
from scheduling.selectors import asking, jobs, snapshot, spending
from scheduling.selectors.asking import Question
from scheduling.selectors.snapshot import Market
from scheduling.services import booking, events, live, outcomes
from scheduling.services.booking import Outcome

MOST_PLACED = 500
MOST_TRIES = 8
EXPLAINED_ROWS = 20_000
"""Up to this many rows a successful pick also stores who was refused, for "why not there"."""

Clock = Callable[[], datetime]


@dataclass
class CycleResult:
    """What one cycle did: task public id → node public id, and how many wait or ended."""

    placed: dict[str, str] = field(default_factory=dict)
    waiting: int = 0
    ended: int = 0
    looked_at: int = 0


@dataclass
class _Cycle:
    """What the turns of one cycle share."""

    market: Market
    now: datetime
    clock: Clock
    refused: dict[Any, dict[str, Any]] = field(default_factory=dict)
    past_due: dict[int, bool] = field(default_factory=dict)
    givers: Mapping[str, Sequence[str]] = field(default_factory=balances.givers)
    left_out: set[str] = field(default_factory=set)  # nodes that changed under our hands
    result: CycleResult = field(default_factory=CycleResult)


def run(*, now: datetime, clock: Clock | None = None) -> CycleResult:
    """Place what can be placed. `clock` stamps leases at the moment of writing (default: `now`)."""
    queued = {task.id: task for task in jobs.queue()}
    if not queued:
        return CycleResult()
    cycle = _Cycle(snapshot.load(now=now), now, clock or (lambda: now))
    for turn in jobs.in_turn(queued.values(), cycle.market):
        if len(cycle.result.placed) >= MOST_PLACED:
            break
        _turn(cycle, queued[turn.task])
    return cycle.result


def _turn(cycle: _Cycle, task: Task) -> None:
    cycle.result.looked_at += 1
    over = _over(task, cycle.now)
    if over is not None:
        cycle.result.ended += _end(task, over, cycle.now)
        return
    held = _held_back(task, cycle.now)
    if held is not None:
        _wait(cycle, task, held)
        return
    question = asking.of_queued(task, now=cycle.now, past_due=_past_due(cycle, task), givers=cycle.givers)
    for _ in range(MOST_TRIES):
        known = cycle.refused.get(question.key)
        if known is not None:
            _no_place(cycle, task, known)
            return
        decision = _decide(cycle.market, question)
        if decision.row is None and cycle.left_out:
            break  # what was left out of this cycle may fit in the next
        if decision.row is None:
            cycle.refused[question.key] = waiting_of(decision, question, cycle.market)
            continue
        outcome = booking.book(task=task, decision=decision, market=cycle.market, now=cycle.clock()).outcome
        if outcome is Outcome.NOT_MINE:
            return
        if outcome is Outcome.BOOKED:
            needs = booking.needed(decision)
            cycle.market.table.take(
                decision.row, cores=needs.cores_milli, memory=needs.memory_mib, disk=needs.disk_gib, cards=needs.cards
            )
            cycle.result.placed[task.public_id] = str(decision.node)
            return
        _look_again(cycle, decision)
    _wait(cycle, task, _task_reason(WaitReason.TAKEN_MEANWHILE))


def _decide(market: Market, question: Question) -> Decision:
    return decide_in_order(
        question.requests,
        question.policy,
        market.table,
        market.paths,
        tiers=market.tiers,
        explain=len(market.table) <= EXPLAINED_ROWS,
    )


def _look_again(cycle: _Cycle, decision: Decision) -> None:
    """Another took the place, or its offer changed: read what is left of it. If it looks as free as before, leave it out of this cycle."""
    table, node = cycle.market.table, str(decision.node)
    rows = table.of_node(node)
    state = NodeState.objects.filter(node_id=cycle.market.live[node].node_id).first()
    if state is None or not state.open or state.kept_for or _is_as_free(state, table, rows[0]):
        cycle.left_out.add(node)
        table.close(node)
        return
    for row in rows:
        table.refill(
            row,
            cores=state.free_cores_milli,
            memory=state.free_memory_mib,
            disk=state.free_disk_gib,
            cards=min(int(table.cards[row]), state.free_cards),
        )


def _is_as_free(state: NodeState, table: Table, row: int) -> bool:
    return (
        state.free_cores_milli >= table.cores[row]
        and state.free_memory_mib >= table.memory[row]
        and state.free_disk_gib >= table.disk[row]
        and state.free_cards >= table.cards[row]
    )


def _past_due(cycle: _Cycle, task: Task) -> bool:
    tenant = task.job.organisation
    if tenant.id not in cycle.past_due:
        cycle.past_due[tenant.id] = asking.is_past_due(tenant)
    return cycle.past_due[tenant.id]


# -- what ends or holds a task before it is looked at ---------------------------------------------------------------------
def _over(task: Task, now: datetime) -> EndReason | None:
    spec = TaskSpec.from_form(task.spec)
    limit = asking.deadline(spec, begun=task.job.created_at)
    if limit is not None and now.timestamp() >= limit:
        return EndReason.DEADLINE_PASSED
    if _is_spent(task):  # held tasks wait for as long as it takes: they lack money, not capacity
        return EndReason.BUDGET_EXHAUSTED if task.job.budget_on_exceed == "stop" else None
    if _waits_too_long(task, timedelta(seconds=spec.retry_for_s), now):
        return EndReason.NO_CAPACITY
    return None


def _waits_too_long(task: Task, limit: timedelta, now: datetime) -> bool:
    """Longer than `retry.duration` without a place, since it was queued or its last attempt ended."""
    if now - task.queued_at <= limit:
        return False
    last = task.attempts.order_by("-id").values_list("ended_at", flat=True).first()
    return last is None or now - last > limit


def _is_spent(task: Task) -> bool:
    """Has the job used up its budget? Only asked once something has run."""
    return task.fence > 0 and spending.is_spent(task.job)


def _held_back(task: Task, now: datetime) -> dict[str, Any] | None:
    if task.job.organisation.state != OrganisationState.ACTIVE:
        return _task_reason(WaitReason.TENANT_REFUSED)
    if task.not_before is not None and task.not_before > now:
        return _task_reason(WaitReason.START_LATER, asked=task.not_before.strftime("%Y-%m-%dT%H:%M:%SZ"))
    if _is_spent(task):
        budget = Money(task.job.budget_minor or 0, task.job.currency)
        return _task_reason(WaitReason.BUDGET_HELD, asked=budget.text(), unit=budget.currency)
    short = spending.short_of_balance(task.job) if task.fence > 0 else None
    if short is not None:
        needed, there = short
        return _task_reason(WaitReason.BALANCE_SHORT, asked=needed.text(), best=there.text(), unit=needed.currency)
    return None


def _task_reason(reason: WaitReason, **numbers: str) -> dict[str, Any]:
    return {"reason": reason.value, "tier": Tier.TASK.value, "tiers": [], **numbers}


def _end(task: Task, reason: EndReason, now: datetime) -> bool:
    """End a task that cannot start any more; False if another got there first."""
    stopped = reason is EndReason.BUDGET_EXHAUSTED
    try:
        with transaction.atomic():
            mine = (
                Task.objects.select_for_update(skip_locked=True, no_key=True)
                .filter(id=task.id, state=TaskState.QUEUED)
                .first()
            )
            if mine is None:
                return False
            event = TaskEvent.CANCELLED if stopped else TaskEvent.FAILED
            outcomes.move(task=mine, event=event, now=now, reason=reason)
            outcomes.settle(job_id=task.job_id, now=now)
    except Conflict:
        return False
    return True


# -- why it waits ---------------------------------------------------------------------------------------------------------
def waiting_of(decision: Decision, question: Question, market: Market) -> dict[str, Any]:
    """The reason of a refused decision: all tiers with their numbers, and the one reason that stands in lists."""
    tiers = [tier.form() for tier in decision.tiers or ()]
    refusals = [{**r, "tier": tier["tier"]} for tier in tiers for r in tier["refused"]]
    if not refusals:
        return {"reason": WaitReason.SUMMARY_EXPIRED.value, "tier": Tier.REGION.value, "tiers": tiers}
    outdated = [r for r in refusals if r["reason"] == WaitReason.QUOTE_OUTDATED]
    most = max(refusals, key=lambda r: (r["nodes"], r["tier"] == Tier.NODE.value))
    main = outdated[0] if outdated and _fits_without_caps(question, market) else most
    numbers = {key: main[key] for key in ("asked", "best", "unit") if key in main}
    return {"reason": main["reason"], "tier": main["tier"], "tiers": tiers, **numbers}


def _fits_without_caps(question: Question, market: Market) -> bool:
    free = [replace(request, cap_nano=None, cap_transfer_micro=None) for request in question.requests]
    return any(len(feasible(request, question.policy, market.table, market.paths)) for request in free)


def _no_place(cycle: _Cycle, task: Task, waiting: dict[str, Any]) -> None:
    if RetryEvent.NO_CAPACITY not in TaskSpec.from_form(task.spec).retry_on:
        cycle.result.ended += _end(task, EndReason.NO_CAPACITY, cycle.now)
        return
    _wait(cycle, task, waiting)


def _wait(cycle: _Cycle, task: Task, waiting: dict[str, Any]) -> None:
    """Keep the reason; write it, and an event, only when it differs from the one that stands there."""
    cycle.result.waiting += 1
    if _signature(task.waiting) == _signature(waiting):
        return
    with transaction.atomic():
        mine = (
            Task.objects.select_for_update(skip_locked=True, no_key=True)
            .filter(id=task.id, state=TaskState.QUEUED)
            .first()
        )
        if mine is None or _signature(mine.waiting) == _signature(waiting):
            return
        Task.objects.filter(id=task.id).update(waiting=waiting, waiting_since=cycle.now)
        events.write(job_id=task.job_id, type="task.waiting", task=task.public_id, data=waiting, now=cycle.now)
        job = task.job
        live.changed(f"job.{job.public_id}", f"org.{job.organisation.public_id}.jobs")


def _signature(waiting: dict[str, Any] | None) -> Any:
    """What makes two reasons the same: the reasons and what was asked, not the numbers of a moment."""
    if waiting is None:
        return None
    refused = [
        (tier["tier"], refusal["reason"], refusal.get("asked", "") if refusal["reason"] not in _MOVING else "")
        for tier in waiting.get("tiers", ())
        for refusal in tier["refused"]
    ]
    return (waiting["reason"], "" if waiting["reason"] in _MOVING else waiting.get("asked", ""), sorted(refused))


_MOVING = frozenset({"balance_short", "offer_closed_now", "offer_ends_early", "deadline_passed"})
"""Reasons whose asked number is a moment that moves with the clock."""
