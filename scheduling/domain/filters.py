"""What rules a place out: region → zone → node, each place counted once, at its first failing filter, with the number
asked and the best there is.

Checks are compared in a fixed order (the tables below). A check sees columns; limits are compared as integers.
`kept` answers for some rows (a run, or their numbers), so a search opens only the groups it needs; :func:`explain` goes
over the whole table once and counts. What a region or zone is refused for because all its nodes are (its largest node
has too little SCU) is only counted there: the node's own check says the same.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import numpy as np

from portal.kit.money import micro_text
from scheduling.domain.columns import (
    ABSENT,
    CLASSES,
    HEARD,
    KEPT,
    PPM_PER_GREEN,
    TAKES_WORK,
    TYPES,
    UNKNOWN_GREEN,
    VERIFIED,
    Bools,
    Column,
    Floats,
    Ints,
    Part,
    Row,
    Table,
)
from scheduling.domain.demand import Card, card_text
from scheduling.domain.reasons import Tier, WaitReason
from scheduling.domain.request import Paths, Request
from scheduling.domain.spec_values import micro_short

W = WaitReason
MICRO = 1_000_000


@dataclass(frozen=True)
class Check:
    """One filter over one tier's places: which fail, and what is said about them."""

    reason: WaitReason
    fails: Bools
    asked: str | Callable[[], str] = ""  # a text that takes time to make is made when it is shown
    values: Ints | Floats | None = None  # what each place has; the best of the refused is shown
    least: bool = False  # the best is the smallest
    unit: str = ""
    show: Callable[[Any], str] = str


@dataclass(frozen=True)
class Refusal:
    """So many places of a tier refused for one reason."""

    tier: str
    reason: str
    count: int
    asked: str
    best: str
    unit: str
    nodes: int

    def form(self) -> dict[str, Any]:
        """The shape of `explain`; empty parts are left out."""
        shown = {"reason": self.reason, "count": self.count, "asked": self.asked, "best": self.best, "unit": self.unit}
        return {**{key: value for key, value in shown.items() if value != ""}, "nodes": self.nodes}


@dataclass(frozen=True)
class Counted:
    """One tier: places seen, kept, refused."""

    tier: str
    seen: int
    kept: int
    refused: tuple[Refusal, ...]

    def form(self) -> dict[str, Any]:
        return {
            "tier": self.tier,
            "seen": self.seen,
            "kept": self.kept,
            "refused": [refusal.form() for refusal in self.refused],
        }


class Regions:
    """Per region of a table, what does not depend on a node: transfer, staging, delay, and whether it may be used at
    all.
    """

    def __init__(self, request: Request, table: Table, paths: Paths) -> None:
        self.request, self.paths, self.names = request, paths, table.regions
        self.transfer, self.staging = paths.moving(request.data, table.regions)
        self.moves = bool(self.transfer.any() or self.staging.any())
        self.latency = paths.delays(request.latency_to, table.regions)
        self.kept = _none_fails(_region_checks(request, table, self.latency), len(table.regions))
        self.all_kept = bool(self.kept.all())

    def transfer_exact(self, region: int) -> Fraction:
        """Exact micro-currency for bringing the data to a region."""
        return self.paths.transfer_micro(self.request.data, self.names[region])


class Zones:
    """Per zone of a table: named in or out by the spec."""

    def __init__(self, request: Request, table: Table) -> None:
        named = request.zone != "*" or any(place.count("/") == 1 for place in request.avoid)
        self.kept = _none_fails(_zone_checks(request, table) if named else (), len(table.zones) if named else 0)
        self.all_kept = not named


MANY = 4_096
"""With more rows than this it pays to ask whether any is left before the next check."""


def kept(request: Request, table: Table, regions: Regions, zones: Zones, part: Part) -> Ints:
    """Rows of `part` that no filter refuses, in the order of `part`."""
    good: Bools = np.ones(part.stop - (part.start or 0) if isinstance(part, slice) else len(part), dtype=np.bool_)
    if not (zones.all_kept and regions.all_kept):
        zone = table.zone_of(part)
        good &= regions.kept[table.zone_region[zone]]
        if not zones.all_kept:
            good &= zones.kept[zone]
    for check in _node_checks(request, table, regions, part):
        good &= ~check.fails
        if len(good) > MANY and not good.any():
            break
    found = np.flatnonzero(good).astype(np.int64)
    rows: Ints = found + (part.start or 0) if isinstance(part, slice) else part[found]
    return rows


