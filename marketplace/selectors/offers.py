"""What is for sale now: rows for the snapshot of placement, and the search of the market page.

`live_rows(now)` gives one :class:`LiveRow` per published offer of a listed node, prices under the window that holds
now. `search` runs the filter language over all offers that somebody may see, reference prices included if asked for.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from django.db.models import Min, Prefetch, Q, QuerySet
from django.utils.translation import gettext as _

from marketplace.domain import filters, green, pricing, windows
from marketplace.domain.fingerprint import profile_of
from marketplace.domain.scu import Profile, of_cores, scu
from marketplace.models import Device, Fingerprint, Node, Offer, PriceVersion, ReferencePrice
from marketplace.models.fingerprints import FingerprintState
from marketplace.models.nodes import NodeState
from marketplace.models.offers import OfferState
from marketplace.selectors.nodes import round_trips
from portal.accounts.models import Organisation
from portal.kit.errors import NotFound
from portal.kit.money import MICRO, micro_text

PriceRow = tuple[str, int, tuple[pricing.Tier, ...]]
"""(price version, unit price in micro-currency under the window that holds, tiers under it)."""


@dataclass(frozen=True)
class Cards:
    """The present cards of a node of one model."""

    kind: str
    model: str
    memory_mib: int
    virtual: bool
    count: int
    local_ids: tuple[str, ...]


@dataclass(frozen=True)
class Measured:
    """The fingerprint that holds, in numbers for ranking."""

    public_id: str
    measured_at: datetime
    short: bool
    cpu: Profile
    card: Profile


@dataclass(frozen=True)
class LiveRow:
    """One offer of one node, as placement and pages need it. Amounts are whole micro-currency."""

    offer_id: int
    offer: str
    offer_state: str
    node_id: int
    node: str
    node_name: str
    node_state: str
    region: str
    zone: str
    tier: str
    failure_domain: str
    pue_milli: int | None
    organisation_id: int
    provider: str
    provider_slug: str
    provider_name: str
    provider_state: str
    provider_verified: bool
    refuse_past_due: bool
    isolation: str
    executor: str
    lease_classes: tuple[str, ...]
    cores_milli: int
    memory_mib: int
    disk_gib: int
    arch: str
    cpu_model: str
    cards: tuple[Cards, ...]
    prices: Mapping[str, PriceRow]
    listed_prices: Mapping[str, int]
    currency: str
    window: Mapping[str, Any] | None
    open_now: bool
    until: datetime | None
    green_ratio_ppm: int | None
    green_origin: str
    measured: Measured | None
    reliability_ppm: int | None
    reliability_samples: int
    runtime: Mapping[str, Any] = field(default_factory=dict)
    published_at: datetime | None = None
    version: int = 1

    @property
    def card_count(self) -> int:
        """All cards of the node."""
        return sum(cards.count for cards in self.cards)

    @property
    def virtual(self) -> bool:
        """Has it virtual cards (labelled wherever it is shown)?"""
        return any(cards.virtual for cards in self.cards)

    @property
    def bookable(self) -> bool:
        """Published by the provider, on a node that is listed, of a provider that is not suspended."""
        return (
            self.offer_state == OfferState.PUBLISHED
            and self.node_state == NodeState.LISTED
            and self.provider_state == "active"
        )

    def price(self, resource: str, rental: str = "fixed", model: str = "") -> PriceRow | None:
        """The price of a resource, or None if it is not offered so."""
        return self.prices.get(pricing.sku(resource, model, rental))

    def scu(self, task_type: str, *, cores_milli: int, cards: int = 0) -> float | None:
        """SCU of an allocation.

        Of its cards, or without cards of its share of the processors. Virtual cards have none.
        """
        if self.measured is None:
            return None
        if cards:
            if self.virtual:
                return None
            one = scu(self.measured.card, task_type)
            return None if one is None else one * cards
        return of_cores(scu(self.measured.cpu, task_type), cores_milli, self.cores_milli)


def live_rows(now: datetime, *, nodes: Collection[int] | None = None) -> list[LiveRow]:
    """One row per (published offer, listed node), by region, zone, node: what the next decision may choose from. With
    `nodes` only theirs.

    `open_now` and `until` are told, not filtered: closed hours and early ends are reasons that people read.
    """
    offers = _loaded(now).filter(
        state=OfferState.PUBLISHED, node__state=NodeState.LISTED, node__organisation__state="active"
    )
    if nodes is not None:
        offers = offers.filter(node_id__in=nodes)
    return _rows(offers.order_by("node__zone__region__slug", "node__zone__slug", "node_id", "id"), now)


def next_changes(now: datetime, *, nodes: Collection[int] | None = None) -> dict[int, datetime]:
    """Node → the next moment at which its live row changes by itself: hours, a price or the fingerprint begins or ends.

    Nodes for which nothing is planned are left out. A moment too early only costs a look.
    """
    found: dict[int, datetime] = {}

    def note(node: int, moment: datetime | None) -> None:
        if moment is not None and now < moment < found.get(node, NEVER):
            found[node] = moment

    offers = Offer.objects.filter(state=OfferState.PUBLISHED, node__state=NodeState.LISTED)
    prices = PriceVersion.objects.filter(offer__state=OfferState.PUBLISHED)
    prints = Fingerprint.objects.filter(state=FingerprintState.ACCEPTED, valid_until__gt=now)
    if nodes is not None:
        offers, prices = offers.filter(node_id__in=nodes), prices.filter(offer__node_id__in=nodes)
        prints = prints.filter(node_id__in=nodes)
    timed = offers.exclude(hours=[], windows=[]).values_list("node_id", "hours", "windows")
    for node, hours, priced in timed:
        note(node, windows.next_change((*windows.stored(hours), *windows.stored(priced)), now))
    for edge in ("valid_from", "valid_until"):
        moments = prices.filter(**{f"{edge}__gt": now}).values("offer__node_id").annotate(first=Min(edge))
        for node, moment in moments.values_list("offer__node_id", "first"):
            note(node, moment)
    for node, moment in prints.values("node_id").annotate(first=Min("valid_until")).values_list("node_id", "first"):
        note(node, moment)
    return found


NEVER = datetime.max.replace(tzinfo=UTC)


def rows_of(offers: QuerySet[Offer], now: datetime) -> list[LiveRow]:
    """The rows of some offers, in their order."""
    return _rows(_with_relations(offers, now), now)


def _loaded(now: datetime) -> QuerySet[Offer]:
    return _with_relations(Offer.objects.all(), now)


def _with_relations(offers: QuerySet[Offer], now: datetime) -> QuerySet[Offer]:
    running = PriceVersion.objects.filter(valid_from__lte=now).filter(Q(valid_until=None) | Q(valid_until__gt=now))
    accepted = Fingerprint.objects.filter(state=FingerprintState.ACCEPTED, valid_until__gt=now).order_by(
        "-measured_at", "-id"
    )
    return offers.select_related("node__zone__region", "node__organisation", "node__inventory").prefetch_related(
        Prefetch("prices", running.order_by("id"), to_attr="running_prices"),
        Prefetch("node__devices", Device.objects.filter(present=True).order_by("model", "local_id")),
        Prefetch("node__fingerprints", accepted, to_attr="accepted_fingerprints"),
    )


def _rows(offers: QuerySet[Offer], now: datetime) -> list[LiveRow]:
    return [_row(offer, now) for offer in offers]


def _row(offer: Offer, now: datetime) -> LiveRow:
    node, zone, provider = offer.node, offer.node.zone, offer.node.organisation
    window = windows.in_force(windows.stored(offer.windows), now)
    versions: Sequence[PriceVersion] = offer.running_prices  # type: ignore[attr-defined]
    ratio, origin = green.effective(offer.green_ratio_ppm, zone.region.green_ratio_ppm)
    inventory = getattr(node, "inventory", None)
    return LiveRow(
        offer_id=offer.id,
        offer=offer.public_id,
        offer_state=str(offer.state),
        node_id=node.id,
        node=node.public_id,
        node_name=node.name,
        node_state=str(node.state),
        region=zone.region.slug,
        zone=zone.slug,
        tier=str(zone.tier),
        failure_domain=zone.failure_domain,
        pue_milli=zone.pue_milli,
        organisation_id=provider.id,
        provider=provider.public_id,
        provider_slug=provider.slug,
        provider_name=provider.name,
        provider_state=str(provider.state),
        provider_verified=provider.provider_verified,
        refuse_past_due=node.refuse_past_due,
        isolation=str(node.isolation),
        executor=node.executor,
        lease_classes=tuple(node.lease_classes),
        cores_milli=node.cores_milli,
        memory_mib=node.memory_mib,
        disk_gib=node.disk_gib,
        arch=node.arch,
        cpu_model=node.cpu_model,
        cards=_cards(node),
        prices={version.sku: _price(version, window) for version in versions},
        listed_prices={version.sku: version.unit_price_micro for version in versions},
        currency=offer.currency,
        window=window.wire() if window else None,
        open_now=windows.is_open(windows.stored(offer.hours), now),
        until=offer.until,
        green_ratio_ppm=ratio,
        green_origin=origin.value,
        measured=_measured(node),
        reliability_ppm=node.reliability_ppm,
        reliability_samples=node.reliability_samples,
        runtime=inventory.runtime if inventory else {},
        published_at=offer.published_at,
        version=offer.version,
    )


def _price(version: PriceVersion, window: windows.Span | None) -> PriceRow:
    tiers = tuple((upto, windows.priced(micro, window)) for upto, micro in pricing.tiers_of(version.tiers))
    return version.public_id, windows.priced(version.unit_price_micro, window), tiers


def _cards(node: Node) -> tuple[Cards, ...]:
    groups: dict[tuple[str, str, int, bool], list[str]] = {}
    for device in node.devices.all():
        groups.setdefault((device.kind, device.model, device.memory_mib, device.virtual), []).append(device.local_id)
    return tuple(
        Cards(kind, model, memory, virtual, len(found), tuple(found))
        for (kind, model, memory, virtual), found in sorted(groups.items())
    )


def _measured(node: Node) -> Measured | None:
    for row in node.accepted_fingerprints:  # type: ignore[attr-defined]
        if node.doubted_at is not None and row.measured_at <= node.doubted_at:
            continue
        if row.hardware_hash == node.hardware_hash:
            return Measured(
                row.public_id,
                row.measured_at,
                row.short,
                profile_of(row.metrics, "cpu"),
                profile_of(row.metrics, "card"),
            )
    return None


# --- one offer, a provider's offers
# ------------------------------------------------------------------------------------
def for_organisation(organisation: Organisation) -> QuerySet[Offer]:
    """A provider's offers, newest first."""
    return Offer.objects.filter(node__organisation=organisation).select_related("node").order_by("-id")


