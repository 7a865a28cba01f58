"""The capacity map as a page shows it: bars of what is free, and regions as discs on a plain map of the world."""

from collections.abc import Mapping
from math import sqrt
from typing import Any

from django.utils.translation import gettext as _

from frontend.presenters import figures

WIDTH, HEIGHT = 720, 360
LEAST, MOST = 4.0, 22.0
"""Radius of a region's disc: by the square root of its cores, so that areas compare."""


def page(found: Mapping[str, Any]) -> dict[str, Any]:
    """Figures of the whole, regions with their zones, and discs for the map."""
    regions = [_place(region) | {"zones": [_place(zone) for zone in region["zones"]]} for region in found["regions"]]
    most = max((region["cores"]["total"] for region in regions if region["cores"]), default=0.0)
    return {
        "known": found["known"],
        "total": _total(found["total"]),
        "regions": regions,
        "discs": [_disc(region, most) for region in regions if region["cores"]],
        "width": WIDTH,
        "height": HEIGHT,
    }


def _total(summary: Mapping[str, Any] | None) -> list[dict[str, str]]:
    """Nodes, cores, cards, SCU: free of all."""
    if summary is None:
        return []
    of = _("of %(total)s")
    scu = summary["scu"]["training"]
    shown = (
        (_("Nodes that take work"), str(summary["nodes"]["taking_work"]), str(summary["nodes"]["all"])),
        (_("Cores free"), summary["cores"]["free"], summary["cores"]["total"]),
        (_("Cards free"), str(summary["cards"]["free"]), str(summary["cards"]["total"])),
        (_("SCU free, training"), _short(scu["free"]), _short(scu["total"])),
    )
    return [
        {"name": name, "value": figures.grouped(free), "context": of % {"total": figures.grouped(total)}}
        for name, free, total in shown
    ]


def _place(place: Mapping[str, Any]) -> dict[str, Any]:
    """A region's or zone's line."""
    summary = place["summary"]
    line: dict[str, Any] = {
        "slug": place.get("region") or place.get("zone"),
        "name": place["name"],
        "tier": place.get("tier", ""),
        "unknown": place["reason"] is not None,
        "cores": None,
        "latitude": float(place.get("latitude", 0)),
        "longitude": float(place.get("longitude", 0)),
    }
    if summary is None:
        return line
    return line | {
        "nodes": f"{summary['nodes']['taking_work']} / {summary['nodes']['all']}",
        "cores": _bar(summary["cores"]),
        "cards": _bar(summary["cards"]) if summary["cards"]["total"] else None,
        "models": ", ".join(f"{pair['free']} × {model}" for model, pair in summary["models"].items()),
        "scu": _scu(summary["scu"]["training"]),
        "core_price": _from(summary["prices_from"], "core"),
        "card_price": _from(summary["prices_from"], "card"),
        "green": _green(summary["green_ratio"]),
    }


def _scu(pair: Mapping[str, str]) -> str:
    """Free of all; a dash where no node has been measured."""
    return f"{_short(pair['free'])} / {_short(pair['total'])}" if float(pair["total"]) else figures.UNKNOWN


def _bar(pair: Mapping[str, Any]) -> dict[str, Any]:
    free, total = float(pair["free"]), float(pair["total"])
    return {
        "text": f"{figures.grouped(str(pair['free']))} / {figures.grouped(str(pair['total']))}",
        "free": free,
        "total": total,
        "percent": round(100 * free / total) if total else 0,
    }


def _short(text: str) -> str:
    return f"{float(text):.4g}" if float(text) < 1_000 else f"{float(text):.0f}"


def _from(prices: list[dict[str, str]], resource: str) -> str:
    """The least fixed prices, by currency."""
    mine = [row for row in prices if row["resource"] == resource and row["rental"] == "fixed"]
    return " · ".join(figures.amount_text(row["amount"], row["currency"]) for row in mine) or figures.UNKNOWN


def _green(ratio: list[str] | None) -> str:
    if ratio is None:
        return figures.UNKNOWN
    low, high = (f"{float(part) * 100:.0f}" for part in ratio)
    return f"{low} %" if low == high else f"{low}–{high} %"


def _disc(region: Mapping[str, Any], most: float) -> dict[str, Any]:
    """Where a region lies on a map with equal degrees, how large its disc is, and how much of it is free."""
    radius = LEAST + (MOST - LEAST) * sqrt(region["cores"]["total"] / most) if most else LEAST
    share = region["cores"]["percent"] / 100
    return {
        "x": f"{(region['longitude'] + 180) / 360 * WIDTH:.1f}",
        "y": f"{(90 - region['latitude']) / 180 * HEIGHT:.1f}",
        "radius": f"{radius:.1f}",
        "free": f"{radius * sqrt(share):.1f}",
        "below": f"{(90 - region['latitude']) / 180 * HEIGHT + radius + 11:.1f}",
        "name": region["name"],
        "title": f"{region['name']}: {region['cores']['text']}",
    }
