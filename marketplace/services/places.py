"""Places: regions and zones, put up by an operator (or by the demo's seed)."""

from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from marketplace.models import Region, Zone
from marketplace.models.places import Tier
from portal.audit.services import note
from portal.kit.errors import Finding, InvalidInput

PPM = 1_000_000


def put_region(
    *,
    slug: str,
    name: str,
    latitude: Decimal,
    longitude: Decimal,
    by: str,
    now: datetime,
    country: str = "",
    green_ratio_ppm: int | None = None,
    carbon_g_per_kwh: int | None = None,
    figures_source: str = "",
) -> Region:
    """Make a region, or change its published figures."""
    findings = []
    if not -90 <= latitude <= 90 or not -180 <= longitude <= 180:
        findings.append(Finding("coordinates", "out_of_range", _("degrees on the globe")))
    if green_ratio_ppm is not None and not 0 <= green_ratio_ppm <= PPM:
        findings.append(Finding("green_ratio", "out_of_range", _("a share from 0 to 1")))
    if findings:
        raise InvalidInput(findings)
    values: dict[str, Any] = {
        "name": name,
        "country": country,
        "latitude": latitude,
        "longitude": longitude,
        "green_ratio_ppm": green_ratio_ppm,
        "carbon_g_per_kwh": carbon_g_per_kwh,
        "figures_source": figures_source,
    }
    with transaction.atomic():
        region, _new = Region.objects.update_or_create(slug=slug, defaults=values)
        note(actor=by, deed="region.put", target=slug, data={"green_ratio_ppm": green_ratio_ppm}, now=now)
    return region


def put_zone(
    *,
    region: Region,
    slug: str,
    name: str,
    by: str,
    now: datetime,
    tier: str = Tier.CENTRE,
    pue_milli: int | None = None,
    failure_domain: str = "",
) -> Zone:
    """Make a zone, or change it. A PUE below 1 is refused; unknown is None, never 1."""
    findings = []
    if pue_milli is not None and not 1000 <= pue_milli <= 5000:
        findings.append(Finding("pue", "out_of_range", _("from 1.0 to 5.0, or unknown")))
    if tier not in {each.value for each in Tier}:
        findings.append(Finding("tier", "unknown", ", ".join(each.value for each in Tier)))
    if findings:
        raise InvalidInput(findings)
    with transaction.atomic():
        zone, _new = Zone.objects.update_or_create(
            region=region,
            slug=slug,
            defaults={
                "name": name,
                "tier": tier,
                "pue_milli": pue_milli,
                "failure_domain": failure_domain or f"{region.slug}-{slug}",
            },
        )
        note(actor=by, deed="zone.put", target=str(zone), data={"pue_milli": pue_milli, "tier": str(tier)}, now=now)
    return zone
