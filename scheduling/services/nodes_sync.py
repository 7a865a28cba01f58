"""The sync of a node: heartbeat, renewals, and everything the portal has to say to it.

1. *heard*: one script in the soft store stamps the node and extends its leases, each from the moment the sync was
   received;
2. what the store does not extend (late, unknown, store away) goes to PostgreSQL in one guarded UPDATE each: returned
   leases live on, the others are
   fenced. So a late renewal is granted until the lease has lapsed, and the row lock decides races;
3. **the portal extends only from acknowledged renewals**: a sync that does not acknowledge the one before it (its
   answer was lost) is answered at once
   without renewals, and the next one gets them. If answers are lost one way, the lease lapses instead of being
   extended over a frozen job;
4. assignments, cancels, fences and orders come from PostgreSQL. News end the hold; what the agent was told already
   does not.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from marketplace.models import Node
from marketplace.models.nodes import NodeState as Enrolment
from marketplace.selectors import nodes as found
from marketplace.services import nodes as joining
from portal import softstate
from portal.audit.services import note
from portal.kit.errors import Conflict
from scheduling.domain import attempt as attempts
from scheduling.domain.attempt import AttemptEvent, AttemptState
from scheduling.domain.lease import LeaseEventKind, LeaseState, Times
from scheduling.domain.reasons import EndReason
from scheduling.gateways import alive
from scheduling.models import Attempt, Lease, NodeState
from scheduling.services import capacity, leases, live
from scheduling.services.leases import End

LISTED = Enrolment.LISTED

FEW_NODES = 50
HOLD_FEW_MS = 3_000
HOLD_IDLE_MS = 20_000
HOLD_SHARE_PERCENT = 60
"""Of the renew period of the fastest lease: a longer hold would let renewals come late."""
WHEN_STORE_IS_AWAY = "tolerant"
"""Without the soft store every class is answered with the times of this one."""
TOLD_TTL_MS = 120_000
OVERTAKEN_MS = 10_000


@dataclass(frozen=True)
class HeldLease:
    """A lease as its holder names it."""

    attempt: str
    fence: int
    frozen: bool = False


@dataclass(frozen=True)
class Said:
    """A sync as it came in."""

    boot_id: str
    incarnation: int | None
    seq: int
    acknowledges: int
    hold_ms: int
    leases: Sequence[HeldLease] = ()
    draining: bool = False
    load: str = ""


@dataclass(frozen=True)
class Renewal:
    attempt: str
    fence: int
    ttl_ms: int
    renew_ms: int
    deadline_ms: int


@dataclass(frozen=True)
class Assignment:
    attempt: str
    fence: int
    accept_ms: int


@dataclass(frozen=True)
class Cancel:
    attempt: str
    fence: int
    reason: str
    grace_ms: int


@dataclass(frozen=True)
class Order:
    id: str
    kind: str
    nonce: str = ""
    deadline_ms: int | None = None
    soak_s: int = 0


@dataclass(frozen=True)
class Answer:
    """What to say; `hold_ms` 0 = at once."""

    incarnation: int
    hold_ms: int
    renewals: tuple[Renewal, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    cancels: tuple[Cancel, ...] = ()
    fenced: tuple[HeldLease, ...] = ()
    orders: tuple[Order, ...] = ()
    told: dict[str, int] = field(default_factory=dict)


def check_speaker(*, node: Node, boot_id: str, given: int) -> None:
    """Does the newest start of this node's agent speak? Conflict `SUPERSEDED` otherwise."""
    if given != node.incarnation or boot_id != node.boot_id:
        raise Conflict(_("Another agent has signed in for this node since."), code="SUPERSEDED")


