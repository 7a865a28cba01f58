"""What one decision is asked: needs, limits and policy of one task at one moment, and the paths between regions.

Everything a decision depends on is in these values and the rows; they are stored with it, so it can be made again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from portal.kit.money import GIGABYTE, half_up
from scheduling.domain.columns import Floats, Ints
from scheduling.domain.demand import Card, TaskSpec
from scheduling.domain.linkstate import Effective

POLICY_VERSION = "start-1"
"""Named in each decision; raised when floors, keys or the knee change."""


@dataclass(frozen=True)
class Policy:
    """How one point of the front is chosen. `prefer`: the node of a point that a person chose."""

    optimize: tuple[str, ...]
    pick: str
    weights: Mapping[str, float] = field(default_factory=dict)
    prefer: str = ""
    version: str = POLICY_VERSION


@dataclass(frozen=True)
class Request:
    """Needs and limits of one task. `card` is the kind tried now (a spec may list several)."""

    task_type: str
    cores_milli: int
    memory_mib: int
    disk_gib: int
    cards: tuple[Card, ...]  # any of; () = none
    rental: str
    currency: str
    max_duration_s: int
    now: int  # Unix seconds
    work_micro: int | None = None
    expected_s: int | None = None  # from past runs of that name
    scu_micro: int | None = None
    data: tuple[tuple[str, int], ...] = ()  # region ("" = outside) → bytes to bring
    region: str = "*"
    zone: str = "*"
    node: str = "*"
    regions: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()
    verified: bool = True
    min_green_ppm: int = 0
    min_reliability_ppm: int = 0
    max_latency_us: int | None = None
    latency_to: str = ""
    max_price_micro: int | None = None
    cap_nano: int | None = None  # a quote's price per hour: nano-currency
    cap_transfer_micro: int | None = None
    deadline: int | None = None
    lease_class: str = "standard"
    excluded: tuple[str, ...] = ()
    owner: str = ""  # only on nodes of this provider
    past_due: bool = False

    def form(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)

    @classmethod
    def from_form(cls, form: Mapping[str, Any]) -> "Request":
        """Back from :meth:`form`."""
        named: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in form.items()}
        named["cards"] = tuple(Card(**card) for card in form["cards"])
        named["data"] = tuple((region, size) for region, size in form["data"])
        return cls(**named)


def of_task(task: TaskSpec, *, currency: str, now: int, **more: Any) -> Request:
    """The request of a task: its needs and its own limits; the caller adds price caps, exclusions and so on."""
    needs, wish = task.resources, task.placement
    sizes: dict[str, int] = {}
    for item in task.inputs:
        sizes[item.region] = sizes.get(item.region, 0) + (item.size_bytes or 0)
    return Request(
        task_type=task.task_type,
        cores_milli=needs.cores_milli,
        memory_mib=needs.memory_mib,
        disk_gib=needs.disk_gib,
        cards=needs.cards,
        rental=needs.rental,
        currency=currency,
        max_duration_s=task.max_duration_s,
        now=now,
        work_micro=task.work_micro,
        scu_micro=needs.scu_micro,
        data=tuple(sorted((region, size) for region, size in sizes.items() if size)),
        region=needs.region,
        zone=needs.zone,
        node=needs.node,
        regions=wish.regions,
        avoid=wish.avoid,
        verified=wish.verified,
        min_green_ppm=wish.min_green_ppm,
        min_reliability_ppm=wish.min_reliability_ppm,
        max_latency_us=wish.max_latency_us,
        latency_to=wish.latency_to,
        lease_class=task.lease_class,
        **more,
    )


def policy_of(task: TaskSpec, *, prefer: str = "") -> Policy:
    """The policy a spec asks for."""
    wish = task.placement
    weights = {name: micro / 1_000_000 for name, micro in wish.weights_micro.items() if micro}
    return Policy(tuple(wish.optimize), wish.pick, weights, prefer)


@dataclass(frozen=True)
class Path:
    """A link as it counts; None = not known. `expired`: it was measured, but nobody has heard of it for too long."""

    rtt_us: int | None
    mbps: int | None
    price_micro_per_gb: int
    expired: bool = False

    def believed(self, now: Effective) -> "Path":
        """The same link with what is believed of it instead of its configured delay and bandwidth."""
        if now.expired:
            return Path(None, None, self.price_micro_per_gb, expired=True)
        mbps = self.mbps if now.mbps is None else max(1, int(now.mbps))
        return Path(max(1, int(now.base_us)), mbps, self.price_micro_per_gb)


class Paths:
    """Links by (source, target). An unknown link counts with the worst that is known: dearest price, longest delay,
    narrowest band. `pending`: bytes that are on their way over a link already; what comes next waits for them.
    """

    def __init__(
        self, links: Mapping[tuple[str, str], Path], *, pending: Mapping[tuple[str, str], int] | None = None
    ) -> None:
        self.links = dict(links)
        self.pending: dict[str, dict[str, int]] = {}  # source → target → bytes
        for (source, target), size in (pending or {}).items():
            self.pending.setdefault(source, {})[target] = size
        self._known: dict[tuple[str, tuple[str, ...]], tuple[Floats, Floats, Ints]] = {}
        known = list(self.links.values())
        self.worst = Path(
            max((p.rtt_us for p in known if p.rtt_us is not None), default=None),
            min((p.mbps for p in known if p.mbps is not None), default=None),
            max((p.price_micro_per_gb for p in known), default=0),
        )

    def between(self, source: str, target: str) -> Path:
        """The path from `source` to `target`; inside a region nothing costs, unless configured."""
        found = self.links.get((source, target))
        if found is not None and found.expired:
            return Path(None, self.worst.mbps, found.price_micro_per_gb, expired=True)
        if found is not None:
            return Path(
                self.worst.rtt_us if found.rtt_us is None else found.rtt_us,
                self.worst.mbps if found.mbps is None else found.mbps,
                found.price_micro_per_gb,
            )
        if not source or source == target:
            return Path(0, None, 0)
        return self.worst

    def moving(self, data: Iterable[tuple[str, int]], targets: tuple[str, ...]) -> tuple[Floats, Floats]:
        """To each of `targets`: micro-currency and seconds for bringing `data`, as floats that only rank."""
        micro, seconds = np.zeros(len(targets)), np.zeros(len(targets))
        for source, size in data:
            prices, per_bit, _ = self._vectors(source, targets)
            micro += size * prices / GIGABYTE
            waiting = self.pending.get(source)
            ahead = np.array([waiting.get(target, 0) for target in targets]) if waiting else 0
            seconds += (size + ahead) * 8 * per_bit
        return micro, seconds

    def delays(self, source: str, targets: tuple[str, ...]) -> Ints:
        """Round trip from `source` to each of `targets` in µs; 0 without a source, -1 = not known."""
        return self._vectors(source, targets)[2] if source else np.zeros(len(targets), dtype=np.int64)

    def _vectors(self, source: str, targets: tuple[str, ...]) -> tuple[Floats, Floats, Ints]:
        """(price per GB, seconds per bit, round trip) to each target; worked out once, as links do not change here."""
        found = self._known.get((source, targets))
        if found is None:
            ends = [self.between(source, target) for target in targets]
            found = (
                np.array([path.price_micro_per_gb for path in ends], dtype=np.float64),
                np.array([1e-6 / path.mbps if path.mbps else 0.0 for path in ends], dtype=np.float64),
                np.array([-1 if path.rtt_us is None else path.rtt_us for path in ends], dtype=np.int64),
            )
            self._known[source, targets] = found
        return found

    def transfer_micro(self, data: Iterable[tuple[str, int]], target: str) -> Fraction:
        """Exact micro-currency for bringing `data` to `target`: decimal gigabytes × price of each link."""
        parts = (Fraction(size * self.between(source, target).price_micro_per_gb, GIGABYTE) for source, size in data)
        return sum(parts, Fraction(0))

    def staging_s(self, data: Iterable[tuple[str, int]], target: str) -> float:
        """Seconds to bring `data` to `target`, one source after the other, behind what is on its way already."""
        seconds = 0.0
        for source, size in data:
            mbps = self.between(source, target).mbps
            ahead = self.pending.get(source, {}).get(target, 0)
            seconds += (size + ahead) * 8 / (mbps * 1e6) if mbps else 0.0
        return seconds

    def take(self, data: Iterable[tuple[str, int]], target: str) -> None:
        """`data` goes to `target` now: the next decision of the same cycle finds these links so much busier."""
        for source, size in data:
            if source and source != target:  # in new dictionaries: a decision keeps those it was made from
                waiting = self.pending.get(source, {})
                self.pending = {**self.pending, source: {**waiting, target: waiting.get(target, 0) + size}}

    def lines(self, data: Iterable[tuple[str, int]], target: str) -> list[dict[str, Any]]:
        """Per link: bytes, price per GB, amount in micro-currency (rounded for show)."""
        shown = []
        for source, size in data:
            path = self.between(source, target)
            micro = half_up(Fraction(size * path.price_micro_per_gb, GIGABYTE))
            shown.append(
                {
                    "link": f"{source or 'outside'}→{target}",
                    "bytes": size,
                    "price_micro_per_gb": path.price_micro_per_gb,
                    "micro": micro,
                }
            )
        return shown

    def form(
        self,
        data: Iterable[tuple[str, int]],
        latency_to: str,
        targets: Iterable[str],
        *,
        pending: Mapping[str, Mapping[str, int]] | None = None,
    ) -> dict[str, Any]:
        """What a decision needs of them, as plain JSON values: paths from the data and from `latency_to` to
        `targets`, and what was `pending` when it was made (default: now).
        """
        held = self.pending if pending is None else pending
        sources = {source for source, _ in data} | ({latency_to} if latency_to else set())
        ends = [(a, b) for a in sorted(sources) for b in sorted(set(targets)) if (a, b) in self.links]
        made: dict[str, Any] = {
            "links": [[a, b, *_parts(self.links[a, b])] for a, b in ends],
            "worst": _parts(self.worst),
        }
        named = set(targets)
        busy = [[a, b, size] for a in sorted(sources) for b, size in sorted(held.get(a, {}).items()) if b in named]
        return made | ({"pending": busy} if busy else {})

    @classmethod
    def from_form(cls, form: Mapping[str, Any]) -> "Paths":
        """Back from :meth:`form`."""
        pending = {(a, b): size for a, b, size in form.get("pending", ())}
        paths = cls({(a, b): Path(*parts) for a, b, *parts in form["links"]}, pending=pending)
        paths.worst = Path(*form["worst"])
        return paths


def _parts(path: Path) -> list[Any]:
    return [path.rtt_us, path.mbps, path.price_micro_per_gb, *([True] if path.expired else [])]