def of_provider(organisation: Organisation, public_id: str) -> Offer:
    """One of a provider's own; NotFound for a stranger's."""
    found = (
        for_organisation(organisation)
        .select_related("node__organisation", "node__zone__region")
        .filter(public_id=public_id)
        .first()
    )
    if found is None:
        raise NotFound(_("There is no such offer of yours."), code="offer_not_found")
    return found


def visible(public_id: str, viewer: Organisation | None, now: datetime) -> LiveRow:
    """An offer that everybody sees (published, paused), or one's own in any state; NotFound otherwise."""
    rows = _loaded(now).filter(public_id=public_id)
    public = Q(state__in=[OfferState.PUBLISHED, OfferState.PAUSED])
    rows = rows.filter(public | Q(node__organisation=viewer)) if viewer else rows.filter(public)
    found = rows.first()
    if found is None:
        raise NotFound(_("There is no such offer that you can see."), code="offer_not_found")
    return _row(found, now)


def model_of(row: LiveRow) -> Offer:
    """The offer behind a row."""
    return Offer.objects.select_related("node").get(id=row.offer_id)


def fields_of(
    row: LiveRow, now: datetime, *, shape: "Shape | None" = None, task_type: str = "custom", origin: str = ""
) -> dict[str, Any]:
    """The fields of the filter language for one offer; default shape: one core, or one core and one card."""
    asked = shape or Shape(1000, 1 if row.cards else 0)
    return _fields(row, asked, task_type, round_trips(origin) if origin else {}, now)