def explain(request: Request, table: Table, regions: Regions, zones: Zones) -> tuple[Counted, Counted, Counted]:
    """All tiers counted in one pass over the whole table."""
    in_region = [*_region_checks(request, table, regions.latency), *_strength_of_regions(request, table)]
    in_zone = [*_zone_checks(request, table), *_strength_of_zones(request, table)]
    region_kept = _none_fails(in_region, len(table.regions))
    row_in_region = region_kept[table.region]
    row_in_zone = row_in_region & _none_fails(in_zone, len(table.zones))[table.zone]
    everywhere = np.ones(len(table.regions), dtype=np.bool_)
    return (
        _count(Tier.REGION, in_region, everywhere, table.region, np.ones(len(table), dtype=np.bool_)),
        _count(Tier.ZONE, in_zone, region_kept[table.zone_region], table.zone, row_in_region),
        _count(
            Tier.NODE,
            list(_node_checks(request, table, regions, slice(0, len(table)))),
            row_in_zone,
            np.arange(len(table), dtype=np.int64),
            row_in_zone,
        ),
    )


def _count(tier: Tier, checks: list[Check], seen: Bools, place_of_row: Ints, rows: Bools) -> Counted:
    left = seen.copy()
    refused = []
    for check in checks:
        now = left & check.fails
        if not now.any():
            continue
        left &= ~check.fails
        nodes = int(np.count_nonzero(rows & now[place_of_row]))
        refused.append(
            Refusal(
                tier.value,
                check.reason.value,
                int(np.count_nonzero(now)),
                check.asked() if callable(check.asked) else check.asked,
                _best(check, now),
                check.unit,
                nodes,
            )
        )
    return Counted(tier.value, int(np.count_nonzero(seen)), int(np.count_nonzero(left)), tuple(refused))


def _best(check: Check, refused: Bools) -> str:
    if check.values is None:
        return ""
    values = check.values[refused]
    values = values[values != ABSENT]
    if not len(values):
        return ""
    return check.show(values.min() if check.least else values.max())


def _none_fails(checks: Iterable[Check], places: int) -> Bools:
    good = np.ones(places, dtype=np.bool_)
    for check in checks:
        good &= ~check.fails
    return good


# -- the filters of each tier, in the order in which they count
# ------------------------------------------------------------
def _region_checks(request: Request, table: Table, latency: Ints) -> Iterator[Check]:
    names = table.regions
    wanted = set(request.regions)
    outside = [(request.region not in ("*", name)) or (bool(wanted) and name not in wanted) for name in names]
    yield Check(W.REGION_NOT_WANTED, _flags(outside))
    yield Check(W.REGION_AVOIDED, _flags(name in request.avoid for name in names))
    if request.max_latency_us is not None:
        yield Check(W.LINK_EXPIRED, latency == ABSENT)
        yield Check(
            W.LINK_OVER_LATENCY, latency > request.max_latency_us, _ms(request.max_latency_us), latency, True, "ms", _ms
        )


def _strength_of_regions(request: Request, table: Table) -> Iterator[Check]:
    if request.scu_micro is not None and len(table):
        power = np.maximum.reduceat(scu(request, table, slice(0, len(table)), full=True), table.region_starts)
        yield Check(
            W.REGION_SCU_SHORT,
            weaker(power, request.scu_micro),
            micro_short(request.scu_micro),
            power,
            False,
            "SCU",
            _power,
        )


def _zone_checks(request: Request, table: Table) -> Iterator[Check]:
    outside = [request.zone not in ("*", zone) for _, zone in table.zones]
    yield Check(W.REGION_NOT_WANTED, _flags(outside))
    yield Check(W.REGION_AVOIDED, _flags(f"{region}/{zone}" in request.avoid for region, zone in table.zones))


