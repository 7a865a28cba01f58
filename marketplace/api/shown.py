"""How rows of the market look outside: plain dictionaries, amounts and shares as decimal text, unknown as null."""

from collections.abc import Mapping
from datetime import datetime
from fractions import Fraction
from typing import Any

from marketplace.models import Fingerprint, Node, Offer, PriceVersion, ReferencePrice, Region, Zone
from marketplace.selectors.offers import LiveRow, shown_price
from marketplace.services.nodes import Invited
from portal.kit.money import micro_text


def decimal(value: Fraction | int | None, places: int = 6) -> str | None:
    """A fraction as decimal text without needless zeros."""
    if value is None:
        return None
    scaled = round(Fraction(value) * 10**places)
    text = f"{scaled // 10**places}.{scaled % 10**places:0{places}d}" if scaled >= 0 else f"-{decimal(-value, places)}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def share(ppm: int | None) -> str | None:
    return None if ppm is None else decimal(Fraction(ppm, 1_000_000))


def moment(value: datetime | None) -> str | None:
    return None if value is None else value.isoformat().replace("+00:00", "Z")


def _coordinates(region: Region) -> dict[str, float]:
    return {"lat": float(region.latitude), "lon": float(region.longitude)}


def region(row: Region) -> dict[str, Any]:
    return {
        "slug": row.slug,
        "name": row.name,
        "country": row.country,
        "coordinates": _coordinates(row),
        "green_ratio": share(row.green_ratio_ppm),
        "carbon_g_per_kwh": row.carbon_g_per_kwh,
        "figures_source": row.figures_source,
        "zones": [zone.slug for zone in row.zones.all()],
        "nodes": getattr(row, "nodes", 0),
    }


def zone(row: Zone) -> dict[str, Any]:
    return {
        "region": row.region.slug,
        "slug": row.slug,
        "name": row.name,
        "tier": str(row.tier),
        "pue": None if row.pue_milli is None else decimal(Fraction(row.pue_milli, 1000)),
        "failure_domain": row.failure_domain,
        "coordinates": _coordinates(row.region),
        "nodes": getattr(row, "node_count", 0),
    }


def node(row: Node) -> dict[str, Any]:
    """A provider's own node."""
    offer = row.offers.filter(state__in=["draft", "published", "paused"]).first()
    inventory = getattr(row, "inventory", None)
    return {
        "id": row.public_id,
        "name": row.name,
        "state": str(row.state),
        "region": row.zone.region.slug,
        "zone": row.zone.slug,
        "isolation": str(row.isolation),
        "executor": row.executor,
        "cgroups": row.cgroups,
        "lease_classes": list(row.lease_classes),
        "cores": decimal(Fraction(row.cores_milli, 1000)),
        "memory_gib": decimal(Fraction(row.memory_mib, 1024), 1),
        "disk_gib": row.disk_gib,
        "arch": row.arch,
        "cpu_model": row.cpu_model,
        "system": row.system,
        "agent_version": row.agent_version,
        "devices": [
            {
                "id": device.local_id,
                "kind": device.kind,
                "model": device.model,
                "memory_mib": device.memory_mib,
                "driver": device.driver,
                "virtual": device.virtual,
                "present": device.present,
            }
            for device in row.devices.order_by("local_id")
        ],
        "checks": row.checks,
        "runtime": inventory.runtime if inventory else {},
        "offer": offer.public_id if offer else None,
        "refuse_past_due": row.refuse_past_due,
        "reliability": share(row.reliability_ppm),
        "reliability_samples": row.reliability_samples,
        "created": moment(row.created_at),
        "enrolled": moment(row.enrolled_at),
        "drain_deadline": moment(row.drain_deadline),
        "retired": moment(row.retired_at),
    }


def invited(made: Invited) -> dict[str, Any]:
    return {
        "node": made.node.public_id,
        "name": made.node.name,
        "region": made.enrolment.zone.region.slug,
        "zone": made.enrolment.zone.slug,
        "token": made.token,
        "line": made.line,
        "expires": moment(made.enrolment.expires_at),
    }


def fingerprint(row: Fingerprint, now: datetime) -> dict[str, Any]:
    return {
        "id": row.public_id,
        "suite": row.suite,
        "short": row.short,
        "state": str(row.state),
        "reason": row.reason,
        "measured": moment(row.measured_at),
        "valid_until": moment(row.valid_until),
        "valid": row.state == "accepted" and row.valid_until > now and row.hardware_hash == row.node.hardware_hash,
        "metrics": row.metrics,
    }


