"""Usage after multiplication: sums are rated, never events; a line is rounded once, from the exact product.

The order is fixed (billing P3, P5): the parts of a sku are sorted by (ended_at, attempt, seq); their place in graduated tiers is cumulative per tenant,
sku and period, across providers; what falls into the same line is summed; the sum × price × (1 − discount) is rounded half away from zero to minor
units. Time that is not billed makes a line of 0 per attempt that names the reason and the node, and takes no place in any tier; nor does what granted hours
cover, whose line of 0 names the grant.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from fractions import Fraction

from billing.domain import tiers as graduated
from billing.domain.grants import Allowance
from billing.domain.metering import Resource
from portal.kit.money import PPM, Exact, Money, UnitPrice, half_up, rate, rate_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The share of one stored record in one period, with what a line needs to know of it. `sign` is −1 when billed time is taken back."""

    record_id: int
    attempt_ref: str
    resource: str
    seq: int
    started_at: datetime
    ended_at: datetime
    qty_us: int
    sku: str
    price_version_ref: str
    unit_price_micro: int
    currency: str
    tiers: graduated.Tiers = ()
    discount_ppm: int = 0
    project_ref: str = ""
    project_name: str = ""
    department: str = ""
    provider_ref: str = ""
    provider_name: str = ""
    node_ref: str = ""
    job_ref: str = ""
    region: str = ""
    zone: str = ""
    hardware_model: str = ""
    virtual: bool = False
    green_ratio_ppm: int | None = None
    demo: bool = False
    unbilled_reason: str = ""
    correction_of: str = ""
    sign: int = 1
    fixed_tier: int | None = None
    grant_ref: str = ""  # what is taken back had been covered by this grant

    def changed(self, **values: object) -> "Part":
        """The same part with other values."""
        return replace(self, **values)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, order=True)
class LineKey:
    """What makes two parts fall into the same line; also the order of lines on the page."""

    correction_of: str
    project_ref: str
    department: str
    provider_ref: str
    resource: str
    sku: str
    zone: str
    unbilled_reason: str
    price_version_ref: str
    tier: int
    price_micro: int
    discount_ppm: int
    virtual: bool
    demo: bool
    node_ref: str
    attempt_ref: str
    sign: int
    grant_ref: str = ""


@dataclass(slots=True)
class Line:
    """A rated line: its key, its quantity, the slices of records in it, and its names as they were last."""

    key: LineKey
    named: Part
    first: datetime
    last: datetime
    qty_us: int = 0
    green_known_us: int = 0
    green_weight: int = 0
    slices: list[tuple[Part, int]] = field(default_factory=list)

    @property
    def resource(self) -> str:
        return self.key.resource

    @property
    def currency(self) -> str:
        return self.named.currency

    def add(self, part: Part, qty_us: int) -> None:
        """Take `qty_us` of a part into the line."""
        self.qty_us += part.sign * qty_us
        if part.green_ratio_ppm is not None:
            self.green_known_us += qty_us
            self.green_weight += qty_us * part.green_ratio_ppm
        self.first = min(self.first, part.started_at)
        if part.ended_at >= self.last:
            self.last, self.named = part.ended_at, part
        self.slices.append((part, qty_us))

    @property
    def exact(self) -> Exact:
        """Quantity × price × (1 − discount), not rounded."""
        return exact(self.resource, self.qty_us, self.key.price_micro, self.currency, self.key.discount_ppm)

    @property
    def amount(self) -> Money:
        """The printed amount: rounded once, from the exact product."""
        return self.exact.to_money()

    @property
    def list_amount(self) -> Money:
        """The amount before the discount, for display."""
        return exact(self.resource, self.qty_us, self.key.price_micro, self.currency, 0).to_money()

    @property
    def green_ratio_ppm(self) -> int | None:
        """Green share of the part of the line for which it is known, weighted by quantity; None if it is known for none of it."""
        return half_up(Fraction(self.green_weight, self.green_known_us)) if self.green_known_us else None

    @property
    def green_known_ppm(self) -> int:
        """The share of the line's quantity for which the green ratio is known."""
        return half_up(Fraction(self.green_known_us * PPM, abs(self.qty_us))) if self.qty_us else 0


def exact(resource: str, qty_us: int, price_micro: int, currency: str, discount_ppm: int = 0) -> Exact:
    """The exact amount of a quantity: bytes are priced per decimal gigabyte, everything else per unit-hour."""
    price = UnitPrice(price_micro, currency)
    if resource != Resource.NETWORK_BYTE:
        return rate(qty_us, price, discount_ppm)
    whole = rate_bytes(qty_us, price)
    return Exact(whole.value * Fraction(PPM - discount_ppm, PPM), currency)


