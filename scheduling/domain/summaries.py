"""What a group of rows (a cell, a zone, a region, any tier above) tells upwards: minima and maxima from which bounds follow.

The innermost level is worked out from rows, every other from the level inside it, by the same reduction: an entry of a
group is the least or the most of its members' entries. No rule names a level; a tier more is one more entry in the list
of :func:`build`.

**Deltas.** A change marks the cell of its row as dirty; :meth:`Summaries.refresh` works dirty cells out again from their
rows, then the groups around them, by the code of the full build and without running sums, so the result is equal to a
full build bit for bit. When only free capacity and waiting times moved, only those entries are worked out again.

Entries are exact (the row's own numbers), but for the price per SCU, which is kept in 32 bits rounded down. A summary
stays a valid bound while capacity only shrinks, so a cycle may refresh late.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from scheduling.domain.columns import (
    ABSENT,
    RENTALS,
    TYPES,
    UNKNOWN_GREEN,
    Bools,
    Column,
    Floats,
    Ints,
    Part,
    Table,
    spans,
)
from scheduling.domain.kernels import PLAIN, Kernels

FAR = np.iinfo(np.int64).max
ROWS_AT_ONCE = 1_000_000
"""A full build works in blocks of about so many rows, to need little memory beside the columns."""
KINDS = 64
"""Kinds of cards that a group can tell apart; more share a bit, which only makes the bound looser."""


@dataclass
class Level:
    """Groups of one tier. `starts[g]` … `stops[g]` are its rows, `inner[g]` … `inner_stops[g]` its groups of the next
    level inwards (of the innermost: rows). Entries per task type are [type, group]. The rest is per group.
    """

    name: str
    starts: Ints
    stops: Ints
    inner: Ints
    inner_stops: Ints
    region: Ints  # the first region that a group lies in
    regions: Ints | None  # behind the last one; None where no group spans several
    cores: Column  # most free
    memory: Column
    disk: Column
    cards: Column
    queue: Column  # least
    green: Column  # most; unknown counts as 0
    risk: Column  # least
    kinds: Column  # bits of the kinds of cards that are there; 0 = none
    core_price: Mapping[str, Ints]  # least, by rental; FAR where none sells
    card_price: Mapping[str, Ints]
    scu_core: Floats  # most per core, decay included, per task type
    scu_card: Floats  # most per card
    core_value: Mapping[str, Column]  # least price ÷ SCU, by rental, per task type; inf where nothing sold is known
    card_value: Mapping[str, Column]
    unknown_core: Bools  # some row has no SCU of that type: it counts with the usual duration
    unknown_card: Bools

    def __len__(self) -> int:
        return len(self.starts)

    def entries(self) -> Iterator[tuple[str, Column]]:
        """All entries that tell something, by name."""
        for name in _PLAIN:
            yield name, getattr(self, name)
        for name in _BY_RENTAL:
            for rental in RENTALS:
                yield f"{name}.{rental}", getattr(self, name)[rental]

    @property
    def nbytes(self) -> int:
        """Bytes of all its arrays."""
        bounds = (self.starts, self.stops, self.inner, self.inner_stops, self.region)
        return sum(one.nbytes for one in bounds) + sum(entry.nbytes for _, entry in self.entries())

    def same(self, other: "Level") -> bool:
        """Equal bit for bit?"""
        mine, theirs = dict(self.entries()), dict(other.entries())
        return all(np.array_equal(entry, theirs[name], equal_nan=True) for name, entry in mine.items())


_PLAIN = (
    "cores",
    "memory",
    "disk",
    "cards",
    "queue",
    "green",
    "risk",
    "kinds",
    "scu_core",
    "scu_card",
    "unknown_core",
    "unknown_card",
)
_BY_RENTAL = ("core_price", "card_price", "core_value", "card_value")
MOST, LEAST, ANY = np.maximum, np.minimum, np.bitwise_or
REDUCED: Mapping[str, Any] = {
    "cores": MOST,
    "memory": MOST,
    "disk": MOST,
    "cards": MOST,
    "queue": LEAST,
    "green": MOST,
    "risk": LEAST,
    "kinds": ANY,
    "scu_core": MOST,
    "scu_card": MOST,
    "unknown_core": ANY,
    "unknown_card": ANY,
    "core_price": LEAST,
    "card_price": LEAST,
    "core_value": LEAST,
    "card_value": LEAST,
}
"""How an entry of a group follows from those of its members."""


class Summaries(Sequence[Level]):
    """The levels of a table, outermost first, and the kernels that work on them."""

    def __init__(self, table: Table, levels: Sequence[Level], kernels: Kernels) -> None:
        self.table, self.levels, self.kernels = table, tuple(levels), kernels

    def __getitem__(self, index: Any) -> Any:
        return self.levels[index]

    def __len__(self) -> int:
        return len(self.levels)

    @cached_property
    def cells_of_kind(self) -> tuple[Ints, ...]:
        """For each kind of card the cells that hold it."""
        kind = self.table.profiles.model[self.table.profile[self.levels[-1].starts]]
        return tuple(np.flatnonzero(kind == number).astype(np.int64) for number in range(len(self.table.models)))

    @property
    def nbytes(self) -> int:
        """Bytes of all levels."""
        return sum(level.nbytes for level in self.levels) + sum(cells.nbytes for cells in self.cells_of_kind)

    def copied(self) -> "Summaries":
        """The same over a copy of the table, to try things on: what changes with capacity is copied, the rest is shared."""
        entries = ("cores", "memory", "disk", "cards", "queue")
        copies = [replace(level, **{name: getattr(level, name).copy() for name in entries}) for level in self.levels]
        other = Summaries(self.table.copied(), copies, self.kernels)
        other.__dict__["cells_of_kind"] = self.cells_of_kind
        return other

    def take(self, row: int, *, cores: int, memory: int, disk: int, cards: int) -> None:
        """Take capacity and refresh what tells it."""
        self.table.take(row, cores=cores, memory=memory, disk=disk, cards=cards)
        for changed in self.table.of_row(row):
            self.freshen(changed)

    def freshen(self, row: int) -> None:
        """Work out again what tells a row's free capacity and waiting time, in its cell and all groups around it."""
        table, cell = self.table, self.levels[-1]
        group = int(np.searchsorted(cell.starts, row, side="right")) - 1
        columns = (table.cores, table.memory, table.disk, table.cards, table.queue)
        for level in reversed(self.levels):
            if level is not cell:
                group = int(np.searchsorted(level.inner, group, side="right")) - 1
            entries = (level.cores, level.memory, level.disk, level.cards, level.queue)
            start, stop = (level.starts, level.stops) if level is cell else (level.inner, level.inner_stops)
            self.kernels.freshen(group, int(start[group]), int(stop[group]), *columns, *entries)
            columns = entries

    def refresh(self, rows: Ints) -> None:
        """Work out again everything that changed rows tell."""
        inside = self.levels[-1]
        dirty: Ints = np.unique(np.searchsorted(inside.starts, rows, side="right") - 1).astype(np.int64)
        _cells_into(self.table, inside, dirty)
        for level in reversed(self.levels[:-1]):
            dirty = np.unique(np.searchsorted(level.inner, dirty, side="right") - 1).astype(np.int64)
            _outer_into(level, inside, dirty)
            inside = level


