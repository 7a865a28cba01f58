"""The demo market and its main job; only in the embedded profile."""

from django.apps import AppConfig


class DemoConfig(AppConfig):
    name = "portal.demo"
    label = "demo"
    default_auto_field = "django.db.models.BigAutoField"
