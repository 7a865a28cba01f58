"""A market of any size as columns, without a row in a database: what the engine is measured on.

`regions` × `zones` × `nodes` nodes. Each zone has eight kinds of hardware; each node has a decay, a queue, a green share,
a risk and free capacity of its own, and one of 65,536 sets of prices around the usual price of its kind and region (or,
with `one_price`, its cell's). Nothing is stored per row that is not in a column; rows tell themselves when asked.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np

from scheduling.domain.columns import (
    ABSENT,
    CLASSES,
    HEARD,
    NEVER,
    TAKES_WORK,
    TYPES,
    VERIFIED,
    Ints,
    Profiles,
    Row,
    Table,
    Terms,
)
from scheduling.domain.demand import Card
from scheduling.domain.request import Path, Paths, Policy, Request

NOW = 1_793_600_000
PRICES = 65_536
PROFILES_PER_KIND = 256
CURRENCY = "CNY"
KINDS: tuple[tuple[str, int, float, float, int], ...] = (
    # card, GiB of memory, SCU (custom), price per card-hour, cards
    ("", 0, 0.0, 0.0, 0),
    ("T4", 16, 0.16, 1.2, 4),
    ("V100-32GB", 32, 0.42, 3.1, 8),
    ("RTX4090", 24, 0.55, 2.2, 4),
    ("A100-40GB", 40, 0.86, 6.5, 8),
    ("A100-80GB", 80, 1.0, 8.9, 8),
    ("L40S", 48, 0.66, 5.0, 4),
    ("H100", 80, 1.9, 16.0, 8),
)


class Rows(Sequence[Row]):
    """Rows of a table that never was rows; the number of a row is its node's id."""

    def __init__(self) -> None:
        self.table: Table | None = None

    def __len__(self) -> int:
        return 0 if self.table is None else len(self.table)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        return self._row(int(index))

    def _row(self, row: int) -> Row:
        table = self.table
        if table is None or not 0 <= row < len(table):
            raise IndexError(row)
        zone = int(table.zone_of(np.array([row]))[0])
        term, what = int(table.term[row]), int(table.profile[row])
        terms, profiles = table.terms, table.profiles
        region, name = table.zones[zone]
        node = f"n{row:08d}"

        def price(value: int) -> int | None:
            return None if value == ABSENT else int(value)

        cores = profiles.total_cores[what] / 1_000.0
        flags = int(table.flags[row])
        return Row(
            node=node,
            offer=f"o-{node}",
            name=node,
            region=region,
            zone=name,
            provider=f"p{term % 97}",
            currency=CURRENCY,
            core_fixed=price(terms.core_price["fixed"][term]),
            core_spot=price(terms.core_price["spot"][term]),
            card_fixed=price(terms.card_price["fixed"][term]),
            card_spot=price(terms.card_price["spot"][term]),
            cores_milli=int(table.cores[row]),
            memory_mib=int(table.memory[row]),
            disk_gib=int(table.disk[row]),
            cards=int(table.cards[row]),
            total_cores_milli=int(profiles.total_cores[what]),
            total_memory_mib=int(profiles.total_memory[what]),
            total_disk_gib=int(profiles.total_disk[what]),
            total_cards=int(profiles.total_cards[what]),
            card_model=table.models[int(profiles.model[what])],
            card_memory_mib=int(profiles.card_memory[what]),
            scu_cpu={t: float(profiles.scu_core[k][what] * cores) for k, t in enumerate(TYPES)},
            scu_card={t: float(profiles.scu_card[k][what]) for k, t in enumerate(TYPES) if profiles.scu_card[k][what]},
            decay=float(table.decay[row]),
            risk=int(table.risk[row]),
            queue_s=int(table.queue[row]),
            green_ppm=int(table.green[row]) * 100,
            verified=bool(flags & VERIFIED),
            alive="alive" if flags & HEARD else "suspect",
            takes_work=bool(flags & TAKES_WORK),
        )


@dataclass(frozen=True)
class Size:
    """How many of each; nodes are per zone."""

    regions: int
    zones: int
    nodes: int

    @property
    def total(self) -> int:
        return self.regions * self.zones * self.nodes


SMALL, MIDDLE, LARGE = Size(64, 8, 100), Size(64, 16, 1_000), Size(64, 256, 1_000)


