"""What was used: facts from the agents' cumulative counters, judged once, cut where time is cut.

A fact says: of this attempt, resource and sequence number, so much was used in ``[started_at, ended_at)``. Its quantity is the growth of a counter
that was rounded down once, on the cumulative sum, so no microsecond is lost between two facts (billing P1). Nothing is ever extrapolated.

=======================================  ================================================================
what arrives                             what becomes of it
=======================================  ================================================================
a new key                                stored and rated
the same key, the same content           ``duplicate``: nothing happens
the same key, other content              ``conflict``: nothing happens, the anomaly is kept
ends > 5 min ahead, or > 90 d ago        ``quarantined``: visible, never billed, never dropped
ends up to 5 min ahead                   clamped to the moment it was observed
an unknown resource, tenant, currency    ``quarantined``
overlaps a stored neighbour (seq ± 1)    ``quarantined``
an old fence, or after a closed attempt  ``rejected_stale``: kept for audit, never rated
more than the allocation allows          clipped to it, the anomaly is kept
=======================================  ================================================================
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from operator import attrgetter
from typing import Any

from portal.kit.intervals import Interval
from portal.kit.money import CURRENCIES, MAX_UNIT_PRICE_MICRO, PPM
from portal.kit.quantities import MILLI

AHEAD = timedelta(minutes=5)
"""A fact that ends later than this after now is not believed."""
OLDEST = timedelta(days=90)
"""A fact that ended longer ago than this is not billed."""


HOUR = timedelta(hours=1)


class Resource(StrEnum):
    CORE = "core"
    CARD = "card"
    MEMORY_GIB = "memory_gib"
    STORAGE_GIB = "storage_gib"
    NETWORK_BYTE = "network_byte"


RESOURCES = frozenset(resource.value for resource in Resource)


class Answer(StrEnum):
    """What the sender of a fact is told."""

    STORED = "stored"
    DUPLICATE = "duplicate"
    CONFLICT = "conflict"
    QUARANTINED = "quarantined"
    REJECTED_STALE = "rejected_stale"


class RecordState(StrEnum):
    """Only ``ok`` is rated."""

    OK = "ok"
    QUARANTINED = "quarantined"
    REJECTED_STALE = "rejected_stale"


class Oddity(StrEnum):
    """Why a record is not what its sender said; kept as an anomaly or as the record's reason."""

    NONE = ""
    CONFLICT = "conflict"
    IN_THE_FUTURE = "in_the_future"
    TOO_OLD = "too_old"
    UNKNOWN_RESOURCE = "unknown_resource"
    UNKNOWN_TENANT = "unknown_tenant"
    UNKNOWN_CURRENCY = "unknown_currency"
    BAD_PRICE = "bad_price"
    BAD_QUANTITY = "bad_quantity"
    BACKWARDS = "backwards"
    OVERLAP = "overlap"
    STALE = "stale"
    OVER_ALLOCATION = "over_allocation"
    PAST_THE_END = "past_the_end"


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageFact:
    """A self-contained usage fact: billing keeps these values, and asks no neighbour about them again.

    ``tiers`` is a tuple of ``(up_to_h or None, price_micro)``, empty for a plain price. ``qty_us`` of ``network_byte`` counts bytes.
    """

    attempt_ref: str
    fence: int
    resource: str
    seq: int
    started_at: datetime
    ended_at: datetime
    count_milli: int
    qty_us: int
    sku: str
    price_version_ref: str
    unit_price_micro: int
    currency: str
    organisation_id: int
    tiers: tuple[tuple[int | None, int], ...] = ()
    discount_ppm: int = 0
    project_ref: str = ""
    project_name: str = ""
    department: str = ""
    provider_ref: str = ""
    provider_name: str = ""
    node_ref: str = ""
    job_ref: str = ""
    job_name: str = ""
    task_name: str = ""
    user_ref: str = ""
    region: str = ""
    zone: str = ""
    hardware_model: str = ""
    virtual: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    green_ratio_ppm: int | None = None
    pue_milli: int | None = None
    demo: bool = False
    power_mw: int | None = None  # milliwatts that one whole unit draws
    power_basis: str = ""  # energy.Basis
    grid_g_per_kwh: int | None = None

    @property
    def key(self) -> tuple[str, str, int]:
        """What makes it one fact for ever: never the time, or the same fact dated in another month would be a second one."""
        return self.attempt_ref, self.resource, self.seq

    def content_hash(self) -> str:
        """SHA-256 of everything the fact says: the same key with another hash is a conflict.

        It is the digest of the JSON of all fields, sorted by name; what facts of one attempt have in common is written once (a test holds it to
        ``json.dumps``). A field that came later counts only where it says something, so a fact stored before it existed keeps its hash.
        """
        said = _template(*_common(self)) % (
            self.count_milli,
            _time(self.ended_at),
            self.fence,
            "null" if self.green_ratio_ppm is None else self.green_ratio_ppm,
            json.dumps(dict(self.labels), sort_keys=True, ensure_ascii=False) if self.labels else "{}",
            "null" if self.pue_milli is None else self.pue_milli,
            self.qty_us,
            self.seq,
            _time(self.started_at),
        )
        return hashlib.sha256(said.encode()).hexdigest()


