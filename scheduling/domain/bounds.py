"""Lower bounds of the objectives over a group of rows, from its summary: no row of the group is better in any column.

Every entry is monotone in the objectives, so minima give bounds and maxima give necessary conditions. Cost and time
are shrunk by 10⁻⁶, because their
sums and products may round the other way; green and transfer are the same operations as a row's and need no slack.
"""

import numpy as np

from scheduling.domain import filters
from scheduling.domain.columns import TYPES, Bools, Floats
from scheduling.domain.demand import Objective
from scheduling.domain.filters import MICRO, Regions
from scheduling.domain.request import Request
from scheduling.domain.summaries import FAR, Level

SLACK = 1.0 - 1e-6


def possible(request: Request, level: Level, regions: Regions) -> Bools:
    """Groups that may hold a row that fits: region allowed, something free enough, sold under this rental."""
    cards = min((card.count for card in request.cards), default=0)
    fits = regions.kept[level.region] & (level.cores >= request.cores_milli) & (level.memory >= request.memory_mib)
    fits &= (level.disk >= request.disk_gib) & (level.cards >= cards)
    fits &= level.core_price[request.rental] < FAR
    if cards:
        fits &= level.card_price[request.rental] < FAR
    if request.min_green_ppm:
        fits &= level.green >= request.min_green_ppm
    return fits


def lower(request: Request, level: Level, regions: Regions, columns: tuple[str, ...]) -> Floats:
    """One vector per group, ≤ every row's of the group."""
    work = _work(request, level)
    cards = min((card.count for card in request.cards), default=0)
    core, card = level.core_price[request.rental], level.card_price[request.rental]
    hour = np.where(core == FAR, 0, core).astype(np.float64) * request.cores_milli
    if cards:
        hour = hour + np.where(card == FAR, 0, card).astype(np.float64) * (cards * 1_000)
    transfer = regions.transfer[level.region]
    waiting = filters.START_S + level.queue + regions.staging[level.region]
    made: dict[str, Floats] = {
        Objective.COST: (hour * np.minimum(work, request.max_duration_s) / 3.6e6 + transfer) * SLACK,
        Objective.TIME: (waiting + work) * SLACK,
        Objective.GREEN: (MICRO - level.green) / MICRO,
        Objective.TRANSFER: transfer,
    }
    return np.column_stack([made[name] for name in columns])


def _work(request: Request, level: Level) -> Floats:
    """The shortest the job itself can take in each group."""
    kind = TYPES.index(request.task_type)
    if request.cards:
        most = level.scu_card[:, kind] * max(card.count for card in request.cards)
        unknown = level.unknown_card[:, kind]
    else:
        most = np.minimum(level.scu_core[:, kind] * request.cores_milli, level.scu_cpu[:, kind])
        unknown = level.unknown_cpu[:, kind]
    known = filters.duration(request, most)
    usual = filters.duration(request, np.zeros(len(level)))
    return np.where(unknown, np.minimum(known, usual), known)
