"""What the engine is measured against, in the same process and on the same columns.

* *flat NumPy*: every row filtered, measured and scored, a million at a time; the best by the same key.
* *flat numba*: one compiled loop over all rows, nothing kept but the best score.
* *flat front*: all feasible vectors given to a skyline: moocore's, pymoo's (≤ 10⁴ rows), ours without groups.
* *brute force*: O(n²) in plain loops, for small markets: the truth.
"""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from scheduling.domain import choice, filters
from scheduling.domain.columns import HEARD, TAKES_WORK, TYPES, UNKNOWN_GREEN, VERIFIED, Floats, Ints
from scheduling.domain.search import Problem

AT_ONCE = 1_000_000


def flat_numpy(problem: Problem, *, k: int = 8) -> Ints:
    """The `k` best rows by looking at all."""
    rows, vectors = np.zeros(0, dtype=np.int64), np.zeros((0, len(problem.columns)))
    for begin in range(0, len(problem.table), AT_ONCE):
        numbers = np.arange(begin, min(begin + AT_ONCE, len(problem.table)), dtype=np.int64)
        part = slice(begin, begin + len(numbers)) if len(problem.table) <= AT_ONCE else numbers
        some = problem.feasible(part)
        if not len(some):
            continue
        measured = problem.vectors(some)
        scores = problem.score(measured)
        if len(some) > k:
            limit = np.partition(scores, k - 1)[k - 1]
            good = scores <= limit + 1e-9 * max(1.0, abs(limit))
            some, measured = some[good], measured[good]
        rows, vectors = np.concatenate((rows, some)), np.concatenate((vectors, measured))
    order = choice.order(problem.score(vectors), vectors, problem.packing(rows), problem.table.rank_of(rows))
    return rows[order[:k]]


def flat_vectors(problem: Problem) -> Floats:
    """All feasible vectors."""
    return problem.vectors(problem.feasible(slice(0, len(problem.table))))


def brute_force(problem: Problem) -> tuple[set[tuple[float, ...]], list[int]]:
    """(vectors of the front, rows in the order of the key), by plain loops."""
    rows = problem.feasible(slice(0, len(problem.table)))
    vectors = problem.vectors(rows)
    listed = [tuple(map(float, vector)) for vector in vectors]
    distinct = set(listed)
    front = {
        one
        for one in distinct
        if not any(two != one and all(a <= b for a, b in zip(two, one, strict=True)) for two in distinct)
    }
    scores, packed = problem.score(vectors), problem.packing(rows)
    keys = [(round(float(scores[i]), 9), listed[i], int(packed[i]), int(rows[i])) for i in range(len(rows))]
    return front, [int(rows[i]) for i in sorted(range(len(rows)), key=keys.__getitem__)]


# -- numba ----------------------------------------------------------------------------------------------------------------
def flat_numba() -> Callable[[Problem], float] | None:
    """A compiled scan: problem → the best score; None without numba."""
    if find_spec("numba") is None:
        return None
    scan = import_module("numba").njit(_scan)

    def run(problem: Problem) -> float:
        request, table, level = problem.request, problem.table, problem.regions
        kind = TYPES.index(request.task_type)
        profiles, terms = table.profiles, table.terms
        counts = filters.counts_of_profiles(request, table)
        with_cards = bool(request.cards)
        strength = (
            profiles.scu_card[kind] * counts
            if with_cards
            else profiles.scu_core[kind] * (request.cores_milli / 1_000.0)
        )
        weights = problem.weights if problem.weights is not None else np.eye(len(problem.columns))[0]
        by_name = {
            name: (weight, floor) for name, weight, floor in zip(problem.columns, weights, problem.floor, strict=True)
        }
        used = np.array([by_name.get(name, (0.0, 0.0)) for name in ("cost", "time", "green", "transfer", "risk")])
        rows_of_zone = np.append(table.zone_starts, len(table))
        need = min((card.count for card in request.cards), default=0)
        least_green = -(-request.min_green_ppm // 100)
        flags = HEARD | TAKES_WORK | (VERIFIED if request.verified else 0)
        return float(
            scan(
                rows_of_zone, table.zone_region, level.transfer, level.staging, table.term, table.profile, table.decay, table.risk,
                table.memory, table.cores, table.disk, table.cards, table.queue, table.green, table.flags,
                terms.core_price[request.rental], terms.card_price[request.rental], strength, counts, with_cards, need,
                request.cores_milli, request.memory_mib, request.disk_gib, least_green, flags, float(request.max_duration_s),
                (request.work_micro or 0) / 1e6 * 3_600.0, used,
            )
        )  # fmt: skip

    return run


def _scan(
    rows_of_zone: Any, zone_region: Any, transfers: Any, stagings: Any, term: Any, profile: Any, decay: Any, risk: Any,
    memory: Any, cores: Any, disk: Any, cards: Any, queue: Any, green: Any, flags: Any,
    core_price: Any, card_price: Any, strength: Any, counts: Any, with_cards: bool, need_cards: int,
    need_cores: int, need_memory: int, need_disk: int, least_green: int, need_flags: int, max_duration: float,
    work_s: float, used: Any,
) -> float:  # fmt: skip
    best = np.inf
    for zone in range(len(rows_of_zone) - 1):
        region = zone_region[zone]
        transfer, staging = transfers[region], stagings[region]
        moved = used[3, 0] * np.log(transfer + used[3, 1]) if used[3, 0] > 0 else 0.0
        for row in range(rows_of_zone[zone], rows_of_zone[zone + 1]):
            if cores[row] < need_cores or memory[row] < need_memory or disk[row] < need_disk:
                continue
            what = profile[row]
            if with_cards and (counts[what] == 0 or cards[row] < counts[what]):
                continue
            share = 0 if green[row] == UNKNOWN_GREEN else green[row]
            if share < least_green or flags[row] & need_flags != need_flags:
                continue
            power = strength[what] * decay[row]
            if power <= 0 or core_price[term[row]] < 0:
                continue
            duration = work_s / power
            paid = min(duration, max_duration)
            nano = core_price[term[row]] * need_cores + card_price[term[row]] * counts[what] * 1_000
            score = moved
            if used[0, 0] > 0:
                score += used[0, 0] * np.log(nano * paid / 3.6e6 + transfer + used[0, 1])
            if used[1, 0] > 0:
                score += used[1, 0] * np.log(1.0 + queue[row] + staging + duration + used[1, 1])
            if used[2, 0] > 0:
                score += used[2, 0] * np.log((10_000 - share) / 10_000 + used[2, 1])
            if used[4, 0] > 0:
                score += used[4, 0] * np.log(risk[row] * paid / 3.6e8 + used[4, 1])
            best = min(best, score)
    return best


# -- fronts ---------------------------------------------------------------------------------------------------------------
def flat_fronts() -> dict[str, Callable[[Floats], Any]]:
    """Skylines of others over all feasible vectors: name → vectors → mask or numbers."""
    found: dict[str, Callable[[Floats], Any]] = {}
    if find_spec("moocore") is not None:
        found["moocore"] = lambda vectors: import_module("moocore").is_nondominated(vectors, keep_weakly=True)
    if find_spec("pymoo") is not None:
        sorting = import_module("pymoo.util.nds.non_dominated_sorting").NonDominatedSorting
        found["pymoo"] = lambda vectors: sorting().do(vectors, only_non_dominated_front=True)
    if find_spec("paretoset") is not None:
        found["paretoset"] = lambda vectors: import_module("paretoset").paretoset(vectors, distinct=False)
    return found
