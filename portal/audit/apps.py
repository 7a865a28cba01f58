from django.apps import AppConfig


class AuditConfig(AppConfig):
    """Who did what, to what, when."""

    name = "portal.audit"
    label = "audit"
    default_auto_field = "django.db.models.BigAutoField"
