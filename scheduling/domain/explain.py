"""What would help: one limit relaxed at a time, each answer verified by deciding again.

For every limit that the request sets, the request without it is asked; if that finds places, the smallest change that admits one of them is looked for
(the cheapest price, the greenest share …) and the nodes that it gains are counted with exactly that value. A change that admits nothing is not named.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from portal.kit.money import micro_text
from scheduling.domain import filters
from scheduling.domain.columns import PPM_PER_GREEN, Ints, Table
from scheduling.domain.filters import Regions
from scheduling.domain.request import Paths, Request
from scheduling.domain.spec_values import duration_text, micro_short

MOST_HELPS = 5
FAR = 2**60


@dataclass(frozen=True)
class Help:
    """Set `field` to `value` and `nodes` places fit. `request` is the changed request: applying it starts the task."""

    field: str
    value: str
    nodes: int
    request: Request

    def form(self) -> dict[str, Any]:
        return {
            "change": f"{self.field} {self.value}".strip(),
            "field": self.field,
            "value": self.value,
            "nodes": self.nodes,
        }


Tighten = Callable[[Table, Regions, Ints], tuple[Request, str]]


def helps(request: Request, table: Table, paths: Paths) -> list[Help]:
    """Single changes that make the task fit now, those that gain most places first."""
    found = []
    for field, free, tighten in _relaxations(request):
        regions, rows = _fit(free, table, paths)
        if not len(rows):
            continue
        tight, value = tighten(table, regions, rows)
        nodes = len(_fit(tight, table, paths)[1])
        if nodes:
            found.append(Help(field, value, nodes, tight))
    found.sort(key=lambda help_: (-help_.nodes, help_.field))
    return found[:MOST_HELPS]


def _fit(request: Request, table: Table, paths: Paths) -> tuple[Regions, Ints]:
    regions, zones = filters.Regions(request, table, paths), filters.Zones(request, table)
    return regions, filters.kept(request, table, regions, zones, slice(0, len(table)))


def _relaxations(request: Request) -> Iterator[tuple[str, Request, Tighten]]:
    """(field of the spec, the request without that limit, how to find the smallest change)."""
    yield from _of_price(request)
    yield from _of_size(request)
    yield from _of_place(request)
    yield from _of_time(request)
    if request.min_reliability_ppm:
        yield "placement.min_reliability", replace(request, min_reliability_ppm=0), _most_reliable(request)
    if request.min_green_ppm:
        yield "placement.min_green", replace(request, min_green_ppm=0), _greenest(request)
    if request.verified:
        yield (
            "placement.verified",
            replace(request, verified=False),
            _as_it_is(replace(request, verified=False), "false"),
        )
    if request.rental == "spot":
        yield (
            "resources.use_spot",
            replace(request, rental="fixed"),
            _as_it_is(replace(request, rental="fixed"), "false"),
        )
    if request.lease_class != "standard":
        usual = replace(request, lease_class="standard")
        yield "on_disconnect.lease", usual, _as_it_is(usual, "standard")
    if request.excluded:
        again = replace(request, excluded=())
        yield "retry", again, _as_it_is(again, "")


def _of_price(request: Request) -> Iterator[tuple[str, Request, Tighten]]:
    if request.max_price_micro is not None:
        yield "max_price", replace(request, max_price_micro=None), _cheapest(request)
    if request.cap_nano is not None or request.cap_transfer_micro is not None:
        free = replace(request, cap_nano=None, cap_transfer_micro=None)
        yield "quote", free, _as_it_is(free, "")


def _of_size(request: Request) -> Iterator[tuple[str, Request, Tighten]]:
    yield (
        "resources.cpus",
        replace(request, cores_milli=1),
        _most(request, "cores_milli", "cores", 100, lambda n: micro_short(n * 1_000)),
    )
    yield "resources.memory", replace(request, memory_mib=1), _most(request, "memory_mib", "memory", 1, _mib)
    yield "resources.disk_size", replace(request, disk_gib=1), _most(request, "disk_gib", "disk", 1, str)
    if request.cards:
        yield "resources.accelerators", replace(request, cards=(), scu_micro=None), _other_cards(request)
        if any(card.count > 1 for card in request.cards):
            one = replace(request, cards=tuple(replace(card, count=1) for card in request.cards))
            yield "resources.accelerators", one, _fewer_cards(request)
    if request.scu_micro is not None:
        yield "resources.scu", replace(request, scu_micro=None), _strongest(request)


def _of_place(request: Request) -> Iterator[tuple[str, Request, Tighten]]:
    if (request.region, request.zone, request.node) != ("*", "*", "*"):
        free = replace(request, region="*", zone="*", node="*")
        yield "resources.infra", free, _as_it_is(free, "*")
    if request.regions:
        yield "placement.regions", replace(request, regions=()), _more_regions(request)
    if request.avoid:
        free = replace(request, avoid=())
        yield "placement.avoid", free, _as_it_is(free, "[]")
    if request.max_latency_us is not None:
        yield "placement.max_latency_ms", replace(request, max_latency_us=None), _nearest(request)


def _of_time(request: Request) -> Iterator[tuple[str, Request, Tighten]]:
    yield "max_duration", replace(request, max_duration_s=1), _shorter(request)
    if request.deadline is not None:
        yield "placement.deadline", replace(request, deadline=None), _later(request)


def _as_it_is(free: Request, value: str) -> Tighten:
    return lambda table, regions, rows: (free, value)


def _cheapest(request: Request) -> Tighten:
    def tighten(table: Table, regions: Regions, rows: Ints) -> tuple[Request, str]:
        nano = filters.hour_nano(request, table, slice(0, len(table)))[rows]
        micro = -(-int(nano.min()) // 1_000)
        return replace(request, max_price_micro=micro), micro_text(micro)

    return tighten


def _most(request: Request, field: str, column: str, step: int, show: Callable[[int], str]) -> Tighten:
    def tighten(table: Table, regions: Regions, rows: Ints) -> tuple[Request, str]:
        most = max(step, int(getattr(table, column)[rows].max()) // step * step)
        tight: Request = replace(request, **{field: min(most, getattr(request, field))})
        return tight, show(getattr(tight, field))

    return tighten


def _mib(mib: int) -> str:
    return f"{mib}MiB" if mib % 1_024 else f"{mib // 1_024}GiB"


def _other_cards(request: Request) -> Tighten:
    def tighten(table: Table, regions: Regions, rows: Ints) -> tuple[Request, str]:
        needed = min(card.count for card in request.cards)
        with_cards = [int(r) for r in rows[(table.cards[rows] >= needed) & ~table.virtual[rows]]]
        if not with_cards:
            return request, ""
        model = min(table.models[kind] for kind in set(table.model[with_cards].tolist()))
        card = replace(
            request.cards[0], model=model, count=needed, virtual=False, memory_min_mib=0, memory_max_mib=None
        )
        return replace(request, cards=(card,)), f"{model}:{needed}"

    return tighten


def _fewer_cards(request: Request) -> Tighten:
    def tighten(table: Table, regions: Regions, rows: Ints) -> tuple[Request, str]:
        most = int(table.cards[rows].max())
        cards = tuple(replace(card, count=min(card.count, most)) for card in request.cards)
        return replace(request, cards=cards), f"{cards[0].model or 'virtual'}:{cards[0].count}"

    return tighten


def _strongest(request: Request) -> Tighten:
    def tighten(table: Table, regions: Regions, rows: Ints) -> tuple[Request, str]:
        power = filters.scu(request, table, slice(0, len(table)))[rows]
        micro = max(1, int(np.floor(float(power.max()) * 1_000_000)))
        return replace(request, scu_micro=micro), micro_short(micro)

    return tighten


def _more_regions(request: Request) -> Tighten:
    def tighten(table: Table, regions: Regions, rows: Ints) -> tuple[Request, str]:
        names = sorted({table.regions[r] for r in set(table.region[rows].tolist())})
        return replace(request, regions=tuple(sorted({*request.regions, *names}))), ", ".join(names)

    return tighten


def _nearest(request: Request) -> Tighten:
    def tighten(table: Table, regions: Regions, rows: Ints) -> tuple[Request, str]:
        delay = regions.latency[table.region[rows]]
        known = delay[delay >= 0]
        least = int(known.min()) if len(known) else FAR
        return replace(request, max_latency_us=least), micro_short(least * 1_000)

    return tighten


def _greenest(request: Request) -> Tighten:
    def tighten(table: Table, regions: Regions, rows: Ints) -> tuple[Request, str]:
        most = max(0, int(filters.known_green(table, rows).max())) * PPM_PER_GREEN
        return replace(request, min_green_ppm=most), micro_short(most)

    return tighten


def _most_reliable(request: Request) -> Tighten:
    def tighten(table: Table, regions: Regions, rows: Ints) -> tuple[Request, str]:
        most = max((table.rows[int(row)].reliability_ppm or 0 for row in rows), default=0)
        return replace(request, min_reliability_ppm=most), micro_short(most)

    return tighten


def _shorter(request: Request) -> Tighten:
    def tighten(table: Table, regions: Regions, rows: Ints) -> tuple[Request, str]:
        left = int(table.until[rows].max()) - request.now
        unit = 60 if left >= 60 else 1
        seconds = min(request.max_duration_s, left // unit * unit)
        return replace(request, max_duration_s=max(1, seconds)), duration_text(max(1, seconds))

    return tighten


def _later(request: Request) -> Tighten:
    def tighten(table: Table, regions: Regions, rows: Ints) -> tuple[Request, str]:
        needed = int(np.ceil(filters.seconds(request, table, regions, rows).min()))
        moment = request.now + needed
        return replace(request, deadline=moment), datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    return tighten


def opens_at(request: Request, table: Table, paths: Paths) -> int | None:
    """If only closed windows stand in the way: the moment (Unix seconds) at which the first of them opens."""
    moments = sorted({row.opens_at for row in table.rows if row.opens_at is not None and row.opens_at > request.now})
    closed = ~table.open_now
    if not moments or not closed.any():
        return None
    rows = _fit(request, table.as_if_open(), paths)[1]
    opening = [table.rows[int(r)].opens_at for r in rows if closed[r]]
    return min((moment for moment in opening if moment is not None), default=None)
