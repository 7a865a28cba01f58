"""The embedded servers, their supervisor and its commands (`manage.py up`, `migrate`)."""

from django.apps import AppConfig


class StackConfig(AppConfig):
    name = "portal.stack"
    label = "stack"