def hear(*, node: Node, said: Said, now: datetime, at_ms: int | None = None) -> Answer:
    """Take a sync, received at `now`. The first one of a start of the agent gets its number."""
    number = _start(node, said, now)
    rows = _live(node)
    answer = Answer(number, _hold(said, rows))
    lost_answer = said.acknowledges != said.seq - 1
    mine = {row.public_id: row for row in rows}
    wanted = [] if lost_answer else [held for held in said.leases if _renewable(mine.get(held.attempt), held)]
    extended = alive.sync(
        node=node.public_id,
        quiet_ms=0 if lost_answer else answer.hold_ms,
        load=said.load,
        leases=[_entry(mine[held.attempt]) for held in wanted],
        at_ms=at_ms,
    )
    if extended is None:
        NodeState.objects.filter(node=node).update(last_sync_at=now)
    late = [mine[held.attempt] for held in wanted if extended is None or held.attempt not in extended]
    granted = _grant(node, late, store=extended is not None, now=now, at_ms=at_ms)
    alive_now = granted | (extended or set())
    _note_frozen(said, mine)
    _back(mine, alive_now, now)
    rows = [row for row in rows if not _dropped(row, said, now)]
    renewals = tuple(_renewal(mine[held.attempt], extended is None) for held in wanted if held.attempt in alive_now)
    refused = {row.public_id for row in late} - granted
    answer = replace(answer, renewals=renewals, fenced=_fenced(said, mine, refused))
    answer = _say(node, said, answer, rows, now)
    return replace(answer, hold_ms=0) if lost_answer else answer


def _start(node: Node, said: Said, now: datetime) -> int:
    """The number of this start of the agent. A node that its agent had closed is open again with the next start."""
    if said.incarnation is None:
        if _came_before(node, said, now):
            return node.incarnation
        number: int = joining.on_start(node=node, boot_id=said.boot_id, now=now)
        if node.state == LISTED and not said.draining:
            capacity.open_node(node=node, now=now)
        return number
    check_speaker(node=node, boot_id=said.boot_id, given=said.incarnation)
    if said.draining:
        capacity.close_node(node=node, now=now)
    return said.incarnation


def _came_before(node: Node, said: Said, now: datetime) -> bool:
    """A first sync that overtook this one has the number already: a request that was long on its way, or came twice,
    must not supersede the agent that sent it.
    """
    name = f"start:{node.public_id}"
    moment = int(now.timestamp() * 1000)
    known: dict[str, Any] | None = softstate.get(name)
    if known and known["boot_id"] == said.boot_id and said.seq <= known["seq"] and moment - known["at"] < OVERTAKEN_MS:
        return node.boot_id == said.boot_id
    softstate.put(name, {"boot_id": said.boot_id, "seq": said.seq, "at": moment}, ttl_ms=OVERTAKEN_MS)
    return False


def inventory(*, node: Node, now: datetime, **report: Any) -> Node:
    """What the node has and has proved goes to the market; what it can give is opened, or brought up to date."""
    row: Node = joining.on_inventory(node=node, now=now, **report)
    if row.state == LISTED:
        capacity.open_node(node=row, now=now)
    return row


def leave(*, node: Node, deadline: timedelta, now: datetime) -> None:
    """The agent goes down for now: no new work until its next start. It stops by itself what runs after `deadline`.

    The enrolment stays as it is: a provider drains a node on the portal, an agent only closes it.
    """
    capacity.close_node(node=node, now=now)
    note(
        actor=node.public_id,
        deed="node.down",
        target=node.public_id,
        organisation_id=node.organisation_id,
        data={"deadline_s": int(deadline.total_seconds())},
        now=now,
    )


def state_changed(*, node: str, now: datetime) -> None:
    """The enrolment has moved (outbox topic `node.state`): open or close the capacity, wake the agent."""
    row = Node.objects.select_related("organisation").filter(public_id=node).first()
    if row is None:
        return
    if row.state == LISTED:
        capacity.open_node(node=row, now=now)
    else:
        capacity.close_node(node=row, now=now)
    live.wake(row.public_id)


def look_again(*, node: Node, said: Said, answer: Answer, now: datetime) -> Answer:
    """After a wake-up: what is to be said now, with the renewals granted when the sync came in."""
    node = Node.objects.get(id=node.id)
    rows = _live(node)
    mine = {row.public_id: row for row in rows}
    fenced = {held.attempt: held for held in (*answer.fenced, *_fenced(said, mine, set()))}
    gone = set(fenced)
    renewals = tuple(renewal for renewal in answer.renewals if renewal.attempt not in gone)
    return _say(node, said, replace(answer, renewals=renewals, fenced=tuple(fenced.values())), rows, now)


