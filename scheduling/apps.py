from django.apps import AppConfig


class SchedulingConfig(AppConfig):
    """Where a job runs, and that it really runs."""

    name = "scheduling"
    default_auto_field = "django.db.models.BigAutoField"
