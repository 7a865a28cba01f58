"""The live capacity map as pages and the API read it: soft state over the regions and zones that exist.

A zone without a summary is unknown (`summary_expired`), not empty.
"""

from typing import Any

from django.utils.translation import gettext as _

from marketplace.models import Node, Region
from portal.kit.errors import NotFound
from portal.kit.money import micro_text
from scheduling.domain import capacity_map
from scheduling.domain.capacity_map import Entry
from scheduling.domain.columns import HEARD, TAKES_WORK
from scheduling.domain.reasons import WaitReason
from scheduling.domain.spec_values import micro_short
from scheduling.selectors import mapped


def everything() -> dict[str, Any]:
    """Regions with their zones, and all together; figures are null where they are not known."""
    known = mapped.zones()
    regions = []
    for region in Region.objects.prefetch_related("zones").order_by("slug"):
        zones = [
            {"zone": zone.slug, "name": zone.name, "tier": str(zone.tier), "failure_domain": zone.failure_domain}
            | shown((known or {}).get(f"{region.slug}/{zone.slug}"), known is not None)
            for zone in sorted(region.zones.all(), key=lambda zone: zone.slug)
        ]
        mine = [entry for name, entry in (known or {}).items() if name.startswith(f"{region.slug}/")]
        regions.append(
            {
                "region": region.slug,
                "name": region.name,
                "latitude": str(region.latitude),
                "longitude": str(region.longitude),
                **shown(capacity_map.together(mine) if mine else None, known is not None),
                "zones": zones,
            }
        )
    total = None if known is None else capacity_map.together(known.values())
    return {"known": known is not None, "total": shown(total, known is not None)["summary"], "regions": regions}


def nodes(region: str, zone: str) -> list[dict[str, Any]]:
    """The nodes for sale in a zone with what is free on each; NotFound for a zone that does not exist."""
    rows = Node.objects.filter(zone__region__slug=region, zone__slug=zone)
    if not rows.exists() and not Region.objects.filter(slug=region, zones__slug=zone).exists():
        raise NotFound(_("There is no zone {zone}.").format(zone=f"{region}/{zone}"), code="zone_not_found")
    texts = mapped.nodes(f"{region}/{zone}")
    names = dict(rows.filter(public_id__in=texts).values_list("public_id", "name"))
    return [_node(node, names.get(node, node), text) for node, text in sorted(texts.items())]


def _node(node: str, name: str, text: str) -> dict[str, Any]:
    cores, memory, disk, cards, queue, flags = (int(part) for part in text.split(","))
    return {
        "node": node,
        "name": name,
        "free": {"cores": micro_short(cores * 1_000), "memory_mib": memory, "disk_gib": disk, "cards": cards},
        "queue_s": queue,
        "heard": bool(flags & HEARD),
        "takes_work": bool(flags & TAKES_WORK),
    }


def shown(entry: Entry | None, known: bool) -> dict[str, Any]:
    """An entry in the units of the API. Without one: nothing for sale there, or the map is not known."""
    if entry is None:
        return {"summary": None, "reason": None if known else WaitReason.SUMMARY_EXPIRED.value}
    return {
        "summary": {
            "nodes": {
                name: entry[key] for name, key in (("all", "nodes"), ("heard", "heard"), ("taking_work", "taking_work"))
            },
            "cores": _pair(entry["cores_milli"], lambda milli: micro_short(milli * 1_000)),
            "memory_mib": _pair(entry["memory_mib"], int),
            "disk_gib": _pair(entry["disk_gib"], int),
            "cards": _pair(entry["cards"], int),
            "models": {model: _pair(pair, int) for model, pair in entry["models"].items()},
            "scu": {kind: _pair(pair, micro_short) for kind, pair in entry["scu_micro"].items()},
            "prices_from": [_price(kind, price) for kind, price in entry["price_micro"].items()],
            "green_ratio": None if entry["green_ppm"] is None else [micro_short(ppm) for ppm in entry["green_ppm"]],
            "queue_s": entry["queue_s"],
        },
        "reason": None,
    }


def _pair(pair: list[int], show: Any) -> dict[str, Any]:
    free, total = pair
    return {"free": show(free), "total": show(total)}


def _price(kind: str, micro: int) -> dict[str, str]:
    currency, resource, rental = kind.split(" ")
    return {"resource": resource, "rental": rental, "amount": micro_text(micro), "currency": currency}