def _live(node: Node) -> list[Attempt]:
    return list(
        Attempt.objects.filter(node=node, state__in=[*attempts.LIVE])
        .select_related("lease", "task__job", "node")
        .order_by("id")
    )


def _renewable(row: Attempt | None, held: HeldLease) -> bool:
    return row is not None and row.fence == held.fence and row.lease.state == LeaseState.ACTIVE


def _times(row: Attempt) -> Times:
    return leases.times(row.lease.lease_class)


def _entry(row: Attempt) -> alive.Renewed:
    return alive.Renewed(row.public_id, row.fence, _times(row).ttl_ms)


def _grant(node: Node, late: Sequence[Attempt], *, store: bool, now: datetime, at_ms: int | None) -> set[str]:
    """Rule 2 above: only PostgreSQL can grant these, and only while it has not ended them."""
    granted: list[Attempt] = []
    for row in late:
        ttl_ms = _times(row).ttl_ms if store else leases.times(WHEN_STORE_IS_AWAY).ttl_ms
        expires = now + timedelta(milliseconds=ttl_ms)
        updated = Lease.objects.filter(
            id=row.lease.id, node=node, fence=row.fence, state=LeaseState.ACTIVE, expires_at__lt=expires
        ).update(expires_at=expires)
        still = updated == 1 or Lease.objects.filter(id=row.lease.id, state=LeaseState.ACTIVE).exists()
        if still:
            granted.append(row)
    if store:
        alive.keep(node=node.public_id, leases=[_entry(row) for row in granted], at_ms=at_ms)
    return {row.public_id for row in granted}


def _back(mine: dict[str, Attempt], renewed: set[str], now: datetime) -> None:
    """A renewal leads an unreachable attempt back to where it was."""
    for name in sorted(renewed):
        row = mine[name]
        if row.state == AttemptState.UNREACHABLE:
            heard_again(attempt=row, now=now)


def heard_again(*, attempt: Attempt, now: datetime) -> bool:
    """Lead one unreachable attempt back; False if it has moved meanwhile."""
    try:
        with transaction.atomic():
            leases.move(attempt=attempt, event=AttemptEvent.HEARD)
            live.changed(f"job.{attempt.task.job.public_id}", f"node.{attempt.node.public_id}")
    except Conflict:
        return False
    return True


def _dropped(row: Attempt, said: Said, now: datetime) -> bool:
    """An attempt whose `accept` was answered too late for its agent: it holds no such lease and starts nothing.

    Waiting for the lease to lapse would only cost time: the task is queued again at once.
    """
    if row.state != AttemptState.LEASED or row.started_at is not None or row.accepted_at is None:
        return False
    patience = timedelta(milliseconds=2 * _times(row).accept_ms)
    if now - row.accepted_at < patience or row.public_id in {held.attempt for held in said.leases}:
        return False
    with transaction.atomic():
        locked = leases.lock(attempt_id=row.id)
        if locked.attempt.state != AttemptState.LEASED or locked.attempt.accepted_at != row.accepted_at:
            return False
        why = End(EndReason.PLATFORM_FAULT, row.accepted_at, "the answer to its accept came too late for the node")
        leases.end(locked=locked, kind=LeaseEventKind.RELEASED, why=why, now=now)
    return True


def _note_frozen(said: Said, mine: dict[str, Attempt]) -> None:
    for held in said.leases:
        row = mine.get(held.attempt)
        if row is not None and row.fence == held.fence and row.frozen != held.frozen:
            Attempt.objects.filter(id=row.id, state__in=[*attempts.LIVE]).update(frozen=held.frozen)
            live.changed(f"job.{row.task.job.public_id}")


def _renewal(row: Attempt, store_away: bool) -> Renewal:
    times = leases.times(WHEN_STORE_IS_AWAY) if store_away else _times(row)
    return Renewal(row.public_id, row.fence, times.ttl_ms, times.renew_ms, times.agent_deadline_ms(row.lease.grace_ms))


