"""Django's admin, for rare repair: places may be mended; nodes, prices and measurements are only looked at (the services have the rules)."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from marketplace.models import Enrolment, Fingerprint, Node, Offer, PriceVersion, ReferencePrice, Region, Zone


class LookedAt(admin.ModelAdmin):
    """Shown, never changed."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Region, Zone)
class Places(admin.ModelAdmin):
    list_display = ("__str__", "name")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Node)
class Nodes(LookedAt):
    list_display = ("public_id", "name", "organisation", "zone", "state", "isolation")
    list_filter = ("state", "isolation")
    exclude = ("secret_hash",)


@admin.register(Enrolment)
class Enrolments(LookedAt):
    list_display = ("public_id", "organisation", "zone", "created_at", "used_at")
    exclude = ("token_hash",)


@admin.register(Offer)
class Offers(LookedAt):
    list_display = ("public_id", "node", "state", "currency", "published_at")


@admin.register(PriceVersion)
class Prices(LookedAt):
    list_display = ("public_id", "sku", "unit_price_micro", "currency", "valid_from", "valid_until")


@admin.register(Fingerprint)
class Fingerprints(LookedAt):
    list_display = ("public_id", "node", "suite", "state", "measured_at")


@admin.register(ReferencePrice)
class References(LookedAt):
    list_display = ("market", "name", "card_model", "price_micro", "currency", "listed_on")