def market(size: Size, *, seed: int, one_price: bool = False) -> Table:
    """The columns. `one_price`: all nodes of a cell cost the same and are equally quick."""
    chance = np.random.default_rng(seed)
    zones = size.regions * size.zones
    regions = tuple(f"r{number:02d}" for number in range(size.regions))
    counts = np.full(len(KINDS), size.nodes // len(KINDS))
    counts[: size.nodes - counts.sum()] += 1
    cell_sizes = np.tile(counts, zones)
    cell_starts = (np.cumsum(cell_sizes) - cell_sizes).astype(np.int64)
    zone_green = _share(chance.beta(1.2, 1.6, zones))
    term, terms = _prices(chance, size, cell_sizes, one_price)
    profiles = _profiles(chance)
    rows = Rows()
    total = size.total
    kind_of_cell = np.tile(np.arange(len(KINDS)), zones)
    # in place and narrow from the start: the columns are nearly all the memory there is
    profile = chance.integers(0, 1 if one_price else PROFILES_PER_KIND, total, dtype=np.uint16)
    profile += np.repeat((kind_of_cell * PROFILES_PER_KIND).astype(np.uint16), cell_sizes)
    decay = chance.standard_normal(total, dtype=np.float32)
    decay *= np.float32(0.0 if one_price else 0.08)
    decay += np.float32(1.0)
    np.clip(decay, np.float32(0.3), np.float32(1.2), out=decay)
    cards = chance.integers(0, 9, total, dtype=np.uint8)
    np.minimum(cards, np.repeat(np.array([k[4] for k in KINDS], dtype=np.uint8)[kind_of_cell], cell_sizes), out=cards)
    green = np.repeat(zone_green, np.full(zones, size.nodes))
    green += chance.integers(0, 50, total, dtype=np.uint16) * np.uint16(not one_price)
    np.minimum(green, 10_000, out=green)
    flags = np.full(total, HEARD | TAKES_WORK | VERIFIED, dtype=np.uint8)
    flags[chance.integers(0, total, total // 50)] = VERIFIED
    risk = chance.integers(0, 40, total, dtype=np.uint16) * np.uint16(not one_price)
    risk += np.repeat(chance.integers(20, 400, zones * len(KINDS), dtype=np.uint16), cell_sizes)
    table = Table(
        rows=rows,
        regions=regions,
        zones=[(region, f"z{number:03d}") for region in regions for number in range(size.zones)],
        currencies=(CURRENCY,),
        models=tuple(kind[0] for kind in KINDS),
        providers=tuple(f"p{number}" for number in range(97)),
        terms=terms,
        profiles=profiles,
        term=term,
        profile=profile,
        decay=decay,
        risk=risk,
        memory=chance.integers(2_048, 524_288, total, dtype=np.uint32),
        cores=chance.integers(500, 64_000, total, dtype=np.uint32),
        disk=chance.integers(10, 4_000, total, dtype=np.uint16),
        cards=cards,
        queue=chance.integers(0, 120, total, dtype=np.uint16) * np.uint16(not one_price),
        green=green,
        flags=flags,
        cell_starts=cell_starts,
        cell_zone=np.repeat(np.arange(zones, dtype=np.int64), len(KINDS)),
        zone_region=np.repeat(np.arange(size.regions, dtype=np.int64), size.zones),
    )
    rows.table = table
    return table


def _share(values: Any) -> Any:
    return (values * 10_000).astype(np.uint16)


def _prices(chance: np.random.Generator, size: Size, cell_sizes: Ints, one_price: bool) -> tuple[Any, Terms]:
    """Per kind of card 8,192 sets of prices; a region's usual price decides from which part of them its nodes draw."""
    per_kind = PRICES // len(KINDS)
    level = np.linspace(0.6, 1.7, per_kind)
    usual = np.array([kind[3] for kind in KINDS])
    noise = chance.lognormal(0.0, 0.05, (len(KINDS), per_kind))
    card = np.where(usual[:, None] > 0, usual[:, None] * level * noise * 1e6, ABSENT).astype(np.int64).ravel()
    core = (0.12e6 * np.tile(level, len(KINDS)) * chance.lognormal(0.0, 0.05, PRICES)).astype(np.int64)
    kinds = np.tile(np.arange(len(KINDS)), size.regions * size.zones)
    region_at = chance.integers(0, per_kind * 3 // 4, size.regions)
    base = (kinds * per_kind + np.repeat(region_at, size.zones * len(KINDS))).astype(np.uint32)
    spread = per_kind // 4
    if one_price:
        base += chance.integers(0, spread, len(base), dtype=np.uint32)
        term = np.repeat(base, cell_sizes)
    else:
        term = chance.integers(0, spread, size.total, dtype=np.uint32)
        term += np.repeat(base, cell_sizes)
    return term, Terms(
        core_price={"fixed": core, "spot": core // 3},
        card_price={"fixed": card, "spot": np.where(card == ABSENT, ABSENT, card // 3)},
        currency=np.zeros(PRICES, dtype=np.int64),
        provider=np.arange(PRICES, dtype=np.int64) % 97,
        until=np.full(PRICES, NEVER, dtype=np.int64),
        open_now=np.ones(PRICES, dtype=np.bool_),
        lease_classes=np.ones((PRICES, len(CLASSES)), dtype=np.bool_),
        refuses_past_due=np.zeros(PRICES, dtype=np.bool_),
    )


def _profiles(chance: np.random.Generator) -> Profiles:
    count = len(KINDS) * PROFILES_PER_KIND
    kind = np.repeat(np.arange(len(KINDS)), PROFILES_PER_KIND)
    noise = chance.lognormal(0.0, 0.08, (2 * len(TYPES), count))
    scu = np.array([one[2] for one in KINDS])[kind]
    return Profiles(
        total_cores=np.full(count, 64_000, dtype=np.int64),
        total_memory=np.full(count, 524_288, dtype=np.int64),
        total_disk=np.full(count, 4_000, dtype=np.int64),
        total_cards=np.array([one[4] for one in KINDS], dtype=np.int64)[kind],
        model=kind.astype(np.int64),
        card_memory=np.array([one[1] * 1_024 for one in KINDS], dtype=np.int64)[kind],
        virtual=np.zeros(count, dtype=np.bool_),
        scu_core=np.ascontiguousarray(noise[: len(TYPES)] * 0.0012),
        scu_card=np.ascontiguousarray(noise[len(TYPES) :] * scu),
    )


def paths(regions: Sequence[str], *, seed: int) -> Paths:
    """Regions on a sphere: farther is slower, narrower and dearer."""
    chance = np.random.default_rng(seed)
    where = chance.normal(size=(len(regions), 3))
    where /= np.linalg.norm(where, axis=1)[:, None]
    angle = np.arccos(np.clip(where @ where.T, -1.0, 1.0))
    price = chance.choice(np.array([10_000, 20_000, 50_000, 90_000]), size=angle.shape)
    links = {}
    for i, source in enumerate(regions):
        for j, target in enumerate(regions):
            if i != j:
                links[source, target] = Path(
                    rtt_us=int(2_000 + angle[i, j] * 64_000),
                    mbps=int(10_000 / (1.0 + angle[i, j] * 3.0)),
                    price_micro_per_gb=int(price[i, j]),
                )
    return Paths(links)


COLUMNS = ("cost", "time", "green", "transfer", "risk")


def request(seed: int, regions: Sequence[str], *, limits: bool = True) -> Request:
    """A task: half with cards; data in one region; some limits."""
    chance = np.random.default_rng(seed)
    cards: tuple[Card, ...] = ()
    if chance.random() < 0.5:
        model = KINDS[int(chance.integers(1, len(KINDS)))][0]
        cards = (Card(model, int(chance.choice([1, 2, 4]))),) if chance.random() < 0.5 else (Card("", 1, 24 * 1_024),)
    size = int(chance.choice([0, 10**9, 20 * 10**9, 100 * 10**9]))
    made = Request(
        task_type=str(chance.choice(TYPES)),
        cores_milli=int(chance.choice([500, 1_000, 4_000, 8_000])),
        memory_mib=int(chance.choice([1_024, 8_192, 32_768])),
        disk_gib=20,
        cards=cards,
        rental=str(chance.choice(["fixed", "fixed", "spot"])),
        currency=CURRENCY,
        max_duration_s=86_400,
        now=NOW,
        work_micro=int(chance.integers(5_000, 50_000)) * (100 if cards else 1),
        data=((str(chance.choice(regions)), size),) if size else (),
    )
    if limits and chance.random() < 0.3:
        made = replace(made, min_green_ppm=400_000)
    return made


def policy(seed: int, *, columns: Sequence[str] = COLUMNS) -> Policy:
    """Random weights over the columns, each at least a little."""
    chance = np.random.default_rng(seed)
    weights = chance.dirichlet(np.ones(len(columns)))
    return Policy(
        tuple(columns), "weights", {name: round(float(w), 3) for name, w in zip(columns, weights, strict=True)}
    )