def _fenced(said: Said, mine: dict[str, Attempt], refused: set[str]) -> tuple[HeldLease, ...]:
    """Leases that the node names and that are no longer its own."""
    out = []
    for held in said.leases:
        row = mine.get(held.attempt)
        gone = row is None or row.fence != held.fence or row.lease.state not in (LeaseState.PENDING, LeaseState.ACTIVE)
        if gone or held.attempt in refused:
            out.append(held)
    return tuple(out)


def _say(node: Node, said: Said, answer: Answer, rows: Sequence[Attempt], now: datetime) -> Answer:
    assignments = tuple(
        Assignment(row.public_id, row.fence, _left_ms(row.lease.accept_by, now))
        for row in rows
        if row.state == AttemptState.ASSIGNED and row.lease.accept_by > now
    )
    gone = {held.attempt for held in answer.fenced}
    cancels = tuple(
        Cancel(row.public_id, row.fence, row.stop_reason, int(leases.STOP_GRACE.total_seconds() * 1000))
        for row in rows
        if row.stop_requested_at is not None and row.public_id not in gone
    )
    orders = _orders(node, now)
    answer = replace(answer, assignments=assignments, cancels=cancels, orders=orders)
    things = [
        *[f"a {one.attempt} {one.fence}" for one in assignments],
        *[f"c {one.attempt} {one.fence}" for one in cancels],
        *[f"f {held.attempt} {held.fence}" for held in answer.fenced],
        *[f"o {order.id}" for order in orders],
    ]
    return _news(node, said, answer, things)


def _news(node: Node, said: Said, answer: Answer, things: Sequence[str]) -> Answer:
    """End the hold if something was not told yet, or only in an answer that got lost; remember what is told now."""
    if not things:
        return answer
    name = f"told:{node.public_id}"
    known: dict[str, Any] = softstate.get(name) or {}
    told: dict[str, int] = known.get("told", {}) if known.get("incarnation") == answer.incarnation else {}
    fresh = [thing for thing in things if thing not in told or told[thing] > said.acknowledges]
    now_told = {thing: told.get(thing, said.seq) if thing not in fresh else said.seq for thing in things}
    if fresh:
        softstate.put(name, {"incarnation": answer.incarnation, "told": now_told}, ttl_ms=TOLD_TTL_MS)
        return replace(answer, hold_ms=0, told=now_told)
    return replace(answer, told=now_told)


def _orders(node: Node, now: datetime) -> tuple[Order, ...]:
    """What the market wants of the node; a drain order that is no longer named is over."""
    wanted = [_order(node, kind) for kind in found.wanted_orders(node)]
    if node.state == "draining":
        deadline = _left_ms(node.drain_deadline, now) if node.drain_deadline else None
        name = f"drain.{node.drain_deadline.timestamp():.0f}" if node.drain_deadline else "drain"
        wanted.append(Order(name, "drain", deadline_ms=deadline))
    return tuple(wanted)


def _order(node: Node, kind: str) -> Order:
    """An order is carried out once under its id: a measurement that is wanted again has the last one in its name."""
    if kind != "fingerprint":
        return Order(f"{kind}.{node.incarnation}", kind)
    last = found.fingerprints(node).values_list("id", flat=True).first()
    return Order(f"{kind}.{node.incarnation}.{last or 0}", kind, soak_s=node.soak_s)


def _left_ms(until: datetime, now: datetime) -> int:
    return max(1, int((until - now).total_seconds() * 1000))


def _hold(said: Said, rows: Sequence[Attempt]) -> int:
    """How long this sync may be held: never so long that a renewal comes late."""
    held = {lease.attempt for lease in said.leases}
    periods = [_times(row).renew_ms for row in rows if row.public_id in held]
    if periods:
        return min(said.hold_ms, min(periods) * HOLD_SHARE_PERCENT // 100)
    few = NodeState.objects.count() < FEW_NODES
    return min(said.hold_ms, HOLD_FEW_MS if few else HOLD_IDLE_MS)