def price_history(offer: Offer) -> QuerySet[PriceVersion]:
    """All price versions, newest first."""
    return PriceVersion.objects.filter(offer=offer).order_by("-valid_from", "-id")


def references() -> QuerySet[ReferencePrice]:
    """Other markets' published prices: shown as such, never in a quote."""
    return ReferencePrice.objects.order_by("price_micro", "id")


# --- search
# ------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Shape:
    """What one asks the price of."""

    cores_milli: int = 1000
    cards: int = 0


@dataclass(frozen=True)
class Search:
    """The answer: rows in order, which defaults were applied, how many each hides, and what relaxing would give."""

    rows: Sequence[Mapping[str, Any]]
    applied_defaults: tuple[str, ...]
    hidden: Mapping[str, int]
    relax: tuple[tuple[str, int], ...]
    shape: Shape


DEFAULTS = ("live", "verified", "bookable")
_CARD_FIELDS = frozenset({"gpu_name", "num_gpus", "gpu_ram", "price_card_hour"})


def search(
    *,
    filter_text: str = "",
    order: Sequence[str] = (),
    viewer: Organisation | None = None,
    now: datetime,
    task_type: str = "custom",
    origin: str = "",
    cores_milli: int = 1000,
    cards: int | None = None,
    no_default: bool = False,
    mine: bool = False,
) -> Search:
    """Offers that fulfil the filter. BadFilter (422) for a text that cannot be read.

    Defaults, unless `no_default` or named in the filter: *live* (no reference prices), *verified* (a fingerprint that
    holds), *bookable* (published, node listed, provider active, open at this hour unless `window_open` is named).
    """
    clauses = filters.parse(filter_text)
    keys = filters.parse_order(order)
    named = {clause.field for clause in clauses}
    shape = Shape(cores_milli, _cards_asked(clauses, named) if cards is None else cards)
    trips = round_trips(origin) if origin else {}
    rows = [_fields(row, shape, task_type, trips, now) for row in _rows(_candidates(viewer, mine, now), now)]
    if not mine:  # the default *live* hides and counts them
        rows += [_reference_fields(row) for row in references()]
    defaults = {} if no_default else _defaults(named)
    found = filters.search(rows, clauses, defaults)
    ranked = filters.ordered(found.rows, keys or (filters.Key("dph", False),))
    return Search(ranked, tuple(defaults), found.hidden, found.relax, shape)


