"""Lower bounds of the objectives over groups of rows, from their summaries: no row of a group is better in any column.

Every entry is monotone in the objectives, so minima give bounds and maxima give necessary conditions. A bound is made of
the best parts of a group by the operations that make a row's vector (`objectives.measured`), and IEEE operations are
monotone: so bounds need no slack, and a group as good as a point already found is told apart from one that is better.

Only the price per SCU is another way of working out the same (price ÷ SCU × work instead of price × (work ÷ SCU)), so it
is shrunk by 10⁻⁶ before it raises the bound of the cost.
"""

from typing import Any

import numpy as np

from scheduling.domain import filters, objectives
from scheduling.domain.columns import ABSENT, GREEN_WHOLE, PPM_PER_GREEN, TYPES, Bools, Floats, Ints, Part, spans
from scheduling.domain.demand import Objective
from scheduling.domain.filters import MICRO, Regions
from scheduling.domain.objectives import Parts
from scheduling.domain.request import Request
from scheduling.domain.summaries import FAR, KINDS, Level

SLACK = 1.0 - 1e-6


def possible(
    request: Request, level: Level, regions: Regions, models: tuple[str, ...], part: Part = slice(None)
) -> Bools:
    """Groups that may hold a row that fits: region allowed, something free enough, sold under this rental, a card of
    an asked kind.
    """
    cards = min((card.count for card in request.cards), default=0)
    fits: Bools = level.cores[part] >= request.cores_milli
    fits &= level.memory[part] >= request.memory_mib
    fits &= level.disk[part] >= request.disk_gib
    fits &= level.core_price[request.rental][part] < FAR
    if not regions.all_kept:
        fits &= _of_regions(level, part, regions.kept, np.logical_or)
    if cards:
        fits &= level.cards[part] >= cards
        fits &= level.card_price[request.rental][part] < FAR
        fits &= (level.kinds[part] & _kinds(request, models)) != 0
    if request.min_green_ppm:
        fits &= level.green[part] >= min(-(-request.min_green_ppm // PPM_PER_GREEN), GREEN_WHOLE)
    return fits


def _kinds(request: Request, models: tuple[str, ...]) -> np.uint64:
    """The bits of the kinds of cards that may match; all, when one is asked for by its memory."""
    bits = 0
    for card in request.cards:
        if card.virtual or not card.model:
            return np.uint64(2**KINDS - 1)
        if card.model in models:
            bits |= 1 << models.index(card.model) % KINDS
    return np.uint64(bits)


def lower(
    request: Request, level: Level, regions: Regions, columns: tuple[str, ...], part: Part = slice(None)
) -> Floats:
    """One vector per group, ≤ every row's of the group."""
    least, most = _counts(request)
    core = _price(level.core_price[request.rental][part])
    hour = core * request.cores_milli
    if request.cards:
        hour = hour + _price(level.card_price[request.rental][part]) * (least * 1_000)
    still = np.zeros(1)
    latency = np.where(regions.latency == ABSENT, objectives.FAR_US, regions.latency)
    parts = Parts(
        hour_nano=hour,
        work_s=_work(request, level, part, most),
        queue_s=level.queue[part],
        green=level.green[part].astype(np.int64),
        risk=level.risk[part],
        transfer=_of_regions(level, part, regions.transfer, np.minimum) if regions.moves else still,
        staging=_of_regions(level, part, regions.staging, np.minimum) if regions.moves else still,
        latency=_of_regions(level, part, latency, np.minimum) if objectives.LATENCY in columns else latency[:1],
    )
    made = objectives.measured(request, parts, columns)
    if request.work_micro is not None and Objective.COST in columns:
        cost = columns.index(Objective.COST)
        np.maximum(made[:, cost], _cost_by_value(request, level, part, parts, most), out=made[:, cost])
    return made


def _of_regions(level: Level, part: Part, values: Any, best: np.ufunc) -> Any:
    """A region's number for each group: its own, or the best of the regions that a group spans."""
    if level.regions is None:
        return values[level.region[part]]
    sizes = level.regions - level.region
    members = values[spans(level.region, level.regions)]
    return best.reduceat(members, np.cumsum(sizes) - sizes)[part]


def _counts(request: Request) -> tuple[int, int]:
    """Fewest and most cards that one kind is asked for with."""
    counts = [card.count for card in request.cards]
    return (min(counts), max(counts)) if counts else (0, 0)


def _price(prices: Ints) -> Ints:
    return np.where(prices == FAR, 0, prices)


def _units(request: Request, most: int) -> float:
    """Cards, or cores, whose SCU add up."""
    return most if request.cards else request.cores_milli / 1_000.0


def _work(request: Request, level: Level, part: Part, most: int) -> Floats:
    """The shortest the job itself can take in each group."""
    kind = TYPES.index(request.task_type)
    strength = (level.scu_card if request.cards else level.scu_core)[kind][part]
    if request.work_micro is None:
        return filters.duration(request, strength)
    unknown = (level.unknown_card if request.cards else level.unknown_core)[kind][part]
    known = filters.duration(request, strength * _units(request, most))
    return np.where(unknown, np.minimum(known, filters.usual_s(request)), known) if unknown.any() else known


def _cost_by_value(request: Request, level: Level, part: Part, parts: Parts, most: int) -> Floats:
    """The cost by the best price per SCU: no row is cheaper per piece of work. Where some row's SCU is not known, or the
    time limit may end the job first, the price alone bounds the cost.
    """
    kind, rental = TYPES.index(request.task_type), request.rental
    work_h = (request.work_micro or 0) / MICRO
    values = level.card_value[rental] if request.cards else level.core_value[rental]
    micro = values[kind][part].astype(np.float64) * work_h
    if request.cards:
        strongest = level.scu_card[kind][part] * most
        cores = _price(level.core_price[rental][part]) * (request.cores_milli / 1_000.0 * work_h)
        micro += np.divide(cores, strongest, out=np.zeros(len(micro)), where=strongest > 0)
    unknown = (level.unknown_card if request.cards else level.unknown_core)[kind][part]
    usual = float(min(filters.usual_s(request), request.max_duration_s))
    longest = np.where(unknown, usual, float(request.max_duration_s))
    by_price = parts.hour_nano * longest / 3.6e6
    by_price += parts.transfer
    cost: Floats = np.minimum((micro + parts.transfer) * SLACK, by_price)
    return cost
