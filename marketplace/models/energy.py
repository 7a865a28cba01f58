"""The carbon of electricity, hour by hour, by grid zone. Regions name their grid zone; hours may lie in the future (a forecast)."""

from django.db import models
from django.db.models import Q

MOST_MG = 5_000_000
"""5 kg per kWh: no grid is dirtier."""


class EnergyHour(models.Model):
    """One UTC hour of one grid zone. The basis is location-based: what the grid there emits, whatever contracts say."""

    grid_zone = models.CharField(max_length=40)
    at = models.DateTimeField()  # when the hour begins
    carbon_mg_per_kwh = models.PositiveIntegerField()  # milligrams of CO2 equivalent
    green_ppm = models.PositiveIntegerField(null=True)  # renewable share; null = unknown
    source = models.CharField(max_length=200)

    class Meta:
        constraints = [
            # also serves reading a zone's hours from one moment to another
            models.UniqueConstraint(fields=["grid_zone", "at"], name="energy_hour_once"),
            models.CheckConstraint(condition=Q(carbon_mg_per_kwh__lte=MOST_MG), name="energy_carbon_believable"),
            models.CheckConstraint(
                condition=Q(green_ppm=None) | Q(green_ppm__lte=1_000_000), name="energy_green_at_most_one"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.grid_zone} {self.at:%Y-%m-%dT%HZ}"
