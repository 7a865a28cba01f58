"""Configure a link: the price and the figures that placement counts with from its next decision on."""

from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext as _

from marketplace.models import Region
from portal.audit.services import note
from portal.kit.errors import Finding, InvalidInput
from portal.kit.money import CURRENCIES, MAX_UNIT_PRICE_MICRO
from scheduling.models import Link


def configure(
    *,
    source: str,
    target: str,
    rtt_us: int | None,
    bandwidth_mbps: int | None,
    price_micro_per_gb: int,
    currency: str,
    by: str,
    now: datetime,
    figures_source: str = "",
) -> Link:
    """Set a link; the same ends again change it. InvalidInput carries every finding."""
    known = set(Region.objects.filter(slug__in=[source, target]).values_list("slug", flat=True))
    findings = [
        Finding(name, "unknown_region", _("there is no such region"))
        for name, slug in (("source", source), ("target", target))
        if slug not in known
    ]
    if not 0 <= price_micro_per_gb <= MAX_UNIT_PRICE_MICRO:
        findings.append(Finding("price_per_gb", "bad_amount", _("a price lies between 0 and 1,000,000")))
    if currency not in CURRENCIES:
        findings.append(Finding("currency", "unknown_currency", ", ".join(sorted(CURRENCIES))))
    if rtt_us is not None and rtt_us < 0:
        findings.append(Finding("rtt_ms", "out_of_range", _("must not be negative")))
    if bandwidth_mbps is not None and bandwidth_mbps <= 0:
        findings.append(Finding("bandwidth_mbps", "out_of_range", _("must be more than 0")))
    if findings:
        raise InvalidInput(findings)
    with transaction.atomic():
        link, _made = Link.objects.update_or_create(
            source=source,
            target=target,
            defaults={
                "rtt_us": rtt_us,
                "bandwidth_mbps": bandwidth_mbps,
                "price_micro_per_gb": price_micro_per_gb,
                "currency": currency,
                "figures_source": figures_source,
                "updated_at": now,
            },
        )
        note(
            actor=by,
            deed="link.configure",
            target=f"{source}→{target}",
            data={"price_micro_per_gb": price_micro_per_gb, "rtt_us": rtt_us, "bandwidth_mbps": bandwidth_mbps},
            now=now,
        )
    return link
