"""One cycle of placement: load → decide → apply, hundreds of tasks at a time.

1. load the line of the queue (what the order needs, no specs) and the market once;
2. in turn (`domain.order`: weighted DRF, then priority, age): end what can no longer start, decide the rest against columns that every placed task
   changes at once (`domain.batch`: equal questions are decided once);
3. commit what was decided, `COMMIT` placements in one transaction (`services.booking`); where the place was taken meanwhile, look at that node
   again and decide again;
4. what finds no place keeps its reason, written only when it changes; equal questions are refused once per cycle, and what no node could take even
   empty is asked again only when the market has changed.

An impossible task costs its turn and nothing else: the next one is looked at in the same cycle. Any number of workers may
run cycles at once: tasks are locked with SKIP LOCKED and every write is guarded; a cycle that lost a race did nothing.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from scheduling.domain import gang
from scheduling.domain.asleep import Asleep
from scheduling.domain.backfill import Promise
from scheduling.domain.batch import Batch
from scheduling.domain.columns import HEARD, KEPT, TAKES_WORK
from scheduling.domain.demand import TaskSpec
from scheduling.domain.order import Turns, Waiting
from scheduling.domain.placement import Decision, decide_in_order
from scheduling.domain.preemption import Victim
from scheduling.domain.reasons import EndReason, RetryEvent, Tier, WaitReason
from scheduling.models import NodeState, Task
from scheduling.selectors import asking, jobs, running, snapshot
from scheduling.selectors.asking import Question
from scheduling.selectors.snapshot import Market
from scheduling.services import booking, planned, room, shifting, waiting
from scheduling.services.booking import Outcome, Plan, Told

MOST_PLACED = 500
MOST_TRIES = 8
MOST_ROOMS = 20
"""Tasks for which others are stopped in one cycle."""
COMMIT = 250
"""Placements in one transaction: more waste less on each, fewer are seen sooner."""
LOADED = 250
"""Tasks whose specs are read at once, in the order of turns."""
EXPLAINED_ROWS = 20_000
"""Up to this many rows a successful pick also stores who was refused, for "why not there"."""
WANTED, WANTED_TTL_MS = "cycle.wanted", 1_000

Clock = Callable[[], datetime]


@dataclass
class CycleResult:
    """What one cycle did: task public id → node public id (of rank 0), and how many wait or ended."""

    placed: dict[str, str] = field(default_factory=dict)
    waiting: int = 0
    ended: int = 0
    looked_at: int = 0
    full: bool = False  # it stopped at `MOST_PLACED`: there is more to do


@dataclass
class _Cycle:
    """What the turns of one cycle share."""

    market: Market
    now: datetime
    clock: Clock
    asleep: Asleep = field(default_factory=Asleep)
    asked: asking.Asked = field(default_factory=asking.Asked)
    batch: Batch = field(init=False)
    refused: dict[Any, dict[str, Any]] = field(default_factory=dict)
    told: dict[int, Told] = field(default_factory=dict)
    left_out: set[str] = field(default_factory=set)  # nodes that changed under our hands
    planned: list[Plan] = field(default_factory=list)
    tries: dict[int, int] = field(default_factory=dict)
    promises: Sequence[Promise] = ()
    kept: dict[str, list[str]] = field(default_factory=running.kept)  # task → nodes on which others were stopped for it
    victims: list[Victim] | None = None  # read when somebody needs room
    made_room: int = 0
    demand: tuple[int, ...] | None = None  # of all that waits: cores, memory, disk, cards
    free: tuple[int, ...] = ()
    result: CycleResult = field(default_factory=CycleResult)

    def __post_init__(self) -> None:
        explain = len(self.market.table) <= EXPLAINED_ROWS
        self.batch = Batch(self.market.table, self.market.paths, self.market.tiers, explain=explain)

    @cached_property
    def kept_nodes(self) -> frozenset[str]:
        """Nodes kept for somebody."""
        return frozenset(node for nodes in self.kept.values() for node in nodes)

    @property
    def plenty(self) -> bool:
        """Is less than half of what is free asked for? Then the order inside a window takes nothing from anybody."""
        return self.demand is not None and all(
            2 * asked < free for asked, free in zip(self.demand, self.free, strict=True) if asked
        )

    @property
    def hopeful(self) -> int:
        """Tasks placed or about to be."""
        return len(self.result.placed) + len(self.planned)


def run(
    *, now: datetime, clock: Clock | None = None, asleep: Asleep | None = None, asked: asking.Asked | None = None
) -> CycleResult:
    """Place what can be placed. `clock` stamps leases at the moment of writing (default: `now`).

    `asleep`, `asked`: what earlier cycles know to be hopeless, and what they asked of the database a moment ago.
    """
    room.give_up(now=now)
    line = jobs.line()
    if not line:
        return CycleResult()
    cycle = _Cycle(snapshot.load(now=now), now, clock or (lambda: now), asleep or Asleep(), asked or asking.Asked())
    cycle.promises = planned.make(market=cycle.market, asked=cycle.asked, now=now)
    cycle.demand, cycle.free = _demand(line), _free(cycle.market)
    weights = jobs.weights({item.organisation for item in line})
    home = [item for item in line if item.organisation in cycle.asked.owners]
    served = _serve(cycle, Turns(home, {}, cycle.market.capacity, weights), at_home=True) if home else set()
    turns = Turns([item for item in line if item.task not in served], jobs.holding(), cycle.market.capacity, weights)
    _serve(cycle, turns)
    while cycle.planned:
        _commit(cycle)
    return cycle.result


def _serve(cycle: _Cycle, turns: Turns, *, at_home: bool = False) -> set[int]:
    """Take turns until all have had theirs or the cycle is full; the tasks that were planned. `at_home`: on organisations' own nodes only."""
    served: set[int] = set()
    window: list[tuple[Waiting, Task]] = []
    take = _turn_at_home if at_home else _turn
    for item, task in _in_turn(turns):
        if cycle.plenty:
            turns.served(item)  # as it looks; what finds no place is given back
            window.append((item, task))
        elif take(cycle, task):
            turns.served(item)
            served.add(item.task)
        if len(window) >= COMMIT:
            served |= _serve_together(cycle, turns, window, take)
            window = []
        if len(cycle.planned) >= COMMIT:
            _commit(cycle)
        if cycle.hopeful + len(window) >= MOST_PLACED:
            cycle.result.full = True
            break
    return served | _serve_together(cycle, turns, window, take)