def _candidates(viewer: Organisation | None, mine: bool, now: datetime) -> QuerySet[Offer]:
    """One's own offers in every state, or what everybody sees."""
    offers = _loaded(now)
    if mine:
        return offers.filter(node__organisation=viewer).order_by("-id")
    return offers.filter(state__in=[OfferState.PUBLISHED, OfferState.PAUSED]).exclude(node__state=NodeState.RETIRED)


def _cards_asked(clauses: Sequence[filters.Clause], named: set[str]) -> int:
    """The least number of cards that the filter asks for; one if it speaks of cards at all."""
    for clause in clauses:
        if clause.field == "num_gpus" and clause.op in ("=", ">="):
            return max(0, int(clause.values[0]))  # type: ignore[arg-type]
    return 1 if named & _CARD_FIELDS else 0


def _defaults(named: set[str]) -> dict[str, Callable[[filters.Row], bool]]:
    defaults: dict[str, Callable[[filters.Row], bool]] = {}
    if "kind" not in named:
        defaults["live"] = lambda row: row["kind"] == "live"
    if "verified" not in named:
        defaults["verified"] = lambda row: row["kind"] == "reference" or row["verified"] is True
    hours = "window_open" not in named
    defaults["bookable"] = lambda row: (
        row["kind"] == "reference" or (row["bookable"] and (row["window_open"] or not hours))
    )
    return defaults