def _strength_of_zones(request: Request, table: Table) -> Iterator[Check]:
    if request.scu_micro is not None and len(table):
        power = np.maximum.reduceat(scu(request, table, slice(0, len(table)), full=True), table.zone_starts)
        yield Check(
            W.FINGERPRINT_BELOW,
            weaker(power, request.scu_micro),
            micro_short(request.scu_micro),
            power,
            False,
            "SCU",
            _power,
        )


def _node_checks(request: Request, table: Table, regions: Regions, part: Part) -> Iterator[Check]:
    yield from _named(request, table, part)
    yield from _size(request, table, part)
    yield from _price(request, table, regions, part)
    if request.min_green_ppm:
        green = known_green(table, part)
        least = -(-request.min_green_ppm // PPM_PER_GREEN)
        yield Check(
            W.GREEN_UNDER_MIN, green < least, lambda: micro_short(request.min_green_ppm), green, False, "", _share
        )
    if request.min_reliability_ppm:
        proven = np.array(
            [ABSENT if row.reliability_ppm is None else row.reliability_ppm for row in _rows(table, part)],
            dtype=np.int64,
        )
        least_proven = request.min_reliability_ppm
        yield Check(
            W.RELIABILITY_UNDER_MIN,
            proven < least_proven,
            lambda: micro_short(least_proven),
            proven,
            False,
            "",
            _ppm,
        )
    if request.verified:
        yield Check(W.UNVERIFIED, ~table.flagged(part, VERIFIED))
    yield from _time(request, table, regions, part)
    yield from _state(request, table, part)


def _named(request: Request, table: Table, part: Part) -> Iterator[Check]:
    if request.owner:
        known = request.owner in table.providers
        mine = table.providers.index(request.owner) if known else ABSENT
        yield Check(W.REGION_NOT_WANTED, table.terms.provider[table.term[part]] != mine)
    if request.node != "*":
        yield Check(W.REGION_NOT_WANTED, _flags(request.node not in (r.node, r.name) for r in _rows(table, part)))
    nodes = {place for place in request.avoid if place.count("/") == 2}
    providers = {place.removeprefix("provider:") for place in request.avoid if place.startswith("provider:")}
    if nodes or providers:
        yield Check(W.REGION_AVOIDED, _flags(_is_avoided(r, nodes, providers) for r in _rows(table, part)))


def _rows(table: Table, part: Part) -> Iterable[Row]:
    return table.rows[part] if isinstance(part, slice) else (table.rows[int(row)] for row in part)


def _is_avoided(row: Any, nodes: set[str], providers: set[str]) -> bool:
    here = f"{row.region}/{row.zone}/"
    return (
        row.provider in providers
        or row.provider_name in providers
        or here + row.node in nodes
        or here + row.name in nodes
    )


def _size(request: Request, table: Table, part: Part) -> Iterator[Check]:
    cores, memory, disk = table.cores[part], table.memory[part], table.disk[part]
    yield Check(
        W.CORES_SHORT, cores < request.cores_milli, lambda: _milli(request.cores_milli), cores, False, "cores", _milli
    )
    yield Check(
        W.MEMORY_SHORT, memory < request.memory_mib, lambda: _gib(request.memory_mib), memory, False, "GiB", _gib
    )
    yield Check(W.DISK_SHORT, disk < request.disk_gib, str(request.disk_gib), disk, False, "GiB")
    if request.cards:
        has, matches = table.profiles.total_cards[table.profile[part]] > 0, card_count(request, table, part)
        other = has & (matches == 0)
        asked = " | ".join(card_text(card) for card in request.cards)
        none = np.zeros(len(other), dtype=np.int64)
        yield Check(W.CARD_KIND_DIFFERS, other, asked, none, False, "", lambda _: _models(table, part, other))
        needed = min(card.count for card in request.cards)
        short = ~has | (table.cards[part] < np.where(matches == 0, needed, matches))
        yield Check(W.CARDS_SHORT, short, str(needed), table.cards[part], False, "cards")
    if request.scu_micro is not None:
        power = scu(request, table, part)
        asked = micro_short(request.scu_micro)
        yield Check(W.FINGERPRINT_BELOW, weaker(power, request.scu_micro), asked, power, False, "SCU", _power)


def _models(table: Table, part: Part, other: Bools) -> str:
    return ", ".join(sorted({table.models[i] for i in table.profiles.model[table.profile[part][other]]})[:4])


def _price(request: Request, table: Table, regions: Regions, part: Part) -> Iterator[Check]:
    known = request.currency in table.currencies
    mine = table.currencies.index(request.currency) if known else ABSENT
    yield Check(W.CURRENCY_DIFFERS, table.terms.currency[table.term[part]] != mine, request.currency)
    nano = hour_nano(request, table, part)
    unsold = nano == ABSENT
    yield Check(W.OFFER_CLOSED_NOW, unsold, request.rental)
    unit = f"{request.currency}/h"
    if request.max_price_micro is not None:
        most = request.max_price_micro
        yield Check(
            W.PRICE_OVER_MAX, ~unsold & (nano > most * 1_000), lambda: micro_text(most), nano, True, unit, _nano
        )
    if request.cap_nano is not None:
        yield Check(
            W.QUOTE_OUTDATED,
            ~unsold & (nano > request.cap_nano),
            lambda: _nano(request.cap_nano or 0),
            nano,
            True,
            unit,
            _nano,
        )
    if request.cap_transfer_micro is not None:
        moved = regions.transfer[region_of(table, part)]
        cap = request.cap_transfer_micro
        yield Check(
            W.QUOTE_OUTDATED, moved > cap + 0.5, lambda: micro_text(cap), moved, True, request.currency, _rounded
        )


def _time(request: Request, table: Table, regions: Regions, part: Part) -> Iterator[Check]:
    term = table.term[part]
    yield Check(W.OFFER_CLOSED_NOW, ~table.terms.open_now[term], lambda: _moment(request.now))
    ends = table.terms.until[term]
    yield Check(
        W.OFFER_ENDS_EARLY,
        ends < request.now + request.max_duration_s,
        lambda: _moment(request.now + request.max_duration_s),
        ends,
        False,
        "",
        _moment,
    )
    if request.deadline is not None:
        left = request.deadline - request.now
        needed = seconds(request, table, regions, part)
        yield Check(W.DEADLINE_PASSED, needed > left, str(left), needed, True, "s", lambda s: str(int(np.ceil(s))))


def _state(request: Request, table: Table, part: Part) -> Iterator[Check]:
    yield Check(W.NODE_SUSPECT, ~table.flagged(part, HEARD))
    yield Check(W.NODE_DRAINING, ~table.flagged(part, TAKES_WORK))
    yield Check(W.NODE_KEPT, table.flagged(part, KEPT))
    term = table.term[part]
    offered = table.terms.lease_classes[term, CLASSES.index(request.lease_class)]
    yield Check(W.LEASE_CLASS_UNSUPPORTED, ~offered, request.lease_class)
    if request.excluded:
        yield Check(W.EXCLUDED_AFTER_FAILURE, _flags(r.node in request.excluded for r in _rows(table, part)))
    if request.past_due:
        yield Check(W.TENANT_REFUSED, table.terms.refuses_past_due[term])


# -- columns that filters and objectives share
# -----------------------------------------------------------------------------
def region_of(table: Table, part: Part) -> Ints:
    """Regions of some rows."""
    regions: Ints = table.region[part] if isinstance(part, slice) else table.zone_region[table.zone_of(part)]
    return regions


def known_green(table: Table, part: Part) -> Ints:
    """Renewable share in 1/10,000; ABSENT where it is not known."""
    green = table.green[part].astype(np.int64)
    green[green == UNKNOWN_GREEN] = ABSENT
    return green


def card_count(request: Request, table: Table, part: Part) -> Ints:
    """How many cards the request takes on each row: the count of the first kind that matches the row's cards, 0 where
    none does.
    """
    profile = table.profile[part]
    if not request.cards:
        return np.zeros(len(profile), dtype=np.int64)
    return (
        counts_of_profiles(request, table)[profile]
        if len(profile) > len(table.profiles)
        else _counts(request, table, profile)
    )


def counts_of_profiles(request: Request, table: Table) -> Ints:
    """The same for each profile."""
    return _counts(request, table, np.arange(len(table.profiles), dtype=np.int64))


def _counts(request: Request, table: Table, profile: Column) -> Ints:
    taken = np.zeros(len(profile), dtype=np.int64)
    for card in reversed(request.cards):
        taken[_matches(card, table, profile)] = card.count
    return taken


def _matches(card: Card, table: Table, profile: Column) -> Bools:
    what = table.profiles
    has: Bools = (what.total_cards[profile] > 0) & (what.virtual[profile] == card.virtual)
    if card.virtual:
        return has
    if card.model:
        known = card.model in table.models
        same: Bools = has & (what.model[profile] == (table.models.index(card.model) if known else ABSENT))
        return same
    memory = what.card_memory[profile]
    most = 2**40 if card.memory_max_mib is None else card.memory_max_mib
    fits: Bools = has & (memory >= card.memory_min_mib) & (memory <= most)
    return fits


def hour_nano(request: Request, table: Table, part: Part) -> Ints:
    """Price of the asked shape in nano-currency per hour, exactly; ABSENT where it is not sold under this rental."""
    term = table.term[part]
    core, card = table.terms.core_price[request.rental][term], table.terms.card_price[request.rental][term]
    if not request.cards:
        return np.where(core == ABSENT, ABSENT, core * request.cores_milli)
    count = card_count(request, table, part)
    missing = (core == ABSENT) | ((count > 0) & (card == ABSENT))
    return np.where(missing, ABSENT, core * request.cores_milli + card * count * 1_000)


def scu(request: Request, table: Table, part: Part, *, full: bool = False) -> Floats:
    """SCU of the asked shape: of its cards, else of its cores. 0 = not known. `full`: what the whole node has.

    SCU of one card or core × decay × their number, in this order of operations: bounds use the same.
    """
    kind, profile = TYPES.index(request.task_type), table.profile[part]
    decay = table.decay[part].astype(np.float64)
    if request.cards:
        cards = table.profiles.total_cards[profile] if full else card_count(request, table, part)
        of_cards: Floats = table.profiles.scu_card[kind][profile] * decay * cards
        return of_cards
    cores = (table.profiles.total_cores[profile] if full else request.cores_milli) / 1_000.0
    of_cores: Floats = table.profiles.scu_core[kind][profile] * decay * cores
    return of_cores


SCU_ROUNDING = 1.0 + 1e-9


def weaker(power: Floats, asked_micro: int) -> Bools:
    """Less SCU than asked? SCU is a float: what rounding took away doesn't refuse."""
    less: Bools = power * (MICRO * SCU_ROUNDING) < asked_micro
    return less


def duration(request: Request, power: Floats) -> Floats:
    """Seconds the job itself takes at each SCU: work ÷ SCU; without a known work or SCU what past runs took, else
    max_duration.
    """
    usual = usual_s(request)
    if request.work_micro is None:
        return np.full(len(power), usual)
    known = power > 0
    return np.where(known, request.work_micro / MICRO * 3_600.0 / np.where(known, power, 1.0), usual)


def usual_s(request: Request) -> float:
    """Seconds that are assumed where work or SCU are not known."""
    return float(request.expected_s if request.expected_s is not None else request.max_duration_s)


START_S = 1.0
"""From decision to running on a warm agent."""


def seconds(request: Request, table: Table, regions: Regions, part: Part) -> Floats:
    """Finish time in seconds from now: start, waiting, staging, and the job."""
    work = duration(request, scu(request, table, part))
    waiting: Floats = START_S + table.queue[part] + regions.staging[region_of(table, part)]
    return waiting + work


# -- showing numbers
# -------------------------------------------------------------------------------------------------------
def _flags(items: Any) -> Bools:
    return np.array(list(items), dtype=np.bool_)


def _milli(value: Any) -> str:
    return micro_short(int(value) * 1_000)


def _gib(value: Any) -> str:
    return micro_short(round(int(value) * MICRO / 1_024))


def _ms(value: Any) -> str:
    return micro_short(int(value) * 1_000)


def _ppm(value: Any) -> str:
    return micro_short(int(value))


def _share(value: Any) -> str:
    return micro_short(int(value) * PPM_PER_GREEN)


def _power(value: Any) -> str:
    return format(float(value), ".4g")


def _nano(value: Any) -> str:
    return micro_text(-(-int(value) // 1_000))


def _rounded(value: Any) -> str:
    return micro_text(round(float(value)))


def _moment(value: Any) -> str:
    return datetime.fromtimestamp(int(value), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