def _serve_together(
    cycle: _Cycle, turns: Turns, window: Sequence[tuple[Waiting, Task]], take: Callable[[_Cycle, Task], bool]
) -> set[int]:
    """Where there is plenty, the turns of one window are all served: like stands by like, the small before the large, so that a place is decided on
    once for as many as it holds.
    """
    served = set()
    for item, task in sorted(
        window, key=lambda one: (one[0].needs.cards, one[0].needs.cores_milli, one[0].needs.memory_mib)
    ):
        if take(cycle, task):
            served.add(item.task)
        else:
            turns.refused(item)
    return served


def _demand(line: Sequence[Waiting]) -> tuple[int, ...]:
    needs = [item.needs for item in line]
    return (
        sum(one.cores_milli for one in needs),
        sum(one.memory_mib for one in needs),
        sum(one.disk_gib for one in needs),
        sum(one.cards for one in needs),
    )


def _free(market: Market) -> tuple[int, ...]:
    """What is free of nodes that take work; nodes with several kinds of cards count for each, which is near enough."""
    table = market.table
    usable = table.flagged(slice(None), TAKES_WORK) & table.flagged(slice(None), HEARD)
    return tuple(
        int(column[usable].sum(dtype="int64")) for column in (table.cores, table.memory, table.disk, table.cards)
    )


def _turn_at_home(cycle: _Cycle, task: Task) -> bool:
    """Owner first: before the market is served, what an organisation's own nodes have room for goes to its own tasks."""
    spec = TaskSpec.from_form(task.spec)
    ends_or_waits = waiting.over(task, spec, cycle.now) is not None or waiting.held_back(task, cycle.now) is not None
    if (
        ends_or_waits or spec.placement.slack_s or spec.num_nodes > 1
    ):  # slack: greener hours are looked for in its turn on the market
        return False
    question = _question(cycle, task, spec)
    if not question.own:
        return False
    decision = _decide(cycle, task, question.at_home, spec)
    return decision is not None and _seat(cycle, task, decision)


def _in_turn(turns: Turns) -> Iterable[tuple[Waiting, Task]]:
    """Each turn with its task; specs are read in the order in which turns are likely to come."""
    likely = [item.task for item in turns.likely()]
    place = 0
    read: dict[int, Task] = {}
    for item in turns:
        while item.task not in read and place < len(likely):
            read |= jobs.queued(likely[place : place + LOADED])
            place += LOADED
        task = read.pop(item.task, None)
        if task is not None:  # else it left the queue since
            yield item, task


