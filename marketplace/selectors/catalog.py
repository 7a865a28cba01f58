"""Places: regions and zones with what is published about them and what is for sale there."""

from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Q, QuerySet, Sum
from django.utils.translation import gettext as _

from marketplace.models import Region, Zone
from portal.kit.errors import NotFound


@dataclass(frozen=True)
class RegionView:
    """A region with its zones and sums over its listed nodes."""

    region: Region
    zones: list[Zone]
    nodes: int
    cores_milli: int


_LISTED = Q(zones__nodes__state="listed")


def regions() -> QuerySet[Region]:
    """All regions by slug, with the number of listed nodes and their cores."""
    return (
        Region.objects.annotate(
            nodes=Count("zones__nodes", filter=_LISTED, distinct=True),
            cores_milli=Sum("zones__nodes__cores_milli", filter=_LISTED, default=0),
        )
        .prefetch_related("zones")
        .order_by("slug")
    )


def region(slug: str) -> Region:
    """One region; NotFound otherwise."""
    found = regions().filter(slug=slug).first()
    if found is None:
        raise NotFound(_("There is no region %(slug)s.") % {"slug": slug}, code="region_not_found")
    return found


def zones() -> QuerySet[Zone]:
    """All zones by region and slug, with the number of listed nodes."""
    return (
        Zone.objects.select_related("region")
        .annotate(node_count=Count("nodes", filter=Q(nodes__state="listed")))
        .order_by("region__slug", "slug")
    )


def map_points() -> list[dict[str, Any]]:
    """For the map: a point per region with its coordinates, green share and listed nodes."""
    return [
        {
            "slug": row.slug,
            "name": row.name,
            "lat": float(row.latitude),
            "lon": float(row.longitude),
            "green_ratio_ppm": row.green_ratio_ppm,
            "nodes": getattr(row, "nodes", 0),
            "cores_milli": getattr(row, "cores_milli", 0),
        }
        for row in regions()
    ]
