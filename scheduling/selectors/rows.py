"""One node's place in the market, from its offer, its capacity row and soft state to :class:`Row` values.

Missing soft state means *unknown*, and an unknown node gets no new work. A node counts as heard by either witness: the soft
store, or the last sync that had to reach PostgreSQL because the store was away.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from math import exp

from django.conf import settings

from marketplace.domain import windows
from marketplace.models import Offer
from marketplace.selectors.offers import Cards, LiveRow
from portal.kit.money import MICRO
from scheduling.domain.columns import ALIVE, SUSPECT, TYPES, UNKNOWN, Row
from scheduling.models import Lease, NodeState
from scheduling.selectors import alive


def price_digest(row: LiveRow) -> str:
    """What the prices of an offer are: price versions and what they amount to now. A decision holds for these."""
    parts = sorted(f"{sku}={version}:{micro}:{tiers}" for sku, (version, micro, tiers) in row.prices.items())
    return sha256("|".join(parts).encode()).hexdigest()[:16]


def held_devices(nodes: Sequence[int]) -> dict[int, frozenset[str]]:
    held: dict[int, set[str]] = {}
    leases = Lease.objects.filter(node_id__in=nodes, capacity_freed=False, cards__gt=0)
    for node_id, devices in leases.values_list("node_id", "devices"):
        held.setdefault(node_id, set()).update(devices)
    return {node: frozenset(devices) for node, devices in held.items()}


def heard(nodes: Mapping[int, str], now: datetime) -> dict[int, str]:
    """Node id → alive, suspect or unknown, for nodes given with their public ids.

    PostgreSQL is only asked about those that the soft store does not call alive.
    """
    limit = timedelta(milliseconds=settings.IDLEWILD_LEASE_CLASSES["standard"]["suspect_ms"])
    ages = alive.ages_ms(list(nodes.values()), now_ms=int(now.timestamp() * 1000))
    known = {node: timedelta(milliseconds=ages[name]) for node, name in nodes.items() if name in ages}
    doubtful = [node for node in nodes if known.get(node, FOREVER) > limit]
    synced = NodeState.objects.filter(node_id__in=doubtful)
    for node, last in synced.values_list("node_id", "last_sync_at"):
        if last is not None:
            known[node] = min(known.get(node, FOREVER), max(timedelta(0), now - last))
    return {node: UNKNOWN if node not in known else ALIVE if known[node] <= limit else SUSPECT for node in nodes}


FOREVER = timedelta.max


def opening(closed: Sequence[str], now: datetime) -> dict[str, datetime]:
    found = {}
    for public_id, hours in Offer.objects.filter(public_id__in=closed).values_list("public_id", "hours"):
        moment = windows.next_change(windows.stored(hours), now)
        if moment is not None:
            found[public_id] = moment
    return found


def rows_of(row: LiveRow, state: NodeState, held: frozenset[str], heard: str, opens_at: datetime | None) -> list[Row]:
    """One row per kind of card of the node (they share its cores), or one without cards."""
    return [_row(row, state, held, heard, opens_at, cards) for cards in row.cards or (None,)]


def _row(
    live: LiveRow, state: NodeState, held: frozenset[str], heard: str, opens_at: datetime | None, cards: Cards | None
) -> Row:
    measured = live.measured
    model = cards.model if cards else ""
    free = sum(device not in held for device in cards.local_ids) if cards else 0
    return Row(
        node=live.node,
        offer=live.offer,
        name=live.node_name,
        region=live.region,
        zone=live.zone,
        provider=live.provider_slug,
        provider_name=live.provider_name,
        currency=live.currency,
        core_fixed=_micro(live, "core", "fixed", ""),
        core_spot=_micro(live, "core", "spot", ""),
        card_fixed=_micro(live, "card", "fixed", model) if cards else None,
        card_spot=_micro(live, "card", "spot", model) if cards else None,
        prices=price_digest(live),
        cores_milli=state.free_cores_milli,
        memory_mib=state.free_memory_mib,
        disk_gib=state.free_disk_gib,
        cards=min(free, state.free_cards),
        total_cores_milli=state.total_cores_milli,
        total_memory_mib=state.total_memory_mib,
        total_disk_gib=state.total_disk_gib,
        total_cards=cards.count if cards else 0,
        card_model=model,
        card_memory_mib=cards.memory_mib if cards else 0,
        virtual=cards.virtual if cards else False,
        scu_cpu=_scu(live, 0, state, "") if measured else {},
        scu_card=_scu(live, 1, state, model) if measured and cards and not cards.virtual else {},
        decay=exp(state.decay_micro / MICRO),
        green_ppm=live.green_ratio_ppm,
        verified=measured is not None,
        open_now=live.open_now,
        until=None if live.until is None else int(live.until.timestamp()),
        opens_at=None if opens_at is None else int(opens_at.timestamp()),
        alive=heard,
        takes_work=state.open,
        kept=bool(state.kept_for),
        lease_classes=live.lease_classes,
        refuses_past_due=live.refuse_past_due,
        reliability_ppm=live.reliability_ppm,
        isolation=live.isolation,
    )


def _micro(live: LiveRow, resource: str, rental: str, model: str) -> int | None:
    found = live.price(resource, rental, model)
    return None if found is None else found[1]


def _scu(live: LiveRow, cards: int, state: NodeState, model: str) -> dict[str, float]:
    """Per task type: SCU of all cores (cards = 0), or of one card, times what its hardware really gives (H of
    `scheduling.domain.learning`). Types without a value are left out.
    """
    made = {name: live.scu(name, cores_milli=live.cores_milli, cards=cards) for name in TYPES}
    learned = state.hardware_decay.get(model, {})
    return {
        name: value * exp(learned.get(name, 0) / MICRO)
        for name, value in made.items()
        if value is not None and value > 0
    }
