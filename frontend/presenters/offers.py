"""Offers and reference prices as rows: what, where, at which price, when, how green."""

from collections.abc import Iterable, Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from frontend.presenters import figures, words
from marketplace.selectors.offers import LiveRow
from portal.kit.money import micro_text

INTERESTING = ("python3", "python", "gcc", "node", "java", "ffmpeg", "git", "nvidia-smi")
"""Programs worth a label; the node's page lists all."""


def zone_text(zone: Any) -> str:
    """Frankfurt · fra-1 (centre, PUE 1.12)."""
    tier = words.word("tier", zone.tier).text
    known = f"{tier}, PUE {figures.ratio(zone.pue_milli)}" if zone.pue_milli else str(tier)
    return f"{zone.region.name} · {zone.name} ({known})"


def hardware(row: LiveRow) -> str:
    parts = [ngettext("%(n)s core", "%(n)s cores", row.cores_milli // 1000) % {"n": figures.cores(row.cores_milli)}]
    parts += [f"{cards.count} × {cards.model}" for cards in row.cards]
    return " · ".join(parts)


def price_of(row: LiveRow, resource: str, rental: str) -> str:
    """A unit price now, or a dash where it is not sold so."""
    models = [cards.model for cards in row.cards] if resource == "card" else [""]
    prices = [found[1] for model in models if (found := row.price(resource, rental, model))]
    return figures.unit_price(min(prices), row.currency) if prices else ""


def programs(runtime: Mapping[str, Any]) -> list[str]:
    listed = runtime.get("programs", runtime)
    if not isinstance(listed, Mapping):
        return []
    return [f"{name} {str(listed[name]).split()[-1]}" for name in INTERESTING if listed.get(name)][:3]


def scu_text(row: LiveRow, task_type: str) -> str:
    """SCU of the whole node for a kind of work, and what one SCU-hour costs there; "" where it is not known."""
    cards = row.card_count
    whole = row.scu(task_type, cores_milli=row.cores_milli, cards=cards)
    if not whole:
        return ""
    resource, units = ("card", cards) if cards else ("core", row.cores_milli / 1000)
    models = [one.model for one in row.cards] if cards else [""]
    prices = [found[1] for model in models if (found := row.price(resource, "fixed", model))]
    text = _("SCU %(amount)s") % {"amount": figures.significant(whole)}
    if not prices:
        return text
    each = figures.estimate(round(min(prices) * units / whole), row.currency)
    return _("%(scu)s · %(price)s per SCU-hour") % {"scu": text, "price": each}


def live(row: LiveRow, task_type: str = "custom") -> dict[str, Any]:
    """A line of the market page."""
    return {
        "public_id": row.offer,
        "name": row.node_name,
        "provider": row.provider_name,
        "provider_verified": row.provider_verified,
        "region": row.region,
        "zone": row.zone,
        "tier": row.tier,
        "hardware": hardware(row),
        "memory": figures.mebibytes(row.memory_mib),
        "scu": scu_text(row, task_type),
        "core_price": price_of(row, "core", "fixed") or figures.UNKNOWN,
        "core_spot": price_of(row, "core", "spot"),
        "card_price": price_of(row, "card", "fixed") or figures.UNKNOWN,
        "card_spot": price_of(row, "card", "spot"),
        "green_ppm": row.green_ratio_ppm,
        "pue": figures.ratio(row.pue_milli) if row.pue_milli else "",
        "open_now": row.open_now,
        "hours": _until(row),
        "virtual": row.virtual,
        "isolation": row.isolation,
        "verified": row.measured is not None,
        "programs": programs(row.runtime),
    }


def _until(row: LiveRow) -> str:
    return _("until %(day)s") % {"day": f"{row.until:%Y-%m-%d}"} if row.until else ""


def reference(row: Any) -> dict[str, Any]:
    """A published price of another market."""
    parts = [f"{row.cards} × {row.card_model}"] if row.cards else []
    if row.cores:
        parts.append(ngettext("%(n)s core", "%(n)s cores", row.cores) % {"n": row.cores})
    if row.memory_gib:
        parts.append(f"{row.memory_gib} GiB")
    return {
        "market": row.market,
        "name": row.name,
        "region": row.region,
        "hardware": " · ".join(parts) or figures.UNKNOWN,
        "price": figures.unit_price(row.price_micro, row.currency),
        "spot": figures.unit_price(row.spot_price_micro, row.currency),
        "listed_on": row.listed_on,
        "source": row.source,
    }


def own(offer: Any) -> dict[str, Any]:
    """An offer on its provider's pages."""
    running = [price for price in offer.prices.all() if price.valid_until is None]
    shown = {
        (price.resource, price.rental): figures.unit_price(price.unit_price_micro, price.currency) for price in running
    }
    return {
        "public_id": offer.public_id,
        "node_name": offer.node.name,
        "state": offer.state,
        "core_price": shown.get(("core", "fixed"), figures.UNKNOWN),
        "card_price": shown.get(("card", "fixed"), figures.UNKNOWN),
        "green_ppm": offer.green_ratio_ppm,
        "hours": hours_text(offer.hours),
    }


def hours_text(spans: Iterable[Mapping[str, Any]]) -> str:
    """22:00–07:00 Europe/Paris, or always."""
    listed = [f"{span['from']}–{span['to']} {span['timezone']}" for span in spans or []]
    return ", ".join(listed) or _("always")


FIELDS = {
    ("core", "fixed"): "core_price",
    ("card", "fixed"): "card_price",
    ("core", "spot"): "core_spot",
    ("card", "spot"): "card_spot",
}


def prices_of(offer: Any) -> dict[str, str]:
    """The prices in force, as the form of a new price begins with."""
    return {
        FIELDS[price.resource, price.rental]: micro_text(price.unit_price_micro)
        for price in offer.prices.all()
        if price.valid_until is None and (price.resource, price.rental) in FIELDS
    }
