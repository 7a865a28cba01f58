"""Configured links between regions, as everybody may see them."""

from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from portal.kit.money import micro_text
from scheduling.domain.spec_values import micro_short
from scheduling.models import Link


def everything(*, source: str = "", target: str = "") -> QuerySet[Link]:
    """Links, from or to a region if one is named."""
    rows = Link.objects.order_by("-id")
    if source:
        rows = rows.filter(source=source)
    return rows.filter(target=target) if target else rows


def shown(link: Link, *, now: datetime) -> dict[str, Any]:
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
    }
