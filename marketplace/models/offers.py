"""Capacity for sale, and the immutable prices of it."""

from enum import StrEnum

from django.db import models
from django.db.models import Q

from marketplace.models.nodes import Node
from portal import ids
from portal.kit.money import CURRENCIES, MAX_UNIT_PRICE_MICRO


class OfferState(StrEnum):
    DRAFT = "draft"
    PUBLISHED = "published"
    PAUSED = "paused"
    WITHDRAWN = "withdrawn"
    EXPIRED = "expired"


class Rental(StrEnum):
    FIXED = "fixed"
    SPOT = "spot"


def new_offer_id() -> str:
    return ids.public_id("ofr")


def new_price_version_id() -> str:
    return ids.public_id("prv")


class Offer(models.Model):
    """The capacity of one node for sale: hours, green ratio, until when. Prices are its price versions."""

    public_id = models.CharField(max_length=32, unique=True, default=new_offer_id, editable=False)
    node = models.ForeignKey(Node, models.PROTECT, related_name="offers")
    state = models.CharField(max_length=10, default=OfferState.DRAFT)
    currency = models.CharField(max_length=3)
    hours = models.JSONField(
        default=list
    )  # open hours: [{"from": "22:00", "to": "07:00", "timezone": "Europe/Paris"}]; [] = always
    windows = models.JSONField(default=list)  # hours of another price: the same with "factor_ppm": 500000 (half price)
    green_ratio_ppm = models.PositiveIntegerField(null=True)  # declared; null = the region's published figure
    until = models.DateTimeField(null=True)
    version = models.PositiveIntegerField(default=1)  # for If-Match
    created_at = models.DateTimeField()
    published_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(state__in=[s.value for s in OfferState]), name="offer_state_known"),
            models.CheckConstraint(condition=Q(currency__in=sorted(CURRENCIES)), name="offer_currency_known"),
            models.CheckConstraint(
                condition=Q(green_ratio_ppm=None) | Q(green_ratio_ppm__lte=1_000_000), name="offer_green_at_most_one"
            ),
            models.CheckConstraint(condition=Q(version__gte=1), name="offer_version_counts"),
            models.UniqueConstraint(
                fields=["node"], condition=Q(state__in=["draft", "published", "paused"]), name="offer_one_open_per_node"
            ),
        ]

    def __str__(self) -> str:
        return self.public_id


class PriceVersion(models.Model):
    """What one sku of one offer costs from `valid_from` until its successor; append-only but for `valid_until`, which
    is set once.
    """

    public_id = models.CharField(max_length=32, unique=True, default=new_price_version_id, editable=False)
    offer = models.ForeignKey(Offer, models.PROTECT, related_name="prices")
    sku = models.CharField(max_length=120)  # <resource>:<hardware model or ->:<fixed|spot>
    resource = models.CharField(max_length=20)  # core, card
    rental = models.CharField(max_length=5, default=Rental.FIXED)
    unit_price_micro = models.BigIntegerField()  # micro-currency per unit-hour
    currency = models.CharField(max_length=3)
    tiers = models.JSONField(
        default=list
    )  # [] or [{"up_to_h": 100, "price_micro": …}, …, {"up_to_h": null, …}], graduated
    zone = models.CharField(max_length=130)  # region/zone, as text
    provider = models.CharField(max_length=32)  # organisation's public id, as text
    valid_from = models.DateTimeField()
    valid_until = models.DateTimeField(null=True)
    created_by = models.CharField(max_length=80)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(unit_price_micro__gte=0, unit_price_micro__lte=MAX_UNIT_PRICE_MICRO),
                name="price_within_bounds",
            ),
            models.CheckConstraint(condition=Q(currency__in=sorted(CURRENCIES)), name="price_currency_known"),
            models.CheckConstraint(condition=Q(rental__in=[r.value for r in Rental]), name="price_rental_known"),
            models.UniqueConstraint(
                fields=["offer", "sku"], condition=Q(valid_until=None), name="price_one_open_per_sku"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.sku} {self.public_id}"
