"""Configured paths between regions: delay, bandwidth, price of a byte."""

from django.db import models
from django.db.models import Q

from portal.kit.money import MAX_UNIT_PRICE_MICRO


class Link(models.Model):
    """From region `source` to region `target`, by slug (a link outlives neither, and needs no join in the snapshot)."""

    source = models.SlugField(max_length=63)
    target = models.SlugField(max_length=63)
    rtt_us = models.PositiveIntegerField(null=True)  # round trip, microseconds; null = unknown
    bandwidth_mbps = models.PositiveIntegerField(null=True)  # null = unknown
    price_micro_per_gb = models.BigIntegerField(default=0)  # per decimal GB
    currency = models.CharField(max_length=3)
    figures_source = models.CharField(max_length=200, blank=True)
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["source", "target"], name="link_once"),
            models.CheckConstraint(
                condition=Q(price_micro_per_gb__gte=0, price_micro_per_gb__lte=MAX_UNIT_PRICE_MICRO),
                name="link_price_within_bounds",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.source}→{self.target}"
