from django.apps import AppConfig


class MarketplaceConfig(AppConfig):
    """What is for sale: places, nodes, fingerprints, offers."""

    name = "marketplace"
    default_auto_field = "django.db.models.BigAutoField"