LATER = frozenset({"power_mw", "power_basis", "grid_g_per_kwh"})
"""Fields of a fact that the first version did not have."""
VARYING = frozenset(
    {"count_milli", "ended_at", "fence", "green_ratio_ppm", "labels", "pue_milli", "qty_us", "seq", "started_at"}
)
"""Fields that differ between the facts of one attempt; each has its place in the template of their hash."""
COMMON = tuple(sorted(field.name for field in fields(UsageFact) if field.name not in VARYING))
_common = attrgetter(*COMMON)


@dataclass(frozen=True, slots=True)
class Recorded:
    """The answer to one fact."""

    answer: Answer
    oddity: Oddity = Oddity.NONE


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A stored record of the same attempt and resource with seq ± 1."""

    seq: int
    started_at: datetime
    ended_at: datetime
    fence: int


@dataclass(frozen=True, slots=True)
class Known:
    """What the books know about the surroundings of a fact."""

    tenant: bool = True
    stale: bool = False
    neighbours: tuple[Neighbour, ...] = ()
    ended_at: datetime | None = None
    closed: bool = False


@dataclass(frozen=True, slots=True)
class Judged:
    """What is stored of a fact: its state, and its interval and quantity after clamping."""

    state: RecordState
    oddity: Oddity
    started_at: datetime
    ended_at: datetime
    qty_us: int


def cumulative_qty(spans: Iterable[tuple[int, int]]) -> int:
    """Σ count_milli × unfrozen µs over `spans`, in resource-microseconds, rounded down once on the sum."""
    return sum(count_milli * unfrozen_us for count_milli, unfrozen_us in spans) // MILLI


def growth(cumulative: Sequence[int]) -> list[int]:
    """The quantities of successive facts: what each cumulative reading added to the one before. ValueError if a counter falls."""
    grown = [now - before for before, now in zip([0, *cumulative], cumulative, strict=False)]
    if any(part < 0 for part in grown):
        raise ValueError("a cumulative counter never falls")
    return grown


def most(count_milli: int, microseconds: int) -> int:
    """The largest quantity that an allocation can use in that time, rounded up."""
    return -(-count_milli * microseconds // MILLI)


def judge(fact: UsageFact, known: Known, *, now: datetime) -> Judged:
    """Decide what is stored of a fact that arrives at `now`; the first reason in the table of this module wins."""
    if known.stale or known.closed or any([n.fence != fact.fence for n in known.neighbours]):
        return _kept(fact, RecordState.REJECTED_STALE, Oddity.STALE)
    fault = _fault(fact, known, now)
    if fault:
        return _kept(fact, RecordState.QUARANTINED, fault)
    end, oddity = min(fact.ended_at, now), Oddity.NONE
    if known.ended_at is not None and end > known.ended_at:
        end, oddity = known.ended_at, Oddity.PAST_THE_END
        if end < fact.started_at:
            return _kept(fact, RecordState.REJECTED_STALE, Oddity.STALE)
    end = max(end, fact.started_at)
    if any(_overlap(fact.started_at, end, n) for n in known.neighbours):
        return _kept(fact, RecordState.QUARANTINED, Oddity.OVERLAP)
    qty = fact.qty_us
    if fact.resource != Resource.NETWORK_BYTE:
        limit = most(fact.count_milli, Interval(fact.started_at, end).microseconds)
        if qty > limit:
            qty, oddity = limit, oddity or (Oddity.NONE if end < fact.ended_at else Oddity.OVER_ALLOCATION)
    return Judged(RecordState.OK, oddity, fact.started_at, end, qty)


def portion(qty_us: int, whole: Interval, part: Interval) -> int:
    """The share of `qty_us` that falls into `part` of `whole`: differences of floors, so the parts of a tiling add up to the whole."""
    length = whole.microseconds
    if length == 0:
        return qty_us
    return qty_us * _offset(whole, part.end) // length - qty_us * _offset(whole, part.start) // length


def cut(qty_us: int, whole: Interval, moments: Iterable[datetime]) -> list[tuple[Interval, int]]:
    """`whole` cut at `moments`, each part with its share of the quantity; a fact without length stays one part."""
    return [(part, portion(qty_us, whole, part)) for part in whole.cut(moments)]


def buckets(qty_us: int, whole: Interval, months: Sequence[Interval]) -> list[tuple[datetime, int]]:
    """(start of bucket, quantity) of the pieces of a fact. A bucket is a UTC hour, cut again where a billing month begins, so months sum exactly."""
    start = whole.start.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    if whole.end <= start + HOUR:  # most facts lie inside one hour of one month
        inside = [month for month in months if whole.start in month]
        if len(inside) == 1 and whole.end <= inside[0].end:
            return [(max(start, inside[0].start), qty_us)]
    marks = [*hour_marks(whole), *(moment for month in months for moment in (month.start, month.end))]
    found = []
    for part, quantity in cut(qty_us, whole, marks):
        hour = part.start.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        begins = next((month.start for month in months if part.start in month), hour)
        found.append((max(hour, begins), quantity))
    return found


def hour_marks(whole: Interval) -> list[datetime]:
    """The full UTC hours strictly inside `whole`."""
    mark = whole.start.astimezone(UTC).replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    marks = []
    while mark < whole.end:
        marks.append(mark)
        mark += timedelta(hours=1)
    return marks


def _fault(fact: UsageFact, known: Known, now: datetime) -> Oddity:
    """Why a fact cannot be believed at all; NONE if it can."""
    checks = (
        (not known.tenant, Oddity.UNKNOWN_TENANT),
        (fact.resource not in RESOURCES, Oddity.UNKNOWN_RESOURCE),
        (fact.currency not in CURRENCIES, Oddity.UNKNOWN_CURRENCY),
        (not _priced(fact), Oddity.BAD_PRICE),
        (fact.qty_us < 0 or fact.count_milli < 0, Oddity.BAD_QUANTITY),
        (fact.ended_at < fact.started_at, Oddity.BACKWARDS),
        (fact.ended_at > now + AHEAD, Oddity.IN_THE_FUTURE),
        (fact.ended_at < now - OLDEST, Oddity.TOO_OLD),
    )
    return next((oddity for failed, oddity in checks if failed), Oddity.NONE)


def _priced(fact: UsageFact) -> bool:
    prices = [fact.unit_price_micro, *(price for _, price in fact.tiers)]
    return all(0 <= price <= MAX_UNIT_PRICE_MICRO for price in prices) and 0 <= fact.discount_ppm <= PPM


def _kept(fact: UsageFact, state: RecordState, oddity: Oddity) -> Judged:
    return Judged(state, oddity, fact.started_at, fact.ended_at, fact.qty_us)


def _overlap(start: datetime, end: datetime, neighbour: Neighbour) -> bool:
    return start < neighbour.ended_at and neighbour.started_at < end


def _offset(whole: Interval, moment: datetime) -> int:
    return Interval(whole.start, moment).microseconds


@lru_cache(maxsize=4096)
def _template(*common: Any) -> str:
    """The JSON of a fact with %s where facts of one attempt differ."""
    known = dict(zip(COMMON, common, strict=True))
    parts = []
    for name in sorted({*COMMON, *VARYING}):
        if name in VARYING:
            parts.append(f'"{name}": %s')
        elif name not in LATER or known[name] not in (None, ""):
            parts.append(f'"{name}": {json.dumps(known[name], ensure_ascii=False)}'.replace("%", "%%"))
    return "{" + ", ".join(parts) + "}"


def _time(moment: datetime) -> str:
    """A time as JSON, in UTC."""
    return f'"{(moment if moment.tzinfo is UTC else moment.astimezone(UTC)).isoformat()}"'
