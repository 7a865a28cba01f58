"""Only in the test profile: a `flush` that gets past the guards of append-only tables."""

from django.apps import AppConfig


class StackTestingConfig(AppConfig):
    name = "portal.stack.testing"
    label = "stack_testing"
