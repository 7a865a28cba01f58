"""One run: a world that changes, agents that measure it with noise and loss, and a policy that routes by what it heard.

A period is five seconds. In each, both end regions of a link report what they measured; a report may be lost. The
policy decides from what arrived, and traffic of the *next* period follows it. What it costs is worked out from the
truth, and compared with the least possible of that truth.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from benchmarks.routing import baseline
from benchmarks.routing.worlds import World
from scheduling.domain import linkstate, routing
from scheduling.domain.columns import Floats, Ints

LOST = 0.05
TURNOVER = 0.25


@dataclass(frozen=True)
class Policy:
    """What decides. `kind`: ours, shortest or delay. `symmetric`: good news is believed as quickly as bad news."""

    name: str
    kind: str = "ours"
    symmetric: bool = False
    new_work_only: bool = False
    wrong_model: bool = False  # the truth follows another curve than the planner's


OURS = Policy("ours")
POLICIES = (
    Policy("shortest path, 10 % hysteresis", "shortest"),
    Policy("average of measured delay, fast up, slow down", "delay"),
    Policy("ours, new work only", new_work_only=True),
    OURS,
)


@dataclass
class Trace:
    """What happened: per period the cost over the optimum (0 = optimal), and how many sources changed their main path."""

    excess: list[float] = field(default_factory=list)
    flips: list[int] = field(default_factory=list)


class _Heard:
    """The link database as the policy holds it, filled by reports that may be lost."""

    def __init__(self, world: World, chance: np.random.Generator, noise: float, symmetric: bool) -> None:
        self.world, self.chance, self.noise, self.symmetric = world, chance, noise, symmetric
        self.database: dict[str, linkstate.Report] = {}
        self.beliefs: dict[int, linkstate.Belief] = {}

    def listen(self, truth: World, period: int) -> None:
        now_ms = period * linkstate.PERIOD_MS
        for region in range(truth.graph.regions):
            links = np.flatnonzero((truth.graph.ends == region).any(axis=1))
            seen = tuple((f"{link:04d}", self._measure(truth, int(link))) for link in links)
            if self.chance.random() < LOST:
                continue
            report = linkstate.Report(f"r{region:03d}", f"r{region:03d}", period, seen, now_ms)
            self.database = linkstate.merge(self.database, {report.origin: report})
        by_link: dict[int, list[tuple[int, linkstate.Measured]]] = {}
        for report in self.database.values():
            for name, measured in report.links:
                by_link.setdefault(int(name), []).append((report.received_ms, measured))
        for link, found in by_link.items():
            newest = max(at for at, _ in found)
            both = [measured for at, measured in found if at == newest]
            self._believe(link, max(both, key=lambda m: m.base_us), newest)

    def _measure(self, truth: World, link: int) -> linkstate.Measured:
        wobble = np.exp(self.chance.normal(0.0, self.noise, 2))
        rtt, mbps = truth.rtt_us[link] * wobble[0], truth.mbps[link] * wobble[1]
        return linkstate.Measured(int(rtt), 0, max(1, int(mbps * 1_000)))

    def _believe(self, link: int, measured: linkstate.Measured, seen_ms: int) -> None:
        held = self.beliefs.get(link)
        if self.symmetric and (held is None or seen_ms > held.seen_ms):
            held = None  # whatever was measured last is believed
        self.beliefs[link] = linkstate.observe(held, measured, seen_ms=seen_ms)

    def figures(self, period: int) -> tuple[Floats, Floats]:
        """Round trip and capacity of every link as they count now; unheard-of links keep the configured figures."""
        rtt, mbps = self.world.rtt_us.copy(), self.world.mbps.copy()
        for link, belief in self.beliefs.items():
            now = linkstate.effective(belief, now_ms=period * linkstate.PERIOD_MS)
            rtt[link], mbps[link] = now.base_us, max(1e-3, (now.mbps or 0.0) / 1_000)
        return rtt, mbps


def run(
    world: World,
    truths: Callable[[int], World],
    policy: Policy,
    *,
    periods: int,
    seed: int,
    noise: float = 0.03,
    optima: Mapping[int, float],
) -> Trace:
    """Let `policy` route `periods` periods of a world whose truth at period p is `truths(p)`; `optima` by id of truth."""
    chance = np.random.default_rng([seed, 77])
    heard = _Heard(world, chance, noise, policy.symmetric)
    strategies, of_source = world.strategies, world.demand[world.strategies.source]
    share = routing.split(world.elements(), strategies, world.demand, steps=400).share
    carried = share
    main = routing.leading(share, strategies)
    averages: Floats | None = None
    held: Ints = main
    trace = Trace()
    for period in range(periods):
        truth = truths(period)
        curve = baseline.bpr_delay if policy.wrong_model else routing.delay
        spent = baseline.total(truth.elements(), strategies, carried * of_source, curve)
        trace.excess.append(spent / optima[id(truth)] - 1)
        heard.listen(truth, period)
        if policy.kind == "ours":
            rtt, mbps = heard.figures(period)
            wanted = routing.split(world.elements(rtt, mbps), strategies, world.demand, start=share).share
            share = routing.committed(share, wanted, strategies)
        else:
            seen = _measured_delay(truth, carried * of_source, strategies, chance, noise)
            averages = seen if averages is None or policy.kind == "shortest" else baseline.averaged(averages, seen)
            paths = np.append(averages, 0.0)[strategies.crosses].sum(axis=1)
            if policy.kind == "shortest":
                held = baseline.shortest(paths, held, strategies)
                share = baseline.only(held, strategies)
            else:
                share = baseline.by_delay(paths, strategies)
        carried = carried + TURNOVER * (share - carried) if policy.new_work_only else share
        now = routing.leading(share, strategies)
        trace.flips.append(int((now != main).sum()))
        main = now
    return trace


def _measured_delay(
    truth: World, flow: Floats, strategies: routing.Strategies, chance: np.random.Generator, noise: float
) -> Floats:
    elements = truth.elements()
    load = routing.loads(elements, strategies, flow)
    return routing.delay(elements.base, load) * np.exp(chance.normal(0.0, noise, len(load)))


def periods_until(trace: Trace, since: int, below: float) -> int:
    """Periods after `since` until the excess is at most `below` and stays so for three; -1 = never."""
    good = np.array(trace.excess[since:]) <= below
    for at in range(len(good) - 2):
        if good[at : at + 3].all():
            return at
    return -1


# -- prediction -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Foresight:
    """Of all link-periods: the congested ones still used; those avoided though the load was not over 0.9, neither when
    it was decided nor when traffic followed.
    """

    used_congested: float
    avoided_needlessly: float


def loads_of_links(seed: int, *, links: int, periods: int) -> Floats:
    """Load series: a slow wave, ramps that build up over several periods and fall again, and noise."""
    chance = np.random.default_rng([seed, 5])
    time = np.arange(periods)
    made = np.empty((links, periods))
    for link in range(links):
        wave = 0.12 * np.sin(2 * np.pi * (time / chance.uniform(150, 500) + chance.random()))
        series = chance.uniform(0.45, 0.7) + wave
        at = 0
        while True:
            at += int(chance.exponential(90)) + 10
            if at >= periods:
                break
            up, stay, down = (int(chance.integers(5, 15)) for _ in range(3))
            top = chance.uniform(0.15, 0.55)
            shape = np.concatenate((np.linspace(0, top, up), np.full(stay, top), np.linspace(top, 0, down)))
            end = min(periods, at + len(shape))
            series[at:end] += shape[: end - at]
            at += len(shape)
        made[link] = series + chance.normal(0, 0.012, periods)
    return np.clip(made, 0.0, 1.2)


def foresee(series: Floats, *, ahead: int) -> Foresight:
    """Avoid by the forecast `ahead` periods on (0 = by the last measurement), which traffic follows two periods later."""
    used = needless = 0
    links, periods = series.shape
    for link in range(links):
        trend, avoided = linkstate.Trend(float(series[link, 0])), False
        for now in range(1, periods - linkstate.AHEAD):
            seen = float(series[link, now])
            trend = trend.advance(seen)
            avoided = linkstate.avoids(trend.forecast(ahead) if ahead else seen, avoided)
            bad = series[link, now + linkstate.AHEAD] > linkstate.AVOID_ABOVE
            used += int(bad and not avoided)
            needless += int(avoided and not bad and series[link, now] <= linkstate.AVOID_ABOVE)
    every = links * (periods - linkstate.AHEAD - 1)
    return Foresight(used / every, needless / every)