def price_version(row: PriceVersion) -> dict[str, Any]:
    return {
        "id": row.public_id,
        "sku": row.sku,
        "price": micro_text(row.unit_price_micro),
        "currency": row.currency,
        "tiers": [{"up_to_h": tier["up_to_h"], "price": micro_text(tier["price_micro"])} for tier in row.tiers],
        "since": moment(row.valid_from),
        "until": moment(row.valid_until),
    }


def offer_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """One row of a search: an offer, or a reference price."""
    row = fields["row"]
    return _reference(row, fields) if isinstance(row, ReferencePrice) else _offer(row, fields)


def _offer(row: LiveRow, fields: Mapping[str, Any]) -> dict[str, Any]:
    measured = row.measured
    return {
        "id": row.offer,
        "kind": "live",
        "state": row.offer_state,
        "version": row.version,
        "node": {"id": row.node, "name": row.node_name, "state": row.node_state},
        "provider": row.provider_slug,
        "provider_name": row.provider_name,
        "provider_verified": row.provider_verified,
        "region": row.region,
        "zone": row.zone,
        "tier": row.tier,
        "failure_domain": row.failure_domain,
        "gpu_name": row.cards[0].model if row.cards else None,
        "num_gpus": row.card_count,
        "virtual": row.virtual,
        "isolation": row.isolation,
        "lease_classes": list(row.lease_classes),
        "cpu_cores": decimal(Fraction(row.cores_milli, 1000)),
        "cpu_ram": decimal(Fraction(row.memory_mib, 1024), 1),
        "cpu_arch": row.arch,
        "disk_space": row.disk_gib,
        "currency": row.currency,
        "dph": shown_price(fields["dph"]),
        "spot_dph": shown_price(fields["spot_dph"]),
        "price_core_hour": shown_price(fields["price_core_hour"]),
        "price_card_hour": shown_price(fields["price_card_hour"]),
        "prices": {
            sku: {"version": ref, "price": micro_text(micro)}
            for sku, (ref, micro, _tiers) in sorted(row.prices.items())
        },
        "window": row.window,
        "window_open": row.open_now,
        "green_ratio": share(row.green_ratio_ppm),
        "reliability": share(row.reliability_ppm),
        "reliability_samples": row.reliability_samples,
        "scu": decimal(fields["scu"], 4),
        "scu_per_price": decimal(fields["scu_per_price"], 4),
        "rtt_ms": decimal(fields["rtt_ms"], 1),
        "declared": {
            "green_ratio": share(row.green_ratio_ppm) if row.green_origin == "declared" else None,
            "green_ratio_of": row.green_origin,
            "pue": None if row.pue_milli is None else decimal(Fraction(row.pue_milli, 1000)),
            "until": moment(row.until),
            "runtime": row.runtime,
        },
        "measured": None
        if measured is None
        else {
            "fingerprint": measured.public_id,
            "at": moment(measured.measured_at),
            "short": measured.short,
            "cpu": _profile(measured.cpu),
            "card": _profile(measured.card),
        },
    }


def _profile(profile: Any) -> dict[str, str | None]:
    names = ("tflops", "memory_tb_s", "network_gb_s")
    return {
        name: None if value is None else f"{value:.6g}" for name, value in zip(names, profile.metrics(), strict=True)
    }


def _reference(row: ReferencePrice, fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": row.public_id,
        "kind": "reference",
        "node": None,
        "provider": row.market,
        "provider_name": row.market,
        "name": row.name,
        "region": row.region or None,
        "zone": None,
        "gpu_name": row.card_model or None,
        "num_gpus": row.cards,
        "virtual": False,
        "isolation": None,
        "cpu_cores": None if row.cores is None else str(row.cores),
        "cpu_ram": None if row.memory_gib is None else str(row.memory_gib),
        "disk_space": None,
        "currency": row.currency,
        "dph": shown_price(fields["dph"]),
        "spot_dph": shown_price(fields["spot_dph"]),
        "price_core_hour": None,
        "price_card_hour": shown_price(fields["price_card_hour"]),
        "window_open": None,
        "green_ratio": None,
        "reliability": None,
        "reliability_samples": None,
        "scu": None,
        "scu_per_price": None,
        "rtt_ms": None,
        "declared": {"source": row.source, "licence": row.licence, "listed_on": row.listed_on.isoformat()},
        "measured": None,
    }


def offer_detail(row: LiveRow, fields: Mapping[str, Any], model: Offer, history: list[PriceVersion]) -> dict[str, Any]:
    """One offer with its hours, windows and price versions."""
    return {
        **_offer(row, fields),
        "hours": model.hours,
        "windows": model.windows,
        "price_versions": [price_version(version) for version in history],
    }
