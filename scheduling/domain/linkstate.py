"""What is known of the links between regions: who measured what, what of it is believed, and for how long.

Three layers, each a value:

* **the database**: per origin (an agent that probes) its newest report. Reports merge by sequence number, so any
  order, any repetition and any detour gives the same database (:func:`merge` commutes, associates and is idempotent);
* **the belief** (:class:`Belief`) of one link, moved by :func:`observe`. Bad news counts at once, good news by a fifth
  of its (logarithmic) way per period: a link that looks well again after a fault is trusted slowly, so nothing swings
  back at the first good probe. A link that turns worse again and again is *damped*: it takes no good news at all until
  it was quiet. Only what load cannot move is treated so (base delay, loss, capacity); the same rule on a delay that our
  own traffic makes would keep the routing from ever settling;
* **what counts now** (:func:`effective`): an old belief gets worse with each period that brought no news, and after ten
  it is no belief any more: the link has expired.

| what | figure |
|---|---|
| period; fresh for; expired after | 5 s; 3 periods; 10 more |
| each missed period | delay × 1.5, capacity × 0.5 |
| sent before its turn | a change of more than 20 % |
| flap penalty: each worsening; half-life; damped above; free below | 1,000; 15 min; 2,000; 750 |

Damping follows the idea of RFC 2439, the capacity of a lossy path Mathis et al. 1997, the trend Holt with a damped slope.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from scheduling.domain.columns import Floats

PERIOD_MS = 5_000
FRESH_PERIODS = 3
LOST_PERIODS = 10
GROWS, SHRINKS = 1.5, 0.5
"""Delay and capacity of a link are multiplied by these for each period that brought no news."""
GAIN = 0.2
"""So much of the logarithmic way to better news is believed per period."""
SNAP = 0.02
CALM_FIRST = 3
"""Much better news (more than a fifth) is believed only from the third in a row on: a link that is good for two periods and
bad for two is not tried again at each turn.
"""
URGENT = 0.2
LOSS_WEIGHS = 0.01
"""A loss of so much doubles the delay that a link counts with."""
MSS_BYTES = 1_448
MATHIS = 1.22
CONNECTIONS = 32
FLAP, HALF_LIFE_MS, DAMPED_ABOVE, FREE_BELOW = 1_000.0, 15 * 60_000, 2_000.0, 750.0
MOST_PENALTY = 8_000.0
ALPHA, BETA, PHI = 0.7, 0.4, 0.85
AVOID_ABOVE, AGAIN_BELOW = 0.90, 0.82
AHEAD = 2
"""Periods between a measurement and the moment from which traffic follows it."""


@dataclass(frozen=True, order=True)
class Measured:
    """One link as one agent saw it: round trip, share of lost packets, bandwidth (None = not measured)."""

    rtt_us: int
    loss_ppm: int = 0
    mbps: int | None = None

    @property
    def base_us(self) -> float:
        """The round trip that counts: 1 % of loss doubles it."""
        return self.rtt_us * (1.0 + self.loss_ppm / 1e6 / LOSS_WEIGHS)

    def capacity_mbps(self, connections: int = CONNECTIONS) -> float | None:
        """What `connections` TCP streams can carry; None when no bandwidth is known. Loss only ever makes it less."""
        if self.mbps is None:
            return None
        return min(float(self.mbps), mathis_mbps(self.rtt_us, self.loss_ppm, connections))


def mathis_mbps(rtt_us: int, loss_ppm: int, connections: int = CONNECTIONS) -> float:
    """Upper limit of `connections` streams over a lossy path, in Mbit/s; infinite without loss."""
    if loss_ppm <= 0 or rtt_us <= 0:
        return math.inf
    return connections * MATHIS * MSS_BYTES * 8 / (rtt_us * math.sqrt(loss_ppm / 1e6))


# -- the database ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Report:
    """The newest of one origin: `links` maps a target region to what was measured, sorted by target."""

    origin: str
    source: str  # the region the origin stands in
    sequence: int
    links: tuple[tuple[str, Measured], ...]
    received_ms: int

    @property
    def key(self) -> tuple[object, ...]:
        """A total order in which the newer report is the larger one."""
        seen = tuple((target, m.rtt_us, m.loss_ppm, -1 if m.mbps is None else m.mbps) for target, m in self.links)
        return (self.sequence, self.received_ms, self.source, seen)


Database = Mapping[str, Report]


def merge(*databases: Database) -> dict[str, Report]:
    """All that several databases know: per origin the report with the highest sequence."""
    known: dict[str, Report] = {}
    for database in databases:
        for origin, report in database.items():
            held = known.get(origin)
            if held is None or report.key > held.key:
                known[origin] = report
    return known


def readings(database: Database, *, now_ms: int) -> dict[tuple[str, str], tuple[Measured, int]]:
    """(source, target) → what its origins say together, and when the newest of them was received.

    Several origins of a region: the median of each figure over the fresh ones, so one agent behind a bad line does
    not condemn a region's link. Reports that are not fresh count only where no fresh one exists.
    """
    seen: dict[tuple[str, str], list[tuple[int, Measured]]] = {}
    for origin in sorted(database):
        report = database[origin]
        for target, measured in report.links:
            seen.setdefault((report.source, target), []).append((report.received_ms, measured))
    made = {}
    for ends, found in seen.items():
        newest = max(at for at, _ in found)
        fresh = [m for at, m in found if now_ms - at <= FRESH_PERIODS * PERIOD_MS]
        made[ends] = (_median(fresh or [m for at, m in found if at == newest]), newest)
    return made


def _median(found: list[Measured]) -> Measured:
    bands = [m.mbps for m in found if m.mbps is not None]
    return Measured(
        _middle([m.rtt_us for m in found]), _middle([m.loss_ppm for m in found]), _middle(bands) if bands else None
    )


def _middle(values: list[int]) -> int:
    return sorted(values)[len(values) // 2]


# -- what is believed -----------------------------------------------------------------------------------------------------
def eased(held: Floats, seen: Floats, *, worse_is_more: bool) -> Floats:
    """Bad news at once, good news by :data:`GAIN` of its logarithmic way, and whole within 2 %. Values > 0."""
    worse = seen >= held if worse_is_more else seen <= held
    near = np.abs(np.log(seen / held)) <= SNAP
    slowly = np.exp(np.log(held) + GAIN * (np.log(seen) - np.log(held)))
    return np.where(worse | near, seen, slowly)


def is_urgent(before: Measured | None, now: Measured) -> bool:
    """Worth sending before its turn: the delay that counts, or the capacity, changed by more than 20 %."""
    if before is None:
        return True
    if abs(math.log(max(now.base_us, 1.0) / max(before.base_us, 1.0))) > URGENT:
        return True
    one, two = before.capacity_mbps(), now.capacity_mbps()
    return one is not None and two is not None and abs(math.log(max(two, 1e-3) / max(one, 1e-3))) > URGENT


@dataclass(frozen=True)
class Trend:
    """Damped Holt: where a series stands and where it is going."""

    level: float
    slope: float = 0.0

    def advance(self, seen: float) -> "Trend":
        """The trend after one more value."""
        error = seen - (self.level + self.slope * PHI)
        return Trend(self.level + PHI * self.slope + ALPHA * error, PHI * self.slope + ALPHA * BETA * error)

    def forecast(self, ahead: int = AHEAD) -> float:
        """The value `ahead` periods from now."""
        return self.level + self.slope * sum(PHI**i for i in range(1, ahead + 1))


def avoids(load: float, avoided: bool) -> bool:
    """Keep off a link whose (forecast) load passes 0.9; back to it below 0.82."""
    return load > (AGAIN_BELOW if avoided else AVOID_ABOVE)


def penalty(held: float, *, passed_ms: int) -> float:
    """A flap penalty after a while: it halves every 15 minutes."""
    return float(held * 0.5 ** (max(0, passed_ms) / HALF_LIFE_MS))


@dataclass(frozen=True)
class Belief:
    """What is believed of one link. `seen_ms`: when the report behind it was received; `measured`: that report."""

    base_us: float
    mbps: float | None
    measured: Measured
    seen_ms: int
    flaps: float = 0.0
    damped: bool = False
    trend: Trend = Trend(0.0)  # of ln base
    calm: int = 0  # much better reports in a row

    def form(self) -> list[float | int | None]:
        """As plain JSON values."""
        m = self.measured
        seen = [m.rtt_us, m.loss_ppm, m.mbps, self.seen_ms]
        trend = [self.trend.level, self.trend.slope]
        return [self.base_us, self.mbps, *seen, self.flaps, int(self.damped), *trend, self.calm]

    @classmethod
    def from_form(cls, form: Iterable[float | int | None]) -> "Belief":
        """Back from :meth:`form`; ValueError or TypeError when it is something else."""
        base, mbps, rtt, loss, band, seen, flaps, damped, level, slope, calm = form
        measured = Measured(_whole(rtt), _whole(loss), None if band is None else _whole(band))
        held = None if mbps is None else float(mbps)
        trend = Trend(_float(level), _float(slope))
        return cls(_float(base), held, measured, _whole(seen), _float(flaps), bool(damped), trend, _whole(calm))


def _whole(value: float | None) -> int:
    return int(_float(value))


def _float(value: float | None) -> float:
    if value is None:
        raise ValueError("a figure is missing")
    return float(value)


def observe(held: Belief | None, measured: Measured, *, seen_ms: int) -> Belief:
    """The belief after one report. A report that is not newer than the last changes nothing (so repeats are harmless)."""
    base, band = max(measured.base_us, 1.0), measured.capacity_mbps()
    if held is None:
        return Belief(base, band, measured, seen_ms, trend=Trend(math.log(base)))
    if seen_ms <= held.seen_ms:
        return held
    flaps, damped = _damping(held, measured, seen_ms)
    trend = held.trend.advance(math.log(base))
    calm = held.calm + 1 if _is_much_better(held, base, band) else 0
    moved = replace(held, measured=measured, seen_ms=seen_ms, flaps=flaps, damped=damped, trend=trend, calm=calm)
    worst_mbps = band if held.mbps is None or band is None else min(held.mbps, band)
    if damped or 0 < calm < CALM_FIRST:
        return replace(moved, base_us=max(held.base_us, base), mbps=worst_mbps)
    mbps = band if held.mbps is None or band is None else _eased(held.mbps, band, worse_is_more=False)
    return replace(moved, base_us=_eased(held.base_us, base, worse_is_more=True), mbps=mbps)


def _is_much_better(held: Belief, base: float, band: float | None) -> bool:
    wider = held.mbps is not None and band is not None and math.log(max(band, 1e-3) / max(held.mbps, 1e-3)) > URGENT
    return math.log(held.base_us / base) > URGENT or (wider and base <= held.base_us)


def _eased(held: float, seen: float, *, worse_is_more: bool) -> float:
    one, two = np.array([max(held, 1e-3)]), np.array([max(seen, 1e-3)])
    return float(eased(one, two, worse_is_more=worse_is_more)[0])


def _damping(held: Belief, measured: Measured, seen_ms: int) -> tuple[float, bool]:
    """The penalty and whether the link is damped. A worsening is a big step against what is *believed*: as good news
    is believed slowly, the noise of single probes is none.
    """
    flaps = penalty(held.flaps, passed_ms=seen_ms - held.seen_ms)
    if math.log(max(measured.base_us, 1.0) / held.base_us) > URGENT:
        flaps = min(flaps + FLAP, MOST_PENALTY)
    return flaps, flaps > (FREE_BELOW if held.damped else DAMPED_ABOVE)


# -- what counts now ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Effective:
    """What a link counts with at one moment. `expired`: nobody knows any more."""

    base_us: float
    mbps: float | None
    age_ms: int
    missed: int  # periods without news beyond the fresh ones
    expired: bool
    worsening: bool  # the forecast is worse than the belief


def effective(belief: Belief, *, now_ms: int, period_ms: int = PERIOD_MS) -> Effective:
    """The belief as it counts now: aged, and no better than the forecast two periods ahead."""
    age = max(0, now_ms - belief.seen_ms)
    late = age - FRESH_PERIODS * period_ms
    missed = max(0, -(-late // period_ms))
    ahead = math.exp(min(belief.trend.forecast(), belief.trend.level + math.log(4.0)))
    worsening = ahead > belief.base_us * (1 + URGENT)
    base = max(belief.base_us, ahead) if worsening else belief.base_us
    grown = min(missed, LOST_PERIODS + 1)
    return Effective(
        base * GROWS**grown,
        None if belief.mbps is None else belief.mbps * SHRINKS**grown,
        age,
        missed,
        missed > LOST_PERIODS,
        worsening,
    )
