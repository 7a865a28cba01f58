"""The capacity map: what regions, zones and nodes have and have free, as whole numbers that add up.

A zone's entry is worked out from its rows; a region's and the whole's from zones' entries, by :func:`together`. All sums are
of whole numbers, so an entry that is worked out anew from changed rows equals that of a full build, and the order of rows
does not matter. Only nodes that are heard and take work count as free; SCU are without decay, as people see them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from scheduling.domain.columns import (
    ABSENT,
    HEARD,
    PPM_PER_GREEN,
    RENTALS,
    TAKES_WORK,
    TYPES,
    UNKNOWN_GREEN,
    Ints,
    Table,
)
from scheduling.domain.filters import MICRO

Entry = dict[str, Any]
FAR = 2**62


def first_rows(table: Table) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    """One row per node: nodes with several kinds of cards share their cores among rows."""
    first = np.ones(len(table), dtype=np.bool_)
    if table.ranks is not None:
        seen: set[str] = set()
        for number, row in enumerate(table.rows):
            first[number] = row.node not in seen
            seen.add(row.node)
    return first


def zones(table: Table, which: Ints | None = None) -> dict[str, Entry]:
    """Entries of some zones (None = all) by ``region/zone``."""
    numbers = np.arange(len(table.zone_starts), dtype=np.int64) if which is None else which
    stops = np.append(table.zone_starts[1:], len(table))
    first = first_rows(table)
    found = {}
    for zone in numbers.tolist():
        region, name = table.zones[zone]
        found[f"{region}/{name}"] = _entry(table, slice(int(table.zone_starts[zone]), int(stops[zone])), first)
    return found


def _entry(table: Table, part: slice, first: Any) -> Entry:
    once = first[part]
    flags = table.flags[part]
    heard = (flags & HEARD) != 0
    usable = heard & ((flags & TAKES_WORK) != 0)
    what, profile = table.profiles, table.profile[part]
    totals = {"cores_milli": what.total_cores, "memory_mib": what.total_memory, "disk_gib": what.total_disk}
    free = {"cores_milli": table.cores, "memory_mib": table.memory, "disk_gib": table.disk}
    entry: Entry = {
        "nodes": int(np.count_nonzero(once)),
        "heard": int(np.count_nonzero(once & heard)),
        "taking_work": int(np.count_nonzero(once & usable)),
    }
    for name, column in free.items():
        mine = column[part].astype(np.int64)
        entry[name] = [int(mine[once & usable].sum()), int(totals[name][profile][once].sum())]
    cards, total_cards = table.cards[part].astype(np.int64), what.total_cards[profile]
    entry["cards"] = [int(cards[usable].sum()), int(total_cards.sum())]
    entry["models"] = _models(table, part, cards * usable, total_cards)
    entry["scu_micro"] = _scu(table, part, once, usable)
    entry["price_micro"] = _prices(table, part)
    green = table.green[part][table.green[part] != UNKNOWN_GREEN]
    entry["green_ppm"] = [int(green.min()) * PPM_PER_GREEN, int(green.max()) * PPM_PER_GREEN] if len(green) else None
    entry["queue_s"] = int(table.queue[part][usable].min()) if usable.any() else None
    return entry


def _models(table: Table, part: slice, free: Ints, total: Ints) -> dict[str, list[int]]:
    model = table.profiles.model[table.profile[part]]
    found = {}
    for kind in np.unique(model[total > 0]).tolist():
        mine = (model == kind) & (total > 0)
        found[table.models[kind]] = [int(free[mine].sum()), int(total[mine].sum())]
    return found


def _scu(table: Table, part: slice, once: Any, usable: Any) -> dict[str, list[int]]:
    """Free and total per task type: of the cards where a row has some, else of the cores."""
    what, profile = table.profiles, table.profile[part]
    with_cards = what.total_cards[profile] > 0
    units = np.where(with_cards, what.total_cards[profile] * 1_000, what.total_cores[profile] * once)
    left = np.where(with_cards, table.cards[part].astype(np.int64) * 1_000, table.cores[part] * once) * usable
    found = {}
    for kind, name in enumerate(TYPES):
        strength = np.where(with_cards, what.scu_card[kind][profile], what.scu_core[kind][profile])
        micro = np.round(strength * MICRO).astype(np.int64)
        found[name] = [int((micro * left // 1_000).sum()), int((micro * units // 1_000).sum())]
    return found


def _prices(table: Table, part: slice) -> dict[str, int]:
    """The least price of each kind, as ``CNY core fixed``."""
    term = table.term[part]
    found: dict[str, int] = {}
    for unit, prices in (("core", table.terms.core_price), ("card", table.terms.card_price)):
        for rental in RENTALS:
            price = prices[rental][term]
            for number in np.unique(table.terms.currency[term]).tolist():
                sold = price[(table.terms.currency[term] == number) & (price != ABSENT)]
                if len(sold):
                    found[f"{table.currencies[number]} {unit} {rental}"] = int(sold.min())
    return found


# -- above zones ----------------------------------------------------------------------------------------------------------
_PAIRS = ("cores_milli", "memory_mib", "disk_gib", "cards")


def together(entries: Iterable[Entry]) -> Entry:
    """One entry for several: sums, least prices and waiting, the range of green shares."""
    some = list(entries)
    made: Entry = {name: sum(one[name] for one in some) for name in ("nodes", "heard", "taking_work")}
    for name in _PAIRS:
        made[name] = [sum(one[name][0] for one in some), sum(one[name][1] for one in some)]
    for name in ("models", "scu_micro"):
        made[name] = _added(one[name] for one in some)
    prices: dict[str, int] = {}
    for one in some:
        for kind, price in one["price_micro"].items():
            prices[kind] = min(price, prices.get(kind, FAR))
    made["price_micro"] = dict(sorted(prices.items()))
    greens = [one["green_ppm"] for one in some if one["green_ppm"]]
    made["green_ppm"] = [min(g[0] for g in greens), max(g[1] for g in greens)] if greens else None
    made["queue_s"] = min((one["queue_s"] for one in some if one["queue_s"] is not None), default=None)
    return made


def _added(parts: Iterable[Mapping[str, Sequence[int]]]) -> dict[str, list[int]]:
    sums: dict[str, list[int]] = {}
    for part in parts:
        for name, (free, total) in part.items():
            known = sums.setdefault(name, [0, 0])
            known[0] += free
            known[1] += total
    return dict(sorted(sums.items()))


def figures(entries: Mapping[str, Entry]) -> dict[str, Any]:
    """All figures of zones by ``region/zone|figure``, so that only those that changed are sent."""
    return {f"{zone}|{name}": value for zone, entry in entries.items() for name, value in entry.items()}


# -- nodes and deltas -----------------------------------------------------------------------------------------------------
def nodes(table: Table) -> dict[str, str]:
    """What is free on each node, as short text by ``region/zone/node``: cores, memory, disk, cards, waiting, flags."""
    cards: dict[str, int] = {}
    found: dict[str, str] = {}
    columns = zip(
        table.rows, table.cores.tolist(), table.memory.tolist(), table.disk.tolist(), table.cards.tolist(),
        table.queue.tolist(), table.flags.tolist(), strict=True,
    )  # fmt: skip
    for row, cores, memory, disk, some, queue, flags in columns:
        name = f"{row.region}/{row.zone}/{row.node}"
        cards[name] = cards.get(name, 0) + some
        found[name] = f"{cores},{memory},{disk},{cards[name]},{queue},{flags}"
    return found


def changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """(what is new or different, what is gone)."""
    fresh = {name: value for name, value in now.items() if name not in before or before[name] != value}
    return fresh, [name for name in before if name not in now]
