"""Where a job runs, and that it really runs."""

from importlib import import_module

from django.apps import AppConfig


class SchedulingConfig(AppConfig):
    """Where a job runs, and that it really runs."""

    name = "scheduling"
    label = "scheduling"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        import_module("scheduling.services.promises")  # registers the outbox topics it keeps
