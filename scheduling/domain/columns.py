"""The market as columns: 28 bytes a row, one row per offer of a node, sorted by region, zone, kind of card and node, as
arrays that rules compare at once.

========  =====  ==============================================================================================
column    type   holds
========  =====  ==============================================================================================
term      u32    row of :class:`Terms`: prices, currency, hours, end, lease classes (what the offer says)
profile   u16    row of :class:`Profiles`: what the node is (beyond 65,536 of them the column is u32)
decay     f32    observed ÷ measured speed of the node
risk      u16    expected failures in 100,000 hours
memory    u32    free MiB, rounded down
cores     u32    free thousandths of a core
disk      u16    free GiB
cards     u8     free cards
queue     u16    expected wait in seconds, at most 65,535
green     u16    renewable share in 1/10,000, rounded down; UNKNOWN_GREEN = not known
flags     u8     bits: heard, takes work, verified, kept for another task
========  =====  ==============================================================================================

Capacities are whole numbers rounded down, prices whole micro-currency per unit-hour (-1 = not sold so): limits are
compared as integers, because 3.20 in binary is not 3.20. Floats only rank, and are widened to 64 bits first.

Groups are contiguous runs of rows, so a part of the market is a slice without copying; the innermost group is the
*cell*, the rows of one zone and one kind of card. Nothing per row repeats what a group or an offer says.

Traps: small unsigned columns wrap when something larger is subtracted from them, so arithmetic widens first
(``.astype(np.int64)``); what does not fit a column is cut to its largest value, which for a capacity is the safe side.

:class:`Row` is the same thing for one offer in words; rows go in, are stored with decisions (``Row.form``), and come
back for a replay. A market that never was rows (a benchmark's) brings the arrays and a sequence that tells rows when
asked.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduling.domain.demand import LeaseClass, TaskType

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Column = NDArray[Any]
Part = slice | Ints
"""Some rows: a run of them, or their numbers."""

TYPES: tuple[str, ...] = tuple(str(t.value) for t in TaskType)
CLASSES: tuple[str, ...] = tuple(str(c.value) for c in LeaseClass)
RENTALS: tuple[str, ...] = ("fixed", "spot")
NEVER = 2**62
"""A moment that does not come (until, of an offer without end)."""
ABSENT = -1
UNKNOWN_GREEN = 65_535
GREEN_WHOLE = 10_000
PPM_PER_GREEN = 100
ALIVE, SUSPECT, UNKNOWN = "alive", "suspect", "unknown"
HEARD, TAKES_WORK, VERIFIED, KEPT = 1, 2, 4, 8
"""Bits of `flags`."""


@dataclass(frozen=True)
class Row:
    """One offer of one node, as it stands: what it is, what it costs, what is free."""

    node: str
    offer: str
    name: str
    region: str
    zone: str
    provider: str
    currency: str
    provider_name: str = ""
    core_fixed: int | None = None  # micro-currency per core-hour
    core_spot: int | None = None
    card_fixed: int | None = None
    card_spot: int | None = None
    prices: str = ""  # digest of the price versions: the commit guard
    cores_milli: int = 0  # free
    memory_mib: int = 0
    disk_gib: int = 0
    cards: int = 0
    total_cores_milli: int = 0
    total_memory_mib: int = 0
    total_disk_gib: int = 0
    total_cards: int = 0
    card_model: str = ""
    card_memory_mib: int = 0
    virtual: bool = False
    scu_cpu: Mapping[str, float] = field(default_factory=dict)  # task type → SCU of all its cores; absent = unknown
    scu_card: Mapping[str, float] = field(default_factory=dict)  # of one card
    decay: float = 1.0  # observed ÷ measured
    risk: int = 0  # expected failures in 100,000 hours
    queue_s: int = 0
    green_ppm: int | None = None
    verified: bool = False
    open_now: bool = True
    until: int | None = None  # Unix seconds
    opens_at: int | None = None  # when a closed window opens next
    alive: str = ALIVE  # alive suspect unknown
    takes_work: bool = True  # listed, not draining
    kept: bool = False  # what is free of it waits for another task
    lease_classes: tuple[str, ...] = CLASSES
    refuses_past_due: bool = False
    reliability_ppm: int | None = None  # None: too few attempts ended there to say
    isolation: str = "full"

    def form(self) -> dict[str, Any]:
        """As plain JSON values."""
        told = {key: value for key, value in self.__dict__.items() if value != _DEFAULTS.get(key, _NOTHING)}
        return {key: dict(value) if isinstance(value, Mapping) else value for key, value in told.items()}

    @classmethod
    def from_form(cls, form: Mapping[str, Any]) -> "Row":
        """Back from :meth:`form`."""
        named = dict(form)
        if "lease_classes" in named:
            named["lease_classes"] = tuple(named["lease_classes"])
        return cls(**named)


_NOTHING = object()
_DEFAULTS: dict[str, Any] = asdict(Row("", "", "", "", "", "", ""))
for _name in ("node", "offer", "name", "region", "zone", "provider", "currency"):
    del _DEFAULTS[_name]


@dataclass
class Terms:
    """What offers say, one entry per distinct set of terms. `core_price` and `card_price` by rental."""

    core_price: Mapping[str, Ints]
    card_price: Mapping[str, Ints]
    currency: Ints
    provider: Ints
    until: Ints  # Unix seconds
    open_now: Bools
    lease_classes: Bools  # [entry, class]
    refuses_past_due: Bools

    def __len__(self) -> int:
        return len(self.currency)


@dataclass
class Profiles:
    """What nodes are, one entry per distinct fingerprint and size. SCU is [task type, entry], 0 = not known, without
    the decay of a node.
    """

    total_cores: Ints
    total_memory: Ints
    total_disk: Ints
    total_cards: Ints
    model: Ints
    card_memory: Ints
    virtual: Bools
    scu_core: Floats  # per core
    scu_card: Floats  # per card

    def __len__(self) -> int:
        return len(self.total_cores)


@dataclass
class Table:
    """The columns. `region`, `zone`, `currency`, `model` and `provider` are numbers of the name tuples."""

    rows: Sequence[Row]
    regions: tuple[str, ...]
    zones: Sequence[tuple[str, str]]
    currencies: tuple[str, ...]
    models: tuple[str, ...]
    providers: tuple[str, ...]
    terms: Terms
    profiles: Profiles
    term: Column
    profile: Column
    decay: Column
    risk: Column
    memory: Column
    cores: Column
    disk: Column
    cards: Column
    queue: Column
    green: Column
    flags: Column
    cell_starts: Ints  # first row of each cell
    cell_zone: Ints
    zone_region: Ints
    ranks: Ints | None = None  # rank of the node's id: the last key of every order; None = rows stand in that order

    def __len__(self) -> int:
        return len(self.term)

    @property
    def nbytes(self) -> int:
        """Bytes of all columns and their tables."""
        return sum(value.nbytes for value in _arrays(self)) + sum(
            value.nbytes for part in (self.terms, self.profiles) for value in _arrays(part)
        )

    # -- per row, worked out from groups and tables; for small tables or some rows ----------------------------------------
    @cached_property
    def zone_starts(self) -> Ints:
        """First row of each zone."""
        return self.cell_starts[_starts(self.cell_zone)]

    @cached_property
    def region_starts(self) -> Ints:
        """First row of each region."""
        return self.zone_starts[_starts(self.zone_region)]

    @cached_property
    def zone(self) -> Ints:
        """Of every row."""
        return np.repeat(np.arange(len(self.zone_starts)), self._sizes(self.zone_starts)).astype(np.int64)

    @cached_property
    def region(self) -> Ints:
        """Of every row."""
        return np.repeat(np.arange(len(self.region_starts)), self._sizes(self.region_starts)).astype(np.int64)

    def _sizes(self, starts: Ints) -> Ints:
        return np.diff(np.append(starts, len(self)))

    def zone_of(self, rows: Part) -> Ints:
        """Zones of some rows, without a column for all."""
        if isinstance(rows, slice):
            return self.zone[rows]
        cells = np.searchsorted(self.cell_starts, rows, side="right") - 1
        zones: Ints = self.cell_zone[cells]
        return zones

    def rank_of(self, rows: Ints) -> Ints:
        """Ranks of the nodes' ids."""
        return rows if self.ranks is None else self.ranks[rows]

    @property
    def alive(self) -> Bools:
        """Heard lately, per row (a copy that refuses to be written; see :meth:`mark`)."""
        return self.flagged(slice(None), HEARD)

    @property
    def takes_work(self) -> Bools:
        """Listed and not draining, per row (see :meth:`close`)."""
        return self.flagged(slice(None), TAKES_WORK)

    @property
    def verified(self) -> Bools:
        """Measured by us, per row."""
        return self.flagged(slice(None), VERIFIED)

    def flagged(self, part: Part, bit: int) -> Bools:
        """Which of some rows bear a flag."""
        found: Bools = (self.flags[part] & bit) != 0
        found.flags.writeable = False
        return found

    @property
    def open_now(self) -> Bools:
        """Inside their hours, per row."""
        return self.terms.open_now[self.term]

    @property
    def until(self) -> Ints:
        """Ends of the offers, per row."""
        return self.terms.until[self.term]

    @property
    def model(self) -> Ints:
        """Kinds of cards, per row."""
        return self.profiles.model[self.profile]

    @property
    def virtual(self) -> Bools:
        """Virtual cards, per row."""
        return self.profiles.virtual[self.profile]

    # -- changes --------------------------------------------------------------------------------------------------------
    def take(self, row: int, *, cores: int, memory: int, disk: int, cards: int) -> None:
        """Mark capacity as taken, so that the next decision of the same cycle does not count on it.

        Rows of one node (several kinds of cards) share its cores, memory and disk.
        """
        self.cards[row] -= min(cards, int(self.cards[row]))
        for other in self.of_row(row):
            self.cores[other] -= min(cores, int(self.cores[other]))
            self.memory[other] -= min(memory, int(self.memory[other]))
            self.disk[other] -= min(disk, int(self.disk[other]))

    def refill(self, row: int, *, cores: int, memory: int, disk: int, cards: int) -> None:
        """Say anew what is free on a node; `cards` of this row's kind."""
        self.cards[row] = _fit(cards, self.cards)
        for other in self.of_row(row):
            self.cores[other] = _fit(cores, self.cores)
            self.memory[other] = _fit(memory, self.memory)
            self.disk[other] = _fit(disk, self.disk)

    def mark(self, rows: Iterable[int], bit: int, on: bool) -> None:
        """Set or clear a flag."""
        for row in rows:
            self.flags[row] = (int(self.flags[row]) | bit) if on else (int(self.flags[row]) & ~bit)

    def close(self, node: str) -> None:
        """No new work for a node."""
        self.mark(self.of_node(node), TAKES_WORK, False)

    def of_node(self, node: str) -> list[int]:
        """All rows of a node."""
        return self._nodes.get(node, [])

    def of_row(self, row: int) -> Sequence[int]:
        """All rows of the node of a row, itself among them."""
        return (row,) if self.ranks is None else self.of_node(self.rows[row].node)

    @cached_property
    def _nodes(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for number, row in enumerate(self.rows):
            found.setdefault(row.node, []).append(number)
        return found

    def current(self, row: int) -> Row:
        """Row `row` as it is now: what is free, heard, taking work."""
        return replace(
            self.rows[row],
            cores_milli=int(self.cores[row]),
            memory_mib=int(self.memory[row]),
            disk_gib=int(self.disk[row]),
            cards=int(self.cards[row]),
            queue_s=int(self.queue[row]),
            takes_work=bool(self.flags[row] & TAKES_WORK),
            kept=bool(self.flags[row] & KEPT),
            alive=ALIVE if self.flags[row] & HEARD else SUSPECT,
        )

    # -- what if --------------------------------------------------------------------------------------------------------
    def as_if_open(self) -> "Table":
        """The same market with every offer inside its hours."""
        return self._other(terms=replace(self.terms, open_now=np.ones(len(self.terms), dtype=np.bool_)))

    def as_if_empty(self) -> "Table":
        """The same market with nothing taken."""
        what = self.profiles
        return self._other(
            cores=_fitted(what.total_cores[self.profile], np.uint32),
            memory=_fitted(what.total_memory[self.profile], np.uint32),
            disk=_fitted(what.total_disk[self.profile], np.uint16),
            cards=_fitted(what.total_cards[self.profile], np.uint8),
        )

    def copied(self) -> "Table":
        """The same market in columns of its own, to try things on."""
        return self._other(**{name: getattr(self, name).copy() for name in CHANGING})

    def _other(self, **changed: Any) -> "Table":
        other = replace(self, **changed)
        for name in ("zone_starts", "region_starts", "zone", "region", "_nodes"):
            if name in self.__dict__:  # worked out already, and the same there
                other.__dict__[name] = self.__dict__[name]
        return other


CHANGING = ("term", "profile", "decay", "risk", "memory", "cores", "disk", "cards", "queue", "green", "flags")


def build(rows: Iterable[Row]) -> Table:
    """The table of `rows`, whatever order they come in."""
    ordered = tuple(sorted(rows, key=lambda r: (r.region, r.zone, r.card_model, r.node, r.offer)))
    regions, zones = _names(r.region for r in ordered), _names((r.region, r.zone) for r in ordered)
    currencies, models = _names(r.currency for r in ordered), _names(r.card_model for r in ordered)
    providers = _names(r.provider for r in ordered)
    zone = _index(zones, ((r.region, r.zone) for r in ordered))
    model = _index(models, (r.card_model for r in ordered))
    cell_starts = _starts(zone * max(1, len(models)) + model)
    term_keys, term = _distinct(ordered, _terms_key)
    profile_keys, profile = _distinct(ordered, _profile_key)
    return Table(
        rows=ordered,
        regions=regions,
        zones=zones,
        currencies=currencies,
        models=models,
        providers=providers,
        terms=_terms(term_keys, currencies, providers),
        profiles=_profiles(profile_keys, models),
        term=term.astype(np.uint32),
        profile=profile.astype(np.uint16 if len(profile_keys) <= 2**16 else np.uint32),
        decay=np.array([r.decay for r in ordered], dtype=np.float32),
        risk=_column((r.risk for r in ordered), np.uint16),
        memory=_column((r.memory_mib for r in ordered), np.uint32),
        cores=_column((r.cores_milli for r in ordered), np.uint32),
        disk=_column((r.disk_gib for r in ordered), np.uint16),
        cards=_column((r.cards for r in ordered), np.uint8),
        queue=_column((r.queue_s for r in ordered), np.uint16),
        green=_column((green_of(r.green_ppm) for r in ordered), np.uint16),
        flags=_column((flags_of(r) for r in ordered), np.uint8),
        cell_starts=cell_starts,
        cell_zone=zone[cell_starts],
        zone_region=_index(regions, (name for name, _ in zones)),
        ranks=_ranks(ordered),
    )


def green_of(ppm: int | None) -> int:
    """A renewable share as its column holds it."""
    return UNKNOWN_GREEN if ppm is None else ppm // PPM_PER_GREEN


def flags_of(row: Row) -> int:
    """The flags of a row."""
    flags = HEARD * (row.alive == ALIVE) | TAKES_WORK * row.takes_work | VERIFIED * row.verified
    return flags | KEPT * row.kept


def spans(starts: Ints, stops: Ints) -> Ints:
    """All numbers of several runs, one run after the other."""
    sizes = stops - starts
    if not len(sizes) or not (total := int(sizes.sum())):
        return np.zeros(0, dtype=np.int64)
    ends = np.cumsum(sizes)
    numbers: Ints = np.arange(total, dtype=np.int64) + np.repeat(starts - (ends - sizes), sizes)
    return numbers


def _terms_key(row: Row) -> tuple[Any, ...]:
    prices = (row.core_fixed, row.core_spot, row.card_fixed, row.card_spot)
    return (*prices, row.currency, row.provider, row.until, row.open_now, row.lease_classes, row.refuses_past_due)


def _profile_key(row: Row) -> tuple[Any, ...]:
    return (
        row.total_cores_milli,
        row.total_memory_mib,
        row.total_disk_gib,
        row.total_cards,
        row.card_model,
        row.card_memory_mib,
        row.virtual,
        tuple(row.scu_cpu.get(t, 0.0) for t in TYPES),
        tuple(row.scu_card.get(t, 0.0) for t in TYPES),
    )


def _distinct(rows: Sequence[Row], key: Callable[[Row], tuple[Any, ...]]) -> tuple[list[tuple[Any, ...]], Ints]:
    """Distinct keys in the order in which they come, and the number of each row's."""
    where: dict[tuple[Any, ...], int] = {}
    numbers = np.array([where.setdefault(key(row), len(where)) for row in rows], dtype=np.int64)
    return list(where), numbers


def _terms(keys: Sequence[tuple[Any, ...]], currencies: Sequence[str], providers: Sequence[str]) -> Terms:
    prices = np.array([[ABSENT if p is None else p for p in key[:4]] for key in keys], dtype=np.int64).reshape(-1, 4)
    return Terms(
        core_price={"fixed": prices[:, 0].copy(), "spot": prices[:, 1].copy()},
        card_price={"fixed": prices[:, 2].copy(), "spot": prices[:, 3].copy()},
        currency=_index(currencies, (key[4] for key in keys)),
        provider=_index(providers, (key[5] for key in keys)),
        until=_ints(NEVER if key[6] is None else key[6] for key in keys),
        open_now=_bools(key[7] for key in keys),
        lease_classes=np.array([[c in key[8] for c in CLASSES] for key in keys], dtype=np.bool_).reshape(
            len(keys), len(CLASSES)
        ),
        refuses_past_due=_bools(key[9] for key in keys),
    )


def _profiles(keys: Sequence[tuple[Any, ...]], models: Sequence[str]) -> Profiles:
    total_cores = _ints(key[0] for key in keys)
    scu_cpu = np.array([key[7] for key in keys], dtype=np.float64).reshape(len(keys), len(TYPES)).T
    return Profiles(
        total_cores=total_cores,
        total_memory=_ints(key[1] for key in keys),
        total_disk=_ints(key[2] for key in keys),
        total_cards=_ints(key[3] for key in keys),
        model=_index(models, (key[4] for key in keys)),
        card_memory=_ints(key[5] for key in keys),
        virtual=_bools(key[6] for key in keys),
        scu_core=np.ascontiguousarray(scu_cpu / (np.maximum(total_cores, 1) / 1_000.0)),
        scu_card=np.ascontiguousarray(
            np.array([key[8] for key in keys], dtype=np.float64).reshape(len(keys), len(TYPES)).T
        ),
    )


def _arrays(holder: Any) -> list[Column]:
    found = []
    for one in fields(holder):
        value = getattr(holder, one.name)
        found += [value] if isinstance(value, np.ndarray) else []
        found += [*value.values()] if isinstance(value, Mapping) else []
    return found


def _names(items: Any) -> tuple[Any, ...]:
    return tuple(sorted(set(items)))


def _index(names: Sequence[Any], items: Any) -> Ints:
    where = {name: i for i, name in enumerate(names)}
    return np.array([where[item] for item in items], dtype=np.int64)


def _ints(items: Any) -> Ints:
    return np.array(list(items), dtype=np.int64)


def _bools(items: Any) -> Bools:
    return np.array(list(items), dtype=np.bool_)


def _column(items: Any, dtype: Any) -> Column:
    return _fitted(_ints(items), dtype)


def _fitted(values: Ints, dtype: Any) -> Column:
    return np.clip(values, 0, np.iinfo(dtype).max).astype(dtype)


def _fit(value: int, column: Column) -> int:
    return min(max(value, 0), int(np.iinfo(column.dtype).max))


def _starts(groups: Ints) -> Ints:
    if not len(groups):
        return np.zeros(0, dtype=np.int64)
    return np.flatnonzero(np.concatenate(([True], groups[1:] != groups[:-1]))).astype(np.int64)


def _ranks(rows: Sequence[Row]) -> Ints:
    order = sorted(range(len(rows)), key=lambda i: (rows[i].node, rows[i].offer, rows[i].card_model))
    ranks = np.empty(len(rows), dtype=np.int64)
    ranks[order] = np.arange(len(rows))
    return ranks
