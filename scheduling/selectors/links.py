"""Configured links between regions, as everybody may see them."""

from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from portal.kit.money import micro_text
from scheduling.domain.linkstate import Belief, effective
from scheduling.domain.spec_values import micro_short
from scheduling.models import Link


def everything(*, source: str = "", target: str = "") -> QuerySet[Link]:
    """Links, from or to a region if one is named."""
    rows = Link.objects.order_by("-id")
    if source:
        rows = rows.filter(source=source)
    return rows.filter(target=target) if target else rows


def believed(belief: Belief | None, *, now: datetime) -> dict[str, Any] | None:
    """What counts of a measured link now; None = nobody measures it, so its configured figures count."""
    if belief is None:
        return None
    counts = effective(belief, now_ms=int(now.timestamp() * 1_000))
    return {
        "state": "expired" if counts.expired else "late" if counts.missed else "fresh",
        "rtt_ms": None if counts.expired else round(counts.base_us / 1_000, 1),
        "bandwidth_mbps": None if counts.expired or counts.mbps is None else max(1, int(counts.mbps)),
        "measured": {
            "rtt_ms": round(belief.measured.rtt_us / 1_000, 1),
            "loss_percent": round(belief.measured.loss_ppm / 10_000, 2),
            "bandwidth_mbps": belief.measured.mbps,
        },
        "age_s": counts.age_ms // 1_000,
        "damped": belief.damped,
        "worsening": counts.worsening,
    }


def shown(link: Link, *, now: datetime, belief: Belief | None = None) -> dict[str, Any]:
    """A link's JSON form; null = not known."""
    return {
        "source": link.source,
        "target": link.target,
        "rtt_ms": None if link.rtt_us is None else micro_short(link.rtt_us * 1_000),
        "bandwidth_mbps": link.bandwidth_mbps,
        "price_per_gb": {"amount": micro_text(link.price_micro_per_gb), "currency": link.currency},
        "age_s": max(0, int((now - link.updated_at).total_seconds())),
        "figures_source": link.figures_source,
        "updated": link.updated_at,
        "believed": believed(belief, now=now),
    }