@dataclass(frozen=True)
class Tier:
    """A tier to summarise: its name, and the first group inside of each of its groups."""

    name: str
    inner: Callable[[Table, Level], Ints]


def _zones(table: Table, cells: Level) -> Ints:
    return _first_of(table.cell_zone)


def _regions(table: Table, zones: Level) -> Ints:
    return _first_of(table.zone_region)


def _first_of(owners: Ints) -> Ints:
    return np.searchsorted(owners, np.arange(int(owners[-1]) + 1 if len(owners) else 0)).astype(np.int64)


TIERS: tuple[Tier, ...] = (Tier("zone", _zones), Tier("region", _regions))
"""From the inside out, above the cells. A super-region would be a third entry."""


def build(table: Table, *, kernels: Kernels = PLAIN, tiers: Sequence[Tier] = TIERS) -> Summaries:
    """All levels of a table."""
    stops = np.append(table.cell_starts[1:], len(table)).astype(np.int64)[: len(table.cell_starts)]
    region = table.zone_region[table.cell_zone]
    cells = _empty("cell", table.cell_starts, stops, table.cell_starts, stops, region, region + 1)
    for block in _blocks(stops):
        _cells_into(table, cells, block)
    levels = [cells]
    for tier in tiers:
        inside = levels[-1]
        inner = tier.inner(table, inside)
        inner_stops = np.append(inner[1:], len(inside)).astype(np.int64)[: len(inner)]
        made = _empty(
            tier.name,
            inside.starts[inner],
            inside.stops[inner_stops - 1],
            inner,
            inner_stops,
            inside.region[inner],
            (inside.region + 1 if inside.regions is None else inside.regions)[inner_stops - 1],
        )
        _outer_into(made, inside, np.arange(len(made), dtype=np.int64))
        levels.append(made)
    return Summaries(table, levels[::-1], kernels)


def levels(table: Table) -> Summaries:
    """Outermost first."""
    return build(table)


def _blocks(stops: Ints) -> Iterator[Ints]:
    """Runs of cells of about a million rows."""
    first = 0
    while first < len(stops):
        begin = int(stops[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(stops, begin + ROWS_AT_ONCE, side="right")))
        yield np.arange(first, last, dtype=np.int64)
        first = last


