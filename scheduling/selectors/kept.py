"""The market that a process keeps: read whole once, afterwards only what changed, so that a cycle over 10,000 nodes does
not read 10,000 nodes.

What may change, and how it is heard of:

=========================  ================================================================================================
free capacity              ``NodeState.changed_in``, set by a trigger on every change
offers, prices, nodes,     a row of :class:`MarketChange` per change, written by triggers: the node, or none for all nodes
cards, fingerprints
time                       for each node the next moment at which hours, a price or a fingerprint begins or ends
who is heard               soft state, asked each time
=========================  ================================================================================================

Deltas are found by transaction id. In one REPEATABLE READ transaction: ``w' = pg_snapshot_xmin(pg_current_snapshot())`` and
all rows with ``changed_in >= w``; w' is the next w. Trap: a sequence, or "larger than the largest seen", loses a row whose
transaction began earlier and committed later.

Once in :data:`WHOLE_EVERY` everything is read anew, and at once when the number of capacity rows is not the one that is
kept (rows were deleted, or the tables were emptied). Threads share what is kept under a lock; everyone gets columns of
their own.
"""

import heapq
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import numpy as np
from django.db import connection, transaction

from marketplace.selectors import offers
from marketplace.selectors.offers import LiveRow
from scheduling.domain import summaries
from scheduling.domain.columns import ALIVE, HEARD, KEPT, TAKES_WORK, Ints, Row, Table, build
from scheduling.domain.fairness import Held
from scheduling.domain.kernels import PLAIN, Kernels
from scheduling.domain.summaries import Summaries
from scheduling.models import MarketChange, NodeState
from scheduling.selectors.rows import heard, held_devices, opening, rows_of

WHOLE_EVERY = timedelta(minutes=5)


@dataclass(frozen=True)
class Seen:
    """What a caller gets: columns of its own, and the offers behind them by the node's public id."""

    table: Table
    tiers: Summaries
    live: Mapping[str, LiveRow]
    capacity: Held


@dataclass
class _Kept:
    """The market of one database as last read."""

    read_at: datetime
    window: int = 0  # transactions from here on may not have been seen
    live: dict[int, LiveRow] = field(default_factory=dict)
    states: dict[int, NodeState] = field(default_factory=dict)
    rows: dict[int, list[Row]] = field(default_factory=dict)
    due: list[tuple[datetime, int]] = field(default_factory=list)
    count: int = 0
    table: Table = field(default_factory=lambda: build(()))
    tiers: Summaries = field(default_factory=lambda: summaries.build(build(())))
    by_name: dict[str, LiveRow] = field(default_factory=dict)
    capacity: Held = field(default_factory=Held)
    node_of_row: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


@dataclass
class _Used:
    kernels: Kernels


_USED = _Used(PLAIN)
_LOCK = threading.Lock()
_KEPT: dict[str, _Kept] = {}


def current(*, now: datetime) -> Seen:
    """The market as it is, from what is kept and what changed since. Not inside a transaction."""
    with _LOCK:
        name = str(connection.settings_dict["NAME"])
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                cursor.execute("SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint")
                window = int(cursor.fetchone()[0])
                cursor.execute("SELECT count(*) FROM scheduling_nodestate")
                count = int(cursor.fetchone()[0])
            kept = _KEPT.get(name)
            if kept is None or not kept.read_at <= now < kept.read_at + WHOLE_EVERY or not _catch_up(kept, now, count):
                kept = _whole(now)
        kept.window, kept.count = window, count
        _KEPT[name] = kept
        return _seen(kept, now)


def fresh(*, now: datetime) -> Seen:
    """The market read whole; nothing is kept."""
    return _seen(_whole(now), now)


def use(kernels: Kernels) -> None:
    """From now on, search with these loops (``services.engine`` hands them in when a process starts)."""
    _USED.kernels = kernels
    forget()


def forget() -> None:
    """Keep nothing: the next look reads the market whole."""
    with _LOCK:
        _KEPT.clear()


# -- reading --------------------------------------------------------------------------------------------------------------
def _whole(now: datetime) -> _Kept:
    kept = _Kept(now)
    kept.live = {row.node_id: row for row in offers.live_rows(now)}
    kept.states = {state.node_id: state for state in NodeState.objects.all()}
    kept.count = len(kept.states)
    _make_rows(kept, kept.live, now)
    _arrange(kept)
    return kept


