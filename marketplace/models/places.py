"""Where capacity stands: region → zone (→ node)."""

from enum import StrEnum

from django.db import models
from django.db.models import Q


class Tier(StrEnum):
    CENTRE = "centre"
    EDGE = "edge"
    SITE = "site"


class Region(models.Model):
    """The upper level: a slug people write in job specs, and a place on the map."""

    slug = models.SlugField(max_length=63, unique=True)
    name = models.CharField(max_length=120)
    country = models.CharField(max_length=2, blank=True)
    latitude = models.DecimalField(max_digits=8, decimal_places=5)  # degrees, north positive
    longitude = models.DecimalField(max_digits=8, decimal_places=5)  # degrees, east positive
    green_ratio_ppm = models.PositiveIntegerField(null=True)  # published carbon-free share of the grid; null = unknown
    carbon_g_per_kwh = models.PositiveIntegerField(null=True)  # location-based
    figures_source = models.CharField(max_length=200, blank=True)  # where the two figures come from, with date
    grid_zone = models.CharField(max_length=40, blank=True)  # whose hours (EnergyHour) hold here; "" = none known

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(latitude__range=(-90, 90), longitude__range=(-180, 180)), name="region_on_the_globe"
            ),
            models.CheckConstraint(
                condition=Q(green_ratio_ppm=None) | Q(green_ratio_ppm__lte=1_000_000), name="region_green_at_most_one"
            ),
        ]

    def __str__(self) -> str:
        return self.slug


class Zone(models.Model):
    """What stands together: tier, power usage effectiveness, failure domain."""

    region = models.ForeignKey(Region, models.PROTECT, related_name="zones")
    slug = models.SlugField(max_length=63)
    name = models.CharField(max_length=120)
    tier = models.CharField(max_length=6, default=Tier.CENTRE)
    pue_milli = models.PositiveIntegerField(null=True)  # 1120 = PUE 1.12; null = unknown, never 1
    failure_domain = models.CharField(max_length=63)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["region", "slug"], name="zone_slug_once_per_region"),
            models.CheckConstraint(condition=Q(pue_milli=None) | Q(pue_milli__gte=1000), name="zone_pue_at_least_one"),
            models.CheckConstraint(condition=Q(tier__in=[t.value for t in Tier]), name="zone_tier_known"),
        ]

    def __str__(self) -> str:
        return f"{self.region.slug}/{self.slug}"
