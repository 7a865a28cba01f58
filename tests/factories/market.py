"""A market in a few words: ``node = a_node(sol, gpus=2)`` is listed, fingerprinted, offered and has free capacity."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from marketplace.domain import fingerprint as rules
from marketplace.models import Device, Fingerprint, Inventory, Node, Offer, Region, Zone
from marketplace.models.nodes import NodeState
from marketplace.services import nodes, offers
from portal import ids
from tests.cast import THEN, Person
from tests.factories.hardware import SomeHardware, SomeReport, cards

PRICES = {"core": "0.10", "card": "2.00"}


def a_region(
    slug: str = "east", *, green_ratio_ppm: int | None = 600_000, lat: str = "31.2", lon: str = "121.5"
) -> Region:
    """A region, made once."""
    region, _new = Region.objects.get_or_create(
        slug=slug,
        defaults={
            "name": slug.capitalize(),
            "latitude": lat,
            "longitude": lon,
            "green_ratio_ppm": green_ratio_ppm,
            "figures_source": "test",
        },
    )
    return region


def a_zone(
    region: str = "east", slug: str = "a", *, pue_milli: int | None = 1_120, tier: str = "centre", **place: Any
) -> Zone:
    """A zone of a region, made once."""
    zone, _new = Zone.objects.get_or_create(
        region=a_region(region, **place),
        slug=slug,
        defaults={"name": slug.upper(), "tier": tier, "pue_milli": pue_milli, "failure_domain": f"{region}-{slug}"},
    )
    return zone


def a_node(
    of: Person,
    *,
    gpus: int = 0,
    cores: int = 8,
    memory_gib: int = 32,
    disk_gib: int = 200,
    region: str = "east",
    zone: str = "a",
    model: str = "A100-80GB",
    virtual: bool = False,
    prices: Mapping[str, str] | None = None,
    terms: Mapping[str, Any] | None = None,
    offered: bool = True,
    measured: bool = True,
    state: str = "listed",
    isolation: str = "full",
    name: str = "",
    secret: str = "node-secret-of-the-tests",  # noqa: S107
    now: datetime = THEN,
    capacity: bool = True,
) -> Node:
    """A node of `of`'s organisation.

    Its secret is `secret`; `capacity`: with the row of free capacity that placement books.
    """
    node = Node.objects.create(
        organisation=of.organisation,
        zone=a_zone(region, zone),
        name=name or f"{region}-{ids.token(4)}",
        state=NodeState(state),
        secret_hash=ids.digest(secret),
        boot_id="boot-1",
        incarnation=1,
        isolation=isolation,
        executor="bwrap",
        cgroups="v2",
        lease_classes=["fast", "standard", "tolerant"],
        cores_milli=cores * 1000,
        memory_mib=memory_gib * 1024,
        disk_gib=disk_gib,
        arch="x86_64",
        cpu_model="Example 9000",
        machine_cores=cores,
        hardware_hash="f" * 64,
        agent_version="test",
        created_at=now,
        enrolled_at=now,
    )
    for card in cards(gpus, model=model, virtual=virtual):
        Device.objects.create(
            node=node,
            local_id=card.id,
            kind=card.kind,
            model=card.model,
            memory_mib=card.memory_mib,
            driver=card.driver,
            virtual=card.virtual,
        )
    Inventory.objects.create(node=node, runtime={"python": "3.11.2", "os": "debian 12"}, probed_at=now)
    if measured:
        a_fingerprint(node, now=now)
    if offered:
        an_offer(node, prices=prices, terms=terms, now=now)
    if capacity:
        a_capacity(node)
    return node


def a_fingerprint(
    node: Node, *, now: datetime = THEN, report: SomeReport | None = None, state: str = "accepted"
) -> Fingerprint:
    """A measurement that is valid for 14 days."""
    said = report or SomeReport()
    return Fingerprint.objects.create(
        node=node,
        suite=said.suite,
        short=said.short,
        state=state,
        metrics=rules.stored_metrics(said.metrics),
        hardware_hash=node.hardware_hash,
        measured_at=now,
        valid_until=now + rules.VALID_FOR,
    )


def an_offer(
    node: Node, *, prices: Mapping[str, str] | None = None, terms: Mapping[str, Any] | None = None, now: datetime = THEN
) -> Offer:
    """A published offer at `prices` (default 0.10 per core-hour, 2.00 per card-hour)."""
    return offers.publish(node=node, terms={"prices": dict(prices or PRICES), **(terms or {})}, by="test", now=now)


def a_capacity(node: Node) -> Any:
    """All of the node free (the row is scheduling's)."""
    from scheduling.models import NodeState as Capacity

    totals = {
        "cores_milli": node.cores_milli,
        "memory_mib": node.memory_mib,
        "disk_gib": node.disk_gib,
        "cards": node.devices.filter(present=True).count(),
    }
    return Capacity.objects.create(
        node=node,
        **{f"total_{name}": value for name, value in totals.items()},
        **{f"free_{name}": value for name, value in totals.items()},
    )


def an_invited(
    of: Person, *, region: str = "east", zone: str = "a", now: datetime = THEN, **fields: Any
) -> nodes.Invited:
    """An enrolment token of `of`'s organisation."""
    return nodes.invite(organisation=of.organisation, zone=a_zone(region, zone), by=of.id, now=now, **fields)


def an_enrolled(
    of: Person, *, hardware: SomeHardware | None = None, now: datetime = THEN, **fields: Any
) -> nodes.Enrolled:
    """A machine that joined and is probing."""
    invited = an_invited(of, now=now, **fields)
    return nodes.enroll(
        token=invited.token, hardware=hardware or SomeHardware(), agent_version="test", boot_id="boot-1", now=now
    )


def a_link(
    source: str, target: str, *, rtt_ms: int = 20, price: int = 20_000, currency: str = "CNY", now: datetime = THEN
) -> Any:
    """A configured link; `price` in micro-currency per GB."""
    from scheduling.models import Link

    return Link.objects.create(
        source=source,
        target=target,
        rtt_us=rtt_ms * 1000,
        bandwidth_mbps=1000,
        price_micro_per_gb=price,
        currency=currency,
        updated_at=now,
    )
