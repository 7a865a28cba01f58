"""The market as columns: one row per offer of a node, sorted by region, zone and node, as arrays that rules compare
at once.

Capacities are whole numbers rounded down, prices whole micro-currency per unit-hour (-1 = not sold so): limits are
compared as integers, because 3.20 in
binary is not 3.20. Floats only rank. Groups (zones, regions) are contiguous runs of rows, so a part of the market is
a slice without copying.

:class:`Row` is the same thing for one offer; rows go in, are stored with decisions (``Row.form``), and come back for
a replay.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduling.domain.demand import LeaseClass, TaskType

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

TYPES: tuple[str, ...] = tuple(str(t.value) for t in TaskType)
CLASSES: tuple[str, ...] = tuple(str(c.value) for c in LeaseClass)
NEVER = 2**62
"""A moment that does not come (until, of an offer without end)."""
ABSENT = -1
ALIVE, SUSPECT, UNKNOWN = "alive", "suspect", "unknown"


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
    queue_s: int = 0
    green_ppm: int | None = None
    verified: bool = False
    open_now: bool = True
    until: int | None = None  # Unix seconds
    opens_at: int | None = None  # when a closed window opens next
    alive: str = ALIVE  # alive suspect unknown
    takes_work: bool = True  # listed, not draining
    lease_classes: tuple[str, ...] = CLASSES
    refuses_past_due: bool = False
    isolation: str = "full"

    def form(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {key: value for key, value in asdict(self).items() if value != _DEFAULTS.get(key, _NOTHING)}

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


@dataclass(frozen=True)
class Table:
    """The columns. `region`, `zone`, `currency`, `model`, `provider` index the name tuples; `zone_starts` and
    `region_starts` cut the rows into groups.
    """

    rows: tuple[Row, ...]
    regions: tuple[str, ...]
    zones: tuple[tuple[str, str], ...]
    currencies: tuple[str, ...]
    models: tuple[str, ...]
    providers: tuple[str, ...]
    region: Ints
    zone: Ints
    currency: Ints
    model: Ints
    provider: Ints
    core_price: Mapping[str, Ints]  # by rental
    card_price: Mapping[str, Ints]
    cores: Ints
    memory: Ints
    disk: Ints
    cards: Ints
    total_cores: Ints
    total_memory: Ints
    total_disk: Ints
    total_cards: Ints
    card_memory: Ints
    virtual: Bools
    scu_cpu: Floats  # [row, task type], decay included; 0 = unknown
    scu_card: Floats
    queue: Ints
    green: Ints  # ppm; ABSENT = unknown
    verified: Bools
    open_now: Bools
    until: Ints
    alive: Bools
    takes_work: Bools
    lease_classes: Bools  # [row, class]
    refuses_past_due: Bools
    order: Ints  # rank of the node's id: the last key of every order
    zone_starts: Ints
    region_starts: Ints
    zone_region: Ints  # zone → region

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, row: int, *, cores: int, memory: int, disk: int, cards: int) -> None:
        """Mark capacity as taken, so that the next decision of the same cycle does not count on it.

        Rows of one node (several kinds of cards) share its cores, memory and disk.
        """
        self.cards[row] -= cards
        for other in self.of_node(self.rows[row].node):
            self.cores[other] -= cores
            self.memory[other] -= memory
            self.disk[other] -= disk

    def of_node(self, node: str) -> list[int]:
        """All rows of a node, which stand side by side."""
        return [i for i, row in enumerate(self.rows) if row.node == node]

    def current(self, row: int) -> Row:
        """Row `row` with what is free now."""
        return replace(
            self.rows[row],
            cores_milli=int(self.cores[row]),
            memory_mib=int(self.memory[row]),
            disk_gib=int(self.disk[row]),
            cards=int(self.cards[row]),
        )


def build(rows: Sequence[Row]) -> Table:
    """The table of `rows`, whatever order they come in."""
    ordered = tuple(sorted(rows, key=lambda r: (r.region, r.zone, r.node, r.offer, r.card_model)))
    regions = _names(r.region for r in ordered)
    zones = _names((r.region, r.zone) for r in ordered)
    currencies, models = _names(r.currency for r in ordered), _names(r.card_model for r in ordered)
    providers = _names(r.provider for r in ordered)
    region, zone = _index(regions, (r.region for r in ordered)), _index(zones, ((r.region, r.zone) for r in ordered))
    return Table(
        rows=ordered,
        regions=regions,
        zones=zones,
        currencies=currencies,
        models=models,
        providers=providers,
        region=region,
        zone=zone,
        currency=_index(currencies, (r.currency for r in ordered)),
        model=_index(models, (r.card_model for r in ordered)),
        provider=_index(providers, (r.provider for r in ordered)),
        core_price={
            "fixed": _ints(_or(r.core_fixed) for r in ordered),
            "spot": _ints(_or(r.core_spot) for r in ordered),
        },
        card_price={
            "fixed": _ints(_or(r.card_fixed) for r in ordered),
            "spot": _ints(_or(r.card_spot) for r in ordered),
        },
        cores=_ints(r.cores_milli for r in ordered),
        memory=_ints(r.memory_mib for r in ordered),
        disk=_ints(r.disk_gib for r in ordered),
        cards=_ints(r.cards for r in ordered),
        total_cores=_ints(r.total_cores_milli for r in ordered),
        total_memory=_ints(r.total_memory_mib for r in ordered),
        total_disk=_ints(r.total_disk_gib for r in ordered),
        total_cards=_ints(r.total_cards for r in ordered),
        card_memory=_ints(r.card_memory_mib for r in ordered),
        virtual=_bools(r.virtual for r in ordered),
        scu_cpu=_scu([(r.scu_cpu, r.decay) for r in ordered]),
        scu_card=_scu([(r.scu_card, r.decay) for r in ordered]),
        queue=_ints(r.queue_s for r in ordered),
        green=_ints(_or(r.green_ppm) for r in ordered),
        verified=_bools(r.verified for r in ordered),
        open_now=_bools(r.open_now for r in ordered),
        until=_ints(NEVER if r.until is None else r.until for r in ordered),
        alive=_bools(r.alive == ALIVE for r in ordered),
        takes_work=_bools(r.takes_work for r in ordered),
        lease_classes=np.array([[c in r.lease_classes for c in CLASSES] for r in ordered], dtype=np.bool_).reshape(
            len(ordered), len(CLASSES)
        ),
        refuses_past_due=_bools(r.refuses_past_due for r in ordered),
        order=_ranks(ordered),
        zone_starts=_starts(zone),
        region_starts=_starts(region),
        zone_region=_index(regions, (name for name, _ in zones)),
    )


def _names(items: Any) -> tuple[Any, ...]:
    return tuple(sorted(set(items)))


def _index(names: Sequence[Any], items: Any) -> Ints:
    where = {name: i for i, name in enumerate(names)}
    return np.array([where[item] for item in items], dtype=np.int64)


def _ints(items: Any) -> Ints:
    return np.array(list(items), dtype=np.int64)


def _bools(items: Any) -> Bools:
    return np.array(list(items), dtype=np.bool_)


def _or(value: int | None) -> int:
    return ABSENT if value is None else value


def _scu(items: Sequence[tuple[Mapping[str, float], float]]) -> Floats:
    table = np.array([[known.get(t, 0.0) * decay for t in TYPES] for known, decay in items], dtype=np.float64)
    return table.reshape(len(items), len(TYPES))


def _starts(groups: Ints) -> Ints:
    if not len(groups):
        return np.zeros(0, dtype=np.int64)
    return np.flatnonzero(np.concatenate(([True], groups[1:] != groups[:-1]))).astype(np.int64)


def _ranks(rows: Sequence[Row]) -> Ints:
    order = sorted(range(len(rows)), key=lambda i: (rows[i].node, rows[i].offer, rows[i].card_model))
    ranks = np.empty(len(rows), dtype=np.int64)
    ranks[order] = np.arange(len(rows))
    return ranks