def _turn(cycle: _Cycle, task: Task) -> bool:
    """One task: planned for a place (True), or it ends or waits."""
    cycle.result.looked_at += 1
    spec = TaskSpec.from_form(task.spec)
    over = waiting.over(task, spec, cycle.now)
    if over is not None:
        cycle.result.ended += waiting.end(task, over, cycle.now)
        return False
    held = waiting.held_back(task, cycle.now)
    if held is not None:
        _wait(cycle, task, held)
        return False
    question = _question(cycle, task, spec)
    if spec.num_nodes > 1:
        return _turn_of_gang(cycle, task, spec, question)
    if _on_kept(cycle, task, question):
        return True
    known = cycle.refused.get(question.key) or cycle.asleep.reason(question.timeless, cycle.market.live, cycle.now)
    if known is None:
        decision = _decide(cycle, task, question, spec)
        if decision.row is not None:
            until = shifting.later(task, spec, decision, now=cycle.now) if spec.placement.slack_s else None
            if until is not None and shifting.postpone(task, until=until):
                _wait(cycle, task, waiting.held_back(task, cycle.now) or {})
                return False
            return _seat(cycle, task, decision)
        if cycle.left_out:  # what was left out of this cycle may fit in the next
            _wait(cycle, task, waiting.task_reason(WaitReason.TAKEN_MEANWHILE))
            return False
        known = cycle.refused[question.key] = waiting.reason_of(decision, question, cycle.market)
        if waiting.is_hopeless(question, cycle.market):
            cycle.asleep.note(question.timeless, known, cycle.market.live, cycle.now)
    if _makes_room(cycle, task, question):
        _wait(cycle, task, waiting.task_reason(WaitReason.PREEMPTING))
        return False
    _no_place(cycle, task, spec, known)
    return False


def _turn_of_gang(cycle: _Cycle, task: Task, spec: TaskSpec, question: Question) -> bool:
    """All nodes of one zone, or none: a seat for each rank, committed together."""
    market, sets = cycle.market, None
    for request in question.requests:
        sets = gang.choose(
            request, question.policy, market.table, market.paths, size=spec.num_nodes, tiers=market.tiers
        )
        if sets is None:
            continue
        seats = []
        for row in sets.rows:
            there = room.at(request, market.table.rows[row].node)
            decision = decide_in_order([there], question.policy, market.table, market.paths, tiers=market.tiers)
            seats.append(Told(decision, market))
        _plan(cycle, task, tuple(seats))
        return True
    last = question.requests[-1]
    zones, most = gang.zone_short(last, market.table, market.paths, question.policy, size=spec.num_nodes)
    if most == 0:
        decision = cycle.batch.decide(question.key, question.requests, question.policy)
        _no_place(cycle, task, spec, waiting.reason_of(decision, question, market))
        return False
    refused = {"reason": WaitReason.ZONE_SHORT.value, "count": zones, "asked": str(spec.num_nodes), "best": str(most)}
    tiers = [{"tier": Tier.ZONE.value, "seen": zones, "kept": 0, "refused": [{**refused, "nodes": most}]}]
    reason = {"reason": WaitReason.GANG_INCOMPLETE.value, "tier": Tier.TASK.value, "tiers": tiers}
    _no_place(cycle, task, spec, {**reason, "asked": str(spec.num_nodes), "best": str(most)})
    return False


def _question(cycle: _Cycle, task: Task, spec: TaskSpec) -> Question:
    return asking.of_queued(task, now=cycle.now, past_due=cycle.asked.past_due(task), spec=spec, asked=cycle.asked)


def _decide(cycle: _Cycle, task: Task, question: Question, spec: TaskSpec) -> Decision:
    """Decide with the nodes of planned starts open to this task only if it holds the promise or ends before."""
    ends = int(cycle.now.timestamp()) + spec.max_duration_s
    shut = tuple(promise.node for promise in cycle.promises if not promise.admits(task.id, ends))
    table = cycle.market.table
    for promise in cycle.promises:
        if promise.node not in cycle.kept_nodes:
            table.mark(table.of_node(promise.node), KEPT, promise.node in shut)
    return cycle.batch.decide((question.key, shut), question.requests, question.policy)


def _seat(cycle: _Cycle, task: Task, decision: Decision) -> bool:
    if decision.row is None:
        return False
    told = cycle.told.get(id(decision))
    if told is None:
        told = cycle.told[id(decision)] = Told(decision, cycle.market)
    _plan(cycle, task, (told,))
    return True


def _on_kept(cycle: _Cycle, task: Task, question: Question) -> bool:
    """Is there room now where others were stopped for this task?"""
    table = cycle.market.table
    for node in cycle.kept.get(task.public_id, ()):
        rows = table.of_node(node)
        table.mark(rows, KEPT, False)
        there = [room.at(request, node) for request in question.requests if request.node in ("*", node)]
        decision = (
            decide_in_order(there, question.policy, table, cycle.market.paths, tiers=cycle.market.tiers)
            if there
            else None
        )
        seated = decision is not None and _seat(cycle, task, decision)
        table.mark(rows, KEPT, True)
        if seated:
            return True
    return False


