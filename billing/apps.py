"""What it cost, who owes whom."""

from django.apps import AppConfig


class BillingConfig(AppConfig):
    name = "billing"
    label = "billing"
    default_auto_field = "django.db.models.BigAutoField"