def lines(
    parts: Iterable[Part], *, positions: Mapping[str, int] | None = None, allowance: Allowance | None = None
) -> list[Line]:
    """The lines of `parts`, in page order. `positions`: what each sku had already used of its tiers, in resource-microseconds (late data goes behind it).
    `allowance`: granted hours; what they cover is taken from them and priced 0.

    The order in which parts arrive does not matter.
    """
    used = dict(positions or {})
    found: dict[LineKey, Line] = {}
    for part in sorted(parts, key=_order):
        covered, paid = _covered(part, allowance)
        pieces = [(grant, graduated.Slice(0, quantity, 0)) for grant, quantity in covered]
        pieces += [(part.grant_ref, piece) for piece in _slices(part, paid, used)]
        for grant, piece in pieces:
            key = _key(part, piece, grant)
            line = found.get(key)
            if line is None:
                line = found[key] = Line(key, part, part.started_at, part.ended_at)
            line.add(part, piece.qty_us)
    return sorted(found.values(), key=lambda line: line.key)


def only(line: Line, *, job_ref: str) -> Line | None:
    """The share of one job in a line; None if it has none."""
    mine = [(part, qty) for part, qty in line.slices if part.job_ref == job_ref]
    if not mine:
        return None
    share = Line(line.key, mine[0][0], mine[0][0].started_at, mine[0][0].ended_at)
    for part, qty in mine:
        share.add(part, qty)
    return share


def estimate_micro(cumulative_us: int, price_micro: int, currency: str) -> int:
    """A running estimate in micro-currency, for display; the growth of it between two readings telescopes to the final amount."""
    return rate(cumulative_us, UnitPrice(price_micro, currency)).micro()


def prorate(price: Money, parts: Sequence[int], whole: int) -> list[Money]:
    """`price` of `whole` days over successive `parts` of days: differences of rounded cumulative amounts, so they add up. No days cost nothing."""
    amounts, days, before = [], 0, 0
    for part in parts:
        days += part
        reached = half_up(Fraction(price.minor * days, whole)) if days else 0
        amounts.append(Money(reached - before, price.currency))
        before = reached
    return amounts


def _order(part: Part) -> tuple[str, datetime, str, int, datetime, int]:
    return part.sku, part.ended_at, part.attempt_ref, part.seq, part.started_at, part.record_id


def _covered(part: Part, allowance: Allowance | None) -> tuple[list[tuple[str, int]], int]:
    """What granted hours cover of a part, and what money pays for."""
    if not allowance or part.unbilled_reason or part.fixed_tier is not None or part.resource == Resource.NETWORK_BYTE:
        return [], part.qty_us
    return allowance.cover(provider_ref=part.provider_ref, resource=part.resource, at=part.ended_at, qty_us=part.qty_us)


def _slices(part: Part, qty_us: int, used: dict[str, int]) -> list[graduated.Slice]:
    if part.unbilled_reason:
        return [graduated.Slice(0, qty_us, 0)] if qty_us else []
    if part.fixed_tier is not None:
        return [graduated.Slice(part.fixed_tier, qty_us, part.unit_price_micro)]
    if not part.tiers:
        return graduated.slices((), part.unit_price_micro, position_us=0, qty_us=qty_us)
    position = used.get(part.sku, 0)
    used[part.sku] = position + qty_us
    return graduated.slices(part.tiers, part.unit_price_micro, position_us=position, qty_us=qty_us)


def _key(part: Part, piece: graduated.Slice, grant_ref: str) -> LineKey:
    zero = bool(part.unbilled_reason)
    return LineKey(
        correction_of=part.correction_of,
        project_ref=part.project_ref,
        department=part.department,
        provider_ref=part.provider_ref,
        resource=part.resource,
        sku=part.sku,
        zone=part.zone,
        price_version_ref=part.price_version_ref,
        price_micro=piece.price_micro,
        discount_ppm=part.discount_ppm,
        tier=piece.tier,
        virtual=part.virtual,
        demo=part.demo,
        unbilled_reason=part.unbilled_reason,
        node_ref=part.node_ref if zero else "",
        attempt_ref=part.attempt_ref if zero else "",
        sign=part.sign,
        grant_ref=grant_ref,
    )