def _empty(name: str, starts: Ints, stops: Ints, inner: Ints, inner_stops: Ints, region: Ints, regions: Ints) -> Level:
    size, kinds = len(starts), len(TYPES)

    def by_rental(shape: Any, dtype: Any) -> dict[str, Column]:
        return {rental: np.zeros(shape, dtype=dtype) for rental in RENTALS}

    return Level(
        name=name,
        starts=starts,
        stops=stops,
        inner=inner,
        inner_stops=inner_stops,
        region=region,
        regions=None if (regions == region + 1).all() else regions,
        cores=np.zeros(size, np.uint32),
        memory=np.zeros(size, np.uint32),
        disk=np.zeros(size, np.uint16),
        cards=np.zeros(size, np.uint8),
        queue=np.zeros(size, np.uint16),
        green=np.zeros(size, np.uint16),
        risk=np.zeros(size, np.uint16),
        kinds=np.zeros(size, np.uint64),
        core_price=by_rental(size, np.int64),
        card_price=by_rental(size, np.int64),
        scu_core=np.zeros((kinds, size)),
        scu_card=np.zeros((kinds, size)),
        core_value=by_rental((kinds, size), np.float32),
        card_value=by_rental((kinds, size), np.float32),
        unknown_core=np.zeros((kinds, size), np.bool_),
        unknown_card=np.zeros((kinds, size), np.bool_),
    )


@dataclass
class _Rows:
    """The rows of some cells, and where each cell begins among them."""

    table: Table
    part: Part
    cells: Ints
    starts: Ints
    profile: Column = field(init=False)
    term: Column = field(init=False)
    decay: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.profile, self.term = self.table.profile[self.part], self.table.term[self.part]
        self.decay = self.table.decay[self.part].astype(np.float64)


def _cells_into(table: Table, level: Level, cells: Ints) -> None:
    """Work out the entries of some cells from their rows."""
    if not len(cells):
        return
    starts, stops = level.starts[cells], level.stops[cells]
    together = bool((starts[1:] == stops[:-1]).all())
    part: Part = slice(int(starts[0]), int(stops[-1])) if together else spans(starts, stops)
    sizes = stops - starts
    rows = _Rows(table, part, cells, (np.cumsum(sizes) - sizes).astype(np.int64))
    _capacity_of_cells(rows, level)
    _prices_of_cells(rows, level)
    _strength_of_cells(rows, level)


def _capacity_of_cells(rows: _Rows, level: Level) -> None:
    table, part = rows.table, rows.part
    for name in ("cores", "memory", "disk", "cards", "queue", "risk"):
        _store(getattr(level, name), name, getattr(table, name)[part], rows)
    green = table.green[part]
    _store(level.green, "green", np.where(green == UNKNOWN_GREEN, 0, green).astype(np.uint16), rows)
    what = table.profiles
    bits = np.where(what.total_cards > 0, np.uint64(1) << (what.model % KINDS).astype(np.uint64), np.uint64(0))
    _store(level.kinds, "kinds", bits[rows.profile], rows)


def _prices_of_cells(rows: _Rows, level: Level) -> None:
    terms = rows.table.terms
    for name, prices in (("core_price", terms.core_price), ("card_price", terms.card_price)):
        for rental in RENTALS:
            sold = np.where(prices[rental] == ABSENT, FAR, prices[rental])
            _store(getattr(level, name)[rental], name, sold[rows.term], rows)


def _strength_of_cells(rows: _Rows, level: Level) -> None:
    what, terms = rows.table.profiles, rows.table.terms
    with_cards = what.total_cards > 0
    units = (("core", what.scu_core, terms.core_price, True), ("card", what.scu_card, terms.card_price, with_cards))
    for unit, strengths, prices, counts in units:
        price = {rental: prices[rental][rows.term] for rental in RENTALS}
        for kind in range(len(TYPES)):
            scu = strengths[kind][rows.profile] * rows.decay
            _store(getattr(level, f"scu_{unit}")[kind], f"scu_{unit}", scu, rows)
            missing = ((strengths[kind] == 0) & counts)[rows.profile]
            _store(getattr(level, f"unknown_{unit}")[kind], f"unknown_{unit}", missing, rows)
            known = scu > 0
            safe = np.where(known, scu, 1.0)
            for rental in RENTALS:
                value = np.where(known & (price[rental] != ABSENT), price[rental] / safe, np.inf)
                name = f"{unit}_value"
                _store(getattr(level, name)[rental][kind], name, _down(value), rows)


def _down(values: Floats) -> Column:
    """In 32 bits, never above."""
    narrow = values.astype(np.float32)
    return np.where(narrow > values, np.nextafter(narrow, np.float32(-np.inf)), narrow)


def _store(entry: Column, name: str, values: Column, rows: _Rows) -> None:
    entry[rows.cells] = REDUCED[name].reduceat(values, rows.starts)


def _outer_into(level: Level, inside: Level, groups: Ints) -> None:
    """Work out the entries of some groups from those of the level inside."""
    if not len(groups):
        return
    first, stop = level.inner[groups], level.inner_stops[groups]
    sizes = stop - first
    members, starts = spans(first, stop), (np.cumsum(sizes) - sizes).astype(np.int64)
    theirs = dict(inside.entries())
    for name, entry in level.entries():
        reduced = REDUCED[name.partition(".")[0]]
        entry[..., groups] = reduced.reduceat(theirs[name][..., members], starts, axis=-1)
