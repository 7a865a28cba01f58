"""Links between regions as rows: what counts, what was measured, how fresh it is."""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from frontend.presenters import figures


def row(link: Mapping[str, Any], price_micro_per_gb: int) -> dict[str, Any]:
    """One link; unknown figures are shown as unknown."""
    counts = link["believed"]
    rtt = link["rtt_ms"] if counts is None else counts["rtt_ms"]
    mbps = link["bandwidth_mbps"] if counts is None else counts["bandwidth_mbps"]
    return {
        "source": link["source"],
        "target": link["target"],
        "delay": _("%(ms)s ms") % {"ms": figures.number(rtt, 1)} if rtt is not None else figures.UNKNOWN,
        "bandwidth": _("%(n)s Mbit/s") % {"n": figures.number(mbps)} if mbps is not None else figures.UNKNOWN,
        "price": figures.unit_price(price_micro_per_gb, link["price_per_gb"]["currency"]),
        "measured": _measured(counts),
        "state": _state(counts),
        "tone": {"fresh": "success", "late": "warning", "expired": "danger"}.get(counts["state"] if counts else "", ""),
        "labels": _labels(counts),
    }


def _measured(counts: Mapping[str, Any] | None) -> str:
    if counts is None:
        return ""
    seen = counts["measured"]
    return _("measured %(ms)s ms, %(loss)s %% lost") % {
        "ms": figures.number(seen["rtt_ms"], 1),
        "loss": figures.number(seen["loss_percent"], 1),
    }


def _state(counts: Mapping[str, Any] | None) -> str:
    if counts is None:
        return _("configured, not measured")
    if counts["state"] == "expired":
        return _("unknown: no news")
    if counts["state"] == "late":
        return _("no news for %(s)s s") % {"s": counts["age_s"]}
    return _("measured")


def _labels(counts: Mapping[str, Any] | None) -> list[str]:
    if counts is None:
        return []
    named = ((counts["damped"], _("up and down")), (counts["worsening"], _("getting worse")))
    return [text for holds, text in named if holds]