def _fields(row: LiveRow, shape: Shape, task_type: str, trips: Mapping[str, int], now: datetime) -> dict[str, Any]:
    """The closed field set of the filter language for one offer; None = unknown."""
    model = row.cards[0].model if row.cards else ""
    asked = row.scu(task_type, cores_milli=shape.cores_milli, cards=shape.cards)
    dph = _dph(row, shape, "fixed", model)
    measured = row.measured
    stream = None if measured is None or measured.cpu.network_gb_s is None else measured.cpu.network_gb_s * 8000
    days = None if row.until is None else Fraction(int((row.until - now).total_seconds()), 86_400)
    return {
        "id": row.offer,
        "row": row,
        "kind": "live",
        "bookable": row.bookable,
        "gpu_name": [cards.model for cards in row.cards],
        "num_gpus": row.card_count,
        "gpu_ram": Fraction(row.cards[0].memory_mib, 1024) if row.cards else None,
        "cpu_cores": Fraction(row.cores_milli, 1000),
        "cpu_ram": Fraction(row.memory_mib, 1024),
        "disk_space": row.disk_gib,
        "inet_up": None if stream is None else Fraction(stream),
        "inet_down": None,
        "dph": dph,
        "duration": Fraction(10**6) if days is None else days,
        "reliability": _ppm(row.reliability_ppm),
        "verified": measured is not None,
        "price_card_hour": _unit(row, "card", "fixed", model),
        "price_core_hour": _unit(row, "core", "fixed", ""),
        "spot_dph": _dph(row, shape, "spot", model),
        "currency": row.currency,
        "window_open": row.open_now,
        "scu": None if asked is None else Fraction(asked),
        "scu_per_price": None if asked is None or not dph else Fraction(asked) / dph,
        "reliability_samples": row.reliability_samples,
        "fingerprint_age": _age(measured, now),
        "green_ratio": _ppm(row.green_ratio_ppm),
        "region": row.region,
        "zone": row.zone,
        "tier": row.tier,
        "pue": None if row.pue_milli is None else Fraction(row.pue_milli, 1000),
        "failure_domain": row.failure_domain,
        "provider": [row.provider_slug, row.provider_name],
        "rtt_ms": Fraction(trips[row.region], 1000) if row.region in trips else None,
        "cpu_arch": row.arch or None,
        "engine": "agent",
        "executor": row.executor or None,
        "isolation": row.isolation,
        "lease_class": row.lease_classes,
        "virtual": row.virtual,
        "python": _python(row.runtime),
    }


def _unit(row: LiveRow, resource: str, rental: str, model: str) -> Fraction | None:
    price = row.price(resource, rental, model)
    return None if price is None else Fraction(price[1], MICRO)


def _dph(row: LiveRow, shape: Shape, rental: str, model: str) -> Fraction | None:
    """Price of the asked shape an hour, now; unknown if the offer does not sell that shape so."""
    core = _unit(row, "core", rental, "")
    if core is None:
        return None
    total = core * shape.cores_milli / 1000
    if shape.cards:
        card = _unit(row, "card", rental, model)
        if card is None or shape.cards > row.card_count:
            return None
        total += card * shape.cards
    return total


def _ppm(value: int | None) -> Fraction | None:
    return None if value is None else Fraction(value, 1_000_000)


def _age(measured: Measured | None, now: datetime) -> Fraction | None:
    return None if measured is None else Fraction(int((now - measured.measured_at).total_seconds()), 86_400)


def _python(runtime: Mapping[str, Any]) -> tuple[int, ...] | None:
    text = str(runtime.get("python") or runtime.get("python3") or "").strip()
    parts = text.split(" ")[-1].split(".")
    return tuple(int(part) for part in parts) if parts and all(part.isdigit() for part in parts) else None


def _reference_fields(row: ReferencePrice) -> dict[str, Any]:
    """A published price under the same names; what a list does not tell is unknown."""
    whole = Fraction(row.price_micro, MICRO)
    return {
        "id": row.public_id,
        "row": row,
        "kind": "reference",
        "bookable": False,
        "gpu_name": [row.card_model] if row.card_model else [],
        "num_gpus": row.cards,
        "gpu_ram": row.card_memory_gib,
        "cpu_cores": row.cores,
        "cpu_ram": row.memory_gib,
        "dph": whole,
        "spot_dph": None if row.spot_price_micro is None else Fraction(row.spot_price_micro, MICRO),
        "price_card_hour": whole / row.cards if row.cards else None,
        "currency": row.currency,
        "region": row.region or None,
        "provider": [row.market],
        "verified": None,
        "window_open": None,
    }


def shown_price(value: Fraction | None) -> str | None:
    """A price of a row as decimal text (six decimals at most), for answers and pages."""
    if value is None:
        return None
    micro = value * MICRO
    return micro_text(int(micro) if micro.denominator == 1 else round(micro))
