"""Who: people, organisations, projects, keys, secrets."""

from importlib import import_module

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """Who: people, organisations, projects, keys, secrets."""

    name = "portal.accounts"
    label = "accounts"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        import_module("portal.accounts.openapi")  # registers itself
