from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """Who: people, organisations, projects, keys, secrets."""

    name = "portal.accounts"
    label = "accounts"
    default_auto_field = "django.db.models.BigAutoField"