def _catch_up(kept: _Kept, now: datetime, count: int) -> bool:
    """Read what changed; False when everything must be read."""
    noted = set(MarketChange.objects.filter(changed_in__gte=kept.window).values_list("node_id", flat=True))
    if None in noted:
        return False
    states = {state.node_id: state for state in NodeState.objects.filter(changed_in__gte=kept.window)}
    kept.count += len(states.keys() - kept.states.keys())
    if kept.count != count:
        return False
    new = states.keys() - kept.states.keys()
    kept.states.update(states)
    changes = {node for node in noted if node is not None} | _due(kept, now) | new
    if changes:
        found = {row.node_id: row for row in offers.live_rows(now, nodes=changes)}
        for node in changes:
            kept.live.pop(node, None)
            kept.rows.pop(node, None)
        kept.live.update(found)
        _make_rows(kept, found, now)
        _arrange(kept)
    _refill(kept, states.keys() & kept.rows.keys())
    return True


def _due(kept: _Kept, now: datetime) -> set[int]:
    found = set()
    while kept.due and kept.due[0][0] <= now:
        found.add(heapq.heappop(kept.due)[1])
    return found


def _make_rows(kept: _Kept, live: Mapping[int, LiveRow], now: datetime) -> None:
    """Rows of some nodes, and when they change by themselves."""
    held = held_devices(list(live))
    opens = opening([row.offer for row in live.values() if not row.open_now], now)
    for node, row in live.items():
        state = kept.states.get(node)
        if state is not None:  # without a capacity row nothing has been opened for work yet
            kept.rows[node] = rows_of(row, state, held.get(node, frozenset()), ALIVE, opens.get(row.offer))
    nodes = None if live is kept.live else set(live)
    for node, moment in offers.next_changes(now, nodes=nodes).items():
        heapq.heappush(kept.due, (moment, node))


def _arrange(kept: _Kept) -> None:
    """Columns from rows."""
    kept.table = build(row for rows in kept.rows.values() for row in rows)
    kept.tiers = summaries.build(kept.table, kernels=_USED.kernels)
    kept.by_name = {row.node: row for row in kept.live.values()}
    kept.node_of_row = np.array([kept.by_name[row.node].node_id for row in kept.table.rows], dtype=np.int64)
    there = [kept.states[node] for node in kept.rows]
    kept.capacity = Held(
        sum(state.total_cores_milli for state in there),
        sum(state.total_memory_mib for state in there),
        sum(state.total_disk_gib for state in there),
        sum(state.total_cards for state in there),
    )


def _refill(kept: _Kept, nodes: Iterable[int]) -> None:
    """Write what is free on some nodes into the columns."""
    nodes = list(nodes)
    held = held_devices([node for node in nodes if kept.live[node].cards])
    for node in nodes:
        live, state = kept.live[node], kept.states[node]
        numbers = kept.table.of_node(live.node)
        made = rows_of(live, state, held.get(node, frozenset()), ALIVE, None)
        cards = {(row.offer, row.card_model, row.card_memory_mib): row.cards for row in made}
        for number in numbers:
            row = kept.table.rows[number]
            kept.table.refill(
                number,
                cores=state.free_cores_milli,
                memory=state.free_memory_mib,
                disk=state.free_disk_gib,
                cards=cards[row.offer, row.card_model, row.card_memory_mib],
            )
            kept.tiers.freshen(number)
        kept.table.mark(numbers, TAKES_WORK, made[0].takes_work)
        kept.table.mark(numbers, KEPT, made[0].kept)


def _seen(kept: _Kept, now: datetime) -> Seen:
    """A copy, with who is heard at this moment."""
    tiers = kept.tiers.copied()
    names = {node: kept.live[node].node for node in kept.rows}
    silent = [node for node, state in heard(names, now).items() if state != ALIVE]
    deaf = np.isin(kept.node_of_row, silent)
    flags = tiers.table.flags
    flags[:] = np.where(deaf, flags & np.uint8(0xFF ^ HEARD), flags | np.uint8(HEARD))
    return Seen(tiers.table, tiers, kept.by_name, kept.capacity)
