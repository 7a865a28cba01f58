"""What a group of rows (a zone, a region, any tier above) tells upwards: minima and maxima from which bounds follow.

One reduction over contiguous rows, the same for every level; no rule names a level. A summary stays a valid bound
when capacity shrinks (it only gets
looser), so a cycle builds them once.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from scheduling.domain.columns import ABSENT, Bools, Floats, Ints, Table

FAR = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Level:
    """Groups of one tier: `starts[g]` … `stops[g]` are its rows; the rest are per group."""

    name: str
    starts: Ints
    stops: Ints
    region: Ints
    cores: Ints  # most free
    memory: Ints
    disk: Ints
    cards: Ints
    core_price: Mapping[str, Ints]  # least, by rental; FAR where none sells
    card_price: Mapping[str, Ints]
    scu_cpu: Floats  # most of one node, per task type
    scu_core: Floats  # most per core
    scu_card: Floats
    unknown_cpu: Bools  # some row has no SCU of that type: it counts with the usual duration
    unknown_card: Bools
    queue: Ints  # least
    green: Ints  # most; unknown counts as 0

    def __len__(self) -> int:
        return len(self.starts)


def level(name: str, table: Table, starts: Ints) -> Level:
    """The groups that begin at `starts`, summed up."""
    stops = np.append(starts[1:], len(table)).astype(np.int64)
    cores = np.maximum(table.total_cores, 1)[:, None]
    return Level(
        name=name,
        starts=starts,
        stops=stops,
        region=table.region[starts] if len(starts) else starts,
        cores=_most(table.cores, starts),
        memory=_most(table.memory, starts),
        disk=_most(table.disk, starts),
        cards=_most(table.cards, starts),
        core_price={rental: _least_price(prices, starts) for rental, prices in table.core_price.items()},
        card_price={rental: _least_price(prices, starts) for rental, prices in table.card_price.items()},
        scu_cpu=_most_of(table.scu_cpu, starts),
        scu_core=_most_of(table.scu_cpu / cores, starts),
        scu_card=_most_of(table.scu_card, starts),
        unknown_cpu=_any_of(table.scu_cpu == 0, starts),
        unknown_card=_any_of(table.scu_card == 0, starts),
        queue=-_most(-table.queue, starts),
        green=_most(np.maximum(table.green, 0), starts),
    )


def levels(table: Table) -> tuple[Level, ...]:
    """Outermost first."""
    return level("region", table, table.region_starts), level("zone", table, table.zone_starts)


def _most(values: Ints, starts: Ints) -> Ints:
    return np.maximum.reduceat(values, starts) if len(starts) else values[:0]


def _least_price(prices: Ints, starts: Ints) -> Ints:
    sold = np.where(prices == ABSENT, FAR, prices)
    return np.minimum.reduceat(sold, starts) if len(starts) else sold[:0]


def _most_of(values: Floats, starts: Ints) -> Floats:
    return np.maximum.reduceat(values, starts, axis=0) if len(starts) else values[:0]


def _any_of(flags: Bools, starts: Ints) -> Bools:
    return np.logical_or.reduceat(flags, starts, axis=0) if len(starts) else flags[:0]