def _makes_room(cycle: _Cycle, task: Task, question: Question) -> bool:
    """For a task at the fixed price: is room being made, or can it be?"""
    if task.public_id in cycle.kept:
        return True
    if question.requests[0].rental != "fixed" or cycle.made_room >= MOST_ROOMS:
        return False
    if cycle.victims is None:
        cycle.victims = running.victims(now=cycle.now)
    found = room.find(question=question, market=cycle.market, victims=cycle.victims)
    if found is None or not room.make(task=task, room=found, market=cycle.market, now=cycle.clock()):
        return False
    cycle.made_room += 1
    gone = {victim.attempt for victim in found.victims}
    cycle.victims = [victim for victim in cycle.victims if victim.attempt not in gone and victim.node != found.node]
    cycle.market.table.mark(cycle.market.table.of_node(found.node), KEPT, True)
    return True


def _plan(cycle: _Cycle, task: Task, seats: tuple[Told, ...]) -> None:
    """Count the seats as taken, so that the next decision of this cycle does not count on them."""
    for seat in seats:
        _take(cycle, seat)
    cycle.planned.append(Plan(task, seats))


def _take(cycle: _Cycle, seat: Told) -> None:
    needs = seat.needs
    cycle.market.tiers.take(
        seat.decision.place, cores=needs.cores_milli, memory=needs.memory_mib, disk=needs.disk_gib, cards=needs.cards
    )
    cycle.market.paths.take(seat.decision.problem.request.data, seat.row.region)


def _give_back(cycle: _Cycle, seat: Told) -> None:
    table, row, needs = cycle.market.table, seat.decision.place, seat.needs
    table.refill(
        row,
        cores=int(table.cores[row]) + needs.cores_milli,
        memory=int(table.memory[row]) + needs.memory_mib,
        disk=int(table.disk[row]) + needs.disk_gib,
        cards=int(table.cards[row]) + needs.cards,
    )


def _commit(cycle: _Cycle) -> None:
    """Write what is planned; what was taken meanwhile is decided again."""
    plans, cycle.planned = cycle.planned, []
    answers = booking.book_all(plans=plans, market=cycle.market, now=cycle.clock())
    again: list[Task] = []
    stale: set[str] = set()
    for plan, answer in zip(plans, answers, strict=True):
        if answer.outcome is Outcome.BOOKED:
            cycle.result.placed[plan.task.public_id] = plan.nodes[0]
            continue
        for seat in plan.seats:
            _give_back(cycle, seat)
        stale.update(plan.nodes)
        if answer.outcome is Outcome.TAKEN:
            again.append(plan.task)
    for node in sorted(stale):
        _look_again(cycle, node)
    for task in again:
        tries = cycle.tries[task.id] = cycle.tries.get(task.id, 0) + 1
        if tries < MOST_TRIES:
            _turn(cycle, task)
        else:
            _wait(cycle, task, waiting.task_reason(WaitReason.TAKEN_MEANWHILE))


def _look_again(cycle: _Cycle, node: str) -> None:
    """Another took the place, or its offer changed: read what is left of it.

    If it looks as free as the decision thought, something else is wrong with it (its price, its offer): it is left out of this cycle.
    """
    table = cycle.market.table
    rows = table.of_node(node)
    state = NodeState.objects.filter(node_id=cycle.market.live[node].node_id).first()
    if state is None or not state.open or state.kept_for or _is_as_free(state, cycle, node):
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


def _is_as_free(state: NodeState, cycle: _Cycle, node: str) -> bool:
    """Is as much free as our columns say?"""
    table = cycle.market.table
    row = table.of_node(node)[0]
    return bool(
        state.free_cores_milli >= table.cores[row]
        and state.free_memory_mib >= table.memory[row]
        and state.free_disk_gib >= table.disk[row]
        and state.free_cards >= table.cards[row]
    )


def _no_place(cycle: _Cycle, task: Task, spec: TaskSpec, reason: dict[str, Any]) -> None:
    if RetryEvent.NO_CAPACITY not in spec.retry_on:
        cycle.result.ended += waiting.end(task, EndReason.NO_CAPACITY, cycle.now)
        return
    _wait(cycle, task, reason)


def _wait(cycle: _Cycle, task: Task, reason: dict[str, Any]) -> None:
    cycle.result.waiting += 1
    waiting.keep(task, reason, cycle.now)
